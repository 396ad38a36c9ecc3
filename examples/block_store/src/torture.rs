//! Servers, clients, and kills of clients at random moments.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{PATIENCE, Random, Result};

/// What is done.
pub struct Plan {
    pub servers: u64,
    pub clients: u64,
    pub time: Duration,
    pub seed: u64,
    /// Whether servers and clients pretend to be on two hosts.
    pub is_apart: bool,
}

/// The blocks of each server: so few that clients often want the same.
const BLOCKS: u64 = 64;

/// Processes that are killed at the end, and their folder, which is removed.
struct World {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs servers and clients, kills clients and starts them again, and compares the journals with
/// the store in the end.
pub fn torture(plan: &Plan) -> Result<()> {
    let name = format!("block-store-{}-{}", std::process::id(), plan.seed);
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    let mut world = World { folder, children: Vec::new() };
    for server in 0..plan.servers {
        let mut server = command(&world.folder, "serve", &[server, BLOCKS])?;
        if plan.is_apart {
            // The name by which a process says on which host it is.
            server.env("COMBRAY_NODE", "servers");
        }
        world.children.push(server.spawn()?);
    }
    let first = world.children.len();
    let (started, mut random) = (Instant::now(), Random::new(plan.seed));
    let mut lives = vec![0; plan.clients as usize];
    for client in 0..plan.clients {
        let child = start_client(plan, &world.folder, (client, 0), started)?;
        world.children.push(child);
    }
    let mut kills = 0;
    while started.elapsed() < plan.time {
        thread::sleep(Duration::from_millis(random.below(300)));
        let client = random.below(plan.clients);
        let child = &mut world.children[first + client as usize];
        if let Some(status) = child.try_wait()?
            && !status.success()
        {
            return Err(format!("client {client} has failed: {status}").into());
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
        lives[client as usize] += 1;
        let life = lives[client as usize];
        *child = start_client(plan, &world.folder, (client, life), started)?;
    }
    for (client, child) in world.children.drain(first..).enumerate() {
        end_well(child).map_err(|error| format!("client {client}: {error}"))?;
    }
    println!("{kills} clients were killed and started again");
    let numbers = [plan.servers, BLOCKS];
    end_well(command(&world.folder, "audit", &numbers)?.spawn()?)?;
    for (server, child) in world.children.iter_mut().enumerate() {
        if let Some(status) = child.try_wait()? {
            return Err(format!("server {server} has ended: {status}").into());
        }
    }
    Ok(())
}

fn start_client(
    plan: &Plan,
    folder: &Path,
    (client, life): (u64, u64),
    started: Instant,
) -> Result<Child> {
    // All end together, and each has some time to read what was written before.
    let left = plan.time.saturating_sub(started.elapsed()).as_secs() + 1;
    Ok(command(folder, "use", &[plan.servers, BLOCKS, client, life, left])?.spawn()?)
}

/// A part of this program.
fn command(folder: &Path, part: &str, numbers: &[u64]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(part).arg(folder).args(numbers.iter().map(u64::to_string)).stdin(Stdio::null());
    Ok(command)
}

/// Waits for the end of a process, which must succeed.
fn end_well(mut child: Child) -> Result<()> {
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("has failed: {status}").into()),
            None if started.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                return Err("has not ended in time".into());
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}
