//! The trait of drivers that support announced messages.

use base::{GateId, MessageLabel, RegionToken};
use memory::Buffer;
use memory::transfer::Fetch;

use crate::Sink;

/// A driver through which processes copy the data of announced messages directly. The receiver
/// fetches the data from the sender's memory, or the sender writes it to where the receiver expects
/// it, or leaves it where the receiver finds it.
///
/// The driver alone decides how, when, and by which process the data is copied. The order of calls
/// for a message that is sent: [`announce`](Self::announce); then, when the announcement was handed
/// to the rail and the data was exposed as a region, [`announced`](Self::announced). For a message
/// that is received: possibly [`expect`](Self::expect), then either
/// [`stop_expecting`](Self::stop_expecting) or, when the message was announced,
/// [`fetch`](Self::fetch).
pub trait Rendezvous {
    /// Prepares a message that is about to be announced to its receiver; returns where the receiver
    /// finds its data.
    fn announce(&mut self, message: &Announcement<'_>) -> Exposure;

    /// Reports that the announcement of a message that was exposed as `region` is on its way. The
    /// driver may write the data to where the receiver expects it: then [`Sink::sent`] reports
    /// that.
    fn announced(&mut self, message: &Announcement<'_>, region: RegionToken);

    /// Copies data that peers have asked for or expect, as far as there is room. Returns whether
    /// there was any.
    fn serve(&mut self, sink: &mut dyn Sink) -> bool;

    /// Ends a region that [`announce`](Self::announce) returned; false if the region is not one of
    /// this driver.
    fn withdraw(&mut self, region: RegionToken) -> bool;

    /// Sends the sender, behind `gate`, the place for the data of the next message that the receive
    /// `token` will match; returns whether it was sent. The sender may write there until the
    /// message is fetched. It announces the message in any case.
    fn expect(
        &mut self,
        gate: GateId,
        label: MessageLabel,
        into: &Buffer,
        token: u64,
        sink: &dyn Sink,
    ) -> bool;

    /// Withdraws the place that the receive `token` [offered](Self::expect), so that no peer writes
    /// there. Returns false if a peer is already writing, which means that the message will arrive.
    fn stop_expecting(&mut self, token: u64) -> bool;

    /// Starts to copy the data of an announced message into the receive buffer. [`Sink::fetched`]
    /// or [`Sink::written`] reports the end, now or during a later poll.
    fn fetch(&mut self, fetch: Fetch, sink: &mut dyn Sink);

    /// Sets what the program of this process does from now on while messages arrive.
    fn set_program_state(&mut self, state: ProgramState);
}

/// A message that is to be announced.
#[derive(Clone, Copy, Debug)]
pub struct Announcement<'a> {
    /// The receiver.
    pub gate: GateId,
    /// The data.
    pub data: &'a Buffer,
    /// Identifies the message in reports about it.
    pub token: u64,
    /// The label by which the receiver may expect the message, if both have agreed on the flow.
    pub label: Option<MessageLabel>,
    /// Whether the send may complete before the message is matched.
    pub may_end_early: bool,
    /// When the data may be copied.
    pub when: When,
}

/// When the data of a message that is sent ahead is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the call returns.
    Now,
    /// The next time that the program makes progress, unless the receiver has read the data before.
    Later,
}

/// Where the receiver of an announced message finds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Nowhere: the receiver must ask for it.
    None,
    /// In this region, until it is [withdrawn](Rendezvous::withdraw).
    Region(RegionToken),
    /// In this region, into which the sender copies the data without being asked. [`Sink::sent`]
    /// reports when it has done so. The region is never withdrawn.
    Ahead(RegionToken),
}

/// What a program does while its messages arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramState {
    /// The program waits for them or tests them: this process copies.
    #[default]
    Waits,
    /// The program computes: the copying is left to the senders, as far as they copy.
    Computes,
}

/// How the data of a message of middle length is transferred: between the limits for short and for
/// long messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MiddleWay {
    /// With two copies, in fragments: the sender copies into a lane, and the receiver out of it.
    InFragments,
    /// With one copy by the kernel, which the receiver starts when the message was announced.
    ByReceiver,
    /// With two copies, in fragments: the sender copies into memory out of which it has read the
    /// last message of the receiver.
    InCell,
}

impl MiddleWay {
    /// All values, ordered by their number.
    pub const ALL: [Self; 3] = [Self::InFragments, Self::ByReceiver, Self::InCell];
}

/// How the data of a message is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// With one copy by the kernel, started by the receiver.
    Once,
    /// With two copies, made by both processes at the same time through memory that stays in the
    /// cache they share.
    Piped,
    /// With two copies, made by both processes at the same time through memory that the sender
    /// writes with stores that bypass its caches.
    PipedPastCaches,
    /// With two copies, in packets.
    Packets,
    /// With one copy by the kernel, of which both processes start parts at the same time.
    Jointly,
}

impl Copying {
    /// All values, ordered by their number.
    pub const ALL: [Self; 5] =
        [Self::Once, Self::Piped, Self::PipedPastCaches, Self::Packets, Self::Jointly];
}
