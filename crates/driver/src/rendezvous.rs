//! What a driver can do for messages that are announced.

use base::{GateId, MessageLabel, RegionToken};
use memory::Buffer;
use memory::transfer::Fetch;

use crate::Sink;

/// A driver whose processes get at the data of announced messages by themselves: the receiver
/// fetches it from the sender's memory, or the sender writes it where the receiver expects it, or
/// leaves it where the receiver finds it.
///
/// How the data is copied, by whom, and when, is for the driver alone. In what order to call, for a
/// message that is sent: [`announce`](Self::announce), and when the announcement was handed to the
/// rail, [`announced`](Self::announced) if its data was exposed as a region. For one that is
/// received: maybe [`expect`](Self::expect), then either [`stop_expecting`](Self::stop_expecting)
/// or, when it was announced, [`fetch`](Self::fetch).
pub trait Rendezvous {
    /// A message is about to be announced to its receiver: where does that find its data?
    fn announce(&mut self, message: &Announcement<'_>) -> Exposure;

    /// The announcement of a message that was exposed as `region` is on its way. The driver may
    /// write its data to where the receiver expects it: then [`Sink::sent`] reports that.
    fn announced(&mut self, message: &Announcement<'_>, region: RegionToken);

    /// Copies what peers want or shall have, as far as there is room; returns whether there was
    /// anything.
    fn serve(&mut self, sink: &mut dyn Sink) -> bool;

    /// Ends a region that [`announce`](Self::announce) gave; false if it was none of this driver's.
    fn withdraw(&mut self, region: RegionToken) -> bool;

    /// Tells the sender, behind `gate`, where the data of a message belongs which the receive named
    /// `token` will get next; returns whether. It may write there until the message, which it
    /// announces as ever, is fetched.
    fn expect(
        &mut self,
        gate: GateId,
        label: MessageLabel,
        into: &Buffer,
        token: u64,
        sink: &dyn Sink,
    ) -> bool;

    /// Nobody shall write to where the receive named `token` [expects](Self::expect) its message;
    /// false if somebody does already, so that the message will come.
    fn stop_expecting(&mut self, token: u64) -> bool;

    /// Starts to bring the data of an announced message here. Its end is reported, now or during a
    /// later poll, by [`Sink::fetched`] or [`Sink::written`].
    fn fetch(&mut self, fetch: Fetch, sink: &mut dyn Sink);

    /// What the program of this process does from now on while messages come.
    fn set_program_state(&mut self, state: ProgramState);
}

/// A message that is announced.
#[derive(Clone, Copy, Debug)]
pub struct Announcement<'a> {
    /// To whom.
    pub gate: GateId,
    /// The data.
    pub data: &'a Buffer,
    /// Names the message in what is reported of it.
    pub token: u64,
    /// By which its receiver may expect it, if they have agreed on the flow.
    pub label: Option<MessageLabel>,
    /// Whether the send may be over before the message was matched.
    pub may_end_early: bool,
    /// When its data may be copied.
    pub when: When,
}

/// When the data of a message that is sent ahead is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the call returns.
    Now,
    /// When the program looks next, if its receiver has not read it until then.
    Later,
}

/// Where the receiver of an announced message finds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Nowhere: it has to ask for it.
    None,
    /// In this region, until that is [withdrawn](Rendezvous::withdraw).
    Region(RegionToken),
    /// In this region, to which the data is copied without being asked for: [`Sink::sent`] reports
    /// when it is, and the region is never withdrawn.
    Ahead(RegionToken),
}

/// What a program does while its messages come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramState {
    /// It waits for them, or it looks: this process copies.
    #[default]
    Waits,
    /// It computes: the copying is left to those who send, as far as they do it.
    Computes,
}

/// How a message goes that is neither short nor long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MiddleWay {
    /// Twice, in fragments, which its sender copies into a lane and the receiver out of it.
    InFragments,
    /// Once, by the system, at the order of the receiver, when it was announced.
    ByReceiver,
}

impl MiddleWay {
    /// All of them, by their number.
    pub const ALL: [Self; 2] = [Self::InFragments, Self::ByReceiver];
}

/// How the data of a message is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Once, by the system, at the receiver's order.
    Once,
    /// Twice, by both processes at the same time, through memory that stays in the cache they
    /// share.
    Piped,
    /// The same, through memory that the sender writes past its caches.
    PipedPastCaches,
    /// Twice, in packets.
    Packets,
    /// Once, by the system, at the order of both processes at the same time, part by part.
    Jointly,
}

impl Copying {
    /// All of them, by their number.
    pub const ALL: [Self; 5] =
        [Self::Once, Self::Piped, Self::PipedPastCaches, Self::Packets, Self::Jointly];
}
