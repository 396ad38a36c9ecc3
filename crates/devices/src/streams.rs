//! Streams of the program: the processor takes turns on them, and they wait for the processor.
//!
//! A turn is a host function, which the driver calls when the stream has come so far. Such a
//! function must not call the driver, so it only counts the turn and wakes the threads that make
//! progress. The stream waits by reading a word in pinned memory, which these threads increase.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::api::{Api, ApiError, inside};
use crate::copies::Vendor;

/// The maximum number of streams with a wait word; the calls synchronize further ones.
const WORDS: usize = 1024;

/// The vendor's type of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// `cudaStream_t`, which is `CUstream`.
    Cuda,
    /// `hipStream_t`.
    Hip,
}

/// A stream of the program.
///
/// Turns and waits have numbers, which count from 1 and wrap around. A stream comes to turn `n` and
/// passes wait `n` after all lower numbers.
pub struct ProgramStream {
    vendor: Arc<Vendor>,
    scope: usize,
    stream: usize,
    turns: Option<Turns>,
}

/// How the stream and the processor wait for each other.
struct Turns {
    /// How many turns were queued.
    queued: AtomicU32,
    shared: Arc<Shared>,
    word: &'static AtomicU32,
    /// The place of the word in its page, and its address for devices.
    place: usize,
    address: usize,
    /// How many waits were queued, added to what the word was in the beginning.
    waits: AtomicU32,
}

/// What the host functions of a stream use.
struct Shared {
    /// How many turns the stream has come to.
    reached: AtomicU32,
    wake: fn(),
}

/// Words on which streams wait. Their memory is never freed, and a word never decreases: a stream
/// that still reads a word of which the wait has ended finds it high enough.
#[derive(Debug, Default)]
pub(crate) struct WaitWords {
    page: Option<&'static WordPage>,
    /// The page's address for devices; none before devices can read it.
    address: Option<usize>,
    used: usize,
    free: Vec<usize>,
}

#[derive(Debug)]
#[repr(C, align(4096))]
struct WordPage([AtomicU32; WORDS]);

impl WordPage {
    /// Makes a page that stays mapped until the process ends.
    fn leaked() -> &'static Self {
        Box::leak(Box::new(Self([const { AtomicU32::new(0) }; WORDS])))
    }
}

impl fmt::Debug for ProgramStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl ProgramStream {
    /// Uses a stream. If `wake` is given and the driver can, the processor takes turns on it: then
    /// `wake` is called at each turn, from any thread.
    pub(crate) fn new(
        vendor: &Arc<Vendor>,
        stream: usize,
        wake: Option<fn()>,
    ) -> Result<Self, ApiError> {
        let scope = vendor.api.scope_of_stream(stream)?;
        let turns = wake.and_then(|wake| Turns::new(vendor, scope, stream, wake));
        Ok(Self { vendor: Arc::clone(vendor), scope, stream, turns })
    }

    /// Whether the processor takes turns on the stream, and the stream waits for it. Otherwise
    /// calls wait for the stream.
    pub fn takes_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// Queues a turn of the processor; returns its number.
    ///
    /// # Errors
    /// The driver's, by name.
    pub fn queue_turn(&self) -> Result<u32, String> {
        let Some(turns) = &self.turns else { return Ok(0) };
        self.inside(|api| {
            let data: *mut c_void = Arc::into_raw(Arc::clone(&turns.shared)).cast_mut().cast();
            // SAFETY: `take_turn` may be called from any thread, with a counted reference.
            let queued = unsafe { api.queue_call(self.stream, take_turn, data) };
            if queued.is_err() {
                // SAFETY: the driver does not call the function.
                drop(unsafe { Arc::from_raw(data.cast_const().cast::<Shared>()) });
            }
            queued?;
            // The turn counts even if the scope cannot be left.
            Ok(turns.queued.fetch_add(1, Ordering::AcqRel).wrapping_add(1))
        })
    }

    /// Whether the stream has come to a turn.
    pub fn has_reached(&self, turn: u32) -> bool {
        let reached = |turns: &Turns| turns.shared.reached.load(Ordering::Acquire);
        self.turns.as_ref().is_none_or(|turns| !is_before(reached(turns), turn))
    }

    /// Returns the error because of which the stream comes to no more turns, if there is one: the
    /// driver calls no function of a context that has an error.
    ///
    /// # Errors
    /// The driver's, by name.
    pub fn check(&self) -> Result<(), String> {
        self.inside(|api| api.check_stream(self.stream))
    }

    /// Lets the stream wait for [`release`](Self::release) with the returned number.
    ///
    /// # Errors
    /// The driver's, by name.
    pub fn queue_wait(&self) -> Result<u32, String> {
        let Some(turns) = &self.turns else { return Ok(0) };
        let wait = turns.waits.load(Ordering::Acquire).wrapping_add(1);
        self.inside(|api| {
            api.queue_wait(self.stream, turns.address, wait)?;
            turns.waits.store(wait, Ordering::Release);
            Ok(wait)
        })
    }

    /// Ends a wait of the stream and all before it.
    pub fn release(&self, wait: u32) {
        if let Some(turns) = &self.turns {
            turns.word.store(wait, Ordering::Release);
        }
    }

    /// Waits for all that is queued on the stream.
    ///
    /// # Errors
    /// The driver's, by name.
    pub fn synchronize(&self) -> Result<(), String> {
        self.inside(|api| api.wait_for_stream(self.stream))
    }

    fn inside<T>(&self, work: impl FnOnce(&dyn Api) -> Result<T, ApiError>) -> Result<T, String> {
        inside(&*self.vendor.api, self.scope, work).map_err(|error| error.to_string())
    }
}

impl Drop for ProgramStream {
    fn drop(&mut self) {
        let Some(turns) = &self.turns else { return };
        self.release(turns.waits.load(Ordering::Acquire));
        self.vendor.words.lock().free.push(turns.place);
    }
}

impl Turns {
    /// None if streams of the scope cannot wait for the processor.
    fn new(vendor: &Vendor, scope: usize, stream: usize, wake: fn()) -> Option<Self> {
        let place = vendor.words.lock().take(&*vendor.api, scope)?;
        let (word, address) = vendor.words.lock().word(place)?;
        let before = word.load(Ordering::Acquire);
        // This wait has ended already: it shows whether the driver can.
        let can = inside(&*vendor.api, scope, |api| api.queue_wait(stream, address, before));
        if can.is_err() {
            vendor.words.lock().free.push(place);
            return None;
        }
        let shared = Arc::new(Shared { reached: AtomicU32::new(0), wake });
        let (queued, waits) = (AtomicU32::new(0), AtomicU32::new(before));
        Some(Self { queued, shared, word, place, address, waits })
    }
}

impl WaitWords {
    /// Returns the place of a word that no stream uses. None if all are used, or devices cannot
    /// read them.
    fn take(&mut self, api: &dyn Api, scope: usize) -> Option<usize> {
        if self.address.is_none() {
            let page = *self.page.get_or_insert_with(WordPage::leaked);
            let (start, bytes) =
                (std::ptr::from_ref(page).expose_provenance(), size_of::<WordPage>());
            let registered = inside(api, scope, |api| {
                // SAFETY: the page stays mapped until the process ends.
                unsafe { api.register(start, bytes) }?;
                let address = api.address_on_device(start);
                if address.is_err() {
                    api.unregister(start);
                }
                self.address = Some(address?);
                Ok(())
            });
            registered.ok()?;
        }
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let place = self.used;
        (place < WORDS).then(|| self.used += 1)?;
        Some(place)
    }

    /// Returns a word and its address for devices.
    fn word(&self, place: usize) -> Option<(&'static AtomicU32, usize)> {
        let (page, address) = (self.page?, self.address?);
        Some((page.0.get(place)?, address + place * size_of::<AtomicU32>()))
    }
}

/// Whether a number precedes another one, of numbers that wrap around.
fn is_before(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() < 0
}

/// The host function of a turn.
///
/// # Safety
/// `data` is a counted reference to a [`Shared`].
unsafe extern "C" fn take_turn(data: *mut c_void) {
    // SAFETY: the caller guarantees it.
    let shared = unsafe { Arc::from_raw(data.cast_const().cast::<Shared>()) };
    shared.reached.fetch_add(1, Ordering::SeqCst);
    (shared.wake)();
}

/// The words of a vendor's streams.
pub(crate) type SharedWords = Mutex<WaitWords>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        assert!(is_before(0, 1) && !is_before(1, 1) && !is_before(2, 1));
        assert!(is_before(u32::MAX, 0) && !is_before(0, u32::MAX));
    }
}
