//! Variable-length numbers, for values that are mostly small.

/// Appends a number: seven bits per byte, the lowest first; the highest bit says that more bytes
/// follow.
pub fn push_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front; `None` if there is no complete one of at most ten bytes.
pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_one_behind_the_other() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1234_5678_9abc_def0, u64::MAX];
        let mut bytes = Vec::new();
        numbers.into_iter().for_each(|number| push_number(number, &mut bytes));
        assert_eq!(bytes[..5], [0, 1, 0x7f, 0x80, 1]);
        let mut rest = bytes.as_slice();
        for number in numbers {
            assert_eq!(take_number(&mut rest), Some(number));
        }
        assert!(rest.is_empty());
        assert_eq!(take_number(&mut rest), None);
    }

    #[test]
    fn what_has_no_end_is_no_number() {
        assert_eq!(take_number(&mut &[0x80, 0xff][..]), None);
        assert_eq!(take_number(&mut &[0xff; 11][..]), None);
    }
}
