//! The form of the output of processes: tags, times, files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::LaunchError;

/// The form of the output of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputForm {
    /// The tag at the beginning of each line.
    pub tag: LineTag,
    /// The number of a spawned job, which tags then contain: `[1234:3] `.
    pub job: Option<u32>,
    /// Whether each line begins with the time.
    pub is_timed: bool,
    /// Whether standard error is merged into standard output.
    pub is_merged: bool,
    /// The files for standard output and standard error, as patterns: `%r` stands for the rank,
    /// `%0r` for the rank with as many digits as the highest rank has, `%h` for the name of the
    /// host, `%p` for the number of the host, `%g` for 0, `%%` for a percent sign.
    pub files: [Option<String>; 2],
    /// Whether output that goes to files is also forwarded.
    pub is_copied: bool,
}

/// The tag that shows from which rank a line comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineTag {
    /// Nothing.
    #[default]
    None,
    /// The rank: `[3] `.
    Rank,
    /// The rank and the stream: `[3]<stdout>: `.
    RankAndStream,
}

impl LineTag {
    /// The tags of jobs that a job spawns, by the value of
    /// [`JOB_TAGS`](base::variables::JOB_TAGS).
    const NAMES: [(Self, &str); 2] = [(Self::Rank, "rank"), (Self::RankAndStream, "stream")];

    /// Returns the value by which spawned jobs get this tag; `None` if there is no tag.
    pub(crate) fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(tag, _)| *tag == self).map(|(_, name)| *name)
    }

    /// Returns the tag with this name, or [`Self::None`] if no tag has it.
    pub fn named(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, known)| *known == name).map_or(Self::None, |(tag, _)| *tag)
    }
}

impl OutputForm {
    /// Whether lines are forwarded unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        self.tag == LineTag::None && !self.is_timed
    }

    /// Returns the tags of a rank's lines, for output and errors.
    pub(crate) fn tags(&self, rank: usize) -> [String; 2] {
        let process = self.job.map_or_else(|| rank.to_string(), |job| format!("{job}:{rank}"));
        ["stdout", "stderr"].map(|stream| match self.tag {
            LineTag::None => String::new(),
            LineTag::Rank => format!("[{process}] "),
            LineTag::RankAndStream => format!("[{process}]<{stream}>: "),
        })
    }

    /// Creates the files of a rank, and their folders.
    ///
    /// # Errors
    /// A file or folder cannot be created.
    pub(crate) fn open(
        &self,
        rank: usize,
        ranks: usize,
        host: (usize, &str),
    ) -> Result<[Option<OutputFile>; 2], LaunchError> {
        let one = |pattern: &Option<String>| {
            let path = pattern.as_ref().map(|pattern| expand(pattern, rank, ranks, host));
            path.map(OutputFile::create).transpose()
        };
        let [output, errors] = &self.files;
        Ok([one(output)?, one(errors)?])
    }
}

/// A file that receives the output of one rank.
#[derive(Debug)]
pub(crate) struct OutputFile {
    pub path: PathBuf,
    pub file: File,
}

impl OutputFile {
    fn create(path: PathBuf) -> Result<Self, LaunchError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = fs::create_dir_all(folder.unwrap_or(Path::new(".")));
        let file = made.and_then(|()| File::create(&path)).map_err(|cause| {
            LaunchError::new(format!("the file {} cannot be written: {cause}", path.display()))
        })?;
        Ok(Self { path, file })
    }
}

fn expand(pattern: &str, rank: usize, ranks: usize, (number, name): (usize, &str)) -> PathBuf {
    let digits = ranks.saturating_sub(1).to_string().len();
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        text += before;
        let (word, length) = match after.as_bytes() {
            [b'r', ..] => (rank.to_string(), 1),
            [b'0', b'r', ..] => (format!("{rank:0digits$}"), 2),
            [b'h', ..] => (name.to_owned(), 1),
            [b'p', ..] => (number.to_string(), 1),
            [b'g', ..] => ("0".to_owned(), 1),
            [b'%', ..] => ("%".to_owned(), 1),
            _ => ("%".to_owned(), 0),
        };
        text += &word;
        rest = &after[length..];
    }
    (text + rest).into()
}

/// Returns the current time in UTC, as `2026-11-22T22:08:31.123Z `.
pub(crate) fn time_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time_text(since.as_secs(), since.subsec_millis())
}

fn time_text(seconds: u64, milliseconds: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month, day) = (month + 1, day + 1);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded() {
        let path = |pattern| expand(pattern, 3, 12, (1, "b"));
        assert_eq!(path("out.%r"), Path::new("out.3"));
        assert_eq!(path("d/1/rank.%0r/stdout"), Path::new("d/1/rank.03/stdout"));
        assert_eq!(path("%h-%p-%g-100%%-%x%"), Path::new("b-1-0-100%-%x%"));
    }

    /// Compared with date(1).
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time_text(0, 0), "1970-01-01T00:00:00.000Z ");
        assert_eq!(time_text(951_782_399, 7), "2000-02-28T23:59:59.007Z ");
        assert_eq!(time_text(951_868_799, 7), "2000-02-29T23:59:59.007Z ");
        assert_eq!(time_text(1_798_761_599, 999), "2026-12-31T23:59:59.999Z ");
    }

    #[test]
    fn tags_tell_rank_and_stream() {
        let tags = |tag| OutputForm { tag, ..OutputForm::default() }.tags(3);
        assert_eq!(tags(LineTag::Rank), ["[3] ", "[3] "]);
        assert_eq!(tags(LineTag::RankAndStream), ["[3]<stdout>: ", "[3]<stderr>: "]);
        for tag in [LineTag::Rank, LineTag::RankAndStream] {
            assert_eq!(tag.name().map(LineTag::named), Some(tag));
        }
        assert_eq!((LineTag::None.name(), LineTag::named("other")), (None, LineTag::None));
        let spawned = OutputForm { tag: LineTag::Rank, job: Some(12), ..OutputForm::default() };
        assert_eq!(spawned.tags(3), ["[12:3] ", "[12:3] "]);
    }
}
