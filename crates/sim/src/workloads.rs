//! Workloads for timed worlds: typical programs over rails as real machines have them. Equal seeds
//! give equal workloads.

use fastrand::Rng;

use crate::timed::{ProcessStep, TimedMessage, TimedRail, Workload};

/// All workloads, each over the rails for which it is meant.
pub fn all() -> Vec<Workload> {
    let mut all = Vec::new();
    for (name, rails) in [("1G", one_gigabit()), ("10G", ten_gigabit()), ("1.2+0.8G", unequal())] {
        let with = |kind: &str, scripts| workload(format!("{kind} {name}"), &rails, scripts);
        all.push(with("burst 64 B", bursts(64, 64)));
        all.push(with("burst 1 KiB", bursts(64, 1024)));
        all.push(with("pages 8 KiB", pages(8 << 10)));
        all.push(with("pages 64 KiB", pages(64 << 10)));
        all.push(with("indexed", indexed()));
        all.push(with("mixed", mixed(7)));
        all.push(with("mixed two ways", mixed(8)));
        all.push(with("halo", halo()));
        all.push(with("collectives", collectives()));
        all.push(with("lone", lone(64)));
        all.push(with("lone 32 KiB", lone(32 << 10)));
        all.push(with("large", large()));
        all.push(Workload { priorities: vec![0, 5], ..with("urgent", urgent()) });
    }
    all.push(workload("large 3 rails".into(), &three(), large()));
    all.push(workload("mixed 3 rails".into(), &three(), mixed(9)));
    all
}

fn workload(name: String, rails: &[TimedRail], scripts: Vec<Vec<ProcessStep>>) -> Workload {
    Workload { name, rails: rails.to_vec(), priorities: vec![0], scripts }
}

/// A rail whose bandwidth is as declared.
pub fn rail(bytes_per_us: u64, latency_ns: u64, packet_ns: u64) -> TimedRail {
    let declared_bytes_per_us = bytes_per_us;
    TimedRail { bytes_per_us, declared_bytes_per_us, latency_ns, packet_ns, slower: None }
}

fn one_gigabit() -> Vec<TimedRail> {
    vec![rail(118, 20_000, 2500)]
}

fn ten_gigabit() -> Vec<TimedRail> {
    vec![rail(1180, 10_000, 2500)]
}

fn unequal() -> Vec<TimedRail> {
    vec![rail(146, 12_000, 2500), rail(106, 15_000, 2500)]
}

fn three() -> Vec<TimedRail> {
    vec![rail(1180, 10_000, 2500), rail(590, 10_000, 2500), rail(295, 20_000, 2500)]
}

/// One large message.
pub fn large() -> Vec<Vec<ProcessStep>> {
    transfer(&[32 << 20])
}

/// Ping-pong: one message in each direction, many times.
fn lone(bytes: usize) -> Vec<Vec<ProcessStep>> {
    rounds(20, &[bytes], &[bytes])
}

/// Many messages at once, and a short answer.
fn bursts(count: usize, bytes: usize) -> Vec<Vec<ProcessStep>> {
    rounds(20, &vec![bytes; count], &[1])
}

/// Three requests, and the pages that answer them.
fn pages(bytes: usize) -> Vec<Vec<ProcessStep>> {
    rounds(20, &[16; 3], &[bytes; 3])
}

/// Blocks of 64 bytes and of 256 KiB in turn, each a message.
fn indexed() -> Vec<Vec<ProcessStep>> {
    transfer(&[64, 256 << 10].repeat(8))
}

/// Message sizes as in real programs, some of them sent at once. An odd seed gives traffic in one
/// direction.
fn mixed(seed: u64) -> Vec<Vec<ProcessStep>> {
    let mut rng = Rng::with_seed(seed);
    let mut scripts = vec![Vec::new(), Vec::new()];
    for _ in 0..12 {
        let sizes =
            |rng: &mut Rng| -> Vec<usize> { (0..rng.usize(4..40)).map(|_| size(rng)).collect() };
        let there = sizes(&mut rng);
        let back = if seed.is_multiple_of(2) { sizes(&mut rng) } else { Vec::new() };
        receive_all(&mut scripts[0], 1, &back);
        receive_all(&mut scripts[1], 0, &there);
        send_all(&mut scripts[0], 1, &there);
        send_all(&mut scripts[1], 0, &back);
        scripts.iter_mut().for_each(|script| script.push(ProcessStep::Wait));
    }
    scripts
}

fn size(rng: &mut Rng) -> usize {
    match rng.u8(..20) {
        0..13 => rng.usize(1..512),
        13..18 => rng.usize(1000..30_000),
        _ => rng.usize(40_000..1_000_000),
    }
}

/// A ring of processes that exchange borders of several sizes, and compute in between.
fn halo() -> Vec<Vec<ProcessStep>> {
    let sizes = [64, 4096, 24_000, 64, 100_000];
    let script = |own: u32| {
        let mut script = Vec::new();
        for _ in 0..8 {
            for peer in [(own + 1) % 4, (own + 3) % 4] {
                receive_all(&mut script, peer, &sizes);
            }
            for peer in [(own + 1) % 4, (own + 3) % 4] {
                send_all(&mut script, peer, &sizes);
            }
            script.extend([ProcessStep::Wait, ProcessStep::Compute(50_000)]);
        }
        script
    };
    (0..4).map(script).collect()
}

/// The patterns of collectives: exchanges of pairs at doubling distances, then of all with all.
fn collectives() -> Vec<Vec<ProcessStep>> {
    let script = |own: u32| {
        let mut script = Vec::new();
        for round in 0..6 {
            for distance in [1, 2, 4] {
                let peer = own ^ distance;
                let bytes = [8, 1024, 16 << 10][round % 3];
                receive_all(&mut script, peer, &[bytes]);
                send_all(&mut script, peer, &[bytes]);
                script.push(ProcessStep::Wait);
            }
            for peer in (0..8).filter(|peer| *peer != own) {
                receive_all(&mut script, peer, &[512]);
            }
            for peer in (1..8).map(|distance| own ^ distance) {
                send_all(&mut script, peer, &[512]);
            }
            script.push(ProcessStep::Wait);
        }
        script
    };
    (0..8).map(script).collect()
}

/// Bulk data, and occasional short urgent messages in another context.
fn urgent() -> Vec<Vec<ProcessStep>> {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let bulk = [20_000, 1 << 20].repeat(6);
    receive_all(&mut receives, 0, &bulk);
    send_all(&mut sends, 1, &bulk);
    for tag in 0..10 {
        let message = |peer| TimedMessage { peer, context: 1, tag, bytes: 64 };
        receives.push(ProcessStep::Receive(message(0)));
        sends.push(ProcessStep::Send(message(1)));
        sends.push(ProcessStep::Compute(1000));
    }
    receives.push(ProcessStep::Wait);
    sends.push(ProcessStep::Wait);
    vec![sends, receives]
}

fn message(peer: u32, tag: usize, bytes: usize) -> TimedMessage {
    TimedMessage { peer, context: 0, tag: tag as i32, bytes }
}

fn send_all(script: &mut Vec<ProcessStep>, peer: u32, sizes: &[usize]) {
    let send = |(tag, &bytes)| ProcessStep::Send(message(peer, tag, bytes));
    script.extend(sizes.iter().enumerate().map(send));
}

fn receive_all(script: &mut Vec<ProcessStep>, peer: u32, sizes: &[usize]) {
    let receive = |(tag, &bytes)| ProcessStep::Receive(message(peer, tag, bytes));
    script.extend(sizes.iter().enumerate().map(receive));
}

fn transfer(sizes: &[usize]) -> Vec<Vec<ProcessStep>> {
    rounds(1, sizes, &[])
}

/// Sends `there`, waits for it, sends `back`; repeated this many times.
fn rounds(times: usize, there: &[usize], back: &[usize]) -> Vec<Vec<ProcessStep>> {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for _ in 0..times {
        receive_all(&mut one, 1, back);
        send_all(&mut one, 1, there);
        one.push(ProcessStep::Wait);
        receive_all(&mut other, 0, there);
        other.push(ProcessStep::Wait);
        send_all(&mut other, 0, back);
        other.push(ProcessStep::Wait);
    }
    vec![one, other]
}
