//! The corpora of the fuzz targets as tests: included by the crates whose parsers they feed.

use std::path::Path;

/// Feeds a target with what once led it to some place of its own.
pub(crate) fn replay(target: &str, feed: fn(&[u8])) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(corpora.join(target)).expect("each target has a corpus") {
        let path = entry.expect("it lists").path();
        feed(&std::fs::read(path).expect("it can be read"));
        files += 1;
    }
    assert!(files > 0, "{target} has a corpus");
}
