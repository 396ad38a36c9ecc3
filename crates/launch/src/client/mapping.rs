//! `PMI_process_mapping`: which machine each rank runs on.

use super::JoinError;

/// Under this key launchers that speak PMI publish the mapping.
pub(super) const KEY: &str = "PMI_process_mapping";

/// The machine of each of `size` ranks, from what a launcher published; nothing where it published
/// nothing.
pub(crate) fn machines(text: Option<String>, size: u32) -> Result<Option<Vec<u32>>, JoinError> {
    // Launchers answer with nothing where they know nothing.
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    match parse(&text, size) {
        Some(machines) => Ok(Some(machines)),
        None => Err(JoinError::new(format!(
            "the launcher tells where {size} processes run, but it makes no sense: {text}"
        ))),
    }
}

/// Reads `(vector,(0,4,2),...)`: blocks of (first machine, how many machines, ranks on each), over
/// and over until all `size` ranks have a place. Nothing if it is not of that form.
fn parse(text: &str, size: u32) -> Option<Vec<u32>> {
    let blocks = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut nodes = Vec::new();
    while (nodes.len() as u32) < size {
        let before = nodes.len();
        let mut rest = blocks;
        while !rest.is_empty() {
            let (block, after) = rest.strip_prefix('(')?.split_once(')')?;
            let numbers: Option<Vec<u32>> =
                block.split(',').map(|n| n.trim().parse().ok()).collect();
            let [first, machines, each] = numbers?[..] else { return None };
            for node in first..first.checked_add(machines)? {
                let room = size as usize - nodes.len();
                nodes.extend(std::iter::repeat_n(node, room.min(each as usize)));
                if nodes.len() == size as usize || each == 0 {
                    break;
                }
            }
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        if nodes.len() == before {
            return None;
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn blocks_are_repeated() {
        assert_eq!(parse("(vector,(0,1,4))", 4).unwrap(), [0, 0, 0, 0]);
        assert_eq!(parse("(vector,(0,2,2))", 4).unwrap(), [0, 0, 1, 1]);
        assert_eq!(parse("(vector,(0,2,1))", 5).unwrap(), [0, 1, 0, 1, 0]);
        assert_eq!(parse("(vector,(0,1,2),(3,1,1))", 3).unwrap(), [0, 0, 3]);
        for wrong in ["", "(vector,)", "(vector,(0,1))", "(vector,(0,0,4))", "(vector,(0,1,0))"] {
            assert_eq!(parse(wrong, 4), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[(),vector0-9]{0,40}", size in 1_u32..50) {
            if let Some(nodes) = parse(&text, size) {
                prop_assert_eq!(nodes.len(), size as usize);
            }
            let text = format!("(vector,{text})");
            prop_assert!(parse(&text, size).is_none_or(|nodes| nodes.len() == size as usize));
        }
    }
}
