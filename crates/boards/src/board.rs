//! The board: memory that the members of a communicator share, in which each member has slots.
//!
//! Operations are numbered in series, one for each order in which a program calls them and each
//! size of slots. In each series they count from 0, equally on all members. Operation `s` uses slot
//! `s` modulo the number of slots that each member has in the series. A slot begins with two words
//! that only its owner writes:
//!
//! - the *flag*: the operation and the stage that the owner has raised. It is stored with release
//!   after the announced data was written, and loaded with acquire before the data is read;
//! - the second word: the number of bytes in the slot, and how far the owner's completion is behind
//!   the flag.
//!
//! The data follows; a few bytes of it lie in the cache line of the flag.
//!
//! # When a slot is written again
//! Each member publishes, in a line of its own, the number below which it has completed all
//! operations. A member writes its slot for an operation when all members have completed the last
//! operation that used the slot. Then no member reads the slot any more, as members read only
//! during an operation. The number is stored with release after the reads, and the writer loads it
//! with acquire. A member publishes it once in an eighth of the slots. That is soon enough: a
//! member that is so far behind has operations to complete that all others have begun. Where each
//! operation waits for all members, a writer loads the numbers only when it uses a slot of the
//! series again for the first time: from then on it keeps what the second words say.
//!
//! # Operations that start in any order
//! A persistent operation is created in one order on all members, but the members may start several
//! of them in different orders. So each has a *reserved* series of its own from its creation until
//! it is freed, in which its runs are numbered. The members agree on a series that is free on all
//! of them. A series that was given back continues where it ended, so nothing must be cleared.
//!
//! # How data is written
//! Through the caches or past them, as the member finds out by measuring: see [`StoreChoice`].
//!
//! # Sleeping
//! A member that stores a flag, or its completion, then rings the doorbells of the others, as the
//! sender of a packet does: it loads the word that is set while the owner sleeps. A member that is
//! about to sleep arms its doorbell, makes all processors pass a barrier, and loads all awaited
//! flags once more. So either the store came before that barrier, and this load sees it; or the
//! load of the armed doorbell came after the barrier, and the storing member rings. If the system
//! has no such barriers, the ringing member executes a fence itself.
//!
//! Only the members that wait for a stage are woken by it: where the operation has one such member,
//! as the root of a gather, its doorbell alone is loaded.
//!
//! A member that waits for one stage of one other member stores that member and stage in its
//! awaited word before it sleeps, so that nothing else that members store wakes it: otherwise an
//! operation in which all wait for all would wake each member once for each other one, and one by
//! groups would wake members when their leader shows its part to the other leaders. A member that
//! finds a doorbell armed loads this word after it. A member that changes the word while its
//! doorbell is armed does not sleep ([`awaited_changes`]): another member may have loaded the word
//! before. It arms the doorbell again, with a barrier after the change.
//!
//! Why: docs/internals/decisions/0014-boards.md

mod series;

use std::cell::{Cell, OnceCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::time::Instant;

use base::SlotSize;
use base::limits::CACHE_LINE;
use memory::{SharedBytes, SharedBytesMut, SharedMemory, StoreChoice};
use queues::bell::Wake;

use series::{HEADER, RESERVED, SERIES, SeriesMemory, divisions};
pub use series::{Series, SeriesOrder};

const LINE: usize = CACHE_LINE;

/// The offset of the portion words in the slot of member 0, in operations that have portions; the
/// data that these operations expose lies before it.
const PORTIONS: usize = 2 * LINE;

/// See [`awaited_changes`]. One thread at a time uses boards.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Returns a number that changes whenever this process stores in the awaited word of a board.
#[inline]
pub fn awaited_changes() -> u32 {
    CHANGES.load(Ordering::Relaxed)
}

/// Writes of at least this many bytes may go past the caches.
pub const LONG_BYTES_MIN: usize = 4 << 10;

/// The number of bytes whose writing is timed together.
const TIMED_BYTES: usize = 32 << 10;

/// The largest number of operations of a series underway on a member, as one word has a bit for
/// each.
const UNDERWAY_MAX: u64 = u64::BITS as u64;

/// The board as mapped by one of its members; `B` wakes another member.
#[derive(Debug)]
pub struct Board<B> {
    /// Keeps the memory mapped.
    _memory: Rc<SharedMemory>,
    /// The address of the board in it.
    base: NonNull<u8>,
    members: usize,
    own: usize,
    series: [SeriesState; SERIES],
    /// The reserved series that are free here, by the size of their slots.
    free: [Cell<u64>; SlotSize::ALL.len()],
    store_choice: StoreChoice,
    /// The doorbells of the other members.
    bells: Vec<B>,
    /// The number of operations underway here.
    underway: Cell<u64>,
    /// The value of the awaited word of this member.
    awaited: Cell<u64>,
}

/// The value of the awaited word of a member for which others ring whatever they store. Otherwise
/// the word holds an [`AwaitedStage`].
const ANY: u64 = 0;

/// A stage for which a member waits, in one word. From the lowest bit on: the lower part of the
/// flag, the series, and the number of the awaited member plus one, so that no such word is
/// [`ANY`].
#[derive(Clone, Copy)]
struct AwaitedStage(u64);

impl AwaitedStage {
    const FLAG_BITS: u32 = 44;
    const SERIES_BITS: u32 = 10;

    #[inline]
    fn new(turn: BoardTurn, member: u32, stage: u16) -> Self {
        const { assert!(SERIES < 1 << Self::SERIES_BITS) };
        let flag = flag_of(turn, stage) & (u64::MAX >> (u64::BITS - Self::FLAG_BITS));
        let place = u64::from(member + 1) << Self::SERIES_BITS | turn.series.index() as u64;
        Self(place << Self::FLAG_BITS | flag)
    }

    /// Whether the awaited member has raised this stage or a later one when it raises `raised`.
    /// Members are at most as many operations apart as a series has slots, so that the lower parts
    /// of their flags show which is later.
    #[inline]
    fn is_reached_by(self, raised: Self) -> bool {
        let above = u64::BITS - Self::FLAG_BITS;
        let is_there = self.0 >> Self::FLAG_BITS == raised.0 >> Self::FLAG_BITS;
        is_there && (raised.0 << above).wrapping_sub(self.0 << above) as i64 >= 0
    }
}

/// Returns the number of bytes of a board for this many members.
pub fn bytes_of(members: u32) -> usize {
    let last = divisions(members)[SERIES - 1];
    (last.before + last.member_stride()) * members as usize
}

/// One operation on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardTurn {
    series: Series,
    number: u64,
}

impl BoardTurn {
    /// Returns the next operation in its series.
    pub fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

/// The state of a series on a member.
#[derive(Debug)]
struct SeriesState {
    /// The number of slots of each member, and the number of data bytes in a slot.
    slots: usize,
    bytes: usize,
    /// The offset of the completion word of member 0, the distance between members, and the
    /// distance between slots.
    first: usize,
    member_stride: usize,
    slot_stride: usize,
    /// The number of the next operation.
    next: Cell<u64>,
    /// All operations below this number are complete here.
    completed: Cell<u64>,
    /// Bit `i`: the operation `completed + i` is complete too.
    beyond: Cell<u64>,
    /// By member: it is known to have completed all operations below this number. Made when a slot
    /// is to be written again for the first time, as most series of a board never come so far. The
    /// own entry is brought up to date when entries are compared.
    known: OnceCell<Box<[Cell<u64>]>>,
    /// A lower bound of these entries.
    known_by_all: Cell<u64>,
}

impl<B: Wake> Board<B> {
    /// Creates the view of member `own` of the board in `memory`; `bells` are the doorbells of the
    /// others by rank, or none if no member sleeps.
    ///
    /// # Panics
    /// If the size of the memory does not match that many members.
    pub fn new(memory: Rc<SharedMemory>, members: u32, own: u32, bells: Vec<B>) -> Self {
        assert!(memory.len() == bytes_of(members) && own < members);
        let divisions = divisions(members);
        let (members, own) = (members as usize, own as usize);
        let series = divisions.map(|division| SeriesState::new(&division, members));
        let free = RESERVED.map(|count| Cell::new(u64::MAX >> (u64::BITS - count as u32)));
        let (base, store_choice) = (memory.base(), StoreChoice::default());
        let (underway, awaited) = (Cell::new(0), Cell::new(ANY));
        Self {
            _memory: memory,
            base,
            members,
            own,
            series,
            free,
            store_choice,
            bells,
            underway,
            awaited,
        }
    }

    /// Returns the reserved series with such slots that are free here: bit `i` for number `i`.
    pub fn free_series(&self, slots: SlotSize) -> u64 {
        self.free[slots as usize].get()
    }

    /// Reserves a series that is free on all members. All members must reserve it for one
    /// operation.
    pub fn reserve(&self, slots: SlotSize, number: u8) {
        let free = &self.free[slots as usize];
        debug_assert!(free.get() >> number & 1 == 1, "it is free");
        free.set(free.get() & !(1 << number));
    }

    /// Gives back a series if it was reserved. No operation of it may be underway here.
    pub fn give_back(&self, series: Series) {
        if let Some((slots, number)) = series.reserved() {
            let free = &self.free[slots as usize];
            free.set(free.get() | 1 << number);
        }
    }

    /// Returns the number of this member.
    #[inline]
    pub fn own(&self) -> u32 {
        self.own as u32
    }

    /// Returns the number of members.
    #[inline]
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the number of data bytes in the slots of an operation.
    #[inline]
    pub fn slot_bytes(&self, turn: BoardTurn) -> usize {
        self.state(turn.series).bytes
    }

    /// Begins the next operation of a series, which all members must begin in one order; or `count`
    /// operations in a row ([`BoardTurn::next`]).
    #[inline]
    pub fn begin(&self, series: Series, count: usize) -> BoardTurn {
        let next = &self.state(series).next;
        let number = next.get();
        next.set(number + count as u64);
        self.underway.set(self.underway.get() + count as u64);
        self.await_any();
        BoardTurn { series, number }
    }

    /// Whether an operation can begin: not too many others are underway here and, if this member's
    /// slot is written, no member needs its previous content any more.
    #[inline]
    pub fn is_free(&self, turn: BoardTurn, writes: bool) -> bool {
        let state = self.state(turn.series);
        let needed = (turn.number + 1).saturating_sub(state.slots as u64);
        turn.number - state.completed.get() < UNDERWAY_MAX.min(state.slots as u64)
            && (!writes
                || state.known_by_all.get() >= needed
                || self.check_completion(turn.series, needed))
    }

    /// Writes into this member's slot of an operation. [`Board::is_free`] must have returned true,
    /// and other members must not read the range any more.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    #[inline]
    pub fn write(
        &self,
        turn: BoardTurn,
        offset: usize,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) {
        let data = self.data(turn, self.own, offset, length);
        // SAFETY:
        // - `data` checked that the range lies in this member's slot, which lives as long as
        //   `self`. No buffer of the slot is created, and one thread uses it at a time.
        // - Only the owner writes a slot, and others read it only after a flag that is raised after
        //   this write.
        fill(unsafe { SharedBytesMut::new(data, length) });
    }

    /// Does what [`Board::write`] does, for at least [`LONG_BYTES_MIN`] bytes. `fill` receives the
    /// offset in the range of the part to fill, the part, and whether to write past the caches.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    pub fn write_long(
        &self,
        turn: BoardTurn,
        offset: usize,
        length: usize,
        fill: impl Fn(usize, SharedBytesMut<'_>, bool),
    ) {
        let mut done = 0;
        if self.store_choice.tries() {
            let mut begin = Instant::now();
            while done < length {
                let part = TIMED_BYTES.min(length - done);
                self.write(turn, offset + done, part, |slot| fill(done, slot, false));
                let end = Instant::now();
                self.store_choice.note(part, end - begin);
                (begin, done) = (end, done + part);
                if self.store_choice.is_past_caches() {
                    break;
                }
            }
        }
        if done < length {
            self.write(turn, offset + done, length - done, |slot| fill(done, slot, true));
        }
    }

    /// Reads from the slot of a member: this member's slot, or one for which [`Board::raised`]
    /// returned a length.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    #[inline]
    pub fn read<R>(
        &self,
        turn: BoardTurn,
        member: u32,
        offset: usize,
        length: usize,
        inspect: impl FnOnce(SharedBytes<'_>) -> R,
    ) -> R {
        let data = self.data(turn, member as usize, offset, length);
        // SAFETY:
        // - `data` checked that the range lies in the slot, which lives as long as `self`. No
        //   buffer of the slot is created, and one thread uses it at a time.
        // - Its owner writes there only before it raises the awaited flag, and after all members
        //   have completed the operation.
        inspect(unsafe { SharedBytes::new(data, length) })
    }

    /// Publishes the data in this member's slot to the others; `length` is its number of bytes. If
    /// only one member waits for this stage, it is `reader`, and the others are not woken.
    #[inline]
    pub fn raise(&self, turn: BoardTurn, stage: u16, length: usize, reader: Option<u32>) {
        let behind = turn.number - self.state(turn.series).completed.get();
        let beside = (length as u64) << BEHIND_BITS | behind.min(BEHIND_MAX);
        let [flag, second] = self.words(turn, self.own);
        second.store(beside, Ordering::Relaxed);
        flag.store(flag_of(turn, stage), Ordering::Release);
        // Keeps the store before the loads of the doorbells' words; the head of this file explains
        // why a compiler fence is enough.
        compiler_fence(Ordering::SeqCst);
        match reader.map(|reader| reader as usize) {
            Some(reader) => {
                debug_assert_ne!(reader, self.own, "a member raises stage {stage} for itself");
                if let Some(bell) = self.bells.get(reader - usize::from(reader > self.own)) {
                    bell.wake_if(|| self.awaits(reader, turn, stage));
                }
            }
            None => self.ring(|member| self.awaits(member, turn, stage)),
        }
    }

    /// Returns how many bytes a member has published, once it has raised a stage of an operation;
    /// at most the size of a slot.
    #[inline(always)]
    pub fn raised(&self, turn: BoardTurn, member: u32, stage: u16) -> Option<usize> {
        let [flag, second] = self.words(turn, member as usize);
        if flag.load(Ordering::Acquire) < flag_of(turn, stage) {
            return None;
        }
        let (state, second) = (self.state(turn.series), second.load(Ordering::Relaxed));
        let behind = second & BEHIND_MAX;
        if behind < BEHIND_MAX {
            state.note(member as usize, turn.number.saturating_sub(behind));
        }
        Some(state.bytes.min((second >> BEHIND_BITS) as usize))
    }

    /// Records that this member waits until one other member has raised a stage of an operation. If
    /// one operation is underway here, nothing else that members store wakes this member until
    /// [`await_any`](Self::await_any) is called.
    #[inline]
    pub fn await_stage(&self, turn: BoardTurn, member: u32, stage: u16) {
        let is_only = self.underway.get() == 1;
        self.set_awaited(if is_only { AwaitedStage::new(turn, member, stage).0 } else { ANY });
    }

    /// Records that what any member stores may end a wait of this one.
    #[inline]
    pub fn await_any(&self) {
        self.set_awaited(ANY);
    }

    #[inline]
    fn set_awaited(&self, awaited: u64) {
        if self.awaited.replace(awaited) != awaited {
            CHANGES.store(awaited_changes().wrapping_add(1), Ordering::Relaxed);
            self.awaited_word(self.own).store(awaited, Ordering::Relaxed);
        }
    }

    /// Returns the awaited word of a member, beside its completion in the first series.
    fn awaited_word(&self, member: usize) -> &AtomicU64 {
        self.word(self.place(&self.series[0], member) + size_of::<AtomicU64>())
    }

    /// Whether a member, which was found asleep, waits for a stage that this member has raised, or
    /// may wait for anything.
    fn awaits(&self, member: usize, turn: BoardTurn, stage: u16) -> bool {
        let awaited = self.awaited_word(member).load(Ordering::Relaxed);
        let raised = AwaitedStage::new(turn, self.own as u32, stage);
        awaited == ANY || AwaitedStage(awaited).is_reached_by(raised)
    }

    /// Whether a member, which was found asleep, may wait for anything.
    fn awaits_any(&self, member: usize) -> bool {
        self.awaited_word(member).load(Ordering::Relaxed) == ANY
    }

    /// Returns how many bytes a member has published for the last stage that it raised; at most the
    /// size of a slot.
    #[inline]
    pub fn length(&self, turn: BoardTurn, member: u32) -> usize {
        let [_, second] = self.words(turn, member as usize);
        let length = second.load(Ordering::Relaxed) >> BEHIND_BITS;
        self.state(turn.series).bytes.min(length as usize)
    }

    /// Clears the portion words, so that no portion is claimed. Called by member 0 before its first
    /// stage, in operations whose work is divided into portions.
    pub fn divide(&self, turn: BoardTurn) {
        for word in self.portions(turn) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Claims a portion from 0 to 63 after member 0 has raised; returns false if another member has
    /// claimed it.
    pub fn claim(&self, turn: BoardTurn, portion: u32) -> bool {
        let (bit, [claimed, _]) = (1_u64 << portion, self.portions(turn));
        claimed.load(Ordering::Relaxed) & bit == 0
            && claimed.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Records that a portion claimed here is done.
    pub fn end_portion(&self, turn: BoardTurn) {
        let [_, ended] = self.portions(turn);
        ended.fetch_add(1, Ordering::AcqRel);
        compiler_fence(Ordering::SeqCst);
        self.ring(|member| self.awaits_any(member));
    }

    /// Returns how many portions are done.
    pub fn ended_portions(&self, turn: BoardTurn) -> u64 {
        let [_, ended] = self.portions(turn);
        ended.load(Ordering::Acquire)
    }

    /// Returns the two portion words in the slot of member 0: the claimed portions, and the number
    /// of portions done. They have a line of their own.
    fn portions(&self, turn: BoardTurn) -> [&AtomicU64; 2] {
        let line = self.slot(turn, 0) + PORTIONS;
        [self.word(line), self.word(line + size_of::<AtomicU64>())]
    }

    /// Completes an operation on this member, which no longer reads any of its data.
    #[inline]
    pub fn complete(&self, turn: BoardTurn) {
        let state = self.state(turn.series);
        self.underway.set(self.underway.get() - 1);
        let before = state.completed.get();
        let beyond = state.beyond.get() | 1 << (turn.number - before);
        let done = beyond.trailing_ones();
        state.beyond.set(beyond.checked_shr(done).unwrap_or(0));
        let now = before + u64::from(done);
        state.completed.set(now);
        let interval = state.slots as u64 / REPORTS_PER_SLOTS;
        if now & !interval.saturating_sub(1) > before {
            self.completion(turn.series, self.own).store(now, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
            self.ring(|member| self.awaits_any(member));
        }
    }

    /// Loads how far the others are; returns whether all have completed the operations below
    /// `needed`.
    #[cold]
    fn check_completion(&self, series: Series, needed: u64) -> bool {
        let state = self.state(series);
        let known = state.known.get_or_init(|| vec![Cell::new(0); self.members].into());
        known[self.own].set(state.completed.get());
        let mut least = u64::MAX;
        for (member, known) in known.iter().enumerate() {
            if known.get() < needed {
                known.set(self.completion(series, member).load(Ordering::Acquire));
            }
            least = least.min(known.get());
        }
        state.known_by_all.set(least);
        least >= needed
    }

    /// Rings the doorbells of the others for which `is_meant` returns true, if they are asleep.
    #[inline]
    fn ring(&self, is_meant: impl Fn(usize) -> bool) {
        for (index, bell) in self.bells.iter().enumerate() {
            let member = index + usize::from(index >= self.own);
            bell.wake_if(|| is_meant(member));
        }
    }

    #[inline]
    fn state(&self, series: Series) -> &SeriesState {
        &self.series[series.index()]
    }

    #[inline]
    fn completion(&self, series: Series, member: usize) -> &AtomicU64 {
        self.word(self.place(self.state(series), member))
    }

    /// Returns the two words of a slot.
    #[inline]
    fn words(&self, turn: BoardTurn, member: usize) -> [&AtomicU64; 2] {
        let slot = self.slot(turn, member);
        [self.word(slot), self.word(slot + size_of::<AtomicU64>())]
    }

    #[inline]
    fn data(&self, turn: BoardTurn, member: usize, offset: usize, length: usize) -> NonNull<u8> {
        let bytes = self.state(turn.series).bytes;
        assert!(offset <= bytes && length <= bytes - offset, "a slot is left");
        let place = self.slot(turn, member) + HEADER + offset;
        // SAFETY: `slot` lies inside the memory, and the range was checked to lie in the slot.
        unsafe { self.base.add(place) }
    }

    #[inline]
    fn slot(&self, turn: BoardTurn, member: usize) -> usize {
        let state = self.state(turn.series);
        let slot = turn.number as usize & (state.slots - 1);
        self.place(state, member) + LINE + slot * state.slot_stride
    }

    #[inline]
    fn place(&self, state: &SeriesState, member: usize) -> usize {
        assert!(member < self.members, "member {member} of {}", self.members);
        state.first + member * state.member_stride
    }

    #[inline]
    fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY:
        // - `place` comes from the functions above, which keep it inside the memory, and is a
        //   multiple of eight as all offsets are; the memory begins at a page.
        // - All users of the file touch these bytes as atomic words only: data of slots lies
        //   elsewhere, also in operations that have portions.
        unsafe { self.base.add(place).cast::<AtomicU64>().as_ref() }
    }
}

impl SeriesState {
    fn new(division: &SeriesMemory, members: usize) -> Self {
        Self {
            slots: division.slots,
            bytes: division.bytes,
            first: members * division.before,
            member_stride: division.member_stride(),
            slot_stride: division.slot_stride(),
            next: Cell::new(0),
            completed: Cell::new(0),
            beyond: Cell::new(0),
            known: OnceCell::new(),
            known_by_all: Cell::new(0),
        }
    }

    /// Notes how far another member is, if entries are kept already.
    #[inline]
    fn note(&self, member: usize, completed: u64) {
        if let Some(known) = self.known.get().and_then(|known| known.get(member)) {
            known.set(known.get().max(completed));
        }
    }
}

/// Returns the value of the flag, which grows with the operation and with the stage.
#[inline]
fn flag_of(turn: BoardTurn, stage: u16) -> u64 {
    // Plus one: so the first operation differs from memory that was never written.
    (turn.number + 1) << u16::BITS | u64::from(stage)
}

/// The number of times that completion is published while all slots are used once. With fewer slots
/// it is published for each operation.
const REPORTS_PER_SLOTS: u64 = 8;

/// The number of bits of the second word that encode how far completion is behind; all ones:
/// further than that.
const BEHIND_BITS: u32 = 8;
const BEHIND_MAX: u64 = (1 << BEHIND_BITS) - 1;

#[cfg(test)]
mod tests;
