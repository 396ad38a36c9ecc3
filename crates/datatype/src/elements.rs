//! Counting: elements in a number of bytes, and the basic elements in type map order.

use crate::blocks::visit_blocks;
use crate::datatype::{Construction, Datatype};
use crate::predefined::{Predefined, ValueKind};

impl Datatype {
    /// Returns how many whole elements `bytes` bytes of data are, for `MPI_Get_count` (section
    /// 3.2.5); `None` (`MPI_UNDEFINED`) if they are not a whole number of elements.
    pub fn count_in(&self, bytes: usize) -> Option<usize> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Returns how many basic elements `bytes` bytes of data are, for `MPI_Get_elements` (section
    /// 5.1.11); `None` (`MPI_UNDEFINED`) if the last one is incomplete.
    pub fn elements_in(&self, bytes: usize) -> Option<usize> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => {
                Some((bytes / size) * self.element_count() + self.elements_of_part(bytes % size)?)
            }
        }
    }

    /// Returns the number of basic elements in the first `bytes` bytes of one element, which has
    /// more bytes.
    fn elements_of_part(&self, bytes: usize) -> Option<usize> {
        if bytes == 0 {
            return Some(0);
        }
        if let Some(base) = self.base() {
            return base.elements_of_part(bytes);
        }
        if let Construction::Named(named) = self.construction() {
            return match named.kind() {
                ValueKind::Pair(value, _) if value.size() == bytes => Some(1),
                _ => None,
            };
        }
        let mut rest = bytes;
        let mut elements = 0;
        let mut part = None;
        visit_blocks(self.construction(), &mut |block| {
            if block.is_empty() || block.of.size() == 0 {
                return true;
            }
            // At most this datatype's size, which was checked.
            let whole = (block.count * block.length) as usize;
            let held = whole.min(rest / block.of.size());
            elements += held * block.of.element_count();
            rest -= held * block.of.size();
            if held < whole {
                part = block.of.elements_of_part(rest);
            }
            held == whole
        });
        part.map(|part| elements + part)
    }

    /// Calls `each` with the basic elements of `count` elements in type map order, as (type, number
    /// in a row), until it returns false. Pairs are passed as value and index.
    ///
    /// Returns whether all elements were passed.
    pub fn basic_elements(
        &self,
        count: usize,
        each: &mut dyn FnMut(Predefined, usize) -> bool,
    ) -> bool {
        if count == 0 || self.size() == 0 {
            return true;
        }
        if let Some(only) = self.geometry().content.only() {
            return each(only, count * self.element_count());
        }
        if let Some(base) = self.base() {
            return base.basic_elements(count, each);
        }
        let named = match self.construction() {
            Construction::Named(named) => Some(named.kind()),
            _ => None,
        };
        for _ in 0..count {
            let mut goes_on = true;
            if let Some(ValueKind::Pair(value, index)) = named {
                goes_on = each(value, 1) && each(index, 1);
            }
            visit_blocks(self.construction(), &mut |block| {
                let elements = if block.is_empty() { 0 } else { block.count * block.length };
                goes_on = block.of.basic_elements(elements as usize, each);
                goes_on
            });
            if !goes_on {
                return false;
            }
        }
        true
    }
}
