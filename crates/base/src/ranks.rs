//! Formats ranks for display.

/// Returns `rank 3`, or `ranks 0, 1 and 5`; of more than `named_max` ranks the first ones, and the
/// number of others.
pub fn name_ranks(list: &[u32], named_max: usize) -> String {
    let names: Vec<String> = list.iter().take(named_max).map(u32::to_string).collect();
    match (names.as_slice(), list.len()) {
        ([], _) => "no rank".to_owned(),
        ([one], 1) => format!("rank {one}"),
        (all, length) if length > named_max => {
            format!("ranks {} and {} more", all.join(", "), length - named_max)
        }
        ([before @ .., last], _) => format!("ranks {} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_until_there_are_too_many() {
        let named = |list: &[u32]| name_ranks(list, 3);
        assert_eq!([named(&[]), named(&[3])], ["no rank", "rank 3"]);
        assert_eq!([named(&[0, 5]), named(&[0, 1, 5])], ["ranks 0 and 5", "ranks 0, 1 and 5"]);
        assert_eq!(named(&[0, 1, 5, 9]), "ranks 0, 1, 5 and 1 more");
    }
}
