//! Jobs that the simulation found to end wrongly, event by event.

use super::*;
use crate::protocol::{
    ConnectionEvent, ConnectionOrder, LocalAnswer, OrderParser, ProgramStart, Start, greeting,
};
use crate::spawned::SpawnedMessage;

mod spawned;
mod traces;

const PROBES: SystemProbes =
    SystemProbes { time_of_day: String::new, process_state: |_| None, executable: |_| None };

fn received(host: usize, bytes: Vec<u8>) -> JobEvent {
    JobEvent::Connection(host, ConnectionEvent::Received(bytes))
}

fn command_ended(host: usize, end: End) -> JobEvent {
    JobEvent::Connection(host, ConnectionEvent::CommandEnded(end))
}

/// A job with `each` ranks on each of some hosts, of which the first ones are this machine.
fn setup(
    (hosts, first_remote): (usize, usize),
    each: usize,
    parents: &[Option<usize>],
) -> JobSetup {
    let host = |number: usize| HostSetup {
        name: format!("host{number}"),
        start: Start {
            size: (hosts * each) as u32,
            programs: vec![ProgramStart::default()],
            ranks: (number * each..).take(each).map(|rank| (rank as u32, 0)).collect(),
            ..Start::default()
        },
        agent: (number >= first_remote).then(|| AgentAccess {
            command: "reach".to_owned(),
            own_path: "/combray".into(),
            timeout: Duration::from_secs(10),
        }),
        parent: parents.get(number).copied().flatten(),
    };
    JobSetup {
        hosts: (0..hosts).map(host).collect(),
        places: (0..hosts * each).map(|rank| rank / each).collect(),
        applications: vec![0; hosts * each],
        universe_size: (hosts * each) as u32,
        launcher: 1,
        is_spawned: false,
        name: None,
        slots: SlotTable::default(),
        rank_slots: Vec::new(),
        console: Console::File,
        outlet: MessageOutlet::default(),
        start_of_ranks: StartOfRanks::Immediate,
        probes: PROBES,
        measures_tree: false,
    }
}

/// A job with a rank on each of some hosts, of which the first is this machine.
struct TestJob<'a> {
    job: JobState<'a>,
    now: Instant,
    orders: Vec<OrderParser>,
    /// The index of the first host with an agent; those before it are this machine.
    first_remote: usize,
    /// The orders to each host that were not looked at.
    received: Vec<Vec<AgentOrder>>,
    printed: String,
    descendants_ended: u32,
    /// What was sent to the launcher above.
    sent_above: Vec<SpawnedMessage>,
    /// What was sent or written of traces.
    traces: Vec<traces::Delivered>,
}

fn plan(keep_going: bool) -> JobPlan {
    let application = crate::Application { processes: 2, ..crate::Application::default() };
    JobPlan { applications: vec![application], keep_going, ..JobPlan::default() }
}

impl<'a> TestJob<'a> {
    fn new(plan: &'a JobPlan, hosts: usize) -> Self {
        Self::with_agents(plan, hosts, 1)
    }

    fn with_agents(plan: &'a JobPlan, hosts: usize, first_remote: usize) -> Self {
        Self::large(plan, hosts, first_remote, 1)
    }

    /// A job of two hosts with these slots, each with a process that runs.
    fn with_slots(plan: &'a JobPlan, slots: &str) -> Self {
        let slots = SlotTable::parse(slots).unwrap();
        let setup = JobSetup { slots, rank_slots: Self::rank_slots(), ..setup((2, 1), 1, &[]) };
        Self::of_setup(plan, setup, 1, &[]).with_processes()
    }

    /// The hosts of which two ranks have a slot each.
    fn rank_slots() -> Vec<Option<String>> {
        (0..2).map(|host| Some(format!("host{host}"))).collect()
    }

    /// A spawned job of two hosts with this name among the launchers.
    fn named(plan: &'a JobPlan, name: &str) -> Self {
        let (name, rank_slots) = (Some(name.to_owned()), Self::rank_slots());
        let setup = JobSetup { name, rank_slots, ..setup((2, 1), 1, &[]) };
        Self::of_setup(plan, setup, 1, &[]).with_processes()
    }

    /// A job with `each` ranks on each host.
    fn large(plan: &'a JobPlan, hosts: usize, first_remote: usize, each: usize) -> Self {
        Self::of_tree(plan, (hosts, first_remote), each, &[])
    }

    /// A job in which agents of some hosts are started by those of others. Only the agents that the
    /// launcher starts are ready.
    fn of_tree(
        plan: &'a JobPlan,
        (hosts, first_remote): (usize, usize),
        each: usize,
        parents: &[Option<usize>],
    ) -> Self {
        let setup = setup((hosts, first_remote), each, parents);
        Self::of_setup(plan, setup, first_remote, parents)
    }

    fn of_setup(
        plan: &'a JobPlan,
        setup: JobSetup,
        first_remote: usize,
        parents: &[Option<usize>],
    ) -> Self {
        let (now, hosts) = (Instant::now(), setup.hosts.len());
        let mut test = Self {
            job: JobState::new(plan, setup, now),
            now,
            first_remote,
            orders: (0..hosts).map(|_| OrderParser::default()).collect(),
            received: vec![Vec::new(); hosts],
            printed: String::new(),
            descendants_ended: 0,
            sent_above: Vec::new(),
            traces: Vec::new(),
        };
        let greet = |host| test.handle(received(host, greeting().into()));
        let is_first = |host: &usize| parents.get(*host).copied().flatten().is_none();
        (first_remote..hosts).filter(is_first).for_each(greet);
        test
    }

    /// A job whose processes all run.
    fn started(plan: &'a JobPlan, hosts: usize) -> Self {
        Self::new(plan, hosts).with_processes()
    }

    /// All its processes run.
    fn with_processes(mut self) -> Self {
        for host in 0..self.received.len() {
            self.report(host, AgentReport::Started(vec![100]));
        }
        self
    }

    fn handle(&mut self, event: JobEvent) {
        self.job.handle(event, self.now);
        while let Some(action) = self.job.next_action() {
            match action {
                Action::Execute(host, order) => self.received[host].push(order),
                Action::Connection(host, ConnectionOrder::Send(bytes)) => {
                    let orders = &mut self.orders[host];
                    orders.receive(&bytes, &mut self.received[host]).unwrap();
                }
                Action::Print(_, bytes) => self.printed += &String::from_utf8(bytes).unwrap(),
                Action::SendAbove(message) => self.sent_above.push(message),
                Action::EndDescendants => self.descendants_ended += 1,
                Action::SendTraces(client, sent) => self.traces.push((Some(client), sent)),
                Action::WriteTrace(_, written) => self.traces.push((None, Some(written))),
                _ => {}
            }
        }
    }

    fn report(&mut self, host: usize, report: AgentReport) {
        if host < self.first_remote {
            return self.handle(JobEvent::Report(host, report));
        }
        let mut bytes = Vec::new();
        assert!(report.emit(&mut bytes));
        self.handle(received(host, bytes));
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.handle(JobEvent::TimePassed);
    }

    /// The rank of a host ends.
    fn end(&mut self, host: usize, end: End) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            self.report(host, AgentReport::OutputClosed(host as u32, target));
        }
        self.report(host, AgentReport::Ended(host as u32, end));
    }

    /// The rank of this machine ends, and the reader of its output reads slowly.
    fn end_with_slow_reader(&mut self, end: End) {
        self.end(0, end);
        self.handle(JobEvent::DescendantsEnded);
        for _ in 0..9 {
            self.pass(60);
            self.handle(JobEvent::Backlog([100, 0]));
            assert_eq!(self.job.exit_code(), None, "{}", self.printed);
        }
        self.handle(JobEvent::Backlog([0; 2]));
    }

    /// Whether a host was given up, so that it receives no more orders.
    fn is_given_up(&self, host: usize) -> bool {
        self.job.hosts[host].is_closed()
    }
}

#[test]
fn many_ranks_of_a_host_are_not_asked_before_a_signal_ends_them() {
    let plan = plan(false);
    for (ranks, is_asked) in [(ASKED_BEFORE_END_MAX, true), (ASKED_BEFORE_END_MAX + 1, false)] {
        let mut test = TestJob::of_tree(&plan, (1, 1), ranks, &[None]);
        test.report(0, AgentReport::Started((100..).take(ranks).collect()));
        let init = b"cmd=init pmi_version=1 pmi_subversion=1\n";
        test.report(0, AgentReport::PmiData(0, init.into()));
        test.handle(JobEvent::Signal(signal::SIGTERM));
        let end = AgentOrder::Signal(None, signal::SIGTERM);
        assert_eq!(test.received[0].contains(&AgentOrder::Ask), is_asked);
        assert_eq!(test.received[0].contains(&end), !is_asked);
    }
}

#[test]
fn the_exit_code_stays_that_of_the_first_failure() {
    let plan = plan(true);
    let mut test = TestJob::started(&plan, 2);
    test.end(1, End::Signal(signal::SIGSEGV));
    test.handle(JobEvent::ReaderEnded);
    test.end(0, End::Signal(signal::SIGTERM));
    test.handle(command_ended(1, End::Code(0)));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(128 + signal::SIGSEGV));
}

#[test]
fn output_is_not_dropped_because_agents_end_late() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    test.handle(JobEvent::Signal(signal::SIGHUP));
    (0..2).for_each(|host| test.end(host, End::Signal(signal::SIGHUP)));
    test.pass(5);
    test.handle(command_ended(1, End::Code(0)));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::TimePassed);
    test.handle(JobEvent::Backlog([100, 0]));
    assert_eq!(test.job.exit_code(), None, "{}", test.printed);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(128 + signal::SIGHUP));
    assert!(!test.printed.contains("dropped"), "{}", test.printed);
}

#[test]
fn a_host_that_is_busy_while_ranks_are_killed_is_not_given_up() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    test.end(0, End::Signal(signal::SIGSEGV));
    (0..4).for_each(|_| test.pass(2));
    assert!(!test.is_given_up(1), "{}", test.printed);
    let kills = test.received[1].iter();
    let kill = AgentOrder::Signal(None, signal::SIGKILL);
    assert_eq!(kills.filter(|order| **order == kill).count(), 4);
    // Its agent reports that it is alive, but not the end of its rank.
    for _ in 0..2 {
        test.report(1, AgentReport::Heartbeat);
        test.pass(2);
    }
    assert!(test.is_given_up(1) && test.printed.contains("host1 does not answer"));
}

#[test]
fn a_host_that_is_lost_before_all_ranks_run_ends_the_job_at_once() {
    let plan = plan(true);
    let mut test = TestJob::new(&plan, 3);
    test.report(0, AgentReport::Started(vec![100]));
    test.report(1, AgentReport::Started(vec![100]));
    test.handle(command_ended(2, End::Code(1)));
    assert!(test.printed.contains("host2 cannot start its processes"), "{}", test.printed);
    test.end(0, End::Signal(signal::SIGTERM));
    test.end(1, End::Signal(signal::SIGTERM));
    test.handle(command_ended(1, End::Code(0)));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(CODE_NOT_STARTED));
    assert!(test.job.start_failure().unwrap().contains("host2 cannot start its processes"));
}

#[test]
fn a_host_that_is_lost_after_its_start_leaves_no_start_to_wait_for() {
    let plan = plan(true);
    let mut test = TestJob::new(&plan, 3);
    test.report(0, AgentReport::Started(vec![100]));
    test.report(1, AgentReport::Started(vec![100]));
    test.handle(command_ended(1, End::Code(1)));
    test.report(2, AgentReport::Started(vec![100]));
    test.pass(START_TIME_MAX.as_secs());
    assert!(!test.printed.contains("did not start"), "{}", test.printed);
}

#[test]
fn ranks_are_started_elsewhere_only_when_those_here_run() {
    let plan = plan(false);
    let mut test = TestJob::new(&plan, 2);
    assert!(matches!(test.received[0][..], [AgentOrder::Start(_)]) && test.received[1].is_empty());
    test.report(0, AgentReport::StartFailed("no program".to_owned()));
    assert!(test.received[1].is_empty() && test.is_given_up(1));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!((test.job.exit_code(), test.descendants_ended), (Some(CODE_NOT_STARTED), 1));
    // A process that has spawned the job gets the reason.
    assert_eq!(test.job.start_failure(), Some("no program"));
}

#[test]
fn an_agent_that_acknowledges_more_input_than_was_sent_is_not_used_any_more() {
    let plan = plan(false);
    let mut test = TestJob::with_agents(&plan, 2, 0);
    (0..2).for_each(|host| test.report(host, AgentReport::Started(vec![100])));
    test.handle(JobEvent::Input(vec![b'x'; 1000]));
    assert_eq!(test.job.input_room(), INPUT_BYTES_MAX - 1000);
    test.report(0, AgentReport::InputTaken(600));
    assert_eq!(test.job.input_room(), INPUT_BYTES_MAX - 400);
    test.report(0, AgentReport::InputTaken(401));
    assert_eq!(test.job.input_room(), INPUT_BYTES_MAX - 400);
    test.handle(command_ended(0, End::Code(0)));
    let message = "an acknowledgement of input was sent for more bytes than the agent had received";
    assert!(test.printed.contains(message), "{}", test.printed);
}

#[test]
fn output_before_a_job_that_makes_no_progress_is_not_dropped() {
    let plan = JobPlan { stall: Some(Duration::from_secs(4)), ..plan(false) };
    let mut test = TestJob::started(&plan, 1);
    test.report(0, AgentReport::PmiData(0, b"cmd=init pmi_version=1 pmi_subversion=1\n".into()));
    test.pass(4);
    let answer = LocalAnswer { state: Some("stopped".to_owned()), ..LocalAnswer::default() };
    test.report(0, AgentReport::Answer(0, answer));
    assert!(test.printed.contains("no rank has made progress for 4 s"), "{}", test.printed);
    test.end_with_slow_reader(End::Signal(signal::SIGTERM));
    assert_eq!(test.job.exit_code(), Some(CODE_TIMEOUT));
}

#[test]
fn output_of_a_rank_that_ends_with_code_124_is_not_dropped() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    test.end_with_slow_reader(End::Code(CODE_TIMEOUT));
    assert_eq!(test.job.exit_code(), Some(CODE_TIMEOUT));
}

#[test]
fn output_that_cannot_be_written_is_reported_once_and_is_no_success() {
    let failed = || JobEvent::OutputFailed("the disk is full".to_owned());
    for (code, is_first, expected) in [(0, true, 1), (3, true, 1), (0, false, 1), (3, false, 3)] {
        let plan = plan(false);
        let mut test = TestJob::started(&plan, 1);
        if is_first {
            test.handle(failed());
        }
        let abort = format!("cmd=abort exitcode={code}\n").into_bytes();
        test.report(0, AgentReport::PmiData(0, abort));
        test.end(0, End::Signal(signal::SIGTERM));
        (0..2).for_each(|_| test.handle(failed()));
        test.handle(JobEvent::DescendantsEnded);
        test.handle(JobEvent::Backlog([0; 2]));
        let case = format!("MPI_Abort({code}), output failed before: {is_first}");
        assert_eq!(test.job.exit_code(), Some(expected), "{case}");
        assert_eq!(test.printed.matches("the disk is full").count(), 1, "{case}: {}", test.printed);
    }
}

#[test]
fn an_aborted_job_without_reader_does_not_succeed() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    test.report(0, AgentReport::PmiData(0, b"cmd=abort exitcode=0\n".into()));
    test.handle(JobEvent::ReaderEnded);
    test.end(0, End::Signal(signal::SIGTERM));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(128 + signal::SIGPIPE));
}

#[test]
fn a_host_is_given_up_after_three_kills_at_the_earliest_and_ten_seconds_at_the_latest() {
    for (timeout, expected) in [(2, 4), (6, 4), (8, 5), (10, 6), (3600, 6)] {
        let plan = JobPlan { host_timeout: Some(Duration::from_secs(timeout)), ..plan(false) };
        let mut test = TestJob::started(&plan, 2);
        test.report(0, AgentReport::PmiData(0, b"cmd=abort exitcode=0\n".into()));
        test.end(0, End::Signal(signal::SIGTERM));
        let mut kills = 0;
        while !test.is_given_up(1) && kills < 9 {
            test.report(1, AgentReport::Heartbeat);
            test.pass(2);
            kills += 1;
        }
        assert_eq!(kills, expected, "COMBRAY_HOST_TIMEOUT={timeout}");
        test.handle(JobEvent::DescendantsEnded);
        test.handle(JobEvent::Backlog([0; 2]));
        assert_eq!(test.job.exit_code(), Some(1), "processes that may still run are no success");
    }
}

#[test]
fn the_time_of_a_large_job_grows_with_the_number_of_events_only() {
    const HOSTS: usize = 1 << 9;
    const EACH: usize = 1 << 6;
    let plan = plan(false);
    let begun = sys::usage::processor_time();
    let mut test = TestJob::large(&plan, HOSTS, HOSTS, EACH);
    let ranks = (0..HOSTS as u32).flat_map(|host| [host; EACH]).enumerate();
    (0..HOSTS).for_each(|host| test.report(host, AgentReport::Started(vec![100; EACH])));
    for line in ["cmd=init pmi_version=1\n", "cmd=barrier_in\n", "cmd=finalize\n"] {
        for (rank, host) in ranks.clone() {
            test.report(host as usize, AgentReport::PmiData(rank as u32, line.into()));
        }
    }
    test.handle(JobEvent::ReportRequest(1));
    for (rank, host) in ranks.clone() {
        let answer = AgentReport::Answer(rank as u32, LocalAnswer::default());
        test.report(host as usize, answer);
    }
    for (rank, host) in ranks.clone() {
        test.report(host as usize, AgentReport::Ended(rank as u32, End::Code(0)));
    }
    for (rank, host) in ranks {
        for target in [OutputStream::Output, OutputStream::Errors] {
            test.report(host as usize, AgentReport::OutputClosed(rank as u32, target));
        }
    }
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(0));
    let spent = sys::usage::processor_time() - begun;
    println!("{} ranks on {HOSTS} hosts: {spent:?}", HOSTS * EACH);
    assert!(spent < Duration::from_secs(20), "{spent:?}");
}

#[test]
fn failures_are_published_to_the_ranks_of_all_hosts() {
    let plan = plan(true);
    let mut test = TestJob::started(&plan, 3);
    test.end(1, End::Signal(signal::SIGSEGV));
    let abort = b"cmd=abort exitcode=7 combray_ranks=2\n".to_vec();
    test.report(2, AgentReport::PmiData(2, abort));
    let is_count = |order: &&AgentOrder| matches!(order, AgentOrder::PublishFailures(_));
    let published = [AgentOrder::PublishFailures(1), AgentOrder::PublishFailures(2)];
    for received in &test.received {
        assert!(received.iter().filter(is_count).eq(&published), "{received:?}");
    }
}

#[test]
fn a_spawned_job_ends_when_the_process_that_spawned_it_dies() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    test.handle(JobEvent::ParentEnded);
    assert!(test.printed.contains(messages::PARENT_ENDED), "{}", test.printed);
    let end = AgentOrder::Signal(None, signal::SIGTERM);
    assert!(test.received[0].contains(&end), "{:?}", test.received[0]);
}

#[test]
fn a_spawned_job_that_keeps_going_outlives_the_process_that_spawned_it() {
    let plan = plan(true);
    let mut test = TestJob::started(&plan, 1);
    test.handle(JobEvent::ParentEnded);
    assert_eq!(test.printed, "");
    let end = AgentOrder::Signal(None, signal::SIGTERM);
    assert!(!test.received[0].contains(&end), "{:?}", test.received[0]);
    test.end(0, End::Code(0));
}

/// A job on three hosts: the launcher starts the agent of host1, which starts that of host2.
fn chain(plan: &JobPlan) -> TestJob<'_> {
    TestJob::of_tree(plan, (3, 1), 1, &[None, None, Some(1)])
}

/// The agent of host1 reports what has happened to its connection to that of host2.
fn forward(test: &mut TestJob<'_>, event: ConnectionEvent) {
    test.report(1, AgentReport::Connection(2, event));
}

/// The agent of host2 reports this.
fn report_below(test: &mut TestJob<'_>, report: AgentReport) {
    let mut bytes = Vec::new();
    assert!(report.emit(&mut bytes));
    forward(test, ConnectionEvent::Received(bytes));
}

/// Returns the orders for host2 that host1 has received.
fn orders_below(test: &mut TestJob<'_>) -> Vec<AgentOrder> {
    let mut orders = Vec::new();
    for order in std::mem::take(&mut test.received[1]) {
        if let AgentOrder::Connection(2, ConnectionOrder::Send(bytes)) = order {
            test.orders[2].receive(&bytes, &mut orders).unwrap();
        }
    }
    orders
}

#[test]
fn a_host_below_another_one_is_started_through_it() {
    let plan = plan(false);
    let mut test = chain(&plan);
    let opened = |order: &AgentOrder| matches!(order, AgentOrder::Connection(2, ConnectionOrder::Open(start)) if start.host == "host2");
    assert!(test.received[1].iter().any(opened));
    assert!(!test.received[1].iter().any(|order| matches!(order, AgentOrder::Start(_))));
    forward(&mut test, ConnectionEvent::Received(greeting().into()));
    test.report(0, AgentReport::Started(vec![100]));
    assert!(test.received[1].iter().any(|order| matches!(order, AgentOrder::Start(_))));
    assert!(
        matches!(&orders_below(&mut test)[..], [AgentOrder::Start(start)] if start.ranks == [(2, 0)])
    );
    test.report(1, AgentReport::Started(vec![100]));
    report_below(&mut test, AgentReport::Started(vec![100]));
    report_below(&mut test, AgentReport::Output(2, OutputStream::Output, b"far\n".to_vec()));
    assert_eq!(test.printed, "far\n");
}

#[test]
fn a_host_that_another_one_does_not_reach_is_reached_by_the_launcher() {
    let plan = plan(false);
    let mut test = chain(&plan);
    forward(&mut test, ConnectionEvent::CommandEnded(End::Code(255)));
    // What its agent above still reports about it is ignored.
    forward(&mut test, ConnectionEvent::Disconnected);
    test.handle(received(2, greeting().into()));
    test.report(0, AgentReport::Started(vec![100]));
    assert!(matches!(test.received[2][..], [AgentOrder::Start(_)]));
    assert_eq!(test.printed, "");
}

#[test]
fn only_the_hosts_for_which_others_wait_are_late() {
    let plan = plan(false);
    let mut test = chain(&plan);
    test.pass(50);
    test.pass(20);
    assert!(test.printed.contains("combray: host2 did not start within 60 s"), "{}", test.printed);
    let parents = [None, None, Some(1)];
    let mut test = TestJob::of_tree(&plan, (3, 1), 1, &parents);
    test.handle(command_ended(1, End::Code(255)));
    assert!(test.printed.contains("host1 cannot start its processes"), "{}", test.printed);
}

/// A host whose name has an address 5 s after the start of the job, which waits 10 s for hosts.
#[test]
fn a_host_that_cannot_be_reached_yet_is_tried_again() {
    let plan = JobPlan { host_wait: Duration::from_secs(10), ..plan(false) };
    let mut test = TestJob::of_tree(&plan, (2, 1), 1, &[None, Some(0)]);
    let attempts = |test: &mut TestJob<'_>, until: u64| {
        for _ in 0..until {
            test.handle(JobEvent::Connection(
                1,
                ConnectionEvent::ErrorOutput(b"no address\n".to_vec()),
            ));
            test.handle(command_ended(1, End::Code(255)));
            test.pass(1);
        }
    };
    attempts(&mut test, 5);
    assert_eq!(test.printed.matches("up to 10 s").count(), 1, "{}", test.printed);
    assert!(test.printed.contains("no address") && test.job.exit_code().is_none());
    test.handle(received(1, greeting().into()));
    test.report(0, AgentReport::Started(vec![100]));
    assert!(matches!(test.received[1][..], [AgentOrder::Start(_)]), "{}", test.printed);
    // One that is never reached ends the job at the deadline.
    let mut test = TestJob::of_tree(&plan, (2, 1), 1, &[None, Some(0)]);
    attempts(&mut test, 9);
    assert!(!test.printed.contains("attempts"), "{}", test.printed);
    attempts(&mut test, 1);
    assert!(test.printed.contains("host1 cannot be reached in 9 attempts"), "{}", test.printed);
    // That it has no Combray is final.
    let mut test = TestJob::of_tree(&plan, (2, 1), 1, &[None, Some(0)]);
    attempts(&mut test, 1);
    test.handle(command_ended(1, End::Code(127)));
    assert!(test.printed.contains("Combray must be there"), "{}", test.printed);
    // So is an interrupt while it is waited for.
    let mut test = TestJob::of_tree(&plan, (2, 1), 1, &[None, Some(0)]);
    attempts(&mut test, 2);
    test.handle(command_ended(1, End::Code(255)));
    test.handle(JobEvent::Signal(signal::SIGINT));
    test.handle(JobEvent::DescendantsEnded);
    test.pass(20);
    assert_eq!(test.job.exit_code(), Some(130), "{}", test.printed);
}

#[test]
fn each_level_of_hosts_has_its_time() {
    let plan = plan(false);
    let mut test = TestJob::of_tree(&plan, (4, 1), 1, &[None, None, Some(1), Some(2)]);
    test.pass(50);
    forward(&mut test, ConnectionEvent::Received(greeting().into()));
    test.pass(50);
    assert_eq!(test.printed, "");
    test.pass(20);
    assert!(test.printed.contains("combray: host3 did not start within 60 s"), "{}", test.printed);
}

#[test]
fn a_host_that_is_lost_takes_those_below_it_along() {
    let plan = plan(false);
    let mut test = chain(&plan);
    forward(&mut test, ConnectionEvent::Received(greeting().into()));
    test.report(0, AgentReport::Started(vec![100]));
    test.report(1, AgentReport::Started(vec![100]));
    report_below(&mut test, AgentReport::Started(vec![100]));
    test.handle(command_ended(1, End::Signal(9)));
    let message = "the connection to host1 was lost (reach was killed by signal 9 (SIGKILL)); its \
                   processes are terminated; one more host was reached through it";
    assert!(test.printed.contains(message), "{}", test.printed);
    test.end(0, End::Signal(15));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(1));
}

#[test]
fn a_silent_host_below_another_one_is_named() {
    let plan = plan(false);
    let mut test = chain(&plan);
    forward(&mut test, ConnectionEvent::Received(greeting().into()));
    test.report(0, AgentReport::Started(vec![100]));
    test.report(1, AgentReport::Started(vec![100]));
    report_below(&mut test, AgentReport::Started(vec![100]));
    forward(&mut test, ConnectionEvent::Silent);
    let killed = AgentOrder::Connection(2, ConnectionOrder::KillCommand);
    assert!(test.received[1].contains(&killed));
    forward(&mut test, ConnectionEvent::CommandEnded(End::Signal(9)));
    let message = "the connection to host2 was lost: nothing was received from it for 10 s";
    assert!(test.printed.contains(message), "{}", test.printed);
}

#[test]
fn the_time_in_which_the_whole_job_was_stopped_is_no_silence() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    test.report(1, AgentReport::Heartbeat);
    // A container was frozen for longer than hosts may be silent: all of the job was stopped.
    test.pass(22);
    assert_eq!(test.job.next_deadline(), Some(test.now + Duration::from_secs(10)));
    test.pass(10);
    test.handle(JobEvent::Connection(1, ConnectionEvent::CommandEnded(End::Signal(9))));
    let message = "the connection to host1 was lost: nothing was received from it for 10 s";
    assert!(test.printed.contains(message), "{}", test.printed);
}

/// The hosts of a job answer as agents do, until nobody has anything to send. Returns how many
/// processes were started.
fn answer_all(test: &mut TestJob<'_>, parents: &[Option<usize>]) -> usize {
    // What each host sends goes through those above it.
    let send = |test: &mut TestJob<'_>, host: usize, bytes: Vec<u8>| {
        let (mut host, mut bytes) = (host, bytes);
        while let Some(parent) = parents[host] {
            let event = ConnectionEvent::Received(std::mem::take(&mut bytes));
            assert!(AgentReport::Connection(host as u32, event).emit(&mut bytes));
            host = parent;
        }
        test.handle(received(host, bytes));
    };
    let (mut started, mut hosts) = (0, Vec::from_iter(0..parents.len()));
    while let Some(host) = hosts.pop() {
        for order in std::mem::take(&mut test.received[host]) {
            match order {
                AgentOrder::Start(start) => {
                    started += start.ranks.len();
                    let mut report = Vec::new();
                    assert!(AgentReport::Started(vec![100; start.ranks.len()]).emit(&mut report));
                    send(test, host, report);
                }
                AgentOrder::Connection(below, ConnectionOrder::Open(_)) => {
                    send(test, below as usize, greeting().into());
                    hosts.push(host);
                    hosts.push(below as usize);
                }
                AgentOrder::Connection(below, ConnectionOrder::Send(bytes)) => {
                    let below = below as usize;
                    test.orders[below].receive(&bytes, &mut test.received[below]).unwrap();
                    hosts.push(below);
                }
                _ => {}
            }
        }
    }
    started
}

#[test]
fn ten_thousand_hosts_start_through_a_tree() {
    const HOSTS: usize = 10_000;
    let width = crate::launch_tree::best_width(HOSTS, Default::default());
    let parents = crate::launch_tree::parents(HOSTS, width);
    let plan = plan(false);
    let begun = sys::usage::processor_time();
    let mut test = TestJob::of_tree(&plan, (HOSTS, 0), 1, &parents);
    let mut started = 0;
    while started < HOSTS {
        let more = answer_all(&mut test, &parents);
        assert!(more > 0 || started == 0, "{started} of {HOSTS} processes were started");
        started += more;
    }
    let spent = sys::usage::processor_time() - begun;
    println!("{HOSTS} hosts, each of which reaches {width}: {spent:?}");
    assert!(!test.job.is_starting(), "all processes run");
    assert!(spent < Duration::from_secs(20), "{spent:?}");
}
