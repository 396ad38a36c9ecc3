//! Jobs that the simulation found to end wrongly, event by event.

use std::cell::Cell;

use super::*;
use crate::protocol::{OrderParser, ProgramStart, Start, greeting};

const PROBES: SystemProbes = SystemProbes {
    time_of_day: String::new,
    process_state: |_| None,
    executable: |_| None,
    has_spawned_jobs: || HAS_SPAWNED_JOBS.get(),
};

thread_local! {
    /// Whether jobs run that ranks of the tested job have spawned.
    static HAS_SPAWNED_JOBS: Cell<bool> = const { Cell::new(false) };
}

/// A job with a rank on each of some hosts, of which the first is this machine.
struct TestJob<'a> {
    job: JobState<'a>,
    now: Instant,
    orders: Vec<OrderParser>,
    /// The orders to each host that were not looked at.
    received: Vec<Vec<AgentOrder>>,
    printed: String,
    descendants_ended: u32,
}

fn plan(keep_going: bool) -> JobPlan {
    let application = crate::Application { processes: 2, ..crate::Application::default() };
    JobPlan { applications: vec![application], keep_going, ..JobPlan::default() }
}

impl<'a> TestJob<'a> {
    fn new(plan: &'a JobPlan, hosts: usize) -> Self {
        let host = |number: usize| HostSetup {
            name: format!("host{number}"),
            start: Start {
                size: hosts as u32,
                programs: vec![ProgramStart::default()],
                ranks: vec![(number as u32, 0)],
                ..Start::default()
            },
            agent: (number > 0).then(|| AgentAccess {
                command: "reach".to_owned(),
                own_path: "/combray".into(),
                timeout: Duration::from_secs(10),
            }),
        };
        let setup = JobSetup {
            hosts: (0..hosts).map(host).collect(),
            places: (0..hosts).collect(),
            applications: vec![0; hosts],
            launcher: 1,
            console: Console::File,
            start_of_ranks: StartOfRanks::Immediate,
            probes: PROBES,
        };
        let now = Instant::now();
        let mut test = Self {
            job: JobState::new(plan, setup, now),
            now,
            orders: (0..hosts).map(|_| OrderParser::default()).collect(),
            received: vec![Vec::new(); hosts],
            printed: String::new(),
            descendants_ended: 0,
        };
        (1..hosts).for_each(|host| test.handle(JobEvent::Received(host, greeting().into())));
        test
    }

    /// A job whose processes all run.
    fn started(plan: &'a JobPlan, hosts: usize) -> Self {
        let mut test = Self::new(plan, hosts);
        (0..hosts).for_each(|host| test.report(host, AgentReport::Started(vec![100])));
        test
    }

    fn handle(&mut self, event: JobEvent) {
        self.job.handle(event, self.now);
        while let Some(action) = self.job.next_action() {
            match action {
                Action::Execute(host, order) => self.received[host].push(order),
                Action::Send(host, bytes) => {
                    let orders = &mut self.orders[host];
                    orders.receive(&bytes, &mut self.received[host]).unwrap();
                }
                Action::Print(_, bytes) => self.printed += &String::from_utf8(bytes).unwrap(),
                Action::EndDescendants => self.descendants_ended += 1,
                _ => {}
            }
        }
    }

    fn report(&mut self, host: usize, report: AgentReport) {
        if host == 0 {
            return self.handle(JobEvent::Report(0, report));
        }
        let mut bytes = Vec::new();
        assert!(report.emit(&mut bytes));
        self.handle(JobEvent::Received(host, bytes));
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

    /// Whether a host was given up, so that it receives no more orders.
    fn is_given_up(&self, host: usize) -> bool {
        self.job.hosts[host].is_closed()
    }
}

#[test]
fn the_exit_code_stays_that_of_the_first_failure() {
    let plan = plan(true);
    let mut test = TestJob::started(&plan, 2);
    test.end(1, End::Signal(signal::SIGSEGV));
    test.handle(JobEvent::ReaderEnded);
    test.end(0, End::Signal(signal::SIGTERM));
    test.handle(JobEvent::CommandEnded(1, End::Code(0)));
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
    test.handle(JobEvent::CommandEnded(1, End::Code(0)));
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
    test.handle(JobEvent::CommandEnded(2, End::Code(1)));
    assert!(test.printed.contains("host2 cannot start its processes"), "{}", test.printed);
    test.end(0, End::Signal(signal::SIGTERM));
    test.end(1, End::Signal(signal::SIGTERM));
    test.handle(JobEvent::CommandEnded(1, End::Code(0)));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(CODE_NOT_STARTED));
}

#[test]
fn a_host_that_is_lost_after_its_start_leaves_no_start_to_wait_for() {
    let plan = plan(true);
    let mut test = TestJob::new(&plan, 3);
    test.report(0, AgentReport::Started(vec![100]));
    test.report(1, AgentReport::Started(vec![100]));
    test.handle(JobEvent::CommandEnded(1, End::Code(1)));
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
}

#[test]
fn a_job_waits_for_the_jobs_that_its_ranks_have_spawned() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    HAS_SPAWNED_JOBS.set(true);
    test.end(0, End::Code(0));
    test.pass(60);
    assert_eq!(test.descendants_ended, 0, "the spawned job still runs");
    HAS_SPAWNED_JOBS.set(false);
    test.pass(1);
    assert_eq!(test.descendants_ended, 1);
}

#[test]
fn a_job_that_is_made_to_end_does_not_wait_for_spawned_jobs() {
    let plan = plan(false);
    HAS_SPAWNED_JOBS.set(true);
    let mut failed = TestJob::started(&plan, 1);
    failed.end(0, End::Signal(signal::SIGSEGV));
    assert_eq!(failed.descendants_ended, 1, "it has failed");
    let mut interrupted = TestJob::started(&plan, 1);
    interrupted.end(0, End::Code(0));
    interrupted.pass(1);
    assert_eq!(interrupted.descendants_ended, 0);
    interrupted.handle(JobEvent::Signal(signal::SIGINT));
    interrupted.pass(1);
    assert_eq!(interrupted.descendants_ended, 1, "the user has interrupted it");
}

#[test]
fn a_spawned_job_ends_when_the_process_that_spawned_it_dies() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    test.handle(JobEvent::ParentEnded);
    assert!(test.printed.contains(PARENT_ENDED), "{}", test.printed);
    let end = AgentOrder::Signal(None, signal::SIGTERM);
    assert!(test.received[0].contains(&end), "{:?}", test.received[0]);
}
