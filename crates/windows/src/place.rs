//! Where an operation reads and writes at a target.

use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use datatype::{Datatype, Predefined};
use memory::{Buffer, Segment};

use super::Share;

/// Elements in a target's part of a window.
#[derive(Clone, Debug)]
pub struct TargetPlace {
    /// The displacement in bytes from the beginning of the target's part; in a dynamic window the
    /// address.
    displacement: isize,
    datatype: Arc<Datatype>,
    count: usize,
    length: usize,
}

/// The largest number of runs in one request.
const RUNS_MAX: usize = 256;

impl TargetPlace {
    /// Returns the place of `count` elements at `displacement` units of `share`. They must lie
    /// inside the part, unless the window is dynamic (`share` has no size), where only the target
    /// can check that.
    ///
    /// # Errors
    /// `RmaRange` if they do not; `Disp` for a negative displacement; `Count` if they exceed the
    /// address space.
    pub(crate) fn new(
        share: &Share,
        dynamic: bool,
        displacement: i64,
        datatype: &Arc<Datatype>,
        count: usize,
    ) -> Result<Self> {
        let length = datatype.packed_size(count)?;
        let (low, high) = datatype.data_bounds(count)?;
        let outside = || out_of_range(share, displacement, (low, high));
        if displacement < 0 && !dynamic {
            let detail = format!("the displacement is {displacement}, but must not be negative");
            return Err(Error::new(ErrorClass::Disp, detail));
        }
        let bytes = (displacement as isize).checked_mul(share.unit as isize);
        let bytes = bytes.ok_or_else(outside)?;
        let (low, high) =
            bytes.checked_add(low).zip(bytes.checked_add(high)).ok_or_else(outside)?;
        if length > 0 && !dynamic && (low < 0 || high > share.size as isize) {
            return Err(outside());
        }
        Ok(Self { displacement: bytes, datatype: Arc::clone(datatype), count, length })
    }

    /// Returns the number of bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the predefined datatype of all elements, if they have one type.
    pub(crate) fn element(&self) -> Option<Predefined> {
        self.datatype.operand()
    }

    /// Returns the run of the elements, relative to the beginning of the part, if they are
    /// contiguous.
    #[inline]
    pub(super) fn run(&self) -> Option<Segment> {
        let run = self.datatype.run(self.count)?;
        let displacement = self.displacement + run.displacement;
        Some(Segment { displacement, length: run.length })
    }

    /// Returns the elements as a buffer in the memory `base`; the caller has checked that they lie
    /// inside.
    #[inline]
    pub(crate) fn buffer(&self, base: &Buffer) -> Buffer {
        match self.run() {
            Some(run) => base.contiguous_part(run.displacement, run.length),
            None => {
                let layout = self.datatype.layout(self.count).expect("it is not one run");
                base.laid_out_part(self.displacement, layout, self.count)
            }
        }
    }

    /// Returns the runs of the data from packed offset `offset` on: as many as one request can
    /// name, with at most `bytes_max` bytes. Their total length is a multiple of `grain` bytes, as
    /// is that of the remaining data.
    pub(crate) fn runs(&self, offset: usize, bytes_max: usize, grain: usize) -> Vec<Segment> {
        let bytes_max = bytes_max - bytes_max % grain;
        let length = (self.length - offset).min(bytes_max);
        if let Some(run) = self.run() {
            let displacement = run.displacement + offset as isize;
            return vec![Segment { displacement, length }];
        }
        let layout = self.datatype.layout(self.count).expect("it is not one run");
        let mut runs = Vec::new();
        let mut sum = 0;
        layout.segments(self.count, offset, length, &mut |run| {
            let displacement = self.displacement + run.displacement;
            runs.push(Segment { displacement, length: run.length });
            sum += run.length;
            runs.len() < RUNS_MAX
        });
        let mut excess = if sum < length { sum % grain } else { 0 };
        while let Some(last) = runs.last_mut().filter(|_| excess > 0) {
            let cut = last.length.min(excess);
            last.length -= cut;
            excess -= cut;
            if last.length == 0 {
                runs.pop();
            }
        }
        runs
    }
}

#[cold]
fn out_of_range(share: &Share, displacement: i64, (low, high): (isize, isize)) -> Error {
    let Share { size, unit } = share;
    let detail = format!(
        "the elements at displacement {displacement} (bytes {low} to {high} from there) exceed the \
         target's part of the window, which has {size} bytes, {unit} per unit of displacement"
    );
    Error::new(ErrorClass::RmaRange, detail)
}

#[cfg(test)]
mod tests {
    use datatype::{ArgumentForm, Construction};

    use super::*;

    fn vector() -> Arc<Datatype> {
        let of = Datatype::named(Predefined::Double).borrowed();
        let construction = Construction::Vector { count: 500, block_length: 1, stride: 2, of };
        let datatype = Datatype::create(construction, ArgumentForm::Int).unwrap();
        datatype.commit();
        datatype
    }

    #[test]
    fn a_place_outside_is_refused() {
        let share = Share { size: 8000, unit: 4 };
        let place = |displacement| TargetPlace::new(&share, false, displacement, &vector(), 1);
        assert_eq!(place(2).unwrap().len(), 4000);
        assert_eq!(place(3).unwrap_err().class, ErrorClass::RmaRange);
        assert_eq!(place(-1).unwrap_err().class, ErrorClass::Disp);
        assert_eq!(place(i64::MAX).unwrap_err().class, ErrorClass::RmaRange);
    }

    #[test]
    fn the_runs_of_all_pieces_are_the_whole() {
        let place =
            TargetPlace::new(&Share { size: 8000, unit: 1 }, false, 8, &vector(), 1).unwrap();
        let mut offset = 0;
        let mut starts = Vec::new();
        while offset < place.len() {
            let runs = place.runs(offset, 1004, 8);
            let sum: usize = runs.iter().map(|run| run.length).sum();
            assert!(sum > 0 && sum.is_multiple_of(8) && sum <= 1000);
            offset += sum;
            starts.extend(runs.iter().map(|run| run.displacement));
        }
        assert!(starts.iter().copied().eq((0..500).map(|index| 8 + index * 16)));
    }
}
