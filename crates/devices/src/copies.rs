//! Copies to and from the memory of devices.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use memory::{
    Blocks, CopyUnderway, DistantMemory, ForeignCopy, ForeignMemory, MemoryExport, PendingCopy,
    SharedBytes, SharedBytesMut,
};
use parking_lot::Mutex;

use crate::api::{Api, ApiError, Rows, Side, inside};
use crate::failure;
use crate::sharing::Sharing;
use crate::streams::SharedWords;

/// The largest distance of rows that one copy can have, in bytes.
const PITCH_MAX: isize = i32::MAX as isize;

/// So many events are kept for later copies of a scope.
const SPARE_EVENTS_MAX: usize = 64;

/// A vendor's library, and what was made with it.
pub(crate) struct Vendor {
    pub(crate) api: Arc<dyn Api>,
    /// What was made in each scope.
    scopes: Mutex<HashMap<usize, Scope>>,
    sharing: Sharing,
    /// The words on which streams of the program wait.
    pub(crate) words: SharedWords,
}

#[derive(Debug, Default)]
struct Scope {
    /// By the number of their use.
    streams: [Option<usize>; Use::COUNT],
    /// Events that no copy uses.
    events: Vec<usize>,
}

/// No context of CUDA has this number. Of HIP it is a device, whose copies find the place of any
/// memory from its address.
const NO_SCOPE: usize = 0;

/// What a stream is used for: copies of different uses do not wait for each other.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Copies for which the thread waits.
    Waited,
    FromDevice,
    ToDevice,
}

impl Use {
    const COUNT: usize = 3;
}

/// The memory of a scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopedMemory {
    vendor: Arc<Vendor>,
    scope: usize,
}

/// A copy on a stream, whose end an event reports.
struct StreamCopy {
    memory: ScopedMemory,
    /// None if it has happened.
    event: Option<usize>,
    /// Keeps what the copy uses accessible.
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// Memory of the processor that devices access directly.
struct Registered {
    memory: ScopedMemory,
    address: usize,
}

impl fmt::Debug for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vendor").field("scopes", &self.scopes.lock().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCopy").field("event", &self.event).finish_non_exhaustive()
    }
}

impl Vendor {
    pub(crate) fn new(api: Arc<dyn Api>) -> Self {
        Self { api, scopes: Mutex::default(), sharing: Sharing::default(), words: Mutex::default() }
    }

    /// Returns the memory that an address belongs to; none if the processor addresses it.
    ///
    /// If the library does not answer, that is noted as the failure of a copy, and the memory is
    /// nobody's: the processor must not touch what may be a device's.
    pub(crate) fn memory_of(vendor: &Arc<Self>, address: usize) -> Option<ScopedMemory> {
        let scope = vendor.api.scope_of(address).unwrap_or_else(|error| {
            note(error);
            Some(NO_SCOPE)
        });
        Some(ScopedMemory { vendor: Arc::clone(vendor), scope: scope? })
    }
}

impl ScopedMemory {
    /// Runs `work` in the scope.
    pub(crate) fn inside<T>(
        &self,
        work: impl FnOnce(&dyn Api) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        inside(&*self.vendor.api, self.scope, work)
    }

    pub(crate) fn api(&self) -> &Arc<dyn Api> {
        &self.vendor.api
    }

    pub(crate) fn scope(&self) -> usize {
        self.scope
    }

    /// Returns the stream of the scope, which is entered, for a use.
    fn stream_for(&self, what: Use) -> Result<usize, ApiError> {
        let mut scopes = self.vendor.scopes.lock();
        let place = &mut scopes.entry(self.scope).or_default().streams[what as usize];
        if let Some(stream) = *place {
            return Ok(stream);
        }
        let stream = self.vendor.api.create_stream()?;
        *place = Some(stream);
        Ok(stream)
    }

    /// Runs `queue`, which queues copies on the stream for a use, and then `end` with the stream.
    /// If the program has reset the device, the scope is still the same, but streams and events of
    /// the time before are not: then both run again, with new ones.
    fn on_stream<T>(
        &self,
        what: Use,
        queue: impl Fn(usize) -> Result<(), ApiError>,
        end: impl Fn(&dyn Api, usize) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let attempt = || {
            self.inside(|api| {
                let stream = self.stream_for(what)?;
                let ended = queue(stream).and_then(|()| end(api, stream));
                if ended.is_err() {
                    // What was queued before an error uses memory of the caller, too.
                    let _ = api.wait_for_stream(stream);
                }
                ended
            })
        };
        match attempt() {
            Err(error) if error.is_of_past_state() => {
                if self.vendor.scopes.lock().remove(&self.scope).is_none() {
                    return Err(error);
                }
                attempt()
            }
            done => done,
        }
    }

    /// Queues copies, and waits for them.
    fn copy(&self, queue: impl Fn(usize) -> Result<(), ApiError>) {
        let done = self.on_stream(Use::Waited, queue, |api, stream| api.wait_for_stream(stream));
        done.unwrap_or_else(note);
    }

    /// Queues copies, of which an event reports the end.
    fn begin(
        &self,
        what: Use,
        queue: impl Fn(usize) -> Result<(), ApiError>,
        kept: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<PendingCopy, ApiError> {
        let event = self.on_stream(what, queue, |api, stream| {
            let spare = self.vendor.scopes.lock().entry(self.scope).or_default().events.pop();
            let event = spare.map_or_else(|| api.create_event(), Ok)?;
            if let Err(error) = api.record(event, stream) {
                api.destroy_event(event);
                return Err(error);
            }
            Ok(event)
        })?;
        Ok(Box::new(StreamCopy { memory: self.clone(), event: Some(event), _kept: kept }))
    }

    /// Queues the copies of blocks between their places and `host`, the packed bytes.
    fn queue(
        &self,
        parts: &[Blocks],
        host: *const u8,
        from_device: bool,
        stream: usize,
    ) -> Result<(), ApiError> {
        let packed = |offset| host.addr() + offset;
        each_row(parts, |rows| {
            let device = Side { address: rows.address, pitch: rows.stride, is_host: false };
            let host = Side { address: packed(rows.offset), pitch: rows.pitch, is_host: true };
            let (to, from) = if from_device { (host, device) } else { (device, host) };
            let rows = Rows { to, from, width: rows.block, height: rows.count };
            // SAFETY: the callers' bytes have room for all blocks, and are not used until the copy
            // has ended. The driver checks the addresses of the device.
            unsafe { self.vendor.api.queue(&rows, stream) }
        })
    }
}

/// Blocks that one copy of the driver can have.
struct EqualRows {
    address: usize,
    block: usize,
    stride: usize,
    count: usize,
    offset: usize,
    pitch: usize,
}

/// Calls `queue` with all blocks of all parts: with all of a part if the driver can copy them at
/// once, otherwise one by one.
fn each_row(
    parts: &[Blocks],
    mut queue: impl FnMut(&EqualRows) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for part in parts {
        let Blocks { address, block, stride, count, offset, pitch } = *part;
        let fits = (block.cast_signed()..=PITCH_MAX).contains(&stride);
        if count > 1 && fits {
            let stride = stride.cast_unsigned();
            queue(&EqualRows { address, block, stride, count, offset, pitch })?;
            continue;
        }
        for index in 0..count {
            let address = address.wrapping_add_signed(stride * index.cast_signed());
            let offset = offset + index * pitch;
            queue(&EqualRows { address, block, stride: block, count: 1, offset, pitch: block })?;
        }
    }
    Ok(())
}

impl DistantMemory for ScopedMemory {
    fn read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) {
        self.copy(|stream| self.queue(parts, out.pointer(), true, stream));
    }

    fn write(&self, parts: &[Blocks], data: SharedBytes<'_>) {
        self.copy(|stream| self.queue(parts, data.pointer(), false, stream));
    }

    unsafe fn begin_read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) -> Option<PendingCopy> {
        let queue = |stream| self.queue(parts, out.pointer(), true, stream);
        self.begin(Use::FromDevice, queue, None).map_err(note).ok()
    }

    unsafe fn begin_write(&self, parts: &[Blocks], data: SharedBytes<'_>) -> Option<PendingCopy> {
        let queue = |stream| self.queue(parts, data.pointer(), false, stream);
        self.begin(Use::ToDevice, queue, None).map_err(note).ok()
    }

    unsafe fn register(&self, memory: SharedBytesMut<'_>) -> Option<Box<dyn Any + Send + Sync>> {
        let address = memory.pointer().addr();
        // SAFETY: passed on to the caller.
        let registered = self.inside(|api| unsafe { api.register(address, memory.len()) });
        registered.ok()?;
        Some(Box::new(Registered { memory: self.clone(), address }))
    }

    fn export(&self, address: usize, length: usize) -> Result<Box<MemoryExport>, String> {
        self.vendor.sharing.export(self, address, length).map(Box::new)
    }

    fn begin_foreign(
        &self,
        way: ForeignCopy,
        foreign: &ForeignMemory<'_>,
        parts: &[Blocks],
    ) -> Result<PendingCopy, String> {
        let (address, imported) = self.vendor.sharing.import(self, foreign)?;
        let queue = |stream| {
            each_row(parts, |rows| {
                let EqualRows { offset, pitch, .. } = *rows;
                let there = Side { address: address + offset, pitch, is_host: false };
                let here = Side { address: rows.address, pitch: rows.stride, is_host: false };
                let (to, from) = match way {
                    ForeignCopy::Get => (here, there),
                    ForeignCopy::Put => (there, here),
                };
                let rows = Rows { to, from, width: rows.block, height: rows.count };
                // SAFETY: no side is memory of the processor.
                unsafe { self.vendor.api.queue(&rows, stream) }
            })
        };
        let begun = self.begin(Use::ToDevice, queue, Some(imported));
        begun.map_err(|error| error.to_string())
    }
}

impl CopyUnderway for StreamCopy {
    fn is_over(&mut self) -> bool {
        let Some(event) = self.event else { return true };
        match self.memory.inside(|api| api.has_happened(event)) {
            Ok(false) => return false,
            Ok(true) => self.keep_event(event),
            Err(error) => {
                // The copy may continue, with memory that others use after this call.
                let _ = self.memory.inside(|api| api.wait_for(event));
                self.fail(error);
            }
        }
        self.event = None;
        true
    }
}

impl StreamCopy {
    /// Keeps an event that has happened for another copy.
    fn keep_event(&self, event: usize) {
        let mut scopes = self.memory.vendor.scopes.lock();
        let events = &mut scopes.entry(self.memory.scope).or_default().events;
        if events.len() < SPARE_EVENTS_MAX {
            events.push(event);
        } else {
            self.memory.vendor.api.destroy_event(event);
        }
    }

    /// Notes an error. The event ends with it.
    #[cold]
    fn fail(&self, error: ApiError) {
        if let Some(event) = self.event {
            let _ = self.memory.inside(|api| {
                api.destroy_event(event);
                Ok(())
            });
        }
        note(error);
    }
}

impl Drop for StreamCopy {
    fn drop(&mut self) {
        let Some(event) = self.event else { return };
        match self.memory.inside(|api| api.wait_for(event)) {
            Ok(()) => self.keep_event(event),
            Err(error) => self.fail(error),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The program may have ended the scope, and all that was registered in it.
        let _ = self.memory.inside(|api| {
            api.unregister(self.address);
            Ok(())
        });
    }
}

fn note(error: ApiError) {
    failure::note_failure(format!("a copy of device memory failed: {error}"));
}
