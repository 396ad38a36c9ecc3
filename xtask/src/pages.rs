//! Pages of the documentation where they are installed.

use std::fs;
use std::path::Path;

/// Replaces links to files that are not installed by their texts, in all pages below `folder`.
pub fn remove_dead_links(folder: &Path) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|cause| format!("{}: {cause}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|cause| format!("{}: {cause}", folder.display()))?.path();
        let failed = |cause: std::io::Error| format!("{}: {cause}", path.display());
        if path.is_dir() {
            remove_dead_links(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            let kept = without_links(&text, |target| folder.join(target).exists());
            if kept != text {
                fs::write(&path, kept).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// The text with the links that `is_there` refuses replaced by their texts. Blocks of code and
/// links with a scheme stay.
fn without_links(text: &str, is_there: impl Fn(&str) -> bool) -> String {
    let parts = text.split("```").enumerate();
    let replaced = parts.map(|(index, part)| match index % 2 {
        0 => prose_without_links(part, &is_there),
        _ => part.to_owned(),
    });
    replaced.collect::<Vec<_>>().join("```")
}

fn prose_without_links(text: &str, is_there: &impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        kept += before;
        let parts = link.split_once("](").and_then(|(words, after)| {
            let (target, after) = after.split_once(')')?;
            Some((words, target, after))
        });
        rest = match parts {
            Some((words, target, after)) if !words.contains('[') => {
                let file = target.split('#').next().unwrap_or_default();
                if target.contains(':') || file.is_empty() || is_there(file) {
                    kept += &format!("[{words}]({target})");
                } else {
                    kept += words;
                }
                after
            }
            _ => {
                kept.push('[');
                link
            }
        };
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_that_are_absent_become_their_texts() {
        let text = "See [one\npage](one.md#part), ([another](other.md)), [a site](https://a.org), \
                    [below](#below), `x[1]`, [].\n```\n[code](other.md)\n```\n[last](../none.md)";
        let expected = "See [one\npage](one.md#part), (another), [a site](https://a.org), \
                        [below](#below), `x[1]`, [].\n```\n[code](other.md)\n```\nlast";
        assert_eq!(without_links(text, |file| file == "one.md"), expected);
    }
}
