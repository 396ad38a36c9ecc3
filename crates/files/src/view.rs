//! Views: which bytes of a file a process sees, and in which order (section 14.3).
//!
//! A process sees a stream of bytes. The filetype defines where they lie: its bytes of data, tiled
//! from the displacement on. The offsets of a filetype never decrease (section 14.3), so the offset
//! in the file grows with the position in the stream.

use std::ops::Range;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use datatype::Datatype;
use memory::Layout;

/// Where the bytes of a stream lie in a file.
#[derive(Clone, Debug)]
pub(crate) struct View {
    displacement: u64,
    etype_bytes: u64,
    /// The number of data bytes in a tile, and the distance of tiles in bytes.
    tile_bytes: u64,
    tile_extent: u64,
    /// The layout of tiles; none if they are contiguous without holes.
    layout: Option<Arc<dyn Layout>>,
    /// Whether a tile begins before the previous one ends. Then offsets grow only within a tile.
    tiles_overlap: bool,
}

impl View {
    /// Returns the view of all bytes of the file.
    pub fn of_bytes() -> Self {
        Self {
            displacement: 0,
            etype_bytes: 1,
            tile_bytes: 1,
            tile_extent: 1,
            layout: None,
            tiles_overlap: false,
        }
    }

    /// Returns the view through a filetype, from a displacement in bytes on.
    ///
    /// # Errors
    /// `Arg` if a filetype is no multiple of its etype, or if its offsets decrease.
    pub fn new(displacement: u64, etype: &Datatype, filetype: &Arc<Datatype>) -> Result<Self> {
        let wrong = |what: String| Err(Error::new(ErrorClass::Arg, what));
        let (unit, tile, extent) = (etype.size(), filetype.size(), filetype.extent());
        if unit == 0 || !tile.is_multiple_of(unit) {
            let what = format!(
                "the filetype has {tile} bytes of data, which is not a multiple of the etype's \
                 {unit}"
            );
            return wrong(what);
        }
        if tile > 0 && (filetype.true_lower_bound() < 0 || extent < 0) {
            return wrong("the filetype has negative displacements".to_owned());
        }
        let layout = filetype.layout(2);
        if layout.is_some() && tile > 0 && !goes_upwards(filetype) {
            return wrong("the displacements of the filetype decrease".to_owned());
        }
        Ok(Self {
            displacement,
            etype_bytes: unit as u64,
            tile_bytes: tile as u64,
            tile_extent: extent as u64,
            layout,
            tiles_overlap: tile > 0 && filetype.true_extent() > extent,
        })
    }

    /// Returns the size of an etype, the unit of file pointers, in bytes.
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Returns the average length of its runs, in bytes.
    pub fn run_bytes(&self) -> u64 {
        match &self.layout {
            None => u64::MAX,
            Some(layout) => self.tile_bytes / (layout.segment_count(1) as u64).max(1),
        }
    }

    /// Returns the average distance from the beginning of a run to that of the next one, in bytes;
    /// none if it has no holes.
    pub fn run_distance(&self) -> Option<u64> {
        let layout = self.layout.as_ref()?;
        Some(self.tile_extent / (layout.segment_count(1) as u64).max(1))
    }

    /// Whether it contains no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.tile_bytes == 0
    }

    /// Calls `each` with offset and length of successive runs of the bytes `position .. position +
    /// length` of the stream, none beginning where the previous one ends, until all are covered or
    /// `each` returns false. Returns whether all were covered.
    pub fn runs(&self, position: u64, length: u64, each: &mut dyn FnMut(u64, u64) -> bool) -> bool {
        if length == 0 {
            return true;
        }
        let Some(layout) = &self.layout else {
            return each(self.displacement + position, length);
        };
        let mut pending: Option<(u64, u64)> = None;
        let mut goes_on = true;
        layout.segments(usize::MAX, position as usize, length as usize, &mut |segment| {
            let (offset, length) = (
                self.displacement.wrapping_add_signed(segment.displacement as i64),
                segment.length,
            );
            match &mut pending {
                Some((start, before)) if *start + *before == offset => *before += length as u64,
                _ => {
                    if let Some((start, before)) = pending.replace((offset, length as u64)) {
                        goes_on = each(start, before);
                    }
                }
            }
            goes_on
        });
        goes_on && pending.is_none_or(|(start, length)| each(start, length))
    }

    /// Returns the offset in the file of a byte of the stream.
    pub fn offset_of(&self, position: u64) -> u64 {
        if self.is_empty() {
            return self.displacement;
        }
        let mut found = self.displacement;
        self.runs(position, 1, &mut |offset, _| {
            found = offset;
            true
        });
        found
    }

    /// Returns how many bytes of the stream lie before an offset in the file.
    pub fn position_of(&self, offset: u64) -> u64 {
        let Some(beyond) = offset.checked_sub(self.displacement) else { return 0 };
        if self.is_empty() {
            return 0;
        }
        if self.layout.is_none() {
            return beyond;
        }
        let tile = beyond.checked_div(self.tile_extent).unwrap_or(0);
        let (mut high, mut step) = ((tile + 1) * self.tile_bytes, self.tile_bytes);
        while self.offset_of(high) < offset {
            high += step;
            step *= 2;
        }
        self.position_within(offset, 0..high)
    }

    /// Returns the first position in `part`, a range of the stream with growing offsets, whose
    /// offset in the file is at least `offset`.
    pub fn position_within(&self, offset: u64, part: Range<u64>) -> u64 {
        let Range { start: mut low, end: mut high } = part;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.offset_of(middle) < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether the offsets of the bytes `position .. position + length` of the stream grow.
    pub fn goes_upwards(&self, position: u64, length: u64) -> bool {
        !self.tiles_overlap
            || length == 0
            || self.tile_of(position) == self.tile_of(position + length - 1)
    }

    fn tile_of(&self, position: u64) -> u64 {
        position / self.tile_bytes
    }

    /// Returns the range of the file that contains a part of the stream.
    pub fn range(&self, position: u64, length: u64) -> Range<u64> {
        if length == 0 {
            let at = self.offset_of(position);
            return at..at;
        }
        let last = position + length - 1;
        let (mut start, mut end) = (self.offset_of(position), self.offset_of(last) + 1);
        if !self.goes_upwards(position, length) {
            // The second tile may begin before this part of the first one, and the last but one may
            // end behind the part of the last one.
            start = start.min(self.offset_of((self.tile_of(position) + 1) * self.tile_bytes));
            end = end.max(self.offset_of(self.tile_of(last) * self.tile_bytes - 1) + 1);
        }
        start..end
    }
}

/// Whether the bytes of a tile are in the order of their offsets.
fn goes_upwards(filetype: &Arc<Datatype>) -> bool {
    let Some(layout) = filetype.layout(1) else { return true };
    let mut last = isize::MIN;
    let mut upwards = true;
    layout.segments(1, 0, filetype.size(), &mut |segment| {
        upwards &= segment.displacement >= last;
        last = segment.displacement;
        upwards
    });
    upwards
}

#[cfg(test)]
mod tests {
    use super::*;
    use datatype::{ArgumentForm, Construction, Predefined};
    use proptest::prelude::*;

    fn indexed(lengths: &[u8], gaps: &[u8], tail: i8) -> Arc<Datatype> {
        let of = Datatype::named(Predefined::Byte).borrowed();
        let mut end = 0;
        let displacements = lengths.iter().zip(gaps).map(|(length, gap)| {
            let at = end + i64::from(*gap);
            end = at + i64::from(*length);
            at
        });
        let displacements = displacements.collect();
        let block_lengths = lengths.iter().map(|length| i64::from(*length)).collect();
        let inner = Construction::Indexed { block_lengths, displacements, of };
        let of = Datatype::create(inner, ArgumentForm::Int).unwrap().borrowed();
        let extent = (end + i64::from(tail)).max(0);
        let outer = Construction::Resized { lower_bound: 0, extent, of };
        Datatype::create(outer, ArgumentForm::Int).unwrap()
    }

    proptest! {
        #[test]
        fn runs_positions_and_offsets_agree(
            pairs in prop::collection::vec((1_u8..9, 0_u8..9), 1..6),
            tail in -40_i8..9,
            displacement in 0_u64..50,
            position in 0_u64..200,
            length in 0_u64..200,
        ) {
            let (lengths, gaps): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let filetype = indexed(&lengths, &gaps, tail);
            let etype = Datatype::named(Predefined::Byte);
            let view = View::new(displacement, etype, &filetype).unwrap();
            let mut bytes = Vec::new();
            let mut last = None;
            let goes_upwards = view.goes_upwards(position, length);
            view.runs(position, length, &mut |offset, length| {
                let is_behind = last.is_none_or(|last| last < offset);
                assert!(is_behind || !goes_upwards, "runs are merged");
                last = Some(offset + length);
                bytes.extend(offset..offset + length);
                true
            });
            prop_assert_eq!(bytes.len() as u64, length);
            let range = view.range(position, length);
            if length > 0 {
                prop_assert!(bytes.iter().all(|offset| range.contains(offset)));
            }
            for (step, offset) in bytes.iter().enumerate() {
                let at = position + step as u64;
                prop_assert_eq!(view.offset_of(at), *offset);
                if goes_upwards {
                    let part = position..position + length;
                    prop_assert_eq!(view.position_within(*offset, part.clone()), at);
                    prop_assert_eq!(view.position_within(*offset + 1, part), at + 1);
                }
                if tail >= 0 {
                    prop_assert_eq!(view.position_of(*offset), at);
                    prop_assert_eq!(view.position_of(*offset + 1), at + 1);
                }
            }
        }
    }

    #[test]
    fn a_filetype_must_fit_its_etype_and_go_upwards() {
        let int = Datatype::named(Predefined::Int);
        assert!(View::new(0, int, &indexed(&[3], &[0], 0)).is_err());
        let of = int.borrowed();
        let down =
            Construction::Indexed { block_lengths: vec![1, 1], displacements: vec![1, 0], of };
        let down = Datatype::create(down, ArgumentForm::Int).unwrap();
        assert!(View::new(0, int, &down).is_err());
    }
}
