//! `PMI_process_mapping`: the machine on which each rank runs.

use crate::JoinError;

/// The key under which launchers that speak PMI publish the mapping.
pub const KEY: &str = "PMI_process_mapping";

/// The key of the number of parts in which our own launcher publishes a mapping that is too long
/// for one value. Each part has this key with `-` and its number appended.
const PARTS_KEY: &str = "combray-mapping-parts";

/// How many bytes of the mapping a rank needs at most, as a limit for what a launcher sends.
const BYTES_PER_RANK_MAX: usize = 64;

/// Returns the keys and values with which our own launcher publishes a mapping. Values have at most
/// `value_bytes_max` bytes.
pub fn published(text: &str, value_bytes_max: usize) -> Vec<(String, String)> {
    if text.len() <= value_bytes_max {
        return vec![(KEY.to_owned(), text.to_owned())];
    }
    let parts = text.as_bytes().chunks(value_bytes_max);
    let mut all = vec![(PARTS_KEY.to_owned(), parts.len().to_string())];
    for (number, part) in parts.enumerate() {
        all.push((part_key(number), String::from_utf8_lossy(part).into_owned()));
    }
    all
}

/// Returns the mapping of `size` ranks if it was published in parts, which `value` looks up.
///
/// # Errors
/// Those of `value`; or a part is missing, or there are too many.
pub(crate) fn from_parts(
    size: u32,
    mut value: impl FnMut(&str) -> Result<Option<String>, JoinError>,
) -> Result<Option<String>, JoinError> {
    let Some(count) = value(PARTS_KEY)? else { return Ok(None) };
    let invalid = |what: &str| {
        JoinError::new(format!(
            "the launcher's description of where {size} processes run is invalid: {what}"
        ))
    };
    let bytes_max = BYTES_PER_RANK_MAX * (size as usize + 1);
    let count: usize = count.parse().map_err(|_| invalid("it has no number of parts"))?;
    let mut text = String::new();
    for number in 0..count {
        text += &value(&part_key(number))?.ok_or_else(|| invalid("a part is missing"))?;
        if text.len() > bytes_max {
            return Err(invalid("it is too long"));
        }
    }
    Ok(Some(text))
}

fn part_key(number: usize) -> String {
    format!("{PARTS_KEY}-{number}")
}

/// Returns the machine of each of `size` ranks, as the launcher published it; none if it published
/// nothing.
pub(crate) fn machines(text: Option<String>, size: u32) -> Result<Option<Vec<u32>>, JoinError> {
    // Launchers that do not know the mapping send an empty value.
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    match parse(&text, size) {
        Some(machines) => Ok(Some(machines)),
        None => Err(JoinError::new(format!(
            "the launcher's description of where {size} processes run is invalid: {text}"
        ))),
    }
}

/// Encodes the mapping of processes to these machines as a launcher publishes it: blocks of (first
/// machine, number of machines, processes on each).
pub fn text(machines: &[usize]) -> String {
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for run in machines.chunk_by(|before, next| before == next) {
        match blocks.last_mut() {
            Some((first, count, each)) if *first + *count == run[0] && *each == run.len() => {
                *count += 1;
            }
            _ => blocks.push((run[0], 1, run.len())),
        }
    }
    let blocks: Vec<_> =
        blocks.iter().map(|(first, count, each)| format!("({first},{count},{each})")).collect();
    format!("(vector,{})", blocks.join(","))
}

/// Reads `(vector,(0,4,2),...)`: blocks of (first machine, number of machines, ranks on each),
/// repeated until all `size` ranks have a machine. Hydra writes `[(0,2,1),...]x3` for blocks that
/// are repeated three times. None if the text is not of that form.
fn parse(text: &str, size: u32) -> Option<Vec<u32>> {
    let list = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut machines = Machines { found: Vec::new(), size: size as usize };
    while !machines.is_complete() {
        let before = machines.found.len();
        let mut rest = list;
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(group) => {
                    let (group, after) = group.split_once("]x")?;
                    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                    let (times, after) = after.split_at(digits);
                    machines.repeat(group, times.parse().ok()?)?;
                    after
                }
                None => machines.take_block(rest)?,
            };
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        if machines.found.len() == before {
            return None;
        }
    }
    Some(machines.found)
}

/// The machines of the first ranks, as far as they have been read.
struct Machines {
    found: Vec<u32>,
    size: usize,
}

impl Machines {
    fn is_complete(&self) -> bool {
        self.found.len() == self.size
    }

    /// Takes a list of blocks `times` times.
    fn repeat(&mut self, blocks: &str, times: u32) -> Option<()> {
        for _ in 0..times {
            let before = self.found.len();
            let mut rest = blocks;
            while !rest.is_empty() {
                rest = self.take_block(rest)?;
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            // Blocks that add nothing once never add anything.
            if self.found.len() == before {
                break;
            }
        }
        Some(())
    }

    /// Takes the block at the beginning of `text`; returns the rest of the text.
    fn take_block<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let (block, after) = text.strip_prefix('(')?.split_once(')')?;
        let numbers: Option<Vec<u32>> = block.split(',').map(|n| n.trim().parse().ok()).collect();
        let [first, count, each] = numbers?[..] else { return None };
        for machine in first..first.checked_add(count)? {
            let room = self.size - self.found.len();
            self.found.extend(std::iter::repeat_n(machine, room.min(each as usize)));
            if self.is_complete() || each == 0 {
                break;
            }
        }
        Some(after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    use proptest::prelude::*;

    #[test]
    fn blocks_are_repeated() {
        assert_eq!(parse("(vector,(0,1,4))", 4).unwrap(), [0, 0, 0, 0]);
        assert_eq!(parse("(vector,(0,2,2))", 4).unwrap(), [0, 0, 1, 1]);
        assert_eq!(parse("(vector,(0,2,1))", 5).unwrap(), [0, 1, 0, 1, 0]);
        assert_eq!(parse("(vector,(0,1,2),(3,1,1))", 3).unwrap(), [0, 0, 3]);
        assert_eq!(parse("(vector,[(0,2,1)]x2)", 4).unwrap(), [0, 1, 0, 1]);
        let mixed = parse("(vector,(4,1,1),[(0,1,1),(2,1,2)]x2,(7,1,1))", 9).unwrap();
        assert_eq!(mixed, [4, 0, 2, 2, 0, 2, 2, 7, 4]);
        for wrong in ["(vector,[(0,2,1)])", "(vector,[(0,2,1)]x)", "(vector,[]x9)"] {
            assert_eq!(parse(wrong, 4), None, "{wrong}");
        }
        for wrong in ["", "(vector,)", "(vector,(0,1))", "(vector,(0,0,4))", "(vector,(0,1,0))"] {
            assert_eq!(parse(wrong, 4), None, "{wrong}");
        }
    }

    #[test]
    fn mappings_are_short() {
        assert_eq!(text(&[0, 0, 0]), "(vector,(0,1,3))");
        assert_eq!(text(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        assert_eq!(text(&[0, 0, 1, 2]), "(vector,(0,1,2),(1,2,1))");
        assert_eq!(text(&[0, 1, 0]), "(vector,(0,2,1),(0,1,1))");
    }

    #[test]
    fn mappings_of_any_length_are_published() {
        for size in [1000, 20_480, 1_000_000] {
            let mut rng = 1_u64;
            let mut draw = |_| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (rng >> 33) as usize % 10_000
            };
            let places: Vec<usize> = (0..size).map(&mut draw).collect();
            let all: HashMap<String, String> =
                published(&text(&places), 1 << 16).into_iter().collect();
            assert!(all.values().all(|value| value.len() <= 1 << 16));
            assert_eq!(all.contains_key(KEY), size == 1000);
            let value = |key: &str| Ok(all.get(key).cloned());
            let text = value(KEY).unwrap().or_else(|| from_parts(size, value).unwrap());
            let read = machines(text, size).unwrap().unwrap();
            assert!(read.iter().map(|&machine| machine as usize).eq(places));
        }
    }

    #[test]
    fn parts_that_make_no_sense_are_refused() {
        let read = |count: &'static str, part: Option<String>| {
            from_parts(10, move |key: &str| match key {
                PARTS_KEY => Ok(Some(count.to_owned())),
                _ => Ok(part.clone()),
            })
        };
        assert_eq!(from_parts(10, |_| Ok(None)), Ok(None));
        assert_eq!(read("2", Some("x".to_owned())), Ok(Some("xx".to_owned())));
        assert!(read("2", None).unwrap_err().to_string().contains("a part is missing"));
        assert!(read("x", None).unwrap_err().to_string().contains("no number of parts"));
        let endless = read("9999999999", Some("x".repeat(100)));
        assert!(endless.unwrap_err().to_string().contains("too long"));
    }

    proptest! {
        #[test]
        fn mappings_are_understood(nodes in proptest::collection::vec(0_usize..4, 1..40)) {
            let read = machines(Some(text(&nodes)), nodes.len() as u32).unwrap().unwrap();
            prop_assert!(read.iter().map(|&node| node as usize).eq(nodes));
        }

        #[test]
        fn any_text_is_survived(text in r"[(),vectorx\[\]0-9]{0,40}", size in 1_u32..50) {
            if let Some(nodes) = parse(&text, size) {
                prop_assert_eq!(nodes.len(), size as usize);
            }
            let text = format!("(vector,{text})");
            prop_assert!(parse(&text, size).is_none_or(|nodes| nodes.len() == size as usize));
        }
    }
}
