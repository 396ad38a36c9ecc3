//! An endpoint with its buffers. All unsafe code for sending and receiving messages is here.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};

use memory::placing::keep_on_node;

use crate::declarations::{
    AddressVector, CompletionEntry, CompletionQueue, Domain, ErrorEntry, FI_ADDR_UNSPEC,
    FI_CQ_FORMAT_MSG, FI_EAGAIN, FI_EAVAIL, FI_ENABLE, FI_GETWAIT, FI_MR_LOCAL, FI_RECV, FI_SEND,
    FI_WAIT_FD, FI_WAIT_NONE, Fabric, Fid, FidEndpoint, FidRegion, QueueAttributes,
    VectorAttributes, VectorOps,
};
use crate::library::{FabricInfo, FabricInterface};

mod regions;

use regions::Region;
pub(crate) use regions::{READS, ReadNumber, RegionNumber, RegionPlace, RegionUse};

/// The longest message, in bytes: providers send up to 16 KiB without asking the receiver first,
/// and their own headers need a part of that.
pub(crate) const MESSAGE_BYTES_MAX: usize = (16 << 10) - 256;

/// The numbers of buffers for arriving messages, and for messages that are sent.
const RECEIVE_SLOTS: usize = 64;
const SEND_SLOTS: usize = 64;
const SLOTS: usize = RECEIVE_SLOTS + SEND_SLOTS;

/// The memory of a message in bytes: whole cache lines.
const SLOT_BYTES: usize = MESSAGE_BYTES_MAX.next_multiple_of(64);

/// The maximal number of completions taken at once.
pub(crate) const COMPLETIONS_TOGETHER: usize = 16;

/// The error of using an endpoint that was [abandoned](FabricEndpoint::abandon).
const ABANDONED: &str = "the interface is no longer used";

/// A buffer for an arriving message, or for one that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotNumber(usize);

/// The provider's handle of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress(u64);

impl PeerAddress {
    /// No peer.
    pub(crate) const UNKNOWN: Self = Self(FI_ADDR_UNSPEC);
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageEnd {
    /// A message of this many bytes has arrived. Its buffer must be [posted](FabricEndpoint::post)
    /// again.
    Received(SlotNumber, usize),
    /// A buffer can be reused: its message has left it.
    Sent(SlotNumber),
    /// A buffer can be reused, but its message may not have arrived; with the reason.
    Failed(SlotNumber, String),
    /// A read of a peer's memory has ended; with the reason, if it failed.
    Read(ReadNumber, Option<String>),
    /// Nothing more can arrive.
    Broken(String),
}

/// The result of passing a message to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    Taken,
    /// Not accepted now: the provider has no room, or is connecting.
    Refused,
    Failed(String),
}

/// Whether the library uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotUse {
    Ours,
    Library,
}

/// Memory that the library may use for an operation until it completes (`fi_context2`).
type OperationContext = [usize; 8];

/// An endpoint for reliable messages, with its own address vector and completion queue.
pub(crate) struct FabricEndpoint {
    info: FabricInfo,
    fabric: FidHandle<Fabric>,
    domain: FidHandle<Domain>,
    vector: FidHandle<AddressVector>,
    queue: FidHandle<CompletionQueue>,
    endpoint: FidHandle<FidEndpoint>,
    /// The registration of the buffers, if the provider requires one.
    registration: FidHandle<FidRegion>,
    descriptor: Option<RawFd>,
    address: Vec<u8>,
    inject_bytes: usize,
    /// The memory of all slots, one after the other.
    memory: NonNull<u8>,
    contexts: NonNull<OperationContext>,
    /// The uses of the slots, then of the reads.
    uses: Vec<SlotUse>,
    free: Vec<SlotNumber>,
    /// The registered memory of messages.
    regions: Vec<Option<Region>>,
    /// The key of the last region, if the provider does not choose keys.
    next_key: u32,
    /// How many reads were begun in each place.
    read_turns: [u32; READS],
    is_abandoned: bool,
}

/// An object that the library has opened; null: none.
struct FidHandle<T>(*mut T);

impl<T> FidHandle<T> {
    const NONE: Self = Self(ptr::null_mut());

    /// Returns the `fid` with which every object of the library begins.
    fn fid(&self) -> *mut Fid {
        self.0.cast()
    }

    /// Closes the object, if it was opened.
    fn close(&mut self) {
        let fid = self.fid();
        if !fid.is_null() {
            // SAFETY: it is open, and not used afterwards.
            unsafe { ((*(*fid).ops).close)(fid) };
        }
        *self = Self::NONE;
    }
}

impl FabricEndpoint {
    /// Opens an interface and posts its receive buffers, which are on NUMA node `node`, if one is
    /// given.
    ///
    /// # Errors
    /// The library refuses a call; the message names it.
    pub(crate) fn open(interface: FabricInterface, node: Option<u32>) -> Result<Self, String> {
        let mut new = Self {
            info: interface.info,
            fabric: FidHandle::NONE,
            domain: FidHandle::NONE,
            vector: FidHandle::NONE,
            queue: FidHandle::NONE,
            endpoint: FidHandle::NONE,
            registration: FidHandle::NONE,
            descriptor: None,
            address: Vec::new(),
            inject_bytes: 0,
            memory: zeroed(memory_layout()),
            contexts: zeroed(contexts_layout()).cast(),
            uses: vec![SlotUse::Ours; SLOTS + READS],
            free: (RECEIVE_SLOTS..SLOTS).rev().map(SlotNumber).collect(),
            regions: Vec::new(),
            next_key: 0,
            read_turns: [0; READS],
            is_abandoned: false,
        };
        // Before the memory is registered: registered pages cannot move.
        if let Some(node) = node {
            keep_on_node(new.addresses(), node);
        }
        new.open_objects()?;
        new.register_slots()?;
        new.enable()?;
        (0..RECEIVE_SLOTS).try_for_each(|slot| new.post(SlotNumber(slot)))?;
        Ok(new)
    }

    /// Returns the addresses of the slots.
    fn addresses(&self) -> Range<usize> {
        let start = self.memory.as_ptr() as usize;
        start..start + SLOTS * SLOT_BYTES
    }

    fn check(&self, call: &str, result: isize) -> Result<(), String> {
        match result {
            0 => Ok(()),
            error => Err(format!("{call}: {}", self.info.functions.describe(error))),
        }
    }

    fn open_objects(&mut self) -> Result<(), String> {
        let fabric = self.info.functions.open_fabric(&self.info);
        self.fabric = FidHandle(
            fabric
                .map_err(|error| format!("fi_fabric: {}", self.info.functions.describe(error)))?,
        );
        let info = self.info.info;
        // SAFETY: each object opens the next, with attributes that live during the call; the info
        // is complete.
        unsafe {
            let ops = &*(*self.fabric.0).ops;
            let result = (ops.domain)(self.fabric.0, info, &mut self.domain.0, ptr::null_mut());
            self.check("fi_domain", result as isize)?;
            let ops = &*(*self.domain.0).ops;
            let attributes = VectorAttributes {
                kind: (*(*info).domain).av_type,
                rx_ctx_bits: 0,
                count: 0,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: ptr::null_mut(),
                flags: 0,
            };
            let vector = &mut self.vector.0;
            let result = (ops.av_open)(self.domain.0, &attributes, vector, ptr::null_mut());
            self.check("fi_av_open", result as isize)?;
            self.open_queue()?;
            let endpoint = &mut self.endpoint.0;
            let result = (ops.endpoint)(self.domain.0, info, endpoint, ptr::null_mut());
            self.check("fi_endpoint", result as isize)?;
            self.inject_bytes = (*(*info).transmit).inject_size;
        }
        Ok(())
    }

    /// Opens the completion queue, if possible with a descriptor to sleep on.
    fn open_queue(&mut self) -> Result<(), String> {
        let mut result = 0;
        for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
            let attributes = QueueAttributes {
                size: 2 * (SLOTS + READS),
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            // SAFETY: the domain is open, and the attributes live during the call.
            unsafe {
                let open = (*(*self.domain.0).ops).cq_open;
                result =
                    open(self.domain.0, &attributes, &mut self.queue.0, ptr::null_mut()) as isize;
            }
            if result == 0 && wait_obj == FI_WAIT_FD {
                let mut descriptor: c_int = -1;
                let asked =
                    self.control(self.queue.fid(), FI_GETWAIT, (&raw mut descriptor).cast());
                self.descriptor = (asked == 0 && descriptor >= 0).then_some(descriptor);
            }
            if result == 0 {
                break;
            }
        }
        self.check("fi_cq_open", result)
    }

    fn control(&self, fid: *mut Fid, command: c_int, argument: *mut c_void) -> isize {
        // SAFETY: called only with open objects, and with the argument that the command requires.
        unsafe { ((*(*fid).ops).control)(fid, command, argument) as isize }
    }

    /// Registers the buffers, if the provider requires it.
    fn register_slots(&mut self) -> Result<(), String> {
        // SAFETY: the info is complete, the domain open, and the memory exists until all is closed.
        unsafe {
            if (*(*self.info.info).domain).mr_mode & FI_MR_LOCAL == 0 {
                return Ok(());
            }
            let result = ((*(*self.domain.0).registration).register)(
                self.domain.fid(),
                self.memory.as_ptr().cast(),
                SLOTS * SLOT_BYTES,
                FI_SEND | FI_RECV,
                0,
                0,
                0,
                &mut self.registration.0,
                ptr::null_mut(),
            );
            self.check("fi_mr_reg", result as isize)
        }
    }

    fn enable(&mut self) -> Result<(), String> {
        let endpoint = self.endpoint.fid();
        // SAFETY: all are open; an address is at most as long as the room for it.
        unsafe {
            let bind = (*(*endpoint).ops).bind;
            self.check("fi_ep_bind", bind(endpoint, self.vector.fid(), 0) as isize)?;
            let directions = FI_SEND | FI_RECV;
            self.check("fi_ep_bind", bind(endpoint, self.queue.fid(), directions) as isize)?;
            self.check("fi_enable", self.control(endpoint, FI_ENABLE, ptr::null_mut()))?;
            let mut address = vec![0; 256];
            let mut length = address.len();
            let getname = (*(*self.endpoint.0).connection).getname;
            let result = getname(endpoint, address.as_mut_ptr().cast(), &mut length);
            self.check("fi_getname", result as isize)?;
            address.truncate(length);
            self.address = address;
        }
        Ok(())
    }

    /// Returns the address by which peers reach this endpoint.
    pub(crate) fn address(&self) -> &[u8] {
        &self.address
    }

    /// Returns the maximal length in bytes of a message that can be [injected](Self::inject).
    pub(crate) fn inject_bytes(&self) -> usize {
        self.inject_bytes
    }

    /// Returns the descriptor that becomes readable when something has arrived, if
    /// [`may_sleep`](Self::may_sleep) returned true before.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue, to which it belongs, is open as long as this is.
        self.descriptor.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether no completion waits. Then the descriptor, if there is one, becomes readable at the
    /// next.
    pub(crate) fn may_sleep(&self) -> bool {
        if self.descriptor.is_none() || self.is_abandoned {
            return true;
        }
        let mut queue = self.queue.fid();
        // SAFETY: both are open.
        unsafe { ((*(*self.fabric.0).ops).trywait)(self.fabric.0, &mut queue, 1) == 0 }
    }

    /// Adds a peer, given the [address](Self::address) of its endpoint.
    pub(crate) fn insert(&mut self, address: &[u8]) -> Result<PeerAddress, String> {
        if self.is_abandoned {
            return Err(ABANDONED.into());
        }
        if address.len() != self.address.len() {
            let (own, other) = (self.address.len(), address.len());
            return Err(format!("its address has {other} bytes, ours has {own}"));
        }
        let mut known = FI_ADDR_UNSPEC;
        // SAFETY: the address is as long as this provider's addresses are.
        let count = unsafe {
            let insert = (*(*self.vector.0).ops).insert;
            insert(self.vector.0, address.as_ptr().cast(), 1, &mut known, 0, ptr::null_mut())
        };
        match count {
            1 => Ok(PeerAddress(known)),
            0 => Err("fi_av_insert: the provider does not accept the address".into()),
            error => self.check("fi_av_insert", error as isize).map(|()| PeerAddress(known)),
        }
    }

    /// Closes the connection to a peer, if the provider makes connections: what is in flight to it
    /// ends, and later messages go over a new connection. Requires the result of a message that was
    /// sent to the peer right before: if sending fails there is no connection, and libfabric 1.17
    /// fails when it is told to close it (`ofi_rxm`). Returns the peer's new handle; none: the
    /// peer is not known any more.
    pub(crate) fn connect_anew(
        &mut self,
        peer: PeerAddress,
        sent: &SendOutcome,
    ) -> Option<PeerAddress> {
        if self.is_abandoned || matches!(sent, SendOutcome::Failed(_)) {
            return Some(peer);
        }
        let (mut address, mut length) = (vec![0; self.address.len()], self.address.len());
        let mut known = peer.0;
        // SAFETY: the vector is open, and knows the peer; the room for its address has the stated
        // length.
        let is_forgotten = unsafe {
            let VectorOps { lookup, remove, .. } = *(*self.vector.0).ops;
            lookup(self.vector.0, known, address.as_mut_ptr().cast(), &mut length) == 0
                && remove(self.vector.0, &mut known, 1, 0) == 0
        };
        if is_forgotten { self.insert(&address).ok() } else { Some(peer) }
    }

    fn start(&self, slot: SlotNumber) -> *mut u8 {
        assert!(slot.0 < SLOTS);
        // SAFETY: inside the memory.
        unsafe { self.memory.as_ptr().add(slot.0 * SLOT_BYTES) }
    }

    /// Returns the context of a slot, or of a read; contexts of reads follow those of slots.
    fn context(&self, number: usize) -> *mut c_void {
        assert!(number < SLOTS + READS);
        // SAFETY: inside the memory.
        unsafe { self.contexts.as_ptr().add(number).cast() }
    }

    fn number_of(&self, context: *mut c_void) -> Option<usize> {
        let bytes = (context as usize).checked_sub(self.contexts.as_ptr() as usize)?;
        let number = bytes / size_of::<OperationContext>();
        (number < SLOTS + READS).then_some(number)
    }

    fn description(&self) -> *mut c_void {
        // SAFETY: if it is not null, it is open.
        unsafe { self.registration.0.as_ref().map_or(ptr::null_mut(), |one| one.descriptor) }
    }

    /// Posts the buffer of an arrived message for the next message.
    pub(crate) fn post(&mut self, slot: SlotNumber) -> Result<(), String> {
        if self.is_abandoned {
            return Ok(());
        }
        assert_eq!(self.uses[slot.0], SlotUse::Ours);
        // SAFETY: the buffer and the context are not used until the completion is taken, which
        // `uses` ensures.
        let result = unsafe {
            ((*(*self.endpoint.0).message).recv)(
                self.endpoint.0,
                self.start(slot).cast(),
                MESSAGE_BYTES_MAX,
                self.description(),
                FI_ADDR_UNSPEC,
                self.context(slot.0),
            )
        };
        self.check("fi_recv", result)?;
        self.uses[slot.0] = SlotUse::Library;
        Ok(())
    }

    /// Returns a message that has arrived, given its length.
    pub(crate) fn received(&self, slot: SlotNumber, length: usize) -> &[u8] {
        assert!(self.uses[slot.0] == SlotUse::Ours && length <= SLOT_BYTES);
        // SAFETY: there are that many bytes, which only this process uses now.
        unsafe { std::slice::from_raw_parts(self.start(slot), length) }
    }

    /// Whether there is a free buffer for a message to be sent.
    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a free buffer for a message to be sent.
    pub(crate) fn take_slot(&mut self) -> Option<SlotNumber> {
        self.free.pop()
    }

    /// Returns a buffer that is not used after all.
    pub(crate) fn return_slot(&mut self, slot: SlotNumber) {
        assert!(slot.0 >= RECEIVE_SLOTS && self.uses[slot.0] == SlotUse::Ours);
        self.free.push(slot);
    }

    /// Returns the memory into which a message to be sent is written.
    pub(crate) fn outgoing(&mut self, slot: SlotNumber, length: usize) -> &mut [u8] {
        assert!(self.uses[slot.0] == SlotUse::Ours && length <= SLOT_BYTES);
        // SAFETY: there are that many bytes, which only this process uses now.
        unsafe { std::slice::from_raw_parts_mut(self.start(slot), length) }
    }

    /// Sends a message. If it is taken, the use of its buffer [ends](MessageEnd::Sent) later.
    pub(crate) fn send(&mut self, slot: SlotNumber, length: usize, to: PeerAddress) -> SendOutcome {
        assert!(self.uses[slot.0] == SlotUse::Ours && length <= SLOT_BYTES);
        if self.is_abandoned {
            return SendOutcome::abandoned();
        }
        // SAFETY: the buffer and the context are not used until the completion is taken, which
        // `uses` ensures.
        let result = unsafe {
            ((*(*self.endpoint.0).message).send)(
                self.endpoint.0,
                self.start(slot).cast(),
                length,
                self.description(),
                to.0,
                self.context(slot.0),
            )
        };
        if result == 0 {
            self.uses[slot.0] = SlotUse::Library;
        }
        self.outcome("fi_send", result)
    }

    /// Sends a short message, whose buffer can be reused immediately.
    pub(crate) fn inject(
        &mut self,
        slot: SlotNumber,
        length: usize,
        to: PeerAddress,
    ) -> SendOutcome {
        assert!(self.uses[slot.0] == SlotUse::Ours && length <= self.inject_bytes);
        if self.is_abandoned {
            return SendOutcome::abandoned();
        }
        // SAFETY: there are that many bytes during the call.
        let result = unsafe {
            let inject = (*(*self.endpoint.0).message).inject;
            inject(self.endpoint.0, self.start(slot).cast(), length, to.0)
        };
        self.outcome("fi_inject", result)
    }

    fn outcome(&self, call: &str, result: isize) -> SendOutcome {
        match self.check(call, result) {
            Ok(()) => SendOutcome::Taken,
            Err(_) if result == -FI_EAGAIN => SendOutcome::Refused,
            Err(why) => SendOutcome::Failed(why),
        }
    }

    /// Appends a bounded number of completed operations to `ends`.
    pub(crate) fn poll(&mut self, ends: &mut Vec<MessageEnd>) {
        if self.is_abandoned {
            return;
        }
        let empty = CompletionEntry { context: ptr::null_mut(), flags: 0, length: 0 };
        let mut entries = [empty; COMPLETIONS_TOGETHER];
        // SAFETY: the queue is open, and that many entries of its format may be written.
        let count = unsafe {
            let read = (*(*self.queue.0).ops).read;
            read(self.queue.0, entries.as_mut_ptr().cast(), entries.len())
        };
        match usize::try_from(count) {
            Ok(count) => {
                for entry in &entries[..count.min(COMPLETIONS_TOGETHER)] {
                    ends.extend(self.end(entry.context, entry.length, None));
                }
            }
            Err(_) if count == -FI_EAGAIN => {}
            Err(_) if count == -FI_EAVAIL => self.poll_error(ends),
            Err(_) => {
                let why = self.info.functions.describe(count);
                ends.push(MessageEnd::Broken(format!("fi_cq_read: {why}")));
            }
        }
    }

    fn poll_error(&mut self, ends: &mut Vec<MessageEnd>) {
        let mut entry = ErrorEntry {
            context: ptr::null_mut(),
            flags: 0,
            length: 0,
            buffer: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            error: 0,
            provider_error: 0,
            error_data: ptr::null_mut(),
            error_data_size: 0,
            room: [0; 8],
        };
        // SAFETY: the queue is open, and the entry may be written; it offers no room for more.
        let count = unsafe { ((*(*self.queue.0).ops).read_error)(self.queue.0, &mut entry, 0) };
        if count == 1 {
            let why = self.info.functions.describe(entry.error as isize);
            ends.extend(self.end(entry.context, 0, Some(why)));
        }
    }

    /// Returns which operation has ended, given its context.
    fn end(
        &mut self,
        context: *mut c_void,
        length: usize,
        failure: Option<String>,
    ) -> Option<MessageEnd> {
        let number = self.number_of(context)?;
        if self.uses[number] == SlotUse::Ours {
            return None;
        }
        self.uses[number] = SlotUse::Ours;
        if let Some(place) = number.checked_sub(SLOTS) {
            let number = ReadNumber { place, turn: self.read_turns[place] };
            return Some(MessageEnd::Read(number, failure));
        }
        let slot = SlotNumber(number);
        let is_sent = slot.0 >= RECEIVE_SLOTS;
        if is_sent {
            self.free.push(slot);
        }
        Some(match failure {
            Some(why) => MessageEnd::Failed(slot, why),
            None if is_sent => MessageEnd::Sent(slot),
            None => MessageEnd::Received(slot, length.min(MESSAGE_BYTES_MAX)),
        })
    }

    /// Whether a buffer is one for arriving messages.
    pub(crate) fn is_for_receiving(slot: SlotNumber) -> bool {
        slot.0 < RECEIVE_SLOTS
    }
}

impl SendOutcome {
    fn abandoned() -> Self {
        Self::Failed(ABANDONED.into())
    }
}

#[cfg(test)]
impl PeerAddress {
    /// Returns a handle that no endpoint has.
    pub(crate) fn for_tests() -> Self {
        Self(0)
    }
}

impl SlotNumber {
    /// Returns the buffer of this number.
    #[cfg(test)]
    pub(crate) fn for_tests(number: usize) -> Self {
        Self(number)
    }

    /// Returns the index among the buffers that are sent from.
    pub(crate) fn sending_index(self) -> usize {
        self.0 - RECEIVE_SLOTS
    }

    /// The number of buffers that are sent from.
    pub(crate) const SENDING: usize = SEND_SLOTS;
}

impl Drop for FabricEndpoint {
    fn drop(&mut self) {
        if self.uses[SLOTS..].contains(&SlotUse::Library) {
            self.abandon();
        }
        if self.is_abandoned {
            // The library may use the memory as long as its objects exist.
            return;
        }
        self.endpoint.close();
        self.queue.close();
        self.vector.close();
        self.registration.close();
        self.domain.close();
        self.fabric.close();
        // SAFETY: allocated with these layouts; the library has closed everything that used the
        // memory, and does not use it any more.
        unsafe {
            dealloc(self.memory.as_ptr(), memory_layout());
            dealloc(self.contexts.cast().as_ptr(), contexts_layout());
        }
    }
}

fn memory_layout() -> Layout {
    Layout::from_size_align(SLOTS * SLOT_BYTES, 4096).expect("the constants make a layout")
}

fn contexts_layout() -> Layout {
    Layout::array::<OperationContext>(SLOTS + READS).expect("the constants make a layout")
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layouts are not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
