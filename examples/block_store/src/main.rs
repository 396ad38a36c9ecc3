//! A store of blocks of 4 KiB on several servers, over endpoints.
//!
//! ```text
//! block_store serve FOLDER SERVER BLOCKS
//! block_store use FOLDER SERVERS BLOCKS CLIENT LIFE SECONDS
//! block_store audit FOLDER SERVERS BLOCKS
//! block_store torture SERVERS CLIENTS SECONDS SEED [apart]
//! ```
//!
//! Block B is on server B % SERVERS. Each block has a version, and a write names the version that
//! it replaces: of several clients that replace one version, one succeeds, and the others get the
//! block that it has written. Clients also read blocks from the memory of their servers, without
//! them; a block that is changed meanwhile is noticed by its contents.
//!
//! `use` is a client that reads and writes at random and verifies each answer; it notes its writes
//! in a journal, before they are sent and when they are confirmed. `audit` compares the journals of
//! all clients with the store. `torture` does all of it: it kills clients at random moments and
//! starts them again, with a seed for what is random. With `apart`, servers and clients pretend to
//! be on two hosts.
//!
//! FOLDER has the URIs of the servers, which contain keys, and the journals.

mod audit;
mod client;
mod journal;
mod protocol;
mod server;
mod torture;

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// What every part of the program may fail with.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// So long, a process waits for another one.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["serve", folder, server, blocks] => number(server)
            .and_then(|server| server::serve(Path::new(folder), server, number(blocks)?)),
        ["use", folder, servers, blocks, client, life, seconds] => {
            client_of([servers, blocks, client, life, seconds], Path::new(folder))
        }
        ["audit", folder, servers, blocks] => number(servers)
            .and_then(|servers| audit::audit(Path::new(folder), servers, number(blocks)?)),
        ["torture", servers, clients, seconds, seed] => {
            torture_of([servers, clients, seconds, seed], false)
        }
        ["torture", servers, clients, seconds, seed, "apart"] => {
            torture_of([servers, clients, seconds, seed], true)
        }
        _ => Err("the arguments are those of the first comment in main.rs".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("block_store {}: {error}", arguments.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn client_of(numbers: [&str; 5], folder: &Path) -> Result<()> {
    let [servers, blocks, client, life, seconds] = numbers;
    client::run(&client::Plan {
        folder: folder.to_owned(),
        servers: number(servers)?,
        blocks: number(blocks)?,
        client: number(client)?,
        life: number(life)?,
        time: Duration::from_secs(number(seconds)?),
    })
}

fn torture_of(numbers: [&str; 4], is_apart: bool) -> Result<()> {
    let [servers, clients, seconds, seed] = numbers;
    torture::torture(&torture::Plan {
        servers: number(servers)?,
        clients: number(clients)?,
        time: Duration::from_secs(number(seconds)?),
        seed: number(seed)?,
        is_apart,
    })
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| format!("{text} is no number").into())
}

/// Writes the URI of a server to its file, which only this user can read.
fn publish(folder: &Path, server: u64, uri: &str) -> io::Result<()> {
    let draft = folder.join(format!("draft-{server}"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    io::Write::write_all(&mut file, uri.as_bytes())?;
    fs::rename(draft, uri_file(folder, server))
}

fn uri_file(folder: &Path, server: u64) -> PathBuf {
    folder.join(format!("server-{server}"))
}

/// Waits for the URI of a server.
fn find(folder: &Path, server: u64) -> Result<String> {
    let (file, started) = (uri_file(folder, server), Instant::now());
    loop {
        match fs::read_to_string(&file) {
            Ok(uri) => return Ok(uri),
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(format!("{}: {error}", file.display()).into());
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(protocol::mixed(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        protocol::mixed(self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
