//! The rails of a process.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use base::{FragmentLengths, Fragmentation, GateId, RailId, RailProfile, RegionToken};
use driver::{
    Directory, Doorbell, Driver, DriverError, Fill, InlineDriver, Loopback, Part, PeerEnd,
    ProgramState, Regions, Rendezvous, Settings, SharedBytesMut, Sink, Stores, When,
};

use crate::networks::{describe_unfitting, wanted_networks};
use crate::numbered::{NetworkRails, NumberedSink};
use crate::table::{MACHINE, MachineDriver, PeerBell};
use memory::Buffer;
use sys::counter;

/// All rails of a process, by their number: the rail to itself, the rail within its machine, and
/// the rails between machines in the order of the table.
pub struct Rails {
    own: Loopback,
    machine: MachineDriver,
    networks: Vec<NetworkRails>,
    /// The user's configuration of networks.
    configuration: String,
    /// The doorbell on which this process sleeps when it waits for its own machine only.
    bell: Option<Arc<dyn Doorbell>>,
    /// Whether any peer is reached within the machine.
    is_machine_used: bool,
    /// The number of rounds until other machines are polled again, the current period, and the
    /// minimal and maximal period.
    rounds: u32,
    period: u32,
    periods: (u32, u32),
    /// The processor's counter at the last poll of other machines, and after how many ticks they
    /// are polled whatever the number of rounds.
    looked_at: u64,
    ticks_max: u64,
    /// Whether networks were added that ring no doorbell.
    lacks_doorbell: bool,
}

/// How a peer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConnection {
    /// The rails that lead to the peer.
    pub rails: Vec<RailId>,
    /// Whether the data of announced messages is fetched from the peer.
    pub fetches: bool,
}

/// The rail from the process to itself, and the rail within its machine; all others are rails of
/// networks.
const OWN_RAIL: RailId = RailId(0);
const MACHINE_RAIL: RailId = RailId(1);
const NETWORK_RAILS: usize = 2;

/// With peers on this machine and on others, the other machines are polled only once in a number of
/// rounds, as polling them costs ten times as much as polling this machine. Each poll without
/// result doubles the number, from the first to the last of these values.
const ROUNDS_PER_CHECK: (u32, u32) = (4, 64);

/// The limits of that number if processes outnumber cores: then other processes have the core
/// between two rounds.
const ROUNDS_PER_CHECK_IF_OVERSUBSCRIBED: (u32, u32) = (1, 4);

/// If the processor's counter has advanced by more than this since the last poll of other machines,
/// a round polls them: tens of microseconds, or milliseconds where the counter is slow. Otherwise a
/// process that sleeps between its rounds, or calls rarely, would not poll them for seconds.
const TICKS_PER_CHECK_MAX: u64 = 65_536;

impl Rails {
    /// Creates the rails of the process `own` to itself and within its machine. `directory`
    /// returns, for the name of a driver, the directory in which the driver finds its peers.
    ///
    /// # Errors
    /// The system refuses what a driver needs.
    pub fn create(
        own: GateId,
        settings: &Settings,
        directory: impl Fn(&'static str) -> Box<dyn Directory>,
    ) -> Result<Self, DriverError> {
        let machine = MachineDriver::create(own, settings, directory(MACHINE))?;
        let bell = machine.doorbell(Vec::new())?;
        Ok(Self {
            own: Loopback::new(own),
            machine,
            networks: Vec::new(),
            configuration: settings.networks.clone(),
            bell,
            is_machine_used: false,
            rounds: 0,
            period: 1,
            periods: ROUNDS_PER_CHECK,
            looked_at: 0,
            ticks_max: TICKS_PER_CHECK_MAX,
            lacks_doorbell: false,
        })
    }

    /// Adds the rails to other machines.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create); also, the settings make no sense.
    pub fn add_networks(
        &mut self,
        own: GateId,
        settings: &Settings,
        directory: impl Fn(&'static str) -> Box<dyn Directory>,
    ) -> Result<(), DriverError> {
        let mut failures = Vec::new();
        for network in wanted_networks(&settings.networks)? {
            match (network.open)(own, settings, directory(network.name)) {
                Ok(Some(driver)) => {
                    let first = NETWORK_RAILS + self.network_rails().count();
                    self.networks.push(NetworkRails { name: network.name, first, driver });
                }
                Ok(None) => {}
                Err(error) => failures.push(error.message),
            }
        }
        // A network that cannot be used is no error if another one leads to the peers.
        match failures.is_empty() || self.network_rails().next().is_some() {
            true => Ok(()),
            false => Err(DriverError { message: failures.join("; ") }),
        }
    }

    /// Drops the networks: all processes of the job are on this machine.
    pub fn drop_networks(&mut self) {
        self.networks.clear();
    }

    /// Prepares for processes that outnumber cores.
    pub fn expect_oversubscription(&mut self) {
        self.periods = ROUNDS_PER_CHECK_IF_OVERSUBSCRIBED;
    }

    /// Returns the card that each driver publishes, with the name under which it is published.
    pub fn cards(&self) -> Vec<(&'static str, String)> {
        let networks = self.networks.iter().map(|network| (network.name, network.driver.card()));
        std::iter::once((MACHINE, self.machine.card())).chain(networks).collect()
    }

    /// Returns the cards of the drivers by which processes of other jobs can reach this process,
    /// with the names of the drivers.
    pub fn cards_for_other_jobs(&self) -> Vec<(&'static str, String)> {
        let networks = self.networks.iter().filter(|network| network.driver.reaches_other_jobs());
        let networks = networks.map(|network| (network.name, network.driver.card()));
        let near = self.machine.reaches_other_jobs().then(|| (MACHINE, self.machine.card()));
        near.into_iter().chain(networks).collect()
    }

    /// Whether there is a network over which processes of other jobs are reached.
    pub fn has_network_to_other_jobs(&self) -> bool {
        self.networks.iter().any(|network| network.driver.reaches_other_jobs())
    }

    /// Lets the doorbell ring for the networks, which were added after it was made. If it cannot,
    /// for example if the system has no more descriptors, the process polls them while it waits.
    pub fn extend_doorbell(&mut self) {
        let extend = |bell: &Arc<dyn Doorbell>| bell.extend(self.network_descriptors().ok()?).ok();
        self.lacks_doorbell = self.bell.as_ref().and_then(extend) != Some(true);
    }

    /// Returns copies of the descriptors of the networks.
    fn network_descriptors(&self) -> Result<Vec<OwnedFd>, DriverError> {
        let networks = self.networks.iter().filter_map(|network| network.driver.descriptor());
        let clone = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned();
        networks.map(clone).collect::<Result<_, _>>().map_err(refused)
    }

    /// Returns the profiles of all rails, by number.
    pub fn profiles(&self) -> Vec<RailProfile> {
        let near = self.own.rails().iter().chain(self.machine.rails());
        near.chain(self.network_rails()).cloned().collect()
    }

    fn network_rails(&self) -> impl Iterator<Item = &RailProfile> {
        self.networks.iter().flat_map(|network| network.driver.rails())
    }

    /// Returns the rail from the process to itself.
    pub fn own_rail(&self) -> RailId {
        OWN_RAIL
    }

    /// Whether there are rails to other machines.
    #[inline]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether a rail leads to other machines.
    #[inline]
    pub fn is_network(&self, rail: RailId) -> bool {
        usize::from(rail.0) >= NETWORK_RAILS
    }

    /// Keeps the buffers of networks on a NUMA node, given by the system's number.
    pub fn keep_buffers_on(&mut self, node: u32) {
        self.networks.iter_mut().for_each(|network| network.driver.keep_buffers_on(node));
    }

    /// Returns the driver of a rail, and the index of the rail in the driver.
    fn driver(&self, rail: RailId) -> (&dyn Driver, usize) {
        match rail {
            OWN_RAIL => (&self.own, 0),
            MACHINE_RAIL => (&self.machine, 0),
            _ => {
                let network = &self.networks[self.network_of(rail)];
                (&*network.driver, usize::from(rail.0) - network.first)
            }
        }
    }

    /// Returns the driver of a rail for use, and the index of the rail in the driver.
    fn driver_mut(&mut self, rail: RailId) -> (&mut dyn Driver, usize) {
        match rail {
            OWN_RAIL => (&mut self.own, 0),
            MACHINE_RAIL => (&mut self.machine, 0),
            _ => {
                let index = self.network_of(rail);
                let network = &mut self.networks[index];
                (&mut *network.driver, usize::from(rail.0) - network.first)
            }
        }
    }

    /// Returns the index of the network to which a rail belongs.
    fn network_of(&self, rail: RailId) -> usize {
        let is_before = |network: &NetworkRails| network.first <= usize::from(rail.0);
        self.networks.iter().rposition(is_before).expect("rails are those of drivers")
    }

    /// Whether a rail may have room for a packet or part to `gate`.
    #[inline]
    pub fn has_room(&self, gate: GateId, rail: RailId) -> bool {
        match rail {
            // It always has.
            OWN_RAIL => true,
            MACHINE_RAIL => self.machine.has_room(gate, 0),
            _ => {
                let (driver, place) = self.driver(rail);
                driver.has_room(gate, place)
            }
        }
    }

    /// Like [`Driver::post_packet`].
    #[inline(always)]
    pub fn push(
        &mut self,
        gate: GateId,
        rail: RailId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        match rail {
            MACHINE_RAIL => self.machine.push(gate, length, fill),
            OWN_RAIL => self.own.push(gate, length, fill),
            _ => {
                let mut fill = Some(fill);
                let mut fill_once =
                    |out: SharedBytesMut<'_>| fill.take().into_iter().for_each(|fill| fill(out));
                self.push_far(gate, rail, length, &mut fill_once)
            }
        }
    }

    /// Returns how these rails cut eager messages of middle length into fragments, if they do.
    pub fn fragmentation(&self, rails: &[RailId]) -> Option<Fragmentation> {
        (rails == [MACHINE_RAIL]).then(|| self.machine.fragmentation()).flatten()
    }

    /// Like [`InlineDriver::begin_fragments`].
    #[inline]
    pub fn begin_fragments(
        &mut self,
        gate: GateId,
        rail: RailId,
        data: &Buffer,
        when: When,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths> {
        match rail {
            MACHINE_RAIL => self.machine.begin_fragments(gate, data, when, usual),
            _ => None,
        }
    }

    /// Whether this is the rail within the machine.
    pub fn is_in_machine(&self, rail: RailId) -> bool {
        rail == MACHINE_RAIL
    }

    /// Like [`InlineDriver::end_fragments`], for a message within the machine.
    #[inline]
    pub fn end_fragments(&mut self, gate: GateId, when: When) {
        self.machine.end_fragments(gate, when);
    }

    /// Like [`push`](Self::push), for a packet of thousands of bytes for which the rail has room.
    #[inline]
    pub fn push_long(
        &mut self,
        gate: GateId,
        rail: RailId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool {
        match rail {
            MACHINE_RAIL => self.machine.push_long(gate, length, fill),
            _ => self.push(gate, rail, length, |out| fill(out, Stores::Regular)),
        }
    }

    #[inline(never)]
    fn push_far(&mut self, gate: GateId, rail: RailId, length: usize, fill: Fill<'_>) -> bool {
        let (driver, place) = self.driver_mut(rail);
        driver.post_packet(gate, place, length, fill)
    }

    /// Like [`Driver::post_part`].
    pub fn post_part(&mut self, gate: GateId, rail: RailId, part: Part) {
        let (driver, place) = self.driver_mut(rail);
        driver.post_part(gate, place, part);
    }

    /// Like [`Driver::backlog`].
    pub fn backlog(&self, gate: GateId, rail: RailId) -> u64 {
        let (driver, place) = self.driver(rail);
        driver.backlog(gate, place)
    }

    /// Like [`Driver::give_up`].
    pub fn give_up(&mut self, gate: GateId, rail: RailId) {
        let (driver, place) = self.driver_mut(rail);
        driver.give_up(gate, place);
    }

    /// Like [`Driver::forget`].
    pub fn forget(&mut self, gate: GateId, end: PeerEnd) {
        self.machine.forget(gate, end);
        self.networks.iter_mut().for_each(|network| network.driver.forget(gate, end));
    }

    /// Like [`Driver::restore`].
    pub fn restore(&mut self, gate: GateId, rail: RailId) {
        let (driver, place) = self.driver_mut(rail);
        driver.restore(gate, place);
    }

    /// Like [`Driver::describe`].
    pub fn describe(&self, gate: GateId, rail: RailId) -> String {
        let (driver, place) = self.driver(rail);
        driver.describe(gate, place)
    }

    /// Receives what has arrived on all rails; returns whether there was anything.
    #[inline]
    pub fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let mut active = self.own.poll_into(&mut NumberedSink::new(sink, 0, 1));
        active |= self.machine.poll_into(&mut NumberedSink::new(sink, 1, 1));
        if self.has_networks() {
            active |= self.poll_networks(sink);
        }
        active
    }

    fn poll_networks(&mut self, sink: &mut impl Sink) -> bool {
        let now = counter::read();
        let is_recent = now.wrapping_sub(self.looked_at) <= self.ticks_max;
        if self.is_machine_used && self.rounds > 0 && is_recent && self.is_flushed() {
            self.rounds -= 1;
            return false;
        }
        self.looked_at = now;
        let mut found = false;
        for index in 0..self.networks.len() {
            let mut superseded = Vec::new();
            self.with_network(index, sink, |driver, sink| {
                found |= driver.poll(sink);
                superseded = std::mem::take(&mut sink.superseded);
            });
            for (gate, rail) in superseded {
                let name = self.describe(gate, rail);
                self.give_up(gate, rail);
                let message = format!("over {name}: its packets arrived over another network");
                sink.lost(gate, usize::from(rail.0), DriverError { message });
            }
        }
        let (first, last) = self.periods;
        self.period = if found { first } else { last.min(self.period * 2) };
        self.rounds = self.period;
        found
    }

    /// Calls a function with a network and the sink for its reports.
    fn with_network<S: Sink>(
        &mut self,
        index: usize,
        sink: &mut S,
        act: impl FnOnce(&mut dyn Driver, &mut NumberedSink<'_, S>),
    ) {
        let (before, rest) = self.networks.split_at_mut(index);
        let [NetworkRails { driver, first, .. }, behind @ ..] = rest else { return };
        let others = [&*before, &*behind];
        let count = driver.rails().len();
        act(&mut **driver, &mut NumberedSink::new(sink, *first, count).beside(&others));
    }

    /// Makes a peer reachable: within the machine if it is there, else over all networks that lead
    /// to it.
    ///
    /// # Errors
    /// Neither is possible; the message gives the reason.
    pub fn connect(&mut self, gate: GateId) -> Result<PeerConnection, DriverError> {
        let near = match self.machine.connect(gate) {
            Ok(reach) => {
                self.is_machine_used = true;
                return Ok(PeerConnection { rails: vec![MACHINE_RAIL], fetches: reach.fetches });
            }
            Err(error) if self.networks.is_empty() => return Err(error),
            Err(error) => error.message,
        };
        let mut failures = Vec::new();
        // A network may know a peer that has finished although none of its rails leads there any
        // more: that is no failure.
        let mut is_known = false;
        let mut connection = PeerConnection { rails: Vec::new(), fetches: true };
        for NetworkRails { driver, first, .. } in &mut self.networks {
            match driver.connect(gate) {
                Ok(reach) => {
                    is_known = true;
                    let rails = reach.rails.iter().map(|rail| RailId((*first + rail) as u8));
                    connection.rails.extend(rails);
                    connection.fetches &= reach.fetches;
                }
                Err(error) => failures.push(error.message),
            }
        }
        if is_known {
            return Ok(connection);
        }
        if self.network_rails().next().is_none() {
            failures.extend(describe_unfitting(&self.configuration));
        }
        if self.machine.is_on_machine(gate) {
            let over_networks = failures.join("; ");
            return Err(DriverError { message: format!("{near}. Over networks: {over_networks}") });
        }
        Err(DriverError { message: failures.join("; ") })
    }

    /// Prepares for a peer on this machine that requests memory while neither process polls.
    ///
    /// # Errors
    /// What the peer would need cannot be determined.
    pub fn prepare_for(&mut self, gate: GateId) -> Result<(), DriverError> {
        self.machine.prepare_for(gate)
    }

    /// Whether everything that was posted has left this process.
    pub fn is_flushed(&self) -> bool {
        self.networks.iter().all(|network| network.driver.is_flushed())
    }

    /// Whether posted data arrives even if neither process polls.
    pub fn deliver_by_themselves(&self) -> bool {
        self.networks.iter().all(|network| network.driver.delivers_by_itself())
    }

    /// Whether data may arrive, or held data may be sent, without ringing a doorbell. Called right
    /// before sleeping.
    pub fn must_be_polled(&self) -> bool {
        let mut networks = self.networks.iter();
        !self.machine.may_sleep()
            || networks.any(|NetworkRails { driver, .. }| {
                self.lacks_doorbell
                    || driver.descriptor().is_none()
                    || !driver.wakes_for_room() && !driver.is_flushed()
                    || !driver.may_sleep()
            })
    }

    /// Whether a doorbell rings when a rail has room again.
    pub fn wakes_for_room(&self) -> bool {
        let mut networks = self.networks.iter();
        !self.is_machine_used
            && !self.networks.is_empty()
            && networks.all(|network| network.driver.wakes_for_room())
    }

    /// Like [`Driver::refused`], the sum over all networks.
    pub fn refused(&self) -> u64 {
        self.networks.iter().map(|network| network.driver.refused()).sum()
    }

    /// Whether a peer on another machine has left.
    pub fn has_departed(&self, gate: GateId) -> bool {
        self.networks.iter().any(|network| network.driver.has_departed(gate))
    }

    /// Whether a peer was lost because something between both processes changed encrypted data.
    pub fn was_tampered_with(&self, gate: GateId) -> bool {
        self.networks.iter().any(|network| network.driver.was_tampered_with(gate))
    }

    /// Returns a peer on this machine whose process has ended, if there is one. May be slow.
    pub fn ended_peer(&self) -> Option<GateId> {
        self.machine.ended_peer()
    }

    /// Whether the process of a peer on this machine has ended. May make a system call.
    pub fn has_ended(&self, gate: GateId) -> bool {
        self.machine.has_ended(gate)
    }

    /// Leaves the peers on other machines. Each network waits at most `limit` for peers that do not
    /// answer.
    pub fn leave(&mut self, sink: &mut impl Sink, limit: Duration) {
        for index in 0..self.networks.len() {
            self.with_network(index, sink, |driver, sink| driver.leave(sink, limit));
        }
    }

    /// Returns the doorbell to sleep on until something arrives.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn doorbell(&self) -> Result<Option<Arc<dyn Doorbell>>, DriverError> {
        if self.networks.is_empty() {
            return Ok(self.bell.clone());
        }
        self.machine.doorbell(self.network_descriptors()?)
    }

    /// Wakes the threads of this process that sleep on its doorbell.
    pub fn ring_own_doorbell(&self) {
        self.bell.iter().for_each(|bell| bell.ring());
    }

    /// Returns the doorbell of a peer with which memory can be shared.
    pub fn bell(&self, gate: GateId) -> Option<PeerBell> {
        self.machine.bell(gate)
    }

    /// Returns the support for announced messages of the driver of a rail, if it has any.
    #[inline]
    pub fn rendezvous(&mut self, rail: RailId) -> Option<&mut dyn Rendezvous> {
        self.driver_mut(rail).0.rendezvous()
    }

    /// Iterates over the drivers with support for announced messages.
    fn all_rendezvous(&mut self) -> impl Iterator<Item = &mut dyn Rendezvous> {
        let networks = self.networks.iter_mut().filter_map(|network| network.driver.rendezvous());
        self.machine.rendezvous().into_iter().chain(networks)
    }

    /// Ends a region that one of the drivers returned when a message was announced.
    pub fn withdraw(&mut self, region: RegionToken) {
        let is_ended = self.all_rendezvous().any(|one| one.withdraw(region));
        debug_assert!(is_ended, "{region:?} was declared for a message");
    }

    /// Withdraws the place that a receive offered, so that no peer writes there. Returns false if a
    /// peer is already writing.
    pub fn stop_expecting(&mut self, token: u64) -> bool {
        self.all_rendezvous().all(|one| one.stop_expecting(token))
    }

    /// Sets what the program does from now on while messages arrive.
    pub fn set_program_state(&mut self, state: ProgramState) {
        self.all_rendezvous().for_each(|one| one.set_program_state(state));
    }

    /// Whether a fetch waits for the help of its sender, which may not come.
    pub fn awaits_senders(&self) -> bool {
        let mut networks = self.networks.iter();
        self.machine.awaits_senders() || networks.any(|network| network.driver.awaits_senders())
    }

    /// Whether regions of a connected peer can be read and written.
    pub fn reaches_memory_of(&self, gate: GateId) -> bool {
        self.machine.reaches_memory_of(gate)
    }

    /// Like [`reaches_memory_of`](Self::reaches_memory_of), but tests it again.
    pub fn try_memory_of(&mut self, gate: GateId) -> bool {
        self.machine.try_memory_of(gate)
    }

    /// Returns the regions of this process and its peers.
    #[inline]
    pub fn regions(&mut self) -> &mut dyn Regions {
        &mut self.machine
    }
}

fn refused(cause: io::Error) -> DriverError {
    DriverError { message: cause.to_string() }
}

#[cfg(test)]
mod tests;
