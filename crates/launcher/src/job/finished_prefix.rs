//! Finds out whether all elements of a list have finished, in constant time for each event.

/// The number of elements at the beginning of a list that have finished. It only grows, because an
/// element that has finished stays so: each element is examined a second time only if it was the
/// first that had not finished.
#[derive(Debug, Default)]
pub(super) struct FinishedPrefix(usize);

impl FinishedPrefix {
    /// Whether all elements have finished.
    pub(super) fn is_whole<T>(&mut self, list: &[T], has_finished: impl Fn(&T) -> bool) -> bool {
        self.is_whole_by(list.len(), |at| has_finished(&list[at]))
    }

    /// Whether all elements have finished, of a list with this length; `has_finished` is given an
    /// index.
    pub(super) fn is_whole_by(
        &mut self,
        length: usize,
        has_finished: impl Fn(usize) -> bool,
    ) -> bool {
        while self.0 < length && has_finished(self.0) {
            self.0 += 1;
        }
        self.0 == length
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn elements_are_examined_about_once() {
        let (mut prefix, mut done, examined) =
            (FinishedPrefix::default(), [false; 100], Cell::new(0));
        for at in (0..100).rev().step_by(2).chain((0..100).step_by(2)) {
            let whole = prefix.is_whole(&done, |is_done| {
                examined.set(examined.get() + 1);
                *is_done
            });
            assert!(!whole);
            done[at] = true;
        }
        assert!(prefix.is_whole(&done, |is_done| *is_done));
        assert!(examined.get() <= 200, "{} examinations", examined.get());
    }
}
