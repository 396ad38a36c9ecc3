//! Streams on the installed library.

use std::env;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use combray_endpoints::Options;
use combray_endpoints::streams::{Stream, StreamEndpoint};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// So long, a step may take on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Runs a test in a runtime with two threads.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG, test).await.expect("not done in time") });
}

fn open() -> StreamEndpoint {
    StreamEndpoint::open(&Options::new()).unwrap()
}

/// Connects two endpoints.
async fn pair(from: &StreamEndpoint, to: &StreamEndpoint) -> (Stream, Stream) {
    let (here, there) = tokio::join!(from.connect(to.uri()), to.accept());
    (here.unwrap(), there.unwrap())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// The byte at a position of the data that tests send.
fn byte_at(position: usize) -> u8 {
    (position.wrapping_mul(0x9E37_79B9) >> 13) as u8
}

/// Writes so many bytes in pieces of random sizes, then the end.
async fn write_all_of(stream: &mut (impl AsyncWrite + Unpin), bytes: usize, seed: u64) {
    let (mut random, mut position) = (Random(seed), 0);
    while position < bytes {
        let limit = [10, 1000, 100_000][random.below(3)];
        let count = (1 + random.below(limit)).min(bytes - position);
        let piece: Vec<u8> = (position..position + count).map(byte_at).collect();
        stream.write_all(&piece).await.unwrap();
        position += count;
    }
    stream.shutdown().await.unwrap();
}

/// Reads in pieces of random sizes until the end; returns how many bytes there were.
async fn read_all_of(stream: &mut (impl AsyncRead + Unpin), seed: u64) -> usize {
    let (mut random, mut position) = (Random(seed), 0);
    loop {
        let limit = [10, 1000, 100_000][random.below(3)];
        let mut piece = vec![0; 1 + random.below(limit)];
        let count = stream.read(&mut piece).await.unwrap();
        if count == 0 {
            return position;
        }
        for (offset, byte) in piece[..count].iter().enumerate() {
            assert_eq!(*byte, byte_at(position + offset), "at {}", position + offset);
        }
        position += count;
    }
}

#[test]
fn bytes_arrive_in_both_directions_whatever_the_sizes_of_pieces() {
    const BYTES: usize = 1 << 20;
    run(async {
        let (client, server) = (open(), open());
        for seed in 1..6 {
            let (here, there) = pair(&client, &server).await;
            let (mut read_here, mut write_here) = tokio::io::split(here);
            let (mut read_there, mut write_there) = tokio::io::split(there);
            let (_, _, one, other) = tokio::join!(
                write_all_of(&mut write_here, BYTES, seed),
                write_all_of(&mut write_there, BYTES, seed + 100),
                read_all_of(&mut read_here, seed + 200),
                read_all_of(&mut read_there, seed + 300),
            );
            assert_eq!((one, other), (BYTES, BYTES));
        }
    });
}

#[test]
fn many_streams_share_an_endpoint() {
    const STREAMS: usize = 200;
    run(async {
        let (client, server) = (open(), open());
        let uri = server.uri().to_owned();
        let serve = tokio::spawn(async move {
            for _ in 0..STREAMS {
                let stream = server.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut read, mut write) = tokio::io::split(stream);
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
        let mut clients = Vec::new();
        for number in 0..STREAMS {
            let (client, uri) = (client.clone(), uri.clone());
            clients.push(tokio::spawn(async move {
                let stream = client.connect(&uri).await.unwrap();
                let (mut read, mut write) = tokio::io::split(stream);
                let bytes = 1000 + number * 100;
                let writes = write_all_of(&mut write, bytes, 1 + number as u64);
                let (_, back) = tokio::join!(writes, read_all_of(&mut read, 9));
                assert_eq!(back, bytes);
            }));
        }
        serve.await.unwrap();
        for one in clients {
            one.await.unwrap();
        }
    });
}

#[test]
fn a_writer_waits_for_a_reader_that_does_not_read() {
    run(async {
        let (client, server) = (open(), open());
        let (mut here, mut there) = pair(&client, &server).await;
        let piece = vec![1; 10_000];
        let written = AtomicUsize::new(0);
        let write = async {
            loop {
                written.fetch_add(here.write(&piece).await.unwrap(), Ordering::Relaxed);
            }
        };
        assert!(timeout(Duration::from_millis(500), write).await.is_err(), "it never waits");
        let before = written.load(Ordering::Relaxed);
        assert!((64 << 10..1 << 20).contains(&before), "{before} bytes were accepted");
        // Other streams go on.
        let (mut other, mut end) = pair(&client, &server).await;
        other.write_all(b"passes").await.unwrap();
        let mut word = [0; 6];
        end.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"passes");
        let mut all = vec![0; before];
        there.read_exact(&mut all).await.unwrap();
        here.write_all(&piece).await.unwrap();
    });
}

#[test]
fn a_half_closed_stream_still_brings_the_answer() {
    run(async {
        let (client, server) = (open(), open());
        let (mut here, mut there) = pair(&client, &server).await;
        here.write_all(b"question").await.unwrap();
        here.shutdown().await.unwrap();
        here.shutdown().await.unwrap();
        assert_eq!(here.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut question = String::new();
        there.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        there.write_all(b"answer").await.unwrap();
        drop(there);
        let mut answer = String::new();
        here.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn dropping_a_stream_ends_it_for_the_other_program() {
    run(async {
        let (client, server) = (open(), open());
        let (mut here, mut there) = pair(&client, &server).await;
        here.write_all(b"last words").await.unwrap();
        drop(here);
        let mut words = String::new();
        there.read_to_string(&mut words).await.unwrap();
        assert_eq!(words, "last words");
        let error = loop {
            if let Err(error) = there.write(&[0; 1000]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn nobody_accepts_is_an_error() {
    run(async {
        let (client, server) = (open(), open());
        let short = client.connect_with(server.uri(), &[], Duration::from_millis(300)).await;
        assert_eq!(short.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let (stream, _) = tokio::join!(client.connect_with(server.uri(), b"x", LONG), async {
            // The request of the first connection may still wait.
            while reject(&server).await.is_empty() {}
        });
        let text = stream.unwrap_err().to_string();
        assert!(text.contains("we are full"), "{text}");
        let uri = server.uri().to_owned();
        drop(server);
        assert_eq!(client.connect(&uri).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(client.connect("x").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// Rejects the next request; returns its data.
async fn reject(server: &StreamEndpoint) -> Vec<u8> {
    let request = server.request().await;
    let data = request.data().to_vec();
    // It fails if the other program has given up.
    let _ = request.reject("we are full");
    data
}

#[test]
fn a_cancelled_call_loses_nothing() {
    run(async {
        const BYTES: usize = 300_000;
        let (client, server) = (open(), open());
        // An accept that is given up for another one.
        assert!(timeout(Duration::from_millis(20), server.accept()).await.is_err());
        let (mut here, mut there) = pair(&client, &server).await;
        let writes = async {
            let mut position = 0;
            let mut random = Random(5);
            while position < BYTES {
                let count = (1 + random.below(40_000)).min(BYTES - position);
                let piece: Vec<u8> = (position..position + count).map(byte_at).collect();
                let written = timeout(Duration::from_micros(200), here.write(&piece)).await;
                position += written.map_or(0, |count| count.unwrap());
            }
            here.shutdown().await.unwrap();
        };
        let reads = async {
            let (mut position, mut random) = (0, Random(6));
            loop {
                let mut piece = vec![0; 1 + random.below(5000)];
                let limit = Duration::from_micros(random.below(400) as u64);
                let Ok(count) = timeout(limit, there.read(&mut piece)).await else { continue };
                match count.unwrap() {
                    0 => break,
                    count => {
                        for (offset, byte) in piece[..count].iter().enumerate() {
                            assert_eq!(*byte, byte_at(position + offset));
                        }
                        position += count;
                    }
                }
            }
            assert_eq!(position, BYTES);
        };
        tokio::join!(writes, reads);
        // A connect that is given up: the server sees nothing, or a stream that ends.
        for _ in 0..10 {
            let mut connect = pin!(client.connect(server.uri()));
            let polled = connect.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending));
        }
        let (here, there) = tokio::join!(
            client.connect_with(server.uri(), b"wanted", LONG),
            accept_wanted(&server)
        );
        drop(there);
        assert_eq!(here.unwrap().read(&mut [0; 9]).await.unwrap(), 0);
    });
}

/// Accepts streams until one has come whose data says that it is wanted.
async fn accept_wanted(server: &StreamEndpoint) -> Stream {
    loop {
        let request = server.request().await;
        match request.data() {
            b"wanted" => return request.accept().unwrap(),
            _ => drop(request.accept()),
        }
    }
}

/// Starts this program again for one of its functions, with the URI as an argument.
fn start(part: &str, uri: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", part])
        .env("TEST_URI", uri)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_peer_resets_its_streams_only() {
    run(async {
        let server = open();
        let mut peers: Vec<Child> =
            (0..2).map(|_| start("peer_that_answers", server.uri())).collect();
        let mut streams = Vec::new();
        for _ in &peers {
            let request = server.request().await;
            let peer = u32::from_ne_bytes(request.data().try_into().unwrap());
            streams.push((peer, request.accept().unwrap()));
        }
        streams.sort_by_key(|(peer, _)| *peer != peers[0].id());
        let [(_, first), (_, second)] = &mut streams[..] else { panic!("not two streams") };
        // Both answer before one is killed.
        for stream in [&mut *first, second] {
            stream.write_all(b"?").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'!');
        }
        peers[0].kill().unwrap();
        assert_eq!(first.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(first.write_u8(0).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        second.write_all(b"?").await.unwrap();
        assert_eq!(second.read_u8().await.unwrap(), b'!');
        second.shutdown().await.unwrap();
        for mut peer in peers {
            peer.wait().unwrap();
        }
    });
}

#[test]
#[ignore = "started by a test"]
fn peer_that_answers() {
    run(async {
        let client = open();
        let uri = env::var("TEST_URI").unwrap();
        let me = std::process::id().to_ne_bytes();
        let mut stream = client.connect_with(&uri, &me, LONG).await.unwrap();
        while let Ok(b'?') = stream.read_u8().await {
            stream.write_all(b"!").await.unwrap();
        }
    });
}

#[test]
fn vectored_writes_are_gathered() {
    run(async {
        let (client, server) = (open(), open());
        let (mut here, mut there) = pair(&client, &server).await;
        assert!(here.is_write_vectored());
        let large = vec![2; 40_000];
        let parts = [&[][..], &[1; 10], &large, &[3; 10]].map(std::io::IoSlice::new);
        // As much as one message may have.
        let count = here.write_vectored(&parts).await.unwrap();
        assert!(count > 10 && count < 40_010);
        let mut data = vec![0; count];
        there.read_exact(&mut data).await.unwrap();
        assert!(data[..10] == [1; 10] && data[10..].iter().all(|byte| *byte == 2));
        assert_eq!(here.write(&[]).await.unwrap(), 0);
    });
}

/// A runtime with one thread serves both ends, and an endpoint that is dropped there waits for
/// nobody.
#[test]
fn one_thread_is_enough() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, server) = (open(), open());
        let (mut here, mut there) = pair(&client, &server).await;
        for round in 0..100 {
            here.write_all(&[round; 100]).await.unwrap();
            let mut data = [0; 100];
            there.read_exact(&mut data).await.unwrap();
            assert_eq!(data, [round; 100]);
        }
        let late = tokio::spawn(async move { there.read(&mut [0; 10]).await });
        drop((here, client));
        assert_eq!(late.await.unwrap().unwrap(), 0);
    });
    // Its blocking tasks close the endpoints.
    drop(runtime);
}

/// A task that accepts streams for ever holds the endpoint until the runtime ends.
#[test]
fn the_end_of_a_runtime_closes_its_endpoints() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, client) = (runtime(), runtime());
    let endpoint = open();
    let uri = endpoint.uri().to_owned();
    server.spawn(async move {
        loop {
            let mut stream = endpoint.accept().await.unwrap();
            tokio::spawn(async move { stream.read(&mut [0; 10]).await });
        }
    });
    let (from, mut stream) = client.block_on(async {
        let from = open();
        let mut stream = from.connect(&uri).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        (from, stream)
    });
    drop(server);
    client.block_on(async {
        assert_eq!(stream.read(&mut [0; 10]).await.unwrap(), 0);
        let late = from.connect_with(&uri, &[], LONG).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}
