//! Parses the results of a run: the file of `bench/tally/tally.c`, and the matrix of a recorded
//! run.

/// The results of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// The library's version text.
    pub library: String,
    /// Seconds from `MPI_Init` to `MPI_Finalize`.
    pub seconds: f64,
    /// Seconds of the whole job, with its start and end.
    pub whole: f64,
    /// Calls of all processes: name, how many, and seconds.
    pub calls: Vec<(String, u64, f64)>,
}

impl MeasuredRun {
    /// Parses the file. Returns `None` if it is incomplete.
    pub fn read(text: &str, whole: f64) -> Option<Self> {
        let mut tally =
            Self { library: String::new(), seconds: f64::NAN, whole, calls: Vec::new() };
        for line in text.lines() {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "library" => rest.clone_into(&mut tally.library),
                "seconds" => tally.seconds = rest.parse().ok()?,
                "call" => {
                    let mut words = rest.split(' ');
                    let name = words.next()?.to_owned();
                    let (count, seconds) =
                        (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                    tally.calls.push((name, count, seconds));
                }
                _ => return None,
            }
        }
        tally.seconds.is_finite().then_some(tally)
    }

    /// A run of which only the duration is known.
    pub fn of_job(library: &str, whole: f64) -> Self {
        Self { library: library.to_owned(), seconds: whole, whole, calls: Vec::new() }
    }

    /// The seconds that all processes spent in calls.
    pub fn inside(&self) -> f64 {
        self.calls.iter().map(|(_, _, seconds)| seconds).sum()
    }
}

/// The numbers of messages and bytes of a matrix, whose lines contain sender, receiver, bytes, and
/// messages.
pub fn sent(matrix: &str) -> (u64, u64) {
    let mut total = (0, 0);
    for line in matrix.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let [_, _, bytes, messages] = words[..] else { continue };
        if let (Ok(bytes), Ok(messages)) = (bytes.parse::<u64>(), messages.parse::<u64>()) {
            total = (total.0 + messages, total.1 + bytes);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let text =
            "library Some MPI 5.0\nseconds 0.5\ncall MPI_Send 10 0.25\ncall MPI_Recv 9 0.125\n";
        let tally = MeasuredRun::read(text, 1.0).unwrap();
        assert_eq!((tally.library.as_str(), tally.inside()), ("Some MPI 5.0", 0.375));
        assert_eq!(tally.calls[1], ("MPI_Recv".to_owned(), 9, 0.125));
        assert!(
            MeasuredRun::read("", 1.0).is_none() && MeasuredRun::read("library x\n", 1.0).is_none()
        );
        assert_eq!(sent("ranks 2\n0 1 100 3 # twice\n1 0 50 1\n"), (4, 150));
    }
}
