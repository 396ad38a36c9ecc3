//! Parses the options for the output of processes.

use launcher::{LineTag, OutputForm};

/// Sets the files for standard output and standard error of each rank, in the folder layout of Open
/// MPI: below `folder`, `1/rank.0/stdout` and `1/rank.0/stderr`. `folder` may end with `:nocopy`.
///
/// # Errors
/// A message for the user.
pub fn set_folder(form: &mut OutputForm, option: &str, text: &str) -> Result<(), String> {
    let folder = copied(form, option, text)?.replace('%', "%%");
    form.files = ["stdout", "stderr"].map(|name| Some(format!("{folder}/1/rank.%0r/{name}")));
    Ok(())
}

/// Applies the words of `--output`: `tag`, `timestamp`, `merge`, `dir=FOLDER` and `file=NAME`,
/// separated by commas. A colon may stand before words that have no value, as in PRRTE.
///
/// # Errors
/// A message for the user.
pub fn set(form: &mut OutputForm, option: &str, text: &str) -> Result<(), String> {
    let words = text.split(',').map(|word| word.strip_prefix(':').unwrap_or(word));
    for word in words.filter(|word| !word.is_empty()) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("tag" | "tag-detailed" | "rank", "") => form.tag = LineTag::RankAndStream,
            ("timestamp", "") => form.is_timed = true,
            ("merge" | "merge-stderr-to-stdout", "") => form.is_merged = true,
            ("dir" | "directory", folder) if !folder.is_empty() => {
                set_folder(form, option, folder)?;
            }
            ("file" | "filename", name) if !name.is_empty() => {
                let name = copied(form, option, name)?.replace('%', "%%");
                form.files = ["out", "err"].map(|end| Some(format!("{name}.%0r.{end}")));
            }
            _ => {
                return Err(format!(
                    "{option} needs tag, timestamp, merge, dir=FOLDER or file=NAME, but got \
                     \"{word}\""
                ));
            }
        }
    }
    Ok(())
}

/// Strips `:nocopy` from the name of a folder or file, and records whether it was present.
fn copied<'a>(form: &mut OutputForm, option: &str, text: &'a str) -> Result<&'a str, String> {
    let (name, is_copied) = match text.strip_suffix(":nocopy") {
        Some(name) => (name, false),
        None => (text, true),
    };
    form.is_copied = is_copied;
    match name {
        "" => Err(format!("{option} needs the name of a folder or file, but got none")),
        name => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let mut form = OutputForm::default();
        set(&mut form, "--output", ":tag-detailed").unwrap();
        assert_eq!(form.tag, LineTag::RankAndStream);
        set(&mut form, "--output", "tag,timestamp,merge,dir=a%b:nocopy").unwrap();
        assert_eq!(form.tag, LineTag::RankAndStream);
        assert!(form.is_timed && form.is_merged && !form.is_copied);
        assert_eq!(form.files[1].as_deref(), Some("a%%b/1/rank.%0r/stderr"));
        set(&mut form, "--output", "file=x").unwrap();
        assert_eq!(form.files[0].as_deref(), Some("x.%0r.out"));
        assert!(form.is_copied);
        for wrong in ["xml", "dir=", "tag=1", "file=:nocopy"] {
            let error = set(&mut form, "--output", wrong).unwrap_err();
            assert!(error.contains("--output needs"), "{error}");
        }
    }
}
