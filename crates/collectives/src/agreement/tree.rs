//! The tree along which the messages of an agreement travel: the binomial tree of all members. The
//! parent of a member has its number without the lowest bit that is set, so the members below one
//! are consecutive. Members whose parent has failed belong to the next living member above; if none
//! of those lives, to the coordinator.

use std::ops::Range;

use super::Agreement;

impl Agreement {
    /// Returns the surviving member with the lowest number.
    pub(super) fn coordinator(&self) -> u32 {
        self.failed.first_absent().unwrap_or(self.own)
    }

    /// Returns this member and all below it: on the coordinator all members.
    pub(super) fn range(&self) -> Range<u32> {
        let size = self.failed.size();
        if self.coordinator() == self.own {
            return 0..size;
        }
        self.own..size.min(self.own.saturating_add(lowest_bit(self.own)))
    }

    /// Returns the next living member above this one; on the coordinator itself.
    pub(super) fn above(&self) -> u32 {
        let ancestors = std::iter::successors(Some(self.own), |member| parent(*member)).skip(1);
        let mut living = ancestors.filter(|member| !self.failed.contains(*member));
        living.next().unwrap_or_else(|| self.coordinator())
    }

    /// Returns the living members directly below this one.
    pub(super) fn directly_below(&self) -> Vec<u32> {
        let mut below = Vec::new();
        self.add_below(self.own, &mut below);
        if self.own > 0 && self.coordinator() == self.own {
            // All whose ancestors have failed.
            self.add_below(0, &mut below);
            below.retain(|member| *member != self.own);
        }
        below
    }

    /// Adds the living members of which no ancestor below `member` lives.
    fn add_below(&self, member: u32, below: &mut Vec<u32>) {
        for child in self.children(member) {
            if self.failed.contains(child) {
                self.add_below(child, below);
            } else {
                below.push(child);
            }
        }
    }

    /// Returns the children of a member in the tree of all members, whether they live or not.
    pub(super) fn children(&self, member: u32) -> impl Iterator<Item = u32> + use<> {
        let size = self.failed.size();
        let steps = std::iter::successors(Some(1_u32), |step| step.checked_mul(2));
        let fitting = steps.take_while(move |step| member == 0 || *step < lowest_bit(member));
        let children = fitting.map(move |step| member.saturating_add(step));
        children.take_while(move |child| *child < size)
    }
}

/// Returns the parent of a member in the tree of all members.
fn parent(member: u32) -> Option<u32> {
    (member > 0).then(|| member - lowest_bit(member))
}

/// Returns the value of the lowest bit that is set in a number above 0.
fn lowest_bit(number: u32) -> u32 {
    1 << number.trailing_zeros()
}
