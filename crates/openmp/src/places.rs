//! Places: sets of cores to which threads are bound, if the user wants it (`OMP_PLACES`,
//! `OMP_PROC_BIND`), and which thread of a team has which place.

use std::sync::OnceLock;

use sys::cores::Cores;
use sys::processors::{self, SharedPart};

use crate::environment;

/// How the threads of a team are bound, with the numbers of `omp_proc_bind_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindPolicy {
    False = 0,
    True = 1,
    Primary = 2,
    Close = 3,
    Spread = 4,
}

impl BindPolicy {
    /// What a construct asks for, in the flags that the compiler has made; none if nothing.
    pub fn asked(flags: u32) -> Option<Self> {
        match flags & 7 {
            1 => Some(Self::True),
            2 => Some(Self::Primary),
            3 => Some(Self::Close),
            4 => Some(Self::Spread),
            _ => None,
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "false" => Some(Self::False),
            "true" => Some(Self::True),
            "master" | "primary" => Some(Self::Primary),
            "close" => Some(Self::Close),
            "spread" => Some(Self::Spread),
            _ => None,
        }
    }
}

/// Some places in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub first: u32,
    pub length: u32,
}

/// The place of a thread, and the partition in which the threads of its regions have theirs.
pub type Post = (u32, Partition);

/// The places, as sets of cores; none if threads are not bound.
pub fn all() -> &'static [Cores] {
    static ALL: OnceLock<Vec<Cores>> = OnceLock::new();
    ALL.get_or_init(|| {
        let places = environment::settings().places.iter();
        places.filter_map(|cores| Cores::of(cores).ok()).collect()
    })
}

/// The posts of the threads of a team, which a thread at `place` opens.
pub fn posts(bind: BindPolicy, threads: u32, place: u32, within: Partition) -> Vec<Post> {
    let Partition { first, length } = within;
    let after = |places: u32| first + (place - first + places) % length;
    match bind {
        BindPolicy::False | BindPolicy::Primary => vec![(place, within); threads as usize],
        BindPolicy::Spread if threads <= length => spread(threads, place, within),
        BindPolicy::True | BindPolicy::Close if threads <= length => {
            (0..threads).map(|id| (after(id), within)).collect()
        }
        BindPolicy::True | BindPolicy::Close | BindPolicy::Spread => {
            // The first places have one thread more.
            let (share, rest) = (threads / length, threads % length);
            let longer = (share + 1) * rest;
            let post = |id: u32| {
                let place = after(match id < longer {
                    true => id / (share + 1),
                    false => rest + (id - longer) / share,
                });
                let own = Partition { first: place, length: 1 };
                (place, if bind == BindPolicy::Spread { own } else { within })
            };
            (0..threads).map(post).collect()
        }
    }
}

/// Each thread gets a part of the partition, and its first place; the one that opens the region
/// stays where it is.
fn spread(threads: u32, place: u32, within: Partition) -> Vec<Post> {
    let (share, rest) = (within.length / threads, within.length % threads);
    let part = |number: u32| Partition {
        first: within.first + share * number + number.min(rest),
        length: share + u32::from(number < rest),
    };
    let has = |part: &Partition| (part.first..part.first + part.length).contains(&place);
    let own = (0..threads).position(|number| has(&part(number))).unwrap_or(0) as u32;
    let post = |id: u32| {
        let part = part((own + id) % threads);
        (if id == 0 { place } else { part.first }, part)
    };
    (0..threads).map(post).collect()
}

/// More cores than this do not exist.
const CORES_MAX: i64 = 1 << 13;

/// Reads what the user gives as places: lists of cores, or a kind of parts of the machine, of which
/// those in `allowed` count. None if it is not understood.
pub fn parse(text: &str, allowed: &[usize]) -> Option<Vec<Vec<usize>>> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (name, count) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, count)) => (name, Some(count.parse().ok().filter(|count| *count > 0)?)),
        None => (text.as_str(), None),
    };
    let parts = match name.to_ascii_lowercase().as_str() {
        "threads" => allowed.iter().map(|core| vec![*core]).collect(),
        "cores" => parts(allowed, SharedPart::Core),
        "ll_caches" => parts(allowed, SharedPart::Cache),
        "numa_domains" => parts(allowed, SharedPart::Node),
        "sockets" => parts(allowed, SharedPart::Package),
        _ => return Reader(&text).places(),
    };
    Some(parts.into_iter().take(count.unwrap_or(usize::MAX)).collect())
}

/// The parts of the machine of one kind, in the order of their first cores.
fn parts(allowed: &[usize], sharing: SharedPart) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for core in allowed {
        if parts.iter().all(|part| !part.contains(core)) {
            let mut part = processors::sharing(*core, sharing);
            part.retain(|other| allowed.contains(other));
            parts.push(if part.contains(core) { part } else { vec![*core] });
        }
    }
    parts
}

/// Reads `GOMP_CPU_AFFINITY`: cores and ranges of them, each of which is a place.
pub fn parse_cores(text: &str) -> Option<Vec<Vec<usize>>> {
    let mut places = Vec::new();
    let is_between = |letter: char| letter.is_whitespace() || letter == ',';
    for one in text.split(is_between).filter(|one| !one.is_empty()) {
        let (range, step) = one.split_once(':').unwrap_or((one, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse().ok().filter(|step| *step > 0)?;
        if last < first || last as i64 >= CORES_MAX {
            return None;
        }
        places.extend((first..=last).step_by(step).map(|core| vec![core]));
    }
    Some(places).filter(|places| !places.is_empty())
}

/// Reads lists of places: `{0,1},{4:2}`, `{0:2}:4:2`, `!{2:2}`.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn eat(&mut self, letter: char) -> bool {
        match self.0.strip_prefix(letter) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Option<i64> {
        let is_part = |(place, letter): (usize, char)| {
            !(letter.is_ascii_digit() || place == 0 && letter == '-')
        };
        let end = self.0.char_indices().find(|one| is_part(*one));
        let (digits, rest) = self.0.split_at(end.map_or(self.0.len(), |(place, _)| place));
        self.0 = rest;
        digits.parse().ok().filter(|number: &i64| number.abs() < CORES_MAX)
    }

    /// How often something is repeated, and at which distance.
    fn repetitions(&mut self) -> Option<impl Iterator<Item = i64> + use<>> {
        let mut found = [1, 1];
        for number in &mut found {
            if !self.eat(':') {
                break;
            }
            *number = self.number()?;
        }
        let [count, step] = found;
        (count > 0).then(|| (0..count).map(move |one| one * step))
    }

    fn places(mut self) -> Option<Vec<Vec<usize>>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        loop {
            if self.eat('!') {
                let place = self.place()?;
                all.retain(|other| *other != place);
            } else {
                let place = self.place()?;
                for shift in self.repetitions()? {
                    let moved = |core: &usize| usize::try_from(*core as i64 + shift).ok();
                    all.push(place.iter().map(moved).collect::<Option<_>>()?);
                }
            }
            if !self.eat(',') {
                break;
            }
        }
        (self.0.is_empty() && all.len() <= CORES_MAX as usize).then_some(all)
    }

    fn place(&mut self) -> Option<Vec<usize>> {
        if !self.eat('{') {
            return Some(vec![usize::try_from(self.number()?).ok()?]);
        }
        let mut cores = Vec::new();
        loop {
            if self.eat('!') {
                let core = usize::try_from(self.number()?).ok()?;
                cores.retain(|other| *other != core);
            } else {
                let first = self.number()?;
                for shift in self.repetitions()? {
                    cores.push(usize::try_from(first + shift).ok()?);
                }
            }
            if !self.eat(',') {
                break;
            }
        }
        cores.sort_unstable();
        cores.dedup();
        self.eat('}').then_some(cores)
    }
}

/// The places that have cores which this process may use, with only those.
pub fn usable(places: Vec<Vec<usize>>, allowed: &[usize]) -> Vec<Vec<usize>> {
    let own = |mut place: Vec<usize>| {
        place.retain(|core| allowed.contains(core));
        place
    };
    places.into_iter().map(own).filter(|place| !place.is_empty()).collect()
}

/// Shows places as users give them.
pub fn show(places: &[Vec<usize>]) -> String {
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}:{}", run[0], run.len()),
    };
    let place = |place: &Vec<usize>| {
        let runs = place.chunk_by(|one, next| one + 1 == *next).map(run);
        format!("{{{}}}", runs.collect::<Vec<_>>().join(","))
    };
    places.iter().map(place).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_places_are_read() {
        let read = |text: &str| parse(text, &[0, 1]);
        let places = |all: &[&[usize]]| Some(all.iter().map(|one| one.to_vec()).collect());
        assert_eq!(read("{0,1},{4:2}"), places(&[&[0, 1], &[4, 5]]));
        assert_eq!(read(" { 0 : 2 } : 3 : 4 "), places(&[&[0, 1], &[4, 5], &[8, 9]]));
        assert_eq!(read("{2:2}:2:-2"), places(&[&[2, 3], &[0, 1]]));
        assert_eq!(read("{0:4:2,!4}"), places(&[&[0, 2, 6]]));
        assert_eq!(read("{0},{1},!{0}"), places(&[&[1]]));
        assert_eq!(read("3,5:2"), places(&[&[3], &[5], &[6]]));
        assert_eq!(read("threads"), places(&[&[0], &[1]]));
        assert_eq!(read("THREADS(1)"), places(&[&[0]]));
        for wrong in ["", "{", "{}", "{0", "{0}:0", "{0}:2:-1", "{-1}", "{0},", "cores(0)", "rooms"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read("{99999}"), None);
        assert_eq!(show(&read("{0:2,5},{3}").unwrap()), "{0:2,5},{3}");
    }

    #[test]
    fn lists_of_cores_are_read() {
        let places = |all: &[usize]| Some(all.iter().map(|one| vec![*one]).collect());
        assert_eq!(parse_cores("0 3 1-2 4-15:4"), places(&[0, 3, 1, 2, 4, 8, 12]));
        for wrong in ["", "x", "2-1", "0-3:0", "0-9999"] {
            assert_eq!(parse_cores(wrong), None, "{wrong}");
        }
    }

    fn posts_of(
        bind: BindPolicy,
        threads: u32,
        place: u32,
        within: (u32, u32),
    ) -> Vec<(u32, u32, u32)> {
        let within = Partition { first: within.0, length: within.1 };
        let posts = posts(bind, threads, place, within).into_iter();
        posts.map(|(place, part)| (place, part.first, part.length)).collect()
    }

    #[test]
    fn close_threads_have_the_next_places_and_share_them_if_there_are_too_few() {
        assert_eq!(posts_of(BindPolicy::Close, 3, 5, (4, 3)), [(5, 4, 3), (6, 4, 3), (4, 4, 3)]);
        let places: Vec<u32> = posts_of(BindPolicy::True, 5, 1, (0, 3))
            .into_iter()
            .map(|(place, _, _)| place)
            .collect();
        assert_eq!(places, [1, 1, 2, 2, 0]);
        assert_eq!(posts_of(BindPolicy::Primary, 2, 1, (0, 3)), [(1, 0, 3); 2]);
    }

    #[test]
    fn spread_threads_have_parts_of_the_partition() {
        let expected = [(3, 3, 2), (5, 5, 2), (0, 0, 3)];
        assert_eq!(posts_of(BindPolicy::Spread, 3, 3, (0, 7)), expected);
        assert_eq!(posts_of(BindPolicy::Spread, 3, 4, (0, 7))[0], (4, 3, 2));
        assert_eq!(posts_of(BindPolicy::Spread, 3, 1, (0, 2)), [(1, 1, 1), (1, 1, 1), (0, 0, 1)]);
    }
}
