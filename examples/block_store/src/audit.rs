//! Compares the journals of all clients with what the servers have.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Servers;
use crate::journal::{self, State};
use crate::protocol::{Head, Kind, check, message, parse};
use crate::{PATIENCE, Result};

/// The writers that may have written a version of a block.
#[derive(Default)]
struct Writers {
    confirmed: Vec<u64>,
    /// Those that were killed before they had an answer.
    possible: Vec<u64>,
}

/// Checks that each version of each block has exactly one writer, that no confirmed write is lost,
/// and that no connection of a client is left. Prints what it has counted.
pub fn audit(folder: &Path, servers: u64, blocks: u64) -> Result<()> {
    let mut writers = writers_of(folder)?;
    let mut connected = Servers::connect(folder, servers)?;
    let (mut confirmed, mut unanswered) = (0, 0);
    for block in 0..servers * blocks {
        let (server, place) = ((block % servers) as usize, block / servers);
        let head = Head { kind: Kind::Read, tag: block, block: place, version: 0 };
        connected.send(server, message(head, &[]))?;
        let (_, bytes) = connected.answer()?;
        let (head, data) = parse(&bytes).ok_or("an answer that is no message")?;
        let last = check(data, block, head.version)?;
        for version in 1..=head.version {
            let found = writers.remove(&(block, version)).unwrap_or_default();
            let is_last = version == head.version;
            let may_be = |all: &[u64]| !is_last || last.is_some_and(|writer| all.contains(&writer));
            match (&found.confirmed[..], &found.possible[..]) {
                ([_], _) if may_be(&found.confirmed) => confirmed += 1,
                ([], [_, ..]) if may_be(&found.possible) => unanswered += 1,
                (confirmed, possible) => {
                    return Err(format!(
                        "version {version} of {} of block {block} has {} confirmed and {} possible \
                         writers, or another writer than they are",
                        head.version,
                        confirmed.len(),
                        possible.len()
                    )
                    .into());
                }
            }
        }
    }
    let lost = writers.iter().find(|(_, writers)| !writers.confirmed.is_empty());
    if let Some(((block, version), _)) = lost {
        return Err(
            format!("version {version} of block {block} is lost, which was confirmed").into()
        );
    }
    for server in 0..servers as usize {
        wait_until_alone(&mut connected, server)?;
    }
    println!(
        "{confirmed} writes confirmed, {unanswered} done whose client was killed before the answer"
    );
    Ok(())
}

/// Waits until a server has noticed that all clients but this one have ended.
fn wait_until_alone(connected: &mut Servers, server: usize) -> Result<()> {
    let started = Instant::now();
    loop {
        let head = Head { kind: Kind::Count, tag: 0, block: 0, version: 0 };
        connected.send(server, message(head, &[]))?;
        let (_, bytes) = connected.answer()?;
        match parse(&bytes) {
            Some((Head { kind: Kind::Connections, version: 1, .. }, _)) => return Ok(()),
            Some((Head { kind: Kind::Connections, .. }, _)) if started.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(50));
            }
            Some((head, _)) => {
                return Err(format!(
                    "server {server} does not notice that clients have ended: {head}"
                )
                .into());
            }
            None => return Err(format!("server {server} sends no message").into()),
        }
    }
}

/// Reads all journals: the writers that may have written each version of each block.
fn writers_of(folder: &Path) -> Result<HashMap<(u64, u64), Writers>> {
    let mut found: HashMap<(u64, u64), Writers> = HashMap::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let client = name.to_str().and_then(|name| name.strip_prefix("journal-")?.parse().ok());
        let Some(client) = client else { continue };
        for note in journal::read(folder, client)? {
            let writers = found.entry((note.block, note.version)).or_default();
            match note.state {
                State::Begun => writers.possible.push(note.writer),
                State::Done => writers.confirmed.push(note.writer),
                State::Failed => {}
            }
            // Answered.
            if note.state != State::Begun
                && let Some(place) = writers.possible.iter().position(|one| *one == note.writer)
            {
                writers.possible.swap_remove(place);
            }
        }
    }
    Ok(found)
}
