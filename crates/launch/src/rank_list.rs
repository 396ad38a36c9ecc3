//! Lists of ranks in requests to the launcher and its answers, such as `0-3,7`.

/// Returns these ranks as a list, in ascending order and each once.
pub fn format(ranks: &[u32]) -> String {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|before, next| before + 1 == *next);
    let one = |run: &[u32]| match run {
        [single] => single.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(one).collect::<Vec<_>>().join(",")
}

/// Returns the ranks of a list in a job of `size` processes; none if it is empty or malformed.
pub fn parse(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last >= size || first > last || all.len() > size as usize {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        for (ranks, text) in
            [(&[0, 1, 2, 3, 7][..], "0-3,7"), (&[4], "4"), (&[1, 2, 5, 6, 9], "1-2,5-6,9")]
        {
            assert_eq!(format(ranks), text);
            assert_eq!(parse(text, 10).as_deref(), Some(ranks));
        }
        assert_eq!(format(&[5, 3, 4, 3]), "3-5");
        for wrong in ["", "x", "1,", "2-1", "9-10", "-1"] {
            assert_eq!(parse(wrong, 10), None, "{wrong}");
        }
        assert_eq!(parse("0-9,".repeat(1000).trim_end_matches(','), 10), None);
    }
}
