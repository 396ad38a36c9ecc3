//! How messages name what the system reports.

/// Returns a message for users without the numbers of errors that Rust appends to the system's
/// words: "No such file or directory (os error 2)".
#[must_use]
pub fn without_error_numbers(message: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut parts = message.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => text.push_str(rest),
            _ => text.extend([BEGIN, part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_system_remain() {
        let error = std::io::Error::from_raw_os_error(2);
        let message =
            format!("a cannot be read: {error}; b cannot be read: {error}, as (os error x)");
        let expected = "a cannot be read: No such file or directory; b cannot be read: No such file \
                        or directory, as (os error x)";
        assert_eq!(without_error_numbers(&message), expected);
        assert_eq!(without_error_numbers("héllo (os error 1"), "héllo (os error 1");
    }
}
