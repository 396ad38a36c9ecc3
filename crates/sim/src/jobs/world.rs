//! The world of a job: an event loop as that of the supervisor, the network, and the faults.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use launcher::job::{
    Action, AgentAccess, Console, HostSetup, JobEvent, JobSetup, JobState, MessageOutlet,
    StartOfRanks, SystemProbes,
};
use launcher::protocol::{
    self, AgentOrder, AgentReport, ConnectionEvent, ForwardedReports, OrderParser, ProgramStart,
    Start,
};
use sys::process::End;

use super::JobCounts;
use super::machine::{Consequence, MachineHealth, SimulatedAgent, SimulatedMachine};
use super::rank::{EndCause, StepOutcome};
use super::setting::{HOST_TIMEOUT, JobFault, JobSetting, MILLISECOND, SECOND, Step};

/// A world.
pub(super) struct JobWorld<'a> {
    pub setting: &'a JobSetting,
    rng: Rng,
    /// The virtual time in microseconds, and the real time at which the world began.
    pub now: u64,
    base: Instant,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    wakes: Vec<Option<Wake>>,
    job: JobState<'a>,
    pub machines: Vec<SimulatedMachine>,
    /// What the supervisor has not handled yet.
    pub inbox: VecDeque<JobEvent>,
    /// Until when the launcher, or the agent of a machine, is busy with agents that it starts.
    pub busy: HashMap<Option<usize>, u64>,
    /// Until when the supervisor does not run.
    pub paused_until: u64,
    /// What waits for the reader of each output, and what was read.
    pub waiting: [Vec<u8>; 2],
    pub shown: [Vec<u8>; 2],
    pub has_reader: bool,
    /// What may determine the exit code.
    pub effects: Vec<Effect>,
    /// When all ranks were started, if they were.
    pub started: Option<u64>,
    /// When the job was over, if it is.
    pub ended: Option<u64>,
    pub counts: JobCounts,
}

/// A failure, or what else may end a job.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub at: u64,
    /// The exit codes that the job may have because of it.
    pub codes: Vec<i32>,
    /// Whether the job must notice it, at the latest at this time; none: it may remain unnoticed.
    pub noticed: Option<u64>,
    pub scope: EffectScope,
    /// Whether it ends the job even if others would go on.
    pub ends_job: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffectScope {
    Rank,
    Machine(usize),
    Job,
}

/// Something that happens at a time.
pub(super) enum Wake {
    Step(usize, usize),
    Connect(usize),
    ToAgent(usize, Vec<u8>),
    ToLauncher(usize, Vec<u8>),
    /// One direction of a connection has ended.
    EndToAgent(usize),
    EndToLauncher(usize),
    EndCommand(usize, End),
    /// An agent sends a heartbeat, and checks whether its launcher has.
    AgentBeat(usize),
    LauncherBeat(usize),
    Report(usize, AgentReport),
    /// The agent of the first machine handles what has happened to its connection to the second.
    Relayed(usize, usize, ConnectionEvent),
    Fault(JobFault),
    Drain,
}

/// How many rounds of the supervisor a job may take.
const ROUNDS_MAX: u64 = 200_000;

/// When a job must be over at the latest.
pub(super) const TIME_MAX: u64 = 400 * SECOND;

/// The probes of a machine of this world.
const PROBES: SystemProbes =
    SystemProbes { time_of_day: String::new, process_state: |_| None, executable: |_| None };

impl<'a> JobWorld<'a> {
    pub(super) fn new(setting: &'a JobSetting, rng: Rng) -> Self {
        let base = Instant::now();
        let size = setting.scripts.len() as u32;
        let (mut hosts, mut places, mut machines, mut first) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        for (number, &count) in setting.machines.iter().enumerate() {
            let ranks: Vec<(u32, u32)> = (first..).take(count).map(|rank| (rank, 0)).collect();
            let programs = vec![ProgramStart::default()];
            let is_remote = number > 0 || !setting.has_local;
            hosts.push(HostSetup {
                name: format!("host{number}"),
                start: Start { size, programs, ranks, ..Start::default() },
                agent: is_remote.then(|| AgentAccess {
                    command: "reach".to_owned(),
                    own_path: "/combray".into(),
                    timeout: Duration::from_micros(HOST_TIMEOUT),
                }),
                parent: setting.parents[number],
            });
            let scripts = &setting.scripts[first as usize..][..count];
            let agent = is_remote.then(SimulatedAgent::default);
            machines.push(SimulatedMachine::new(first, scripts, agent));
            places.extend(std::iter::repeat_n(number, count));
            first += count as u32;
        }
        let setup = JobSetup {
            hosts,
            places,
            applications: vec![0; size as usize],
            universe_size: size,
            launcher: 1,
            is_spawned: false,
            name: None,
            slots: launcher::SlotTable::default(),
            rank_slots: Vec::new(),
            outlet: MessageOutlet::default(),
            console: if setting.has_terminal { Console::Terminal } else { Console::File },
            start_of_ranks: StartOfRanks::Immediate,
            probes: PROBES,
            measures_tree: setting.measures_tree,
        };
        let mut world = Self {
            setting,
            rng,
            now: 0,
            base,
            agenda: BinaryHeap::new(),
            wakes: Vec::new(),
            job: JobState::new(&setting.plan, setup, base),
            machines,
            inbox: VecDeque::new(),
            busy: HashMap::new(),
            paused_until: 0,
            waiting: Default::default(),
            shown: Default::default(),
            has_reader: true,
            effects: Vec::new(),
            started: None,
            ended: None,
            counts: JobCounts { jobs: 1, ..JobCounts::default() },
        };
        for host in (0..world.machines.len()).filter(|&host| setting.parents[host].is_none()) {
            world.reach(host, None);
        }
        setting.faults.iter().for_each(|&(at, fault)| world.wake(at, Wake::Fault(fault)));
        world.wake(0, Wake::Drain);
        world
    }

    /// Runs the job to its end. Returns the exit code.
    pub(super) fn run(&mut self) -> Result<i32, String> {
        let mut events = VecDeque::new();
        self.carry_out_all(&mut events);
        self.inbox.extend(events);
        loop {
            if let Some(code) = self.job.exit_code() {
                self.ended = Some(self.now);
                return Ok(code);
            }
            let deadline = self.job.next_deadline().map(|at| self.time_of(at));
            let due = if self.inbox.is_empty() { deadline } else { Some(self.now) };
            let round = due.map(|due| due.max(self.paused_until));
            let next = self.agenda.peek().map(|Reverse((at, ..))| *at);
            match (next, round) {
                (Some(at), _) if round.is_none_or(|round| at <= round) => {
                    let Some(Reverse((at, _, index))) = self.agenda.pop() else { continue };
                    self.now = self.now.max(at);
                    if let Some(wake) = self.wakes[index].take() {
                        self.handle_wake(wake);
                    }
                }
                (_, Some(round)) => {
                    self.now = self.now.max(round);
                    self.round()?;
                }
                (None, None) => return Err("nothing happens any more".to_owned()),
                (Some(_), None) => unreachable!("an entry of the agenda is due"),
            }
            if self.now > TIME_MAX || self.counts.rounds > ROUNDS_MAX {
                return Err(format!("the job does not end: {} rounds", self.counts.rounds));
            }
        }
    }

    fn time_of(&self, at: Instant) -> u64 {
        at.duration_since(self.base).as_nanos().div_ceil(1000) as u64
    }

    pub(super) fn wake(&mut self, at: u64, wake: Wake) {
        let index = self.wakes.len();
        self.wakes.push(Some(wake));
        self.agenda.push(Reverse((at, index as u64, index)));
    }

    /// A round of the supervisor.
    fn round(&mut self) -> Result<(), String> {
        self.counts.rounds += 1;
        let at = self.base + Duration::from_micros(self.now);
        let mut events = std::mem::take(&mut self.inbox);
        while let Some(event) = events.pop_front() {
            self.job.handle(event, at);
            self.carry_out_all(&mut events);
        }
        for event in [JobEvent::TimePassed, JobEvent::Backlog(self.backlog())] {
            events.push_back(event);
            while let Some(event) = events.pop_front() {
                let event = match event {
                    JobEvent::Backlog(_) => JobEvent::Backlog(self.backlog()),
                    other => other,
                };
                self.job.handle(event, at);
                self.carry_out_all(&mut events);
            }
        }
        match self.job.next_deadline() {
            Some(deadline) if deadline <= at => Err("a deadline was missed".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns how many bytes wait for the reader of each output.
    pub(super) fn backlog(&self) -> [usize; 2] {
        self.waiting.each_ref().map(Vec::len)
    }

    fn carry_out_all(&mut self, events: &mut VecDeque<JobEvent>) {
        while let Some(action) = self.job.next_action() {
            self.carry_out(action, events);
        }
    }

    fn carry_out(&mut self, action: Action, events: &mut VecDeque<JobEvent>) {
        match action {
            Action::Execute(host, order) => {
                for consequence in self.machines[host].execute(order) {
                    match consequence {
                        Consequence::Report(report) => {
                            events.push_back(JobEvent::Report(host, report))
                        }
                        other => self.follow(host, other),
                    }
                }
            }
            Action::Connection(host, order) => self.execute_order(host, order, None),
            Action::Print(target, bytes) if self.has_reader => {
                self.waiting[target as usize].extend_from_slice(&bytes);
            }
            Action::Print(_, bytes) if !bytes.is_empty() => events.push_back(JobEvent::ReaderEnded),
            Action::PublishTable(_) => {
                self.started = Some(self.now);
                events.push_back(JobEvent::DebuggerReady);
            }
            Action::SendReport(..) => self.counts.reports += 1,
            Action::EndDescendants => {
                for machine in self.machines.iter_mut().filter(|one| one.agent.is_none()) {
                    machine.end_all(EndCause::Launcher, &mut VecDeque::new());
                }
                events.push_back(JobEvent::DescendantsEnded);
            }
            Action::Print(..)
            | Action::WriteFile(..)
            | Action::SendSummary(..)
            | Action::SendResizeReply(..)
            | Action::SendAbove(_)
            | Action::SendTraces(..)
            | Action::WriteTrace(..) => {}
        }
    }

    /// The upper end of a connection is closed.
    pub(super) fn hang_up(&mut self, host: usize) {
        let arrival = self.arrival(host, TO_AGENT);
        let Some(agent) = &mut self.machines[host].agent else { return };
        agent.is_connected = false;
        if agent.is_running {
            self.wake(arrival, Wake::EndToAgent(host));
        }
    }

    /// Returns when bytes that are sent now arrive, in this direction.
    fn arrival(&mut self, host: usize, direction: usize) -> u64 {
        let at = self.now + self.rng.u64(..=self.setting.latencies[host]);
        let Some(agent) = &mut self.machines[host].agent else { return at };
        agent.arrivals[direction] = agent.arrivals[direction].max(at);
        agent.arrivals[direction]
    }

    pub(super) fn send_to_agent(&mut self, host: usize, bytes: Vec<u8>) {
        let arrival = self.arrival(host, TO_AGENT);
        self.wake(arrival, Wake::ToAgent(host, bytes));
    }

    pub(super) fn send_to_launcher(&mut self, host: usize, mut bytes: Vec<u8>) {
        if self.rng.u8(..8) == 0 {
            let rest = bytes.split_off(self.rng.usize(..=bytes.len()));
            let arrival = self.arrival(host, TO_LAUNCHER);
            self.wake(arrival, Wake::ToLauncher(host, std::mem::replace(&mut bytes, rest)));
        }
        let arrival = self.arrival(host, TO_LAUNCHER);
        self.wake(arrival, Wake::ToLauncher(host, bytes));
    }

    pub(super) fn report(&mut self, host: usize, report: AgentReport) {
        if self.machines[host].agent.is_none() {
            return self.inbox.push_back(JobEvent::Report(host, report));
        }
        let mut bytes = Vec::new();
        assert!(report.emit(&mut bytes), "a report is short");
        self.send_to_launcher(host, bytes);
    }

    fn follow(&mut self, host: usize, consequence: Consequence) {
        match consequence {
            Consequence::Report(report) => self.report(host, report),
            Consequence::ReportLater(report) => {
                let at = self.now + self.rng.u64(..3 * SECOND);
                self.wake(at, Wake::Report(host, report));
            }
            Consequence::Step(rank) => self.wake(self.now + 1, Wake::Step(host, rank)),
            Consequence::Finished => {
                if let Some(agent) = &mut self.machines[host].agent {
                    agent.is_closing = true;
                }
                self.finish(host);
            }
        }
    }

    pub(super) fn follow_all(&mut self, host: usize, consequences: VecDeque<Consequence>) {
        consequences.into_iter().for_each(|one| self.follow(host, one));
    }

    /// An agent ends, and with it the command that reaches it.
    pub(super) fn end_agent(&mut self, host: usize, end: End) {
        let arrival = self.arrival(host, TO_LAUNCHER);
        let Some(agent) = &mut self.machines[host].agent else { return };
        if std::mem::replace(&mut agent.is_running, false) {
            self.wake(arrival, Wake::EndToLauncher(host));
            // Some commands hang, though their connection is closed.
            let lasts = if self.rng.u8(..8) == 0 { TIME_MAX } else { MILLISECOND };
            let ended = arrival + self.rng.u64(..lasts);
            self.wake(ended, Wake::EndCommand(host, end));
            self.drop_held(host);
        }
    }

    /// An agent loses its launcher, or is killed: all its ranks are ended.
    pub(super) fn abandon(&mut self, host: usize, cause: EndCause, end: End) {
        self.machines[host].end_all(cause, &mut VecDeque::new());
        self.end_agent(host, end);
    }

    fn handle_wake(&mut self, wake: Wake) {
        let inside = match &wake {
            Wake::Step(host, _)
            | Wake::Connect(host)
            | Wake::ToAgent(host, _)
            | Wake::EndToAgent(host)
            | Wake::AgentBeat(host)
            | Wake::Relayed(host, ..)
            | Wake::Report(host, _) => Some(*host),
            _ => None,
        };
        match inside.map(|host| self.machines[host].health) {
            Some(MachineHealth::Gone) => return,
            Some(MachineHealth::Frozen(until)) if self.now < until => {
                return self.wake(until, wake);
            }
            _ => {}
        }
        match wake {
            Wake::Step(host, rank) => self.step(host, rank),
            Wake::Connect(host) => self.connect(host),
            Wake::ToAgent(host, bytes) => self.receive_orders(host, &bytes),
            Wake::ToLauncher(host, bytes) => {
                let agent = self.machines[host].agent.as_ref();
                if agent.is_some_and(|agent| agent.is_connected && !agent.loses[TO_LAUNCHER]) {
                    self.happen(host, ConnectionEvent::Received(bytes));
                }
            }
            Wake::EndToAgent(host) => {
                let agent = self.machines[host].agent.as_ref();
                if agent.is_some_and(|agent| agent.is_running && !agent.loses[TO_AGENT]) {
                    self.abandon(host, EndCause::Launcher, End::Code(1));
                }
            }
            Wake::EndToLauncher(host) => {
                let Some(agent) = &mut self.machines[host].agent else { return };
                if agent.is_connected && !agent.loses[TO_LAUNCHER] {
                    agent.is_connected = false;
                    self.happen(host, ConnectionEvent::Disconnected);
                }
            }
            Wake::EndCommand(host, end) => self.end_command(host, end),
            Wake::AgentBeat(host) => self.beat_agent(host),
            Wake::LauncherBeat(host) => self.beat_launcher(host),
            Wake::Report(host, report) => {
                let AgentReport::Answer(rank, _) = &report else { return };
                let machine = &self.machines[host];
                let rank = &machine.ranks[(*rank - machine.ranks[0].number) as usize];
                if rank.end.is_none() {
                    self.report(host, report);
                }
            }
            Wake::Relayed(holder, host, event) => self.relay(holder, host, event),
            Wake::Fault(fault) => self.inject(fault),
            // What was not read when the launcher ended is lost.
            Wake::Drain if self.ended.is_some() => {}
            Wake::Drain => {
                for (waiting, shown) in self.waiting.iter_mut().zip(&mut self.shown) {
                    let length = waiting.len().min(self.setting.reader_speed);
                    shown.extend(waiting.drain(..length));
                }
                self.inbox.push_back(JobEvent::Backlog(self.backlog()));
                self.wake(self.now + 50 * MILLISECOND, Wake::Drain);
            }
        }
    }

    /// The command that reaches a machine has ended. All that arrived before is received.
    pub(super) fn end_command(&mut self, host: usize, end: End) {
        let arrival = self.arrival(host, TO_AGENT);
        let Some(agent) = &mut self.machines[host].agent else { return };
        if std::mem::replace(&mut agent.has_command_ended, true) {
            return;
        }
        agent.is_connected = false;
        if agent.is_running {
            self.wake(arrival, Wake::EndToAgent(host));
        }
        self.happen(host, ConnectionEvent::CommandEnded(end));
    }

    fn connect(&mut self, host: usize) {
        let now = self.now;
        let Some(agent) = &mut self.machines[host].agent else { return };
        if !agent.is_connected || agent.is_running {
            return;
        }
        (agent.is_running, agent.last_received, agent.heard) = (true, now, now);
        let shell = if self.rng.bool() { "Welcome!\n" } else { "" };
        self.send_to_launcher(host, format!("{shell}{}", protocol::greeting()).into_bytes());
        self.wake(self.now + HOST_TIMEOUT / 5, Wake::AgentBeat(host));
    }

    fn beat_launcher(&mut self, host: usize) {
        let Some(agent) = self.machines[host].agent.as_ref() else { return };
        if let Some(holder) = agent.holder.filter(|holder| !self.is_up(*holder)) {
            match self.machines[holder].health {
                MachineHealth::Frozen(until) => self.wake(until, Wake::LauncherBeat(host)),
                MachineHealth::Up | MachineHealth::Gone => {}
            }
            return;
        }
        if agent.is_connected {
            let mut bytes = Vec::new();
            AgentOrder::Heartbeat.emit(&mut bytes);
            self.send_to_agent(host, bytes);
            self.wake(self.now + HOST_TIMEOUT / 5, Wake::LauncherBeat(host));
        }
    }

    fn beat_agent(&mut self, host: usize) {
        let machine = &self.machines[host];
        let Some(agent) = machine.agent.as_ref().filter(|agent| agent.is_running) else { return };
        let limit = if machine.has_started { HOST_TIMEOUT } else { 60 * SECOND };
        if self.now > agent.last_received + limit {
            return self.abandon(host, EndCause::Launcher, End::Code(2));
        }
        self.report(host, AgentReport::Heartbeat);
        self.watch_below(host);
        self.wake(self.now + HOST_TIMEOUT / 5, Wake::AgentBeat(host));
    }

    fn receive_orders(&mut self, host: usize, bytes: &[u8]) {
        let now = self.now;
        let Some(agent) = &mut self.machines[host].agent else { return };
        if !agent.is_running || agent.loses[TO_AGENT] {
            return;
        }
        agent.last_received = now;
        let mut orders = Vec::new();
        agent.orders.receive(bytes, &mut orders).expect("the orders follow the rules");
        for order in orders {
            if let AgentOrder::Connection(below, order) = order {
                self.execute_order(below as usize, order, Some(host));
                continue;
            }
            let consequences = self.machines[host].execute(order);
            self.follow_all(host, consequences);
        }
    }

    fn step(&mut self, host: usize, index: usize) {
        let machine = &mut self.machines[host];
        let mut reports = Vec::new();
        let outcome = machine.ranks[index].step(&mut reports);
        let mut out: VecDeque<Consequence> = VecDeque::new();
        machine.read_outputs(&mut out);
        out.extend(reports.into_iter().map(Consequence::Report));
        let number = machine.ranks[index].number;
        if let Some(line) = out.iter().find_map(|one| match one {
            Consequence::Report(AgentReport::PmiData(_, line)) => Some(line.clone()),
            _ => None,
        }) {
            self.note_request(&line);
        }
        match outcome {
            StepOutcome::Continues(time) => self.wake(self.now + time, Wake::Step(host, index)),
            StepOutcome::Waits => {}
            StepOutcome::Ended(end) => {
                let machine = &mut self.machines[host];
                let code = machine.ranks[index].failure_code(end);
                machine.end(index, end, EndCause::Program, &mut out);
                let has_left =
                    self.setting.scripts[number as usize].steps.contains(&Step::Die(end));
                if code != 0 {
                    let noticed = self.now + self.delay(host);
                    self.add_effect(vec![code], Some(noticed), EffectScope::Rank);
                } else if has_left && !self.setting.plan.keep_going {
                    // Others may wait for it.
                    self.add_effect(vec![1], None, EffectScope::Job);
                }
            }
        }
        self.follow_all(host, out);
    }

    /// Records what a request to the PMI server means for the exit code.
    fn note_request(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let code = line.split("exitcode=").nth(1).and_then(|rest| {
            rest.split_whitespace().next().and_then(|code| code.parse::<i32>().ok())
        });
        match code {
            Some(code) => self.add_effect(vec![code], None, EffectScope::Job),
            None if line.starts_with("what") => self.add_effect(vec![1], None, EffectScope::Job),
            None => {}
        }
    }

    /// Returns how long it may take at most until the supervisor has handled what a machine
    /// reports now.
    pub(super) fn delay(&self, host: usize) -> u64 {
        let path = self.path(host);
        let base = 2 * self.latency(host) + self.pauses() + 100 * MILLISECOND;
        let is_lossy = |(_, fault): &(u64, JobFault)| match fault {
            JobFault::LoseMachine(on) | JobFault::LoseOrders(on) => path.contains(on),
            JobFault::LoseReports(on) | JobFault::Freeze(on, _) => path.contains(on),
            _ => false,
        };
        let levels = path.len() as u64;
        match self.machines[host].agent {
            None => base,
            // Until all processes have started, only the limit of their start shows that bytes are
            // lost.
            Some(_) if self.setting.faults.iter().any(is_lossy) => base + levels * 72 * SECOND,
            Some(_) => base + levels * (HOST_TIMEOUT + 2 * SECOND),
        }
    }

    /// Returns for how long the supervisor and machines do not run.
    pub(super) fn pauses(&self) -> u64 {
        let pauses = self.setting.faults.iter().map(|(_, fault)| match fault {
            JobFault::Pause(time) | JobFault::Freeze(_, time) => *time,
            _ => 0,
        });
        pauses.sum()
    }

    /// Whether a machine runs.
    pub(super) fn is_up(&self, host: usize) -> bool {
        match self.machines[host].health {
            MachineHealth::Up => true,
            MachineHealth::Frozen(until) => self.now >= until,
            MachineHealth::Gone => false,
        }
    }

    /// Ends the launcher, which closes all connections, and lets the machines run on for so many
    /// microseconds.
    pub(super) fn end_launcher(&mut self, time: u64) {
        let holder = |host: &usize| self.machines[*host].agent.as_ref()?.holder;
        let own: Vec<usize> =
            (0..self.machines.len()).filter(|host| holder(host).is_none()).collect();
        own.into_iter().for_each(|host| self.hang_up(host));
        let end = self.now + time;
        while let Some(Reverse((at, _, index))) = self.agenda.pop().filter(|one| one.0.0 <= end) {
            self.now = self.now.max(at);
            if let Some(wake) = self.wakes[index].take() {
                self.handle_wake(wake);
            }
        }
        self.now = end;
    }

    pub(super) fn add_effect(&mut self, codes: Vec<i32>, noticed: Option<u64>, scope: EffectScope) {
        // A machine is needed until its ranks run.
        let is_early = |host: usize| !self.machines[host].has_started;
        let ends_job = !self.setting.plan.keep_going
            || matches!(scope, EffectScope::Machine(host) if is_early(host));
        self.effects.push(Effect { at: self.now, codes, noticed, scope, ends_job });
    }
}

/// The directions of a connection.
pub(super) const TO_AGENT: usize = 0;
pub(super) const TO_LAUNCHER: usize = 1;

impl Default for SimulatedAgent {
    fn default() -> Self {
        Self {
            orders: OrderParser::default(),
            last_received: 0,
            is_running: false,
            is_connected: true,
            is_opened: false,
            is_closing: false,
            is_silent: false,
            holder: None,
            forwarded: ForwardedReports::default(),
            heard: 0,
            has_command_ended: false,
            arrivals: [0; 2],
            loses: [false; 2],
        }
    }
}
