//! Endpoints on the installed library: in one process, and with peers that are killed.

use std::env;
use std::fs::Permissions as Permission;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use combray_endpoints::{
    Connection, ConnectionId, Endpoint, ErrorKind, Event, MemoryName, Message, Options,
    Permissions, Rejection, Result, TransferId,
};

/// So long, a step may take on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn open() -> Endpoint {
    Endpoint::open(&Options::new().memory(8 << 20)).unwrap()
}

fn next(endpoint: &Endpoint) -> Event {
    endpoint.wait(Some(LONG)).unwrap().expect("no event in time")
}

/// Connects two endpoints; returns both ends.
fn connected(from: &Endpoint, to: &Endpoint) -> (Connection, Connection) {
    let here = from.connect(to.uri(), b"hello", LONG).unwrap();
    let there = match next(to) {
        Event::Request(request) => {
            assert_eq!(request.data(), b"hello");
            request.accept().unwrap()
        }
        other => panic!("{other:?}"),
    };
    match next(from) {
        Event::Connected(id) => assert_eq!(id, here.id()),
        other => panic!("{other:?}"),
    }
    (here, there)
}

fn received(endpoint: &Endpoint) -> (ConnectionId, Message) {
    match next(endpoint) {
        Event::Received { connection, message } => (connection, message),
        other => panic!("{other:?}"),
    }
}

fn kind_of<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn messages_arrive_in_order_and_are_returned_in_any() {
    let (client, server) = (open(), open());
    let (here, there) = connected(&client, &server);
    for number in 0..100_u8 {
        here.send(&vec![number; usize::from(number)]).unwrap();
    }
    let mut held = Vec::new();
    for number in 0..100_u8 {
        let (id, message) = received(&server);
        assert_eq!(id, there.id());
        assert_eq!(*message, vec![number; usize::from(number)]);
        held.push(message);
    }
    held.swap(3, 77);
    // Messages outlive their connection, and their endpoint value.
    drop((here, there, client, server));
    let kept = held.pop().unwrap();
    drop(held);
    assert_eq!(*kept, [99; 99]);
}

#[test]
fn requests_are_rejected_with_data_without_and_on_drop() {
    let (client, server) = (open(), open());
    let mut reasons = Vec::new();
    for way in 0..4 {
        let connection = client.connect(server.uri(), &[], LONG).unwrap();
        let Event::Request(request) = next(&server) else { panic!("no request") };
        match way {
            0 => request.reject(b"no").unwrap(),
            1 => request.reject(b"").unwrap(),
            2 => assert_eq!(kind_of(request.reject(&[0; 1025])), ErrorKind::TooLong),
            _ => drop(request),
        }
        match next(&client) {
            Event::Rejected { connection: id, reason: Rejection::ByProgram(data) } => {
                assert_eq!(id, connection.id());
                reasons.push(data.to_vec());
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(kind_of(connection.send(b"x")), ErrorKind::Closed);
    }
    assert_eq!(reasons, [&b"no"[..], b"", b"", b""]);
}

/// Returns how many bytes of memory the process has in use.
fn memory_in_use() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn endpoints_that_are_dropped_free_what_was_sent() {
    const BYTES: usize = 32 << 20;
    let server = open();
    let before = memory_in_use();
    for _ in 0..8 {
        let client = open();
        let (here, there) = connected(&client, &server);
        here.send_owned(vec![1; BYTES]).unwrap();
        assert_eq!(received(&server).1.len(), BYTES);
        // Nobody takes the event that gives the memory back.
        drop((here, client));
        match next(&server) {
            Event::Closed(id) => assert_eq!(id, there.id()),
            other => panic!("{other:?}"),
        }
    }
    let grown = memory_in_use().saturating_sub(before);
    assert!(grown < 4 * BYTES, "{grown} bytes more are in use");
}

#[test]
fn a_connection_that_is_closed_before_it_was_accepted_has_an_event() {
    let (client, server) = (open(), open());
    let early = client.connect(server.uri(), &[], LONG).unwrap();
    early.disconnect().unwrap();
    match next(&client) {
        Event::Closed(id) => assert_eq!(id, early.id()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_file_is_trusted_in_place_of_the_uri() {
    let folder = env::temp_dir().join(format!("endpoints-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, content: u8, mode| {
        let path = folder.join(name);
        std::fs::write(&path, [content; 32]).unwrap();
        std::fs::set_permissions(&path, Permission::from_mode(mode)).unwrap();
        Endpoint::open(&Options::new().memory(8 << 20).key_file(path))
    };
    let (server, client) = (file("one", 1, 0o600).unwrap(), file("two", 1, 0o600).unwrap());
    connected(&client, &server);
    let stranger = open();
    assert_eq!(kind_of(stranger.connect(server.uri(), &[], LONG)), ErrorKind::Port);
    let wrong = file("three", 3, 0o600).unwrap();
    let _kept = wrong.connect(server.uri(), &[], LONG).unwrap();
    assert!(matches!(next(&wrong), Event::Rejected { reason: Rejection::Failed(_), .. }));
    assert_eq!(kind_of(file("open", 1, 0o644)), ErrorKind::NoPermission);
    assert_eq!(kind_of(file("with,comma", 1, 0o600)), ErrorKind::Argument);
    assert_eq!(
        kind_of(
            file("zero", 1, 0o600)
                .and_then(|_| { Endpoint::open(&Options::new().key_file("zero\0byte")) })
        ),
        ErrorKind::Argument
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_are_errors() {
    let (client, server) = (open(), open());
    let connect = |uri: &str, data: &[u8]| kind_of(client.connect(uri, data, LONG));
    assert_eq!(connect("nonsense", b""), ErrorKind::Port);
    assert_eq!(connect("zero\0byte", b""), ErrorKind::Port);
    assert_eq!(connect(server.uri(), &[0; 1025]), ErrorKind::TooLong);
    assert_eq!(kind_of(Endpoint::open(&Options::new().memory(1))), ErrorKind::Argument);
    let early = client.connect(server.uri(), b"", LONG).unwrap();
    assert_eq!(kind_of(early.send(b"x")), ErrorKind::Argument);
    let text = early.send(b"x").unwrap_err().to_string();
    assert!(text.contains("combray_send") && text.contains("not accepted yet"), "{text}");
    let Event::Request(request) = next(&server) else { panic!("no request") };
    drop(early);
    // The server learns of it at some time, and its program when it answers.
    let given_up = Instant::now();
    while server.poll().unwrap().is_none() && given_up.elapsed() < Duration::from_millis(500) {
        thread::sleep(Duration::from_millis(10));
    }
    match request.accept() {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        Ok(connection) => {
            assert!(matches!(next(&server), Event::Closed(id) if id == connection.id()))
        }
    }
}

#[test]
fn a_closed_endpoint_rejects_and_closes() {
    let client = open();
    let server = open();
    let uri = server.uri().to_owned();
    let (here, there) = connected(&client, &server);
    there.send(b"last").unwrap();
    drop((there, server));
    assert_eq!(*received(&client).1, *b"last");
    assert!(matches!(next(&client), Event::Closed(id) if id == here.id()));
    assert_eq!(kind_of(here.disconnect()), ErrorKind::Closed);
    let late = client.connect(&uri, b"", LONG).unwrap();
    match next(&client) {
        Event::Rejected { connection, reason: Rejection::Failed(error) } => {
            assert_eq!((connection, error.kind()), (late.id(), ErrorKind::Port));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_keeps_messages_stops_their_sender_only() {
    let (client, server) = (open(), open());
    let (keeper, _kept) = connected(&client, &server);
    let (other, _there) = connected(&client, &server);
    let mut sent = 0;
    let refused = loop {
        match keeper.send(&[7; 1000]) {
            Ok(()) => sent += 1,
            Err(error) => break error.kind(),
        }
        assert!(sent < 10_000, "nothing bounds what is sent");
    };
    assert_eq!(refused, ErrorKind::Pending);
    let mut held: Vec<Message> = (0..sent).map(|_| received(&server).1).collect();
    assert!(server.poll().unwrap().is_none());
    assert_eq!(server.held_connection(), Some(_kept.id()));
    other.send(b"passes").unwrap();
    assert_eq!(*received(&server).1, *b"passes");
    assert!(client.poll().unwrap().is_none());
    held.clear();
    assert!(matches!(next(&client), Event::Writable(id) if id == keeper.id()));
    keeper.send(&[7; 1000]).unwrap();
}

#[test]
fn memory_of_sends_comes_back() {
    let (client, server) = (open(), open());
    let (here, _there) = connected(&client, &server);
    let data: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let address = data.as_ptr();
    here.send_owned(data).unwrap();
    let (_, message) = received(&server);
    match next(&client) {
        Event::Sent { connection, buffer } => {
            assert_eq!(connection, here.id());
            assert!(buffer.as_ptr() == address && *buffer == *message);
        }
        other => panic!("{other:?}"),
    }
    here.disconnect().unwrap();
    let (error, data) = here.send_owned(vec![5; 10]).unwrap_err();
    assert_eq!((error.kind(), data), (ErrorKind::Closed, vec![5; 10]));
    assert!(matches!(next(&client), Event::Closed(_)));
}

fn completed(endpoint: &Endpoint) -> (TransferId, Vec<u8>, Result<()>) {
    match next(endpoint) {
        Event::Completed { transfer, buffer, outcome, .. } => (transfer, buffer, outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn registered_memory_is_read_and_written() {
    let (client, server) = (open(), open());
    let (here, _there) = connected(&client, &server);
    let memory = server.register(10_000, Permissions::READ | Permissions::WRITE).unwrap();
    // The name goes any way.
    let name = MemoryName::from_bytes(memory.name().to_bytes());
    memory.write(5000, b"from the owner");
    let read = here.read_memory(&name, 5000, vec![0; 14]).unwrap();
    let (transfer, buffer, outcome) = completed(&client);
    assert!(transfer == read && outcome.is_ok() && *buffer == *b"from the owner");
    let written = here.write_memory(&name, 9990, vec![7; 10], Some(b"done")).unwrap();
    let (_, message) = received(&server);
    let mut end = [0; 11];
    memory.read(9989, &mut end);
    assert!(*message == *b"done" && end == [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
    assert_eq!(completed(&client).0, written);
    let fence = here.fence().unwrap();
    assert!(matches!(completed(&client), (transfer, _, Ok(())) if transfer == fence));
}

/// The error of a read, which the call or the event reports.
fn refused(client: &Endpoint, here: &Connection, name: &MemoryName, at: usize) -> ErrorKind {
    match here.read_memory(name, at, vec![1; 8]) {
        Ok(_) => kind_of(completed(client).2),
        Err((error, buffer)) => {
            assert_eq!(buffer, [1; 8]);
            error.kind()
        }
    }
}

#[test]
fn registered_memory_has_permissions_an_end_and_an_owner() {
    let (client, server) = (open(), open());
    let (here, _there) = connected(&client, &server);
    let memory = server.register(100, Permissions::WRITE).unwrap();
    let name = memory.name();
    assert_eq!(refused(&client, &here, &name, 0), ErrorKind::NoPermission);
    let readable = server.register(100, Permissions::READ).unwrap();
    assert_eq!(refused(&client, &here, &readable.name(), 93), ErrorKind::OutOfRange);
    let former = readable.name();
    drop(readable);
    assert_eq!(refused(&client, &here, &former, 0), ErrorKind::NotRegistered);
    let nonsense = MemoryName::from_bytes([9; MemoryName::BYTES]);
    assert_eq!(refused(&client, &here, &nonsense, 0), ErrorKind::NotRegistered);
    assert_eq!(kind_of(server.register(0, Permissions::READ)), ErrorKind::TooLong);
    here.write_memory(&name, 0, vec![3; 100], None).unwrap();
    assert!(completed(&client).2.is_ok());
    let mut all = [0; 100];
    memory.read(0, &mut all);
    assert_eq!(all, [3; 100]);
}

#[test]
fn the_descriptor_is_readable_while_there_are_events() {
    let (client, server) = (open(), open());
    let descriptor = server.descriptor().unwrap();
    assert_eq!(descriptor.as_raw_fd(), server.descriptor().unwrap().as_raw_fd());
    assert!(rests(&server, descriptor.as_raw_fd()));
    let _connection = client.connect(server.uri(), b"", LONG).unwrap();
    assert!(is_readable(descriptor.as_raw_fd(), LONG.as_millis() as i32));
    assert!(matches!(next(&server), Event::Request(_)));
    assert!(rests(&server, descriptor.as_raw_fd()));
}

/// Whether a descriptor of an endpoint that has no events is readable a few times only, as when a
/// message arrives in part.
fn rests(endpoint: &Endpoint, descriptor: i32) -> bool {
    (0..100).any(|_| {
        assert!(endpoint.poll().unwrap().is_none());
        !is_readable(descriptor, 20)
    })
}

fn is_readable(descriptor: i32, milliseconds: i32) -> bool {
    #[repr(C)]
    struct PollFd(i32, i16, i16);
    unsafe extern "C" {
        fn poll(descriptors: *mut PollFd, count: u64, milliseconds: i32) -> i32;
    }
    let mut one = PollFd(descriptor, 1, 0);
    // SAFETY: the pointer leads to one description.
    unsafe { poll(&mut one, 1, milliseconds) == 1 }
}

#[test]
fn threads_send_over_one_endpoint() {
    const THREADS: usize = 4;
    const MESSAGES: usize = 500;
    let (client, server) = (open(), open());
    let pairs: Vec<_> = (0..THREADS).map(|_| connected(&client, &server)).collect();
    let place = |id| pairs.iter().position(|(_, there)| there.id() == id).unwrap();
    let mut next_numbers = [0_usize; THREADS];
    thread::scope(|scope| {
        for (here, _) in &pairs {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    while let Err(error) = here.send(&number.to_ne_bytes()) {
                        assert_eq!(error.kind(), ErrorKind::Pending);
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        for _ in 0..THREADS * MESSAGES {
            let (id, message) = received(&server);
            let expected = &mut next_numbers[place(id)];
            assert_eq!(*message, expected.to_ne_bytes());
            *expected += 1;
        }
    });
}

#[test]
fn messages_without_order_arrive_or_are_counted() {
    const FLOOD: usize = 2000;
    let (client, server) = (open(), open());
    let (here, there) = connected(&client, &server);
    here.send_unordered(b"in any order").unwrap();
    assert_eq!(*received(&server).1, *b"in any order");
    for _ in 0..FLOOD {
        here.send_unreliable(&[7; 1000]).unwrap();
    }
    let dropped = here.dropped().unwrap();
    assert!(dropped > 0 && dropped < FLOOD, "{dropped}");
    here.disconnect().unwrap();
    let mut held = Vec::new();
    loop {
        match next(&server) {
            Event::Received { message, .. } => held.push(message),
            Event::Closed(id) if id == there.id() => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(held.len() + dropped, FLOOD);
    assert_eq!(kind_of(here.dropped()), ErrorKind::Closed);
}

#[test]
fn a_thread_that_waits_is_woken() {
    let endpoint = open();
    thread::scope(|scope| {
        let waits = scope.spawn(|| endpoint.wait(Some(LONG)).unwrap());
        // Long enough for the other thread to sleep, on most machines.
        thread::sleep(Duration::from_millis(20));
        endpoint.wake().unwrap();
        assert!(matches!(waits.join().unwrap(), Some(Event::Woken)));
    });
    let descriptor = endpoint.descriptor().unwrap().as_raw_fd();
    endpoint.wake().unwrap();
    endpoint.wake().unwrap();
    assert!(is_readable(descriptor, LONG.as_millis() as i32));
    assert!(matches!(endpoint.poll().unwrap(), Some(Event::Woken)));
    assert!(endpoint.poll().unwrap().is_none(), "one event for both calls");
}

#[test]
fn a_stopped_peer_is_silent() {
    let server = open();
    let mut peer = start("peer_that_waits", server.uri());
    let Event::Request(request) = next(&server) else { panic!("no request") };
    let connection = request.accept().unwrap();
    assert_eq!(*received(&server).1, *b"I am here");
    let stopped = Command::new("kill").args(["-STOP", &peer.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    connection.set_keepalive(Some(Duration::from_millis(50))).unwrap();
    assert!(matches!(next(&server), Event::Silent(id) if id == connection.id()));
    connection.set_keepalive(None).unwrap();
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert!(matches!(next(&server), Event::Lost { .. }));
    assert_eq!(kind_of(connection.set_keepalive(None)), ErrorKind::Closed);
}

/// Starts this program again for one of its functions, with the URI as an argument.
fn start(part: &str, uri: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", part])
        .env("TEST_URI", uri)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_peer_is_lost() {
    let server = open();
    let mut peer = start("peer_that_waits", server.uri());
    let Event::Request(request) = next(&server) else { panic!("no request") };
    let connection = request.accept().unwrap();
    assert_eq!(*received(&server).1, *b"I am here");
    connection.send_owned(vec![1; 3 << 20]).unwrap();
    peer.kill().unwrap();
    peer.wait().unwrap();
    match next(&server) {
        Event::Lost { connection: id, error } => {
            assert_eq!((id, error.kind()), (connection.id(), ErrorKind::PeerFailed));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(kind_of(connection.send(b"x")), ErrorKind::Closed);
}

#[test]
#[ignore = "started by a test"]
fn peer_that_waits() {
    let client = open();
    let connection = client.connect(&env::var("TEST_URI").unwrap(), b"", LONG).unwrap();
    assert!(matches!(next(&client), Event::Connected(_)));
    connection.send(b"I am here").unwrap();
    // It takes no message until it is killed.
    thread::sleep(LONG);
}

/// Where no library can be found, the error says what was looked for.
#[test]
fn without_a_library_opening_fails() {
    let mut part = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "open_without_library"])
        .env("PATH", "/nowhere")
        .env_remove("LD_LIBRARY_PATH")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(part.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| line.unwrap().strip_prefix("error: ").map(str::to_owned));
    assert!(part.wait().unwrap().success());
    let line = line.unwrap();
    assert!(line.contains("libmpi_abi.so.1") && line.contains("PATH"), "{line}");
}

#[test]
#[ignore = "started by a test"]
fn open_without_library() {
    let error = Endpoint::open(&Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoLibrary);
    println!("error: {error}");
}
