//! Encodes and decodes the reason for which a process ends its job, as one word of PMI-1.

/// The maximal length of a reason in bytes: the launcher reads whole lines of many processes.
const REASON_BYTES_MAX: usize = 4096;

/// Encodes a text as a word without spaces: bytes other than letters, digits and some signs become
/// `%` and two hexadecimal digits.
pub fn encode(text: &str) -> String {
    let mut word = String::new();
    for &byte in &text.as_bytes()[..text.len().min(REASON_BYTES_MAX)] {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'-' | b'.' | b',' | b':' | b'/' => {
                word.push(char::from(byte));
            }
            _ => word += &format!("%{byte:02x}"),
        }
    }
    word
}

/// Decodes a word, which may hold any bytes. Control characters are shown as escapes.
pub fn decode(word: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = others.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let coded = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match coded.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
        if bytes.len() == REASON_BYTES_MAX {
            break;
        }
    }
    foreign::several_lines(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_word_and_comes_back() {
        let text = "rank 1 on a: 100 % of \u{e9} = none (MPI_ERR_RANK)\nsecond line";
        let word = encode(text);
        assert!(!word.contains([' ', '=', '\n']), "{word}");
        assert_eq!(decode(&word), text);
    }

    #[test]
    fn whatever_comes_is_a_text_that_can_be_shown() {
        assert_eq!(decode("%zz%4%"), "%zz%4%");
        assert_eq!(decode("%1b%5b31m%ff"), "\\u{1b}[31m\u{fffd}");
        assert_eq!(decode(&"a".repeat(10_000)).len(), REASON_BYTES_MAX);
        assert_eq!(decode(&encode(&"b".repeat(10_000))).len(), REASON_BYTES_MAX);
    }
}
