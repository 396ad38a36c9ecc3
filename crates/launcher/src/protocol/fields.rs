//! Frames and their fields: parsed with checks, and emitted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use topology::CpuSet;

use super::{FRAME_BYTES_MAX, OutputStream};

/// The size of the length before each frame.
const LENGTH_BYTES: usize = 4;

/// The maximum length of a text that another program wrote, in an error message.
const TEXT_BYTES_MAX: usize = 200;

/// Appends the frame that `fill` writes. Returns false, and appends nothing, if it is too long.
pub(super) fn frame(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    fill(out);
    let length = out.len() - start - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        out.truncate(start);
        return false;
    }
    out[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    true
}

/// Received bytes that are split into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// How many bytes were consumed.
    taken: usize,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that were not consumed yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(super) fn skip(&mut self, length: usize) {
        self.taken += length;
    }

    /// Returns the first line with text of the bytes that were not consumed yet: a program on
    /// the way to the host, such as Slurm's, wrote it between frames.
    fn text(&self) -> Option<String> {
        let mut lines = self.rest().split(|byte| *byte == b'\n');
        let line = lines.find(|line| !line.trim_ascii().is_empty())?.trim_ascii_end();
        let line = &line[..line.len().min(TEXT_BYTES_MAX)];
        let is_text = line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        is_text.then(|| String::from_utf8_lossy(line).into_owned())
    }

    /// Returns the next frame, if it is complete.
    pub(super) fn take(&mut self) -> Result<Option<&[u8]>, String> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(match self.text() {
                Some(text) => format!("another program wrote to it: {text}"),
                None => format!("the data is not a frame, or is a frame of {length} bytes"),
            });
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        self.taken += LENGTH_BYTES + length;
        Ok(Some(frame))
    }
}

/// Reads a frame with `parse`, which gets its first byte and the rest. None if it has another form,
/// or bytes are left over.
pub(super) fn parse<T>(
    frame: &[u8],
    parse: impl FnOnce(u8, &mut Parse<'_>) -> Option<T>,
) -> Option<T> {
    let (&kind, rest) = frame.split_first()?;
    let mut fields = Parse { rest };
    parse(kind, &mut fields).filter(|_| fields.rest.is_empty())
}

/// Appends fields.
pub(super) trait Emit {
    fn number(&mut self, number: u32);
    fn text(&mut self, text: &[u8]);
    fn os_text(&mut self, text: &OsStr);
    fn target(&mut self, target: OutputStream);
    fn threads(&mut self, threads: &CpuSet);
    fn list<T>(&mut self, items: &[T], emit: impl Fn(&mut Self, &T));
}

impl Emit for Vec<u8> {
    fn number(&mut self, number: u32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u32);
        self.extend_from_slice(text);
    }

    fn os_text(&mut self, text: &OsStr) {
        self.text(text.as_bytes());
    }

    fn target(&mut self, target: OutputStream) {
        self.push(u8::from(target == OutputStream::Errors));
    }

    fn threads(&mut self, threads: &CpuSet) {
        self.text(threads.to_string().as_bytes());
    }

    fn list<T>(&mut self, items: &[T], emit: impl Fn(&mut Self, &T)) {
        self.number(items.len() as u32);
        items.iter().for_each(|item| emit(self, item));
    }
}

/// Reads fields: each is returned completely or not at all.
pub(super) struct Parse<'a> {
    rest: &'a [u8],
}

impl<'a> Parse<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*number))
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }

    pub(super) fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?.to_vec()).ok()
    }

    pub(super) fn os_text(&mut self) -> Option<OsString> {
        Some(OsString::from_vec(self.text()?.to_vec()))
    }

    pub(super) fn target(&mut self) -> Option<OutputStream> {
        match self.byte()? {
            0 => Some(OutputStream::Output),
            1 => Some(OutputStream::Errors),
            _ => None,
        }
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.byte()? != 0)
    }

    /// Reads a set of hardware threads or ranks, which must not be empty.
    pub(super) fn threads(&mut self) -> Option<CpuSet> {
        CpuSet::from_list(str::from_utf8(self.text()?).ok()?).filter(|set| !set.is_empty())
    }

    /// Reads a list with at most one item.
    pub(super) fn option<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        let mut items = self.list(item)?;
        let only = items.pop();
        items.is_empty().then_some(only)
    }

    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.number()?;
        // Grows with the items that are really there, as the count may be wrong.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}
