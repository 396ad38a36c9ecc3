//! Text for terminals of limited width.

/// Breaks lines that are longer than `columns` characters at blanks. What follows is indented by
/// four more than the beginning of the line. A word that is longer than a line stays whole.
pub fn folded(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.trim_end().chars().count() > columns {
            true => fold(line, columns, &mut out),
            false => out.push_str(line),
        }
    }
    out
}

fn fold(line: &str, columns: usize, out: &mut String) {
    let begin = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat((begin + 4).min(columns / 2));
    out.push_str(&line[..begin]);
    let (mut length, mut is_begun) = (begin, false);
    // The blanks between two words stay, as those between the columns of a table.
    for word in line[begin..].split_inclusive(' ') {
        let shown = word.trim_end().chars().count();
        if is_begun && length + shown > columns && shown > 0 {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.push_str(&indent);
            length = indent.len();
        }
        out.push_str(word);
        length += word.chars().count();
        is_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        let text = "short\n  rank 0  waits for rank 1 in MPI_Recv\n";
        let expected = "short\n  rank 0  waits for\n      rank 1 in\n      MPI_Recv\n";
        assert_eq!(folded(text, 20), expected);
        assert_eq!(folded(text, 80), text);
        let long = "verylongwordthatdoesnotfit";
        assert_eq!(folded(&format!("a {long} b"), 10), format!("a\n    {long}\n    b"));
        assert_eq!(folded("", 10), "");
    }

    proptest! {
        #[test]
        fn no_word_is_lost_or_cut(text in "[ab ü\n]{0,60}", columns in 8_usize..30) {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let new = folded(&text, columns);
            prop_assert_eq!(words(&text), words(&new));
            for line in new.lines() {
                let is_one_word = line.split_whitespace().count() == 1;
                prop_assert!(is_one_word || line.trim_end().chars().count() <= columns, "{}", line);
            }
        }
    }
}
