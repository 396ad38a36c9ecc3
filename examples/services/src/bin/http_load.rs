//! A load generator for `http_service`: clients that send request after request over streams, and
//! verify each response.
//!
//!     http_load FOLDER CLIENTS SECONDS BYTES
//!
//! The clients are spread over the services of FOLDER; each response has BYTES bytes.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use combray_endpoints::Options;
use combray_endpoints::streams::StreamEndpoint;
use hyper::body::Bytes;
use services::{Client, Result, Times, pattern};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, numbers @ ..] = &arguments[..] else { return usage() };
    let numbers: Vec<u64> = numbers.iter().map_while(|text| text.parse().ok()).collect();
    let [clients, seconds, bytes] = numbers[..] else { return usage() };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(load(Path::new(folder), clients, seconds, bytes as usize)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: http_load FOLDER CLIENTS SECONDS BYTES");
    ExitCode::FAILURE
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("http_load: {error}");
    ExitCode::FAILURE
}

async fn load(folder: &Path, clients: u64, seconds: u64, bytes: usize) -> Result<()> {
    let endpoint = StreamEndpoint::open(&Options::new())?;
    let uris = services::services(folder)?;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for client in 0..clients {
        let uri = &uris[client as usize % uris.len()];
        let client = Client::connect(&endpoint, uri).await?;
        tasks.push(tokio::spawn(requests(client, started + Duration::from_secs(seconds), bytes)));
    }
    let mut times = Times::default();
    for task in tasks {
        times.merge(task.await??);
    }
    println!("http: {}", times.describe());
    Ok(())
}

async fn requests(mut client: Client, deadline: Instant, bytes: usize) -> Result<Times> {
    let (path, expected) = (format!("/bytes/{bytes}"), pattern(bytes));
    let mut times = Times::default();
    while Instant::now() < deadline {
        let begun = Instant::now();
        let (status, body) = client.call(&path, Bytes::new()).await?;
        times.add(begun);
        if status != 200 || body != expected {
            return Err(format!("{path}: {status}, {} bytes, which are wrong", body.len()).into());
        }
    }
    Ok(times)
}
