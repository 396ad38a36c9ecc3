//! A service by HTTP in each process of an MPI program, over streams of Combray.
//!
//!     combray run -n 2 http_service FOLDER SECONDS [PAUSE] [CLIENTS]
//!
//! The main thread computes and communicates with MPI: in each step it exchanges 1 KiB with its
//! neighbours, and adds up a value of all. After a step it waits for PAUSE microseconds (none is
//! the default). Meanwhile a thread with a runtime of tokio serves
//!
//!     GET /bytes/N     N bytes
//!     POST /echo       the body of the request
//!     GET /status      the rank, and the number of steps
//!     POST /stop       ends the program before SECONDS are over
//!
//! to all that have the URI, which is in FOLDER. With CLIENTS, each rank also has so many clients
//! of the service of the next rank, whose messages go the way of those of MPI and can share packets
//! with them. After SECONDS, each rank prints what it has measured and counted.

mod mpi;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use combray_endpoints::Options;
use combray_endpoints::streams::{Stream, StreamEndpoint};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mpi::Mpi;
use services::{Body, Client, Result, Times, answer, find, pattern, publish};
use tokio::runtime::Builder;

/// The values that neighbours exchange: 1 KiB.
const VALUES: usize = 128;

/// The longest response, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// The length of responses to the clients of other ranks.
const CLIENT_BYTES: usize = 100;

/// What the service knows of the computation, and counts.
#[derive(Default)]
struct State {
    rank: usize,
    steps: AtomicU64,
    requests: AtomicU64,
    /// Whether the computation is to end.
    must_end: AtomicBool,
    /// Whether it has ended.
    is_over: AtomicBool,
}

struct Plan {
    folder: PathBuf,
    time: Duration,
    pause: Duration,
    clients: u64,
}

fn main() -> ExitCode {
    let Some(plan) = plan() else {
        eprintln!("usage: combray run -n RANKS http_service FOLDER SECONDS [PAUSE] [CLIENTS]");
        return ExitCode::FAILURE;
    };
    let mpi = Mpi::init();
    match run(&mpi, &plan) {
        Ok(()) => {
            mpi.finalize();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("rank {}: {error}", mpi.rank);
            ExitCode::FAILURE
        }
    }
}

fn plan() -> Option<Plan> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next()?.into();
    let numbers: Vec<u64> = arguments.map(|text| text.parse().ok()).collect::<Option<_>>()?;
    let (seconds, rest) = numbers.split_first()?;
    let time = Duration::from_secs(*seconds);
    let pause = Duration::from_micros(rest.first().copied().unwrap_or(0));
    Some(Plan { folder, time, pause, clients: rest.get(1).copied().unwrap_or(0) })
}

fn run(mpi: &Mpi, plan: &Plan) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let inside = runtime.enter();
    let endpoint = StreamEndpoint::open(&Options::new())?;
    drop(inside);
    publish(&plan.folder, mpi.rank, endpoint.uri())?;
    let state = Arc::new(State { rank: mpi.rank, ..State::default() });
    runtime.spawn(serve(endpoint.clone(), Arc::clone(&state)));
    let next = (mpi.rank + 1) % mpi.size;
    let clients: Vec<_> = (0..plan.clients)
        .map(|_| {
            let (endpoint, state) = (endpoint.clone(), Arc::clone(&state));
            runtime.spawn(use_service(endpoint, plan.folder.clone(), next, state))
        })
        .collect();
    let counters = [
        (c"eager_sent", "messages sent"),
        (c"packets_sent", "packets"),
        (c"packets_shared", "packets with messages of MPI and of the service"),
    ];
    let counters = counters.map(|(name, noun)| (mpi.counter(name), noun));
    let steps = compute(mpi, plan, &state);
    state.is_over.store(true, Ordering::Relaxed);
    let mut calls = Times::default();
    for client in clients {
        calls.merge(runtime.block_on(client)??);
    }
    let counted: Vec<String> =
        counters.iter().map(|(counter, noun)| format!("{} {noun}", counter.value())).collect();
    println!(
        "rank {}: steps of MPI: {}; requests served: {}; own requests: {}; {}",
        mpi.rank,
        steps.describe(),
        state.requests.load(Ordering::Relaxed),
        calls.describe(),
        counted.join(", "),
    );
    // No rank ends its service while others use it.
    mpi.sum(0.0);
    drop(endpoint);
    runtime.shutdown_timeout(Duration::from_secs(10));
    Ok(())
}

/// Communicates by MPI until the time is over; verifies what arrives, and measures the steps.
fn compute(mpi: &Mpi, plan: &Plan, state: &State) -> Times {
    let (next, before) = ((mpi.rank + 1) % mpi.size, (mpi.rank + mpi.size - 1) % mpi.size);
    let (started, mut times, mut received) = (Instant::now(), Times::default(), [0.0; VALUES]);
    loop {
        let begun = Instant::now();
        let step = state.steps.load(Ordering::Relaxed) as f64;
        mpi.exchange(next, &[step + mpi.rank as f64; VALUES], before, &mut received);
        assert_eq!(received, [step + before as f64; VALUES], "what a neighbour has sent");
        let sum = mpi.sum(step);
        assert_eq!(sum, step * mpi.size as f64, "the sum of all ranks");
        times.add(begun);
        state.steps.fetch_add(1, Ordering::Relaxed);
        // All ranks must stop after one step: now and then they agree whether this is the one.
        let must_end = state.must_end.load(Ordering::Relaxed) || started.elapsed() > plan.time;
        if step as u64 % 64 == 63 && mpi.max(f64::from(must_end)) > 0.0 {
            return times;
        }
        if !plan.pause.is_zero() {
            std::thread::sleep(plan.pause);
        }
    }
}

/// Accepts streams, and serves HTTP on each.
async fn serve(endpoint: StreamEndpoint, state: Arc<State>) {
    loop {
        // An error concerns the one client that has given up.
        if let Ok(stream) = endpoint.accept().await {
            tokio::spawn(serve_one(stream, Arc::clone(&state)));
        }
    }
}

async fn serve_one(stream: Stream, state: Arc<State>) {
    let service = service_fn(|request| respond(request, &state));
    // An error means that the client was killed or has sent something else than HTTP.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, state: &State) -> Result<Response<Body>> {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let path = request.uri().path().to_owned();
    let bytes = path.strip_prefix("/bytes/").and_then(|bytes| bytes.parse().ok());
    let response = match (request.method(), bytes, &*path) {
        (&Method::GET, Some(bytes), _) if bytes <= BYTES_MAX => answer(pattern(bytes)),
        (&Method::POST, _, "/echo") => answer(request.into_body().collect().await?.to_bytes()),
        (&Method::GET, _, "/status") => {
            let (rank, steps) = (state.rank, state.steps.load(Ordering::Relaxed));
            answer(format!("{{\"rank\": {rank}, \"steps\": {steps}}}\n"))
        }
        (&Method::POST, _, "/stop") => {
            state.must_end.store(true, Ordering::Relaxed);
            answer("")
        }
        _ => {
            let mut response = answer(format!("there is no {path}\n"))?;
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    Ok(response?)
}

/// Sends requests to the service of another rank until the computation is over.
async fn use_service(
    endpoint: StreamEndpoint,
    folder: PathBuf,
    rank: usize,
    state: Arc<State>,
) -> Result<Times> {
    let uri = find(Path::new(&folder), rank).await?;
    let mut client = Client::connect(&endpoint, &uri).await?;
    let (path, expected) = (format!("/bytes/{CLIENT_BYTES}"), pattern(CLIENT_BYTES));
    let mut times = Times::default();
    while !state.is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let (status, body) = client.call(&path, Bytes::new()).await?;
        times.add(begun);
        if status != StatusCode::OK || body != expected {
            return Err(
                format!("rank {rank} has answered {status} and {} bytes", body.len()).into()
            );
        }
    }
    Ok(times)
}
