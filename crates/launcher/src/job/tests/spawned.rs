//! Jobs that ranks of the tested job have spawned.

use hangs::SpawnedStage;

use super::*;
use crate::jobs::{Resizing, SizeChange};
use crate::spawned::{
    AddressedOrder, SlotExpectation, SpawnedMessage, SpawnedOrder, SpawnedSummary, encoded,
};

fn message(job: &str, notice: SpawnedNotice) -> SpawnedMessage {
    SpawnedMessage { job: job.to_owned(), parent: None, notice }
}

fn takes(version: u64, slots: &[(&str, u32)]) -> SpawnedNotice {
    let slots = slots.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let summary = SpawnedSummary { job: 77, program: "child".to_owned(), ..Default::default() };
    SpawnedNotice::Take { version, slots, summary }
}

impl TestJob<'_> {
    /// The launcher of a spawned job sends this over the connection with the job's number.
    fn hears(&mut self, host: usize, link: u32, notice: SpawnedNotice) {
        let bytes = encoded(&message(&format!("job{link}"), notice));
        self.report(host, AgentReport::FromSpawned(link, bytes));
    }

    /// A spawned job starts on a host, and no longer depends on its parents.
    fn has_independent(&mut self, host: usize, link: u32) {
        self.hears(host, link, SpawnedNotice::Hosts);
        self.hears(host, link, takes(0, &[]));
        self.hears(host, link, SpawnedNotice::Started);
        self.hears(host, link, SpawnedNotice::Independent);
    }

    /// Returns the orders that spawned jobs have received over a connection.
    fn told(&mut self, host: usize, link: u32) -> Vec<SpawnedOrder> {
        let orders = std::mem::take(&mut self.received[host]);
        let told = orders.into_iter().filter_map(|order| match order {
            AgentOrder::ToSpawned(to, bytes) if to == link => {
                let order: AddressedOrder = foreign::from_json(&bytes).unwrap();
                assert_eq!(order.job, format!("job{link}"));
                Some(order.order)
            }
            _ => None,
        });
        told.collect()
    }

    /// Time passes in which the agents are alive.
    fn lasts(&mut self, seconds: u64) {
        for _ in 0..seconds {
            (self.first_remote..2).for_each(|host| self.report(host, AgentReport::Heartbeat));
            self.pass(1);
        }
    }

    /// Whether what the ranks of the last of two hosts left behind is being ended.
    fn is_closing(&self) -> bool {
        self.received[1].contains(&AgentOrder::Close)
    }
}

#[test]
fn a_job_waits_for_the_jobs_that_its_ranks_have_spawned_on_any_host() {
    let plan = plan(false);
    for host in 0..2 {
        let mut test = TestJob::started(&plan, 2);
        test.has_independent(host, 4);
        (0..2).for_each(|host| test.end(host, End::Code(0)));
        test.lasts(60);
        assert!(!test.is_closing(), "the spawned job still runs");
        test.report(host, AgentReport::SpawnedClosed(5));
        assert!(!test.is_closing(), "it was another one");
        test.hears(host, 4, SpawnedNotice::Ended(0));
        test.report(host, AgentReport::SpawnedClosed(4));
        assert!(test.is_closing());
    }
}

#[test]
fn independent_jobs_live_on_when_their_parents_fail() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    test.has_independent(1, 0);
    test.end(0, End::Signal(signal::SIGSEGV));
    test.end(1, End::Signal(signal::SIGTERM));
    test.lasts(60);
    assert!(!test.is_closing() && test.printed.contains("child (job 77"), "{}", test.printed);
    test.hears(1, 0, SpawnedNotice::Ended(0));
    assert!(test.is_closing());
}

#[test]
fn a_signal_of_the_user_ends_independent_jobs() {
    let plan = plan(false);
    for first_ends in [true, false] {
        let mut test = TestJob::started(&plan, 2);
        test.has_independent(1, 0);
        if first_ends {
            (0..2).for_each(|host| test.end(host, End::Code(0)));
        }
        test.pass(1);
        test.handle(JobEvent::Signal(signal::SIGINT));
        assert_eq!(test.told(1, 0).last(), Some(&SpawnedOrder::Signal(signal::SIGINT)));
        if !first_ends {
            (0..2).for_each(|host| test.end(host, End::Signal(signal::SIGINT)));
        }
        test.lasts(2);
        assert!(!test.is_closing(), "they have time to end");
        // One that begins now is ended as well.
        test.hears(1, 1, SpawnedNotice::Hosts);
        assert_eq!(test.told(1, 1), [SpawnedOrder::Signal(signal::SIGTERM)]);
        test.lasts(60);
        assert!(test.is_closing());
    }
}

#[test]
fn a_signal_while_ranks_wait_ends_independent_jobs() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    test.has_independent(1, 0);
    // The ranks are asked first why they wait, and do not answer.
    let init = b"cmd=init pmi_version=1 pmi_subversion=1\n";
    test.report(0, AgentReport::PmiData(0, init.into()));
    test.told(1, 0);
    test.handle(JobEvent::Signal(signal::SIGINT));
    assert_eq!(test.told(1, 0), []);
    test.lasts(3);
    assert_eq!(test.told(1, 0), [SpawnedOrder::Signal(signal::SIGINT)]);
}

#[test]
fn the_time_limit_ends_independent_jobs() {
    let plan = JobPlan { timeout: Some(Duration::from_secs(20)), ..plan(false) };
    let mut test = TestJob::started(&plan, 2);
    test.has_independent(1, 0);
    (0..2).for_each(|host| test.end(host, End::Code(0)));
    test.lasts(10);
    test.lasts(10);
    assert!(test.printed.contains("20 s has passed; still running: child"), "{}", test.printed);
    test.lasts(5);
    assert!(test.is_closing());
    test.handle(command_ended(1, End::Code(0)));
    test.handle(JobEvent::DescendantsEnded);
    test.handle(JobEvent::Backlog([0; 2]));
    assert_eq!(test.job.exit_code(), Some(CODE_TIMEOUT));
}

#[test]
fn the_failure_of_an_independent_job_is_one_of_the_launcher() {
    let plan = plan(false);
    let code_after = |notice: Option<SpawnedNotice>, is_independent: bool| {
        let mut test = TestJob::started(&plan, 1);
        test.hears(0, 0, SpawnedNotice::Hosts);
        test.hears(0, 0, takes(0, &[]));
        if is_independent {
            test.hears(0, 0, SpawnedNotice::Independent);
        }
        notice.into_iter().for_each(|notice| test.hears(0, 0, notice));
        test.report(0, AgentReport::SpawnedClosed(0));
        test.end(0, End::Code(0));
        test.handle(JobEvent::DescendantsEnded);
        test.handle(JobEvent::Backlog([0; 2]));
        test.job.exit_code()
    };
    assert_eq!(code_after(Some(SpawnedNotice::Ended(3)), true), Some(3));
    assert_eq!(code_after(None, true), Some(1), "its launcher was killed");
    assert_eq!(code_after(Some(SpawnedNotice::Ended(0)), true), Some(0));
    // The processes to which it is connected get errors, and decide.
    assert_eq!(code_after(Some(SpawnedNotice::Ended(3)), false), Some(0));
}

#[test]
fn a_failure_of_which_the_parents_know_is_not_reported_again() {
    let plan = plan(true);
    let ended = |events: &[JobEvent]| {
        let mut test = TestJob::started(&plan, 2);
        for event in events {
            test.handle(event.clone());
        }
        test.job.unreported_code()
    };
    let failure = JobEvent::Report(0, AgentReport::Ended(0, End::Code(3)));
    assert_eq!(ended(std::slice::from_ref(&failure)), 3);
    assert_eq!(ended(&[failure.clone(), JobEvent::Independent]), 0);
    assert_eq!(ended(&[JobEvent::Independent, failure]), 3);
}

#[test]
fn slots_are_taken_once_and_come_back() {
    let plan = plan(false);
    let mut test = TestJob::with_slots(&plan, "host0=4/1,host1=4/1,");
    let hosts = |version, table: &str| SpawnedOrder::Hosts {
        version,
        table: table.to_owned(),
        expectation: SlotExpectation::No,
    };
    test.hears(0, 0, SpawnedNotice::Hosts);
    test.hears(1, 1, SpawnedNotice::Hosts);
    test.hears(1, 1, takes(0, &[("host0", 2)]));
    test.hears(0, 0, takes(0, &[("host0", 3)]));
    assert_eq!(test.told(1, 1), [hosts(0, "host0=4/1,host1=4/1,"), SpawnedOrder::Taken]);
    let told = [hosts(0, "host0=4/1,host1=4/1,"), hosts(1, "host0=4/3,host1=4/1,")];
    assert_eq!(test.told(0, 0), told, "the slots were taken meanwhile");
    test.hears(0, 0, takes(1, &[("host0", 1), ("host1", 1)]));
    assert_eq!(test.told(0, 0), [SpawnedOrder::Taken]);
    test.report(1, AgentReport::SpawnedClosed(1));
    test.hears(0, 2, SpawnedNotice::Hosts);
    assert_eq!(test.told(0, 2), [hosts(3, "host0=4/2,host1=4/2,")]);
}

#[test]
fn slots_of_single_processes_of_spawned_jobs_come_back() {
    let plan = plan(true);
    let mut test = TestJob::with_slots(&plan, "host0=4/1,host1=4/1,");
    test.hears(0, 0, SpawnedNotice::Hosts);
    test.hears(0, 0, takes(0, &[("host0", 2), ("host1", 1)]));
    test.told(0, 0);
    let returned = |host: &str| SpawnedNotice::Returned(host.to_owned());
    test.hears(0, 0, returned("host1"));
    // It has no more slots there, and none on a host that does not exist.
    test.hears(0, 0, returned("host1"));
    test.hears(0, 0, returned("host7"));
    test.hears(0, 0, returned("host0"));
    // Another job speaks for it.
    test.report(0, AgentReport::FromSpawned(9, encoded(&message("job0", returned("host0")))));
    let table = |test: &mut TestJob<'_>, link| {
        test.hears(1, link, SpawnedNotice::Hosts);
        let [SpawnedOrder::Hosts { table, .. }] = &test.told(1, link)[..] else { panic!() };
        table.clone()
    };
    assert_eq!(table(&mut test, 1), "host0=4/2,host1=4/1,");
    test.hears(0, 0, SpawnedNotice::Ended(0));
    assert_eq!(table(&mut test, 2), "host0=4/1,host1=4/1,", "each slot comes back once");
}

#[test]
fn a_spawned_job_gives_back_the_slots_of_its_processes() {
    let plan = plan(true);
    let mut test = TestJob::named(&plan, "spawned");
    test.sent_above.clear();
    (0..2).for_each(|_| test.report(0, AgentReport::Ended(0, End::Signal(signal::SIGKILL))));
    let sent: Vec<SpawnedNotice> =
        test.sent_above.iter().map(|message| message.notice.clone()).collect();
    assert_eq!(sent, [SpawnedNotice::Returned("host0".to_owned())]);
}

#[test]
fn slots_of_jobs_that_are_about_to_end_are_worth_waiting_for() {
    let plan = plan(false);
    let mut test = TestJob::with_slots(&plan, "host0=4/1,host1=4/1,");
    test.hears(0, 0, SpawnedNotice::Hosts);
    test.hears(0, 0, takes(0, &[("host0", 2)]));
    for (notice, expected) in [
        (SpawnedNotice::Started, SlotExpectation::No),
        (SpawnedNotice::Independent, SlotExpectation::Perhaps),
        (SpawnedNotice::Finalizing, SlotExpectation::Soon),
        (SpawnedNotice::Returned("host0".to_owned()), SlotExpectation::Soon),
        (SpawnedNotice::Returned("host0".to_owned()), SlotExpectation::No),
    ] {
        test.hears(0, 0, notice);
        test.hears(1, 1, SpawnedNotice::Hosts);
        let [SpawnedOrder::Hosts { expectation, .. }] = test.told(1, 1)[..] else { panic!() };
        assert_eq!(expectation, expected);
    }
}

#[test]
fn a_spawned_job_gives_back_slots_when_its_processes_have_finalized() {
    let plan = plan(false);
    let mut test = TestJob::named(&plan, "spawned");
    test.report(0, AgentReport::PmiData(0, b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec()));
    test.sent_above.clear();
    test.report(0, AgentReport::PmiData(0, b"cmd=finalize\n".to_vec()));
    test.report(0, AgentReport::Ended(0, End::Code(0)));
    let sent: Vec<SpawnedNotice> =
        test.sent_above.iter().map(|message| message.notice.clone()).collect();
    let returned = SpawnedNotice::Returned("host0".to_owned());
    assert_eq!(sent, [SpawnedNotice::Finalizing, returned]);
}

#[test]
fn jobs_are_reported_below_those_that_have_spawned_them() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 1);
    test.hears(0, 0, SpawnedNotice::Hosts);
    let mut below = message("job9", SpawnedNotice::Hosts);
    below.parent = Some("job0".to_owned());
    test.report(0, AgentReport::FromSpawned(0, encoded(&below)));
    let mut stages = Vec::new();
    for notice in [takes(0, &[]), SpawnedNotice::Started, SpawnedNotice::Initialized] {
        test.hears(0, 0, notice);
        let [report] = &test.job.summary().spawned[..] else { panic!() };
        assert_eq!(report.spawned.len(), 1);
        stages.push(report.stage);
    }
    let expected = [SpawnedStage::Starting, SpawnedStage::BeforeInit, SpawnedStage::Connected];
    assert_eq!(stages, expected);
}

#[test]
fn slots_of_failed_ranks_come_back_and_those_of_failed_hosts_do_not() {
    let plan = plan(true);
    let mut test = TestJob::with_slots(&plan, "host0=4/1,host1=4/1,");
    test.report(0, AgentReport::Ended(0, End::Signal(signal::SIGKILL)));
    test.handle(command_ended(1, End::Code(255)));
    test.hears(0, 2, SpawnedNotice::Hosts);
    let told = test.told(0, 2);
    assert!(
        matches!(&told[..], [SpawnedOrder::Hosts { table, .. }] if table == "host0=4/0,"),
        "{told:?}"
    );
}

#[test]
fn a_launcher_between_others_passes_messages_on() {
    let plan = plan(false);
    let mut test = TestJob::named(&plan, "middle");
    test.sent_above.clear();
    test.hears(1, 3, SpawnedNotice::Hosts);
    let mut expected = message("job3", SpawnedNotice::Hosts);
    expected.parent = Some("middle".to_owned());
    assert_eq!(test.sent_above, [expected]);
    let order = |job: &str, order| JobEvent::FromAbove(AddressedOrder { job: job.into(), order });
    test.handle(order("job3", SpawnedOrder::Taken));
    assert_eq!(test.told(1, 3), [SpawnedOrder::Taken]);
    test.handle(order("middle", SpawnedOrder::Signal(signal::SIGUSR1)));
    assert!(test.received[0].contains(&AgentOrder::Signal(None, signal::SIGUSR1)));
    assert_eq!(test.told(1, 3), [SpawnedOrder::Signal(signal::SIGUSR1)]);
    test.report(1, AgentReport::SpawnedClosed(3));
    let last = test.sent_above.last().map(|message| (&*message.job, &message.notice));
    assert_eq!(last, Some(("job3", &SpawnedNotice::Ended(1))));
}

#[test]
fn nonsense_from_processes_changes_nothing() {
    let plan = plan(false);
    let mut test = TestJob::with_slots(&plan, "host0=4/1,");
    test.has_independent(0, 0);
    let before = format!("{:?}", test.job.spawned);
    test.report(0, AgentReport::FromSpawned(9, b"{\"job\":".to_vec()));
    // Another connection speaks for the job.
    let other = encoded(&message("job0", SpawnedNotice::Ended(3)));
    test.report(0, AgentReport::FromSpawned(9, other));
    test.hears(0, 7, takes(0, &[("host0", 1)]));
    assert_eq!(format!("{:?}", test.job.spawned), before);
}

/// An elastic program goes on without any process of the job to which the user sends a request.
#[test]
fn spawned_jobs_know_how_many_processes_the_user_asks_for() {
    let plan = plan(false);
    let mut test = TestJob::started(&plan, 2);
    let resize = |processes| {
        let resizing = Resizing { change: SizeChange::To(processes), hosts: String::new() };
        JobEvent::ResizeRequest(1, resizing)
    };
    test.hears(1, 3, SpawnedNotice::Hosts);
    // Its launcher waits for the answer to a question.
    test.handle(resize(5));
    test.hears(1, 3, takes(0, &[]));
    assert!(!test.told(1, 3).iter().any(|one| matches!(one, SpawnedOrder::Wanted(_))));
    test.hears(1, 3, SpawnedNotice::Started);
    assert_eq!(test.told(1, 3), [SpawnedOrder::Wanted("5".to_owned())]);
    test.hears(1, 3, SpawnedNotice::Independent);
    test.handle(resize(4));
    assert_eq!(test.told(1, 3), [SpawnedOrder::Wanted("4".to_owned())]);

    let mut test = TestJob::named(&plan, "middle");
    test.hears(1, 3, SpawnedNotice::Hosts);
    test.hears(1, 3, SpawnedNotice::Started);
    assert_eq!(test.told(1, 3), []);
    let order = SpawnedOrder::Wanted("6@a:2".to_owned());
    test.handle(JobEvent::FromAbove(AddressedOrder { job: "middle".into(), order: order.clone() }));
    assert_eq!(test.told(1, 3), [order]);
    assert_eq!(test.job.server.wanted_size().map(|wanted| wanted.processes), Some(6));
}
