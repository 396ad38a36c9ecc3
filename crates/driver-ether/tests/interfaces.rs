//! Tests drivers of two processes within this process, on the two ends of a virtual cable, in a
//! network namespace that has nothing else.

use std::os::fd::{IntoRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink, SharedCards};
use driver::{Driver, Settings, SharedBytesMut};
use memory::Buffer;
use rustix::io::{FdFlags, fcntl_setfd};

type Pair = [Box<dyn Driver>; 2];

const SILENCE: Duration = Duration::from_secs(10);

/// Creates a driver on each end of the cable, with these secrets and this limit of silence.
fn pair(secrets: [u8; 2], silence: Duration) -> Pair {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut gate = 0;
    let drivers = secrets.map(|secret| {
        let directory = Box::new(SharedCards(Arc::clone(&cards), [secret; 32]));
        let networks = format!("ether:end{gate}");
        let settings = Settings { networks, silence, ..Settings::default() };
        gate += 1;
        driver_ether::open(GateId(gate - 1), &settings, directory).unwrap().unwrap()
    });
    *cards.lock().unwrap() = drivers.iter().map(|driver| driver.card()).collect();
    drivers
}

fn connected() -> Pair {
    connected_with_silence(SILENCE)
}

fn connected_with_silence(silence: Duration) -> Pair {
    let mut drivers = pair([1, 1], silence);
    for (gate, driver) in drivers.iter_mut().enumerate() {
        assert_eq!(driver.connect(GateId(1 - gate as u32)).unwrap().rails, [0]);
    }
    poll_until(&mut drivers, |[one, two], _| {
        one.has_room(GateId(1), 0) && two.has_room(GateId(0), 0)
    });
    drivers
}

fn poll_until(
    drivers: &mut Pair,
    is_over: impl Fn(&Pair, &[RecordingSink; 2]) -> bool,
) -> [RecordingSink; 2] {
    let mut sinks = <[RecordingSink; 2]>::default();
    let start = Instant::now();
    while !is_over(drivers, &sinks) {
        for (driver, sink) in drivers.iter_mut().zip(&mut sinks) {
            driver.poll(sink);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{sinks:?}");
    }
    sinks
}

#[test]
#[ignore = "needs the cable, which another test lays"]
fn packets_and_parts() {
    let [mut one, mut two] = connected();
    conformance::keeps_buffers(|node| one.keep_buffers_on(node));
    conformance::packets(&mut *one, Some(&mut *two), GateId(0));
    conformance::packets(&mut *two, Some(&mut *one), GateId(1));
    conformance::unsteady(&mut *one, &mut *two);
    let buffer = Buffer::zeroed(3_000_000);
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
    buffer.write(0, &data);
    conformance::parts(&mut *one, &mut *two, GateId(0), &buffer);
    for block in [8, 4096] {
        let scattered = conformance::memory(1_000_000 / block * block, block);
        scattered.write(0, &data[..scattered.len()]);
        conformance::parts(&mut *two, &mut *one, GateId(1), &scattered);
    }
}

/// Sockets that a launcher opens work for the processes that inherit them, and frames reach each of
/// these processes.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn sockets_of_a_launcher() {
    const PROCESSES: usize = 3;
    let own = driver_ether::open_ahead("ether:end0", 1);
    let others = driver_ether::open_ahead("ether:end1", PROCESSES);
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let open = |gate: usize, (text, descriptors): (String, Vec<OwnedFd>)| {
        // The state after a process was started with them.
        for descriptor in descriptors {
            fcntl_setfd(&descriptor, FdFlags::empty()).unwrap();
            let _ = descriptor.into_raw_fd();
        }
        let settings = Settings {
            networks: "ether:end0,ether:end1".into(),
            descriptors: format!("other=x ether={text}"),
            silence: Duration::from_secs(10),
            ..Settings::default()
        };
        let directory = Box::new(SharedCards(Arc::clone(&cards), [1; 32]));
        driver_ether::open(GateId(gate as u32), &settings, directory).unwrap().unwrap()
    };
    let mut drivers: Vec<Box<dyn Driver>> =
        own.into_iter().chain(others).enumerate().map(|(gate, one)| open(gate, one)).collect();
    assert_eq!(drivers.len(), 1 + PROCESSES);
    *cards.lock().unwrap() = drivers.iter().map(|driver| driver.card()).collect();
    let (first, rest) = drivers.split_first_mut().unwrap();
    for (gate, other) in (1..).zip(rest) {
        first.connect(GateId(gate)).unwrap();
        other.connect(GateId(0)).unwrap();
        let mut record = RecordingSink::default();
        let start = Instant::now();
        // Long packets need both sockets.
        let lengths = [8, 60_000];
        let mut posted = 0;
        while record.packets.len() < lengths.len() {
            if let Some(&length) = lengths.get(posted) {
                let gate = GateId(gate);
                posted += usize::from(first.post_packet(gate, 0, length, &mut |out| out.fill(3)));
            }
            first.poll(&mut RecordingSink::default());
            other.poll(&mut record);
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        assert!(record.packets.iter().map(|(_, bytes)| bytes.len()).eq(lengths));
    }
}

#[test]
#[ignore = "needs the cable, which another test lays"]
fn frames_of_another_job() {
    let mut drivers = pair([1, 2], SILENCE);
    for (gate, driver) in drivers.iter_mut().enumerate() {
        driver.connect(GateId(1 - gate as u32)).unwrap();
    }
    let sinks = poll_until(&mut drivers, |both, _| both.iter().all(|one| one.refused() > 2));
    assert!(sinks.iter().all(|sink| sink.packets.is_empty() && sink.lost.is_empty()));
    assert!(!drivers[0].has_room(GateId(1), 0));
}

#[test]
#[ignore = "needs the cable, which another test lays"]
fn rails_restored() {
    let [mut one, mut two] = connected();
    conformance::packets(&mut *one, Some(&mut *two), GateId(0));
    conformance::restoring([&mut *one, &mut *two]);
}

/// The numbered packets that the first driver posted to the second, and the packets that arrived.
#[derive(Debug, Default)]
struct Series {
    posted: u32,
    arrived: Vec<u32>,
    lost: [usize; 2],
    restored: [usize; 2],
}

impl Series {
    /// Posts and polls for `time`. Lost rails are given up and restored, as where there are others.
    fn go_on(&mut self, drivers: &mut Pair, time: Duration) {
        let start = Instant::now();
        let mut sinks = <[RecordingSink; 2]>::default();
        while start.elapsed() < time {
            let number = self.posted;
            let is_time = number as usize <= self.arrived.len();
            let mut fill = |out: SharedBytesMut<'_>| out.copy_from(&number.to_le_bytes());
            if is_time && drivers[0].post_packet(GateId(1), 0, 4, &mut fill) {
                self.posted += 1;
            }
            for (gate, (driver, sink)) in drivers.iter_mut().zip(&mut sinks).enumerate() {
                driver.poll(sink);
                let peer = GateId(1 - gate as u32);
                if !sink.lost.is_empty() {
                    sink.lost.clear();
                    self.lost[gate] += 1;
                    driver.give_up(peer, 0);
                    driver.restore(peer, 0);
                }
                self.restored[gate] += std::mem::take(&mut sink.restored).len();
            }
            let numbers = sinks[1].packets.drain(..);
            let number = |(_, bytes): (GateId, Vec<u8>)| bytes[..].try_into().unwrap();
            self.arrived.extend(numbers.map(number).map(u32::from_le_bytes));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {words}");
}

/// For longer than the limit of silence; then both sides report the loss, and the rail works again.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn interface_down_for_long() {
    let mut drivers = connected_with_silence(Duration::from_secs(1));
    let (mut series, second) = (Series::default(), Duration::from_secs(1));
    series.go_on(&mut drivers, second / 2);
    ip("link set end0 down");
    series.go_on(&mut drivers, 4 * second);
    assert_eq!((series.lost[0], series.restored), (1, [0, 0]), "{series:?}");
    ip("link set end0 up");
    series.go_on(&mut drivers, 10 * second);
    assert_eq!((series.lost, series.restored), ([1, 1], [1, 1]), "{series:?}");
    let [mut one, mut two] = drivers;
    conformance::packets(&mut *two, Some(&mut *one), GateId(1));
}

/// Another interface of the name, with another address, replaces the first one, within the limit of
/// silence: nothing is lost, nothing arrives twice, and no loss is reported.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn interface_replaced() {
    let mut drivers = connected();
    let (mut series, second) = (Series::default(), Duration::from_secs(1));
    series.go_on(&mut drivers, second / 2);
    let before = series.arrived.len();
    ip("link delete end0");
    series.go_on(&mut drivers, second);
    ip(
        "link add end0 address 02:00:00:00:00:03 type veth peer name end1 address 02:00:00:00:00:04",
    );
    for (end, address) in [("end0", "10.0.0.1/24"), ("end1", "10.0.0.2/24")] {
        ip(&format!("address add {address} dev {end}"));
        ip(&format!("link set {end} up"));
    }
    series.go_on(&mut drivers, 4 * second);
    let count = series.arrived.len();
    assert!(before > 10 && count > before + 50, "{before}, {series:?}");
    assert!(series.arrived.iter().copied().eq(0..count as u32), "{series:?}");
    assert_eq!((series.lost, series.restored), ([0, 0], [0, 0]));
}

/// A process that does not poll is waited for. When it has ended, its kernel shows that, although
/// nothing is in flight to it.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn silent_process_and_its_end() {
    // Both kernels are this one, which answers over the loopback interface.
    ip("link set lo up");
    let silence = Duration::from_secs(2);
    let [mut one, two] = connected_with_silence(silence);
    let mut sink = RecordingSink::default();
    let start = Instant::now();
    while start.elapsed() < 3 * silence {
        one.poll(&mut sink);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(sink.lost.is_empty(), "{sink:?}");
    drop(two);
    while sink.lost.is_empty() {
        one.poll(&mut sink);
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let reported = format!("{:?}", sink.lost);
    assert!(reported.contains("the process of rank 1 has ended"), "{reported}");
}

/// The process that leaves last has received the acknowledgement of its goodbye from the one that
/// has left, and need not wait.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn one_leaves_after_the_other() {
    let cards = Arc::new(Mutex::new(vec![String::new(); 2]));
    let all = Barrier::new(2);
    let time_to_leave = |gate: u32, pause: Duration| {
        let settings = Settings {
            networks: format!("ether:end{gate}"),
            silence: SILENCE,
            ..Settings::default()
        };
        let directory = Box::new(SharedCards(Arc::clone(&cards), [1; 32]));
        let mut driver = driver_ether::open(GateId(gate), &settings, directory).unwrap().unwrap();
        cards.lock().unwrap()[gate as usize] = driver.card();
        all.wait();
        let (peer, mut sink) = (GateId(1 - gate), RecordingSink::default());
        driver.connect(peer).unwrap();
        while !driver.post_packet(peer, 0, 8, &mut |out| out.fill(1)) {
            driver.poll(&mut sink);
        }
        let start = Instant::now();
        while sink.packets.is_empty() || start.elapsed() < pause {
            driver.poll(&mut sink);
        }
        let start = Instant::now();
        driver.leave(&mut sink, Duration::from_secs(1));
        start.elapsed()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| time_to_leave(0, Duration::ZERO));
        let last = time_to_leave(1, Duration::from_millis(100));
        assert!(last < Duration::from_secs(1), "{last:?}");
    });
}

/// Last frames, which wake a sleeping process, are read before the frames that they follow: that is
/// no loss.
#[test]
#[ignore = "needs the cable, which another test lays"]
fn frames_go_once() {
    const BYTES: usize = 60_000;
    const COUNT: usize = 50;
    let sent = || -> usize {
        let text = std::fs::read_to_string("/sys/class/net/end0/statistics/tx_packets").unwrap();
        text.trim().parse().unwrap()
    };
    let mut drivers = connected();
    let needed = COUNT * BYTES.div_ceil(1500 - 72);
    let mut frames = || {
        let before = sent();
        for _ in 0..COUNT {
            assert!(drivers[0].post_packet(GateId(1), 0, BYTES, &mut |out| out.fill(3)));
            poll_until(&mut drivers, |[one, _], [_, sink]| {
                sink.packets.len() == 1 && one.has_room(GateId(1), 0)
            });
        }
        sent() - before
    };
    // Some frames are repeated where a busy machine delays this process, but not each time.
    let counts: Vec<usize> = (0..10).map(|_| frames()).collect();
    let least = counts.iter().min().unwrap();
    assert!(
        *least < needed * 26 / 25,
        "{counts:?} frames, of which {needed} were needed each time"
    );
}

/// Runs a test of this file in a network namespace with a cable of this MTU. False: this system
/// cannot create one.
fn run_on_cable(test: &str, mtu: u32) -> bool {
    let own = std::env::current_exe().unwrap();
    let lay = format!(
        "mount -t sysfs sysfs /sys && ip link add end0 mtu {mtu} address 02:00:00:00:00:01 type veth \\
             peer name end1 mtu {mtu} address 02:00:00:00:00:02 && \\
         ip address add 10.0.0.1/24 dev end0 && ip address add 10.0.0.2/24 dev end1 && \\
         ip link set end0 up && ip link set end1 up && \\
         for end in end0 end1; do \\
             until grep -q up /sys/class/net/$end/operstate; do sleep 0.01; done; \\
         done && \\
         exec \"$0\" --exact {test} --ignored --nocapture"
    );
    let able = Command::new("unshare")
        .args(["-Urnm", "sh", "-c", "mount -t sysfs sysfs /sys && ip link"])
        .output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("not tried: this system makes no network namespaces, or has no command ip");
        return false;
    }
    let mut command = Command::new("unshare");
    let output = command.args(["-Urnm", "sh", "-c", &lay]).arg(own).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

#[test]
fn it_conforms_with_short_frames_and_long_ones() {
    for mtu in [1500, 9000] {
        run_on_cable("packets_and_parts", mtu);
    }
}

#[test]
fn rails_that_were_lost_are_restored() {
    run_on_cable("rails_restored", 1500);
}

#[test]
fn an_interface_that_was_down_for_long_is_used_again() {
    run_on_cable("interface_down_for_long", 9000);
}

#[test]
fn an_interface_may_be_replaced_by_another_of_its_name() {
    run_on_cable("interface_replaced", 1500);
}

#[test]
fn a_silent_process_is_waited_for_until_it_has_ended() {
    run_on_cable("silent_process_and_its_end", 1500);
}

#[test]
fn strangers_are_refused_and_counted() {
    run_on_cable("frames_of_another_job", 1500);
}

#[test]
fn a_process_that_ends_last_does_not_wait_for_ended_peers() {
    run_on_cable("one_leaves_after_the_other", 1500);
}

#[test]
fn what_is_not_lost_goes_once() {
    run_on_cable("frames_go_once", 1500);
}

#[test]
fn a_launcher_opens_sockets_for_others() {
    run_on_cable("sockets_of_a_launcher", 1500);
}
