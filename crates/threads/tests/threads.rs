//! Tests of threads, seeds and the synchronisation types on real workers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bubbles::{MachineTree, Relation, schedulers};
use threads::census::Census;
use threads::sync::{Barrier, Condition, Mutex, Once, Semaphore};
use threads::{Bubble, Key, ThreadBuilder, Workers, sleep, spawn, words, yield_now};

mod common;
use common::{machine, workers};

#[test]
fn threads_return_what_they_computed() {
    for count in [1, 2, 5] {
        let sum: u64 = workers(count).run(|| {
            let threads: Vec<_> = (0..1000_u64).map(|number| spawn(move || number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, 499_500);
    }
}

/// Returns the census of this process once a set of workers satisfies `fits`; after a timeout, what
/// satisfies it then.
fn reported_threads(fits: impl Fn(&Census) -> bool) -> Vec<Census> {
    let begun = Instant::now();
    loop {
        // Other tests in this process have workers, too.
        let mut reported = Census::of_process(std::process::id());
        if reported.iter().any(&fits) || begun.elapsed() > Duration::from_secs(20) {
            reported.retain(fits);
            return reported;
        }
    }
}

/// Ends the threads of a test when it is dropped, so that a failed assertion does not leave them
/// waiting forever.
struct EndOnDrop {
    is_over: Arc<AtomicBool>,
    gate: Arc<Semaphore>,
    waiting: u32,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        (0..self.waiting).for_each(|_| self.gate.release());
    }
}

#[test]
fn the_census_reports_the_running_thread_and_counts_the_waiting_ones() {
    let builder = Workers::builder().machine(machine(2)).scheduler(Box::new(schedulers::Cache));
    let workers = builder.start().unwrap();
    let (gate, is_over) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let end = EndOnDrop { is_over: is_over.clone(), gate: gate.clone(), waiting: 5 };
    let main = ThreadBuilder::new().name("spins while others wait").spawn_on(&workers, move || {
        let above = Bubble::new(Relation::SharesMemory);
        let bubble = above.inside(Relation::WaitsTogether);
        let waits = |_| {
            let gate = gate.clone();
            ThreadBuilder::new().name("waits").bubble(&bubble).spawn(move || gate.acquire())
        };
        let waiting: Vec<_> = (0..5).map(waits).collect();
        above.submit();
        // A thread that reaches no scheduling point for a long time is counted as lent instead.
        while !is_over.load(Ordering::Relaxed) {
            yield_now();
        }
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let is_expected = |census: &Census| {
        let running = census.processors.iter().filter_map(|one| one.running.as_ref());
        let names: Vec<&str> = running.map(|thread| thread.name.as_str()).collect();
        // Queues are read before processors: a yielding thread may be found in both.
        census.scheduler == "cache"
            && names == ["spins while others wait"]
            && (census.alive, census.waiting, census.lent, census.queues.len()) == (6, 5, 0, 0)
    };
    let reported = reported_threads(is_expected);
    assert_eq!(reported.len(), 1, "{:?}", Census::of_process(std::process::id()));
    drop(end);
    main.join().unwrap();
    let has_ended = |census: &Census| census.scheduler == "cache" && census.alive == 0;
    assert_eq!(reported_threads(has_ended).len(), 1);
}

#[test]
fn a_panic_goes_to_the_joiner() {
    let reported = workers(2).run(|| spawn(|| panic!("of a thread")).join().unwrap_err());
    assert_eq!(reported.downcast_ref::<&str>(), Some(&"of a thread"));
}

#[test]
fn a_mutex_is_held_by_one_thread() {
    let total = workers(3).run(|| {
        let value = Arc::new(Mutex::new((0, 0)));
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let value = value.clone();
                spawn(move || {
                    for _ in 0..200 {
                        let mut value = value.lock();
                        value.0 += 1;
                        // Other threads run in the meantime, and must wait.
                        yield_now();
                        value.1 += 1;
                        assert_eq!(value.0, value.1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        value.lock().0
    });
    assert_eq!(total, 10_000);
}

#[test]
fn a_process_that_tries_in_vain_leaves_a_mutex_locked() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    assert!(mutex.try_lock().is_none() && mutex.try_lock().is_none());
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

/// As with futexes: a thread that sleeps on a word is woken by the thread that changes the word, or
/// when its time limit is over.
#[test]
fn threads_sleep_on_words_and_leave_their_worker() {
    assert!(!words::is_current() && words::number().is_none());
    for count in [1, 2] {
        workers(count).run(move || {
            let word = Arc::new(AtomicU32::new(0));
            let sleepers: Vec<_> = (0..10)
                .map(|_| {
                    let word = word.clone();
                    spawn(move || {
                        while word.load(Ordering::SeqCst) == 0 {
                            words::sleep_on(&word, 0, None);
                        }
                    })
                })
                .collect();
            let other = AtomicU32::new(0);
            let begun = Instant::now();
            words::sleep_on(&other, 0, Some(Duration::from_millis(20)));
            assert!(begun.elapsed() >= Duration::from_millis(20));
            // The word does not have the expected value, so no thread sleeps on it.
            words::sleep_on(&other, 1, None);
            assert_eq!(words::wake_on(&other, 1), 0);
            // On one worker all other threads sleep by now.
            let woken = words::wake_on(&word, 3);
            assert!(if count == 1 { woken == 3 } else { woken <= 3 }, "{woken}");
            assert_eq!(words::wake_on(&word, 0), 0);
            word.store(1, Ordering::SeqCst);
            words::wake_on(&word, usize::MAX);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
}

#[test]
fn a_barrier_lets_all_go_on_together() {
    workers(2).run(|| {
        let barrier = Arc::new(Barrier::new(100));
        let arrived = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..100)
            .map(|_| {
                let (barrier, arrived) = (barrier.clone(), arrived.clone());
                spawn(move || {
                    let mut last = 0;
                    for round in 1..=20 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        last += usize::from(barrier.wait());
                        assert!(arrived.load(Ordering::Relaxed) >= 100 * round);
                    }
                    last
                })
            })
            .collect();
        let last: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(last, 20, "one comes last each time");
    });
}

#[test]
fn a_queue_of_condition_and_mutex_loses_nothing() {
    let sum = workers(2).run(|| {
        let queue = Arc::new((Mutex::new(Vec::new()), Condition::new()));
        let taker = {
            let queue = queue.clone();
            spawn(move || {
                let mut sum = 0;
                for _ in 0..2000 {
                    let mut entries = queue.0.lock();
                    while entries.is_empty() {
                        entries = queue.1.wait(entries);
                    }
                    sum += entries.pop().unwrap();
                }
                sum
            })
        };
        for giver in 0..4 {
            let queue = queue.clone();
            drop(spawn(move || {
                for number in 0..500 {
                    queue.0.lock().push(giver * 500 + number);
                    queue.1.notify_one();
                }
            }));
        }
        taker.join().unwrap()
    });
    assert_eq!(sum, (0..2000).sum::<usize>());
}

#[test]
fn a_semaphore_works_between_threads_and_kernel_threads() {
    let workers = workers(2);
    let (there, back) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let echo = {
        let (there, back) = (there.clone(), back.clone());
        std::thread::spawn(move || {
            for _ in 0..500 {
                there.acquire();
                back.release();
            }
        })
    };
    workers.run(move || {
        for _ in 0..500 {
            there.release();
            back.acquire();
        }
        assert!(!back.try_acquire());
    });
    echo.join().unwrap();
}

#[test]
fn something_is_done_once() {
    static ONCE: Once = Once::new();
    static DONE: AtomicUsize = AtomicUsize::new(0);
    workers(3).run(|| {
        let threads: Vec<_> = (0..30)
            .map(|_| {
                spawn(|| {
                    ONCE.call_once(|| {
                        yield_now();
                        DONE.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(DONE.load(Ordering::Relaxed), 1);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn each_thread_has_its_own_value_of_a_key_wherever_it_runs() {
    static KEY: Key<usize> = Key::new(|| 0);
    workers(4).run(|| {
        let threads: Vec<_> = (1..50)
            .map(|step| {
                spawn(move || {
                    for round in 0..50 {
                        assert_eq!(KEY.with(|value| *value), round * step);
                        KEY.with(|value| *value += step);
                        yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The value of a key is dropped before the join of its thread returns.
#[test]
fn values_of_keys_end_before_the_join() {
    struct Counted;
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    static KEY: Key<Counted> = Key::new(|| Counted);
    impl Drop for Counted {
        fn drop(&mut self) {
            yield_now();
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    workers(2).run(|| {
        for number in 1..=100 {
            spawn(|| KEY.with(|_| ())).join().unwrap();
            assert_eq!(ENDED.load(Ordering::SeqCst), number);
        }
    });
}

#[test]
fn ten_thousand_timers_end_after_their_time() {
    workers(2).run(|| {
        let threads: Vec<_> = (0..10_000_u64)
            .map(|number| {
                spawn(move || {
                    let (begun, time) =
                        (Instant::now(), Duration::from_micros(number * 7 % 50_000));
                    sleep(time);
                    assert!(begun.elapsed() >= time);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A thread that blocks its worker in a system call, or spins, lends its core to other threads.
#[test]
fn others_run_while_a_thread_does_not_come_by() {
    let workers = workers(1);
    workers.run(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = spawn(move || sender.send(7).unwrap());
        // Only the other thread can end this wait, and the only worker is blocked.
        assert_eq!(receiver.recv(), Ok(7));
        other.join().unwrap();
        let flag = Arc::new(AtomicUsize::new(0));
        let raise = flag.clone();
        let other = spawn(move || raise.store(1, Ordering::Release));
        while flag.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        other.join().unwrap();
    });
}

/// All threads of the process are restricted to one processor, as when a control group is reduced.
/// The workers of the other processors end, also one that sleeps, and their queued threads run
/// elsewhere. Later the workers exist again.
#[test]
fn workers_leave_a_processor_that_was_taken_and_come_back() {
    const ASKED: &str = "THREADS_CUT";
    const NAME: &str = "workers_leave_a_processor_that_was_taken_and_come_back";
    let cores = sys::cores::allowed();
    let taskset = |cores: &str| {
        let of = std::process::id().to_string();
        let done = std::process::Command::new("taskset").args(["-apc", cores, &of]).output();
        done.is_ok_and(|done| done.status.success())
    };
    let all = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    if cores.len() < 2 || !taskset(&all) {
        eprintln!("left out: it needs two processors, and taskset");
        return;
    }
    if std::env::var_os(ASKED).is_none() {
        // Runs in a process of its own, as it binds all threads of the process.
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let found = alone.args(["--exact", NAME, "--nocapture"]).env(ASKED, "1").output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        return;
    }
    // The names of the slots that have a worker. A worker that waits too long for its processor
    // gets a second kernel thread, so the number of kernel threads is not certain at any moment.
    let slots = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        let names = names.filter_map(Result::ok).filter(|name| name.starts_with("worker "));
        names.collect::<BTreeSet<_>>()
    };
    let until = |cores: &str, count: usize| {
        let begun = Instant::now();
        while slots().len() != count {
            assert!(begun.elapsed() < Duration::from_secs(120), "workers: {:?}", slots());
            // One call may not suffice: it misses threads if a thread ends while it reads the list.
            taskset(cores);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let workers = Workers::builder().scheduler(Box::new(schedulers::Cache)).start().unwrap();
    let (ends, run) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ends_inside, run_inside) = (ends.clone(), run.clone());
    let main = ThreadBuilder::new().spawn_on(&workers, move || {
        let team = Bubble::new(Relation::Unrelated);
        let threads: Vec<_> = (0..4 * cores.len())
            .map(|_| {
                let (ends, run) = (ends_inside.clone(), run_inside.clone());
                ThreadBuilder::new().bubble(&team).spawn(move || {
                    while ends.load(Ordering::Relaxed) == 0 {
                        run.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_micros(100));
                        yield_now();
                    }
                })
            })
            .collect();
        team.submit();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    until(&all, workers.count());
    for _ in 0..3 {
        until(&all[..all.find(',').unwrap()], 1);
        let before = run.load(Ordering::Relaxed);
        while run.load(Ordering::Relaxed) < before + 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        until(&all, workers.count());
    }
    ends.store(1, Ordering::Relaxed);
    main.join().unwrap();
}

/// A thread whose core was lent continues when it reaches a scheduling point, also when the
/// replacement worker sleeps.
#[test]
fn a_thread_goes_on_whose_core_was_lent() {
    workers(1).run(|| {
        for _ in 0..3 {
            let (sender, receiver) = std::sync::mpsc::channel();
            let other = spawn(move || sender.send(7).unwrap());
            assert_eq!(receiver.recv(), Ok(7));
            // The replacement worker has nothing to do now and falls asleep.
            std::thread::sleep(Duration::from_millis(20));
            yield_now();
            other.join().unwrap();
        }
    });
}

/// Every scheduler runs a program of nested bubbles to its end, also a bubble that is submitted
/// while others run.
#[test]
fn every_scheduler_runs_bubbles() {
    for scheduler in schedulers::all() {
        let name = scheduler.name();
        let machine = MachineTree::regular(&[2, 2], 1);
        let workers = Workers::builder().machine(machine).scheduler(scheduler).start().unwrap();
        let done = workers.run(|| {
            let done = Arc::new(AtomicUsize::new(0));
            let mut threads = Vec::new();
            for _ in 0..3 {
                let all = Bubble::new(Relation::Unrelated);
                for relation in [Relation::SharesMemory, Relation::WaitsTogether] {
                    let team = all.inside(relation);
                    let barrier = Arc::new(Barrier::new(4));
                    for _ in 0..4 {
                        let (done, barrier) = (done.clone(), barrier.clone());
                        threads.push(ThreadBuilder::new().bubble(&team).spawn(move || {
                            for _ in 0..5 {
                                barrier.wait();
                                yield_now();
                            }
                            done.fetch_add(1, Ordering::Relaxed);
                        }));
                    }
                }
                all.submit();
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            done.load(Ordering::Relaxed)
        });
        assert_eq!(done, 24, "{name}");
    }
}

/// Jobs whose threads wait for each other without sleeping, each with more threads than processors:
/// a slice ends while some return to the queue, and all continue.
#[test]
fn gangs_that_are_larger_than_the_machine_go_on() {
    const WAYS: usize = 4;
    let gangs = || {
        let arrivals: Vec<_> = (0..2).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let all = Bubble::new(Relation::Unrelated);
        let mut threads = Vec::new();
        for arrived in &arrivals {
            let team = all.inside(Relation::WaitsTogether);
            for _ in 0..WAYS {
                let arrived = arrived.clone();
                threads.push(ThreadBuilder::new().bubble(&team).spawn(move || {
                    for step in 1..=400 {
                        arrived.fetch_add(1, Ordering::AcqRel);
                        let mut since = Instant::now();
                        while arrived.load(Ordering::Acquire) < step * WAYS {
                            std::hint::spin_loop();
                            if since.elapsed() > Duration::from_micros(20) {
                                yield_now();
                                since = Instant::now();
                            }
                        }
                    }
                }));
            }
        }
        all.submit();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    for _ in 0..8 {
        let workers = Workers::builder().machine(machine(2));
        let workers = workers.scheduler(schedulers::named("gang").expect("there is one"));
        workers.start().expect("workers start").run(gangs);
    }
}

/// The value of errno belongs to the thread that set it.
#[test]
fn errno_belongs_to_the_thread() {
    workers(1).run(|| {
        let threads: Vec<_> = (1..20)
            .map(|number| {
                spawn(move || {
                    for _ in 0..20 {
                        sys::errno::set_last(number);
                        yield_now();
                        assert_eq!(sys::errno::last(), number);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn many_threads_are_alive_at_once() {
    workers(2).run(|| {
        let gate = Arc::new(Semaphore::new(0));
        let threads: Vec<_> = (0..20_000)
            .map(|number: usize| {
                let gate = gate.clone();
                spawn(move || {
                    gate.acquire();
                    gate.release();
                    number
                })
            })
            .collect();
        gate.release();
        for (number, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), number);
        }
    });
}

/// The guard page below the stack ends a program whose thread recurses too deep, with a message
/// that names the thread.
#[test]
fn a_stack_that_overflows_is_reported_with_the_name_of_its_thread() {
    const ASKED: &str = "THREADS_OVERFLOW";
    if std::env::var_os(ASKED).is_some() {
        workers(1)
            .run(|| ThreadBuilder::new().name("deep one").spawn(|| deeper(0)).join().unwrap());
        unreachable!("the stack is not endless");
    }
    let this = std::env::current_exe().unwrap();
    let found = std::process::Command::new(this)
        .args(["--exact", "a_stack_that_overflows_is_reported_with_the_name_of_its_thread"])
        .env(ASKED, "1")
        .output()
        .unwrap();
    assert!(!found.status.success());
    let reported = String::from_utf8_lossy(&found.stderr);
    assert!(reported.contains("the stack of thread 'deep one' has overflowed"), "{reported}");
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn deeper(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 32]);
    deeper(depth + 1) + here[7]
}

/// Workers end even while threads wait that will never be woken. Workers can be started again
/// afterwards.
#[test]
fn workers_end_while_threads_wait() {
    for _ in 0..10 {
        workers(2).run(|| {
            drop(spawn(|| sleep(Duration::from_secs(3600))));
            drop(spawn(|| Semaphore::new(0).acquire()));
            yield_now();
        });
    }
}

/// Bubbles are submitted repeatedly, from several threads, while threads of other bubbles run.
#[test]
fn bubbles_are_submitted_from_many_threads() {
    for name in ["cache", "steal", "gang"] {
        let workers = Workers::builder()
            .machine(MachineTree::regular(&[2, 2], 1))
            .scheduler(schedulers::named(name).unwrap())
            .start()
            .unwrap();
        let done = workers.run(|| {
            let submitting: Vec<_> = (0..8)
                .map(|_| {
                    spawn(|| {
                        let mut done = 0;
                        for _ in 0..10 {
                            let bubble = Bubble::new(Relation::SharesMemory);
                            let make = || ThreadBuilder::new().bubble(&bubble).spawn(yield_now);
                            let threads: Vec<_> = (0..3).map(|_| make()).collect();
                            bubble.submit();
                            // One more thread, in a bubble that is submitted already.
                            let late = make();
                            for thread in threads.into_iter().chain([late]) {
                                thread.join().unwrap();
                                done += 1;
                            }
                        }
                        done
                    })
                })
                .collect();
            submitting.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(done, 320, "{name}");
    }
}
