//! Byte streams on connections, with the traits of tokio (feature `tokio`).
//!
//! A [`Stream`] implements [`AsyncRead`] and [`AsyncWrite`], so what is generic over these traits,
//! such as hyper, tonic or rustls, works on it as on a TCP stream. A [`StreamEndpoint`] accepts
//! streams and connects them. All streams of an endpoint have its queue of events, for which a
//! thread waits in the library; it makes progress for MPI, too, while it waits.
//!
//! Each write sends one message of at most 32 KiB, so a writer that has many small pieces should
//! gather them, by `write_vectored` or a `BufWriter`, as on a TCP stream. A reader that does not
//! read stops the writer when the window of the connection is used up (256 KiB, see
//! [`Options::memory`]).
//!
//! | call | the other end |
//! |---|---|
//! | `shutdown` | reads what was written, then the end of the stream; can still write |
//! | drop | reads what was written, then the end of the stream; writes fail with `BrokenPipe` |
//! | the process is killed | reads what has arrived, then `ConnectionReset` |

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::coop;

use crate::{
    Connection, ConnectionId, Endpoint, Error, ErrorKind, Event, Message, Options, Rejection,
    Request, Result,
};

/// What a request begins with whose connection is to be a stream.
const GREETING: &[u8] = b"combray-stream/1\n";

/// The largest message that a write sends, in bytes.
const WRITE_MAX: usize = 32 << 10;

/// How long the other program may take to accept a stream.
const CONNECT_TIME: Duration = Duration::from_secs(60);

/// Accepts streams and connects them. It may be cloned; the endpoint is closed when all clones and
/// all streams were dropped.
#[derive(Clone)]
pub struct StreamEndpoint {
    hub: Arc<Hub>,
}

/// What the streams of an endpoint share. The last of them closes it.
struct Hub {
    switch: Arc<Switch>,
    /// The thread that waits for events; taken when the hub is dropped.
    thread: Option<JoinHandle<()>>,
}

/// Where events go.
struct Switch {
    endpoint: Endpoint,
    streams: Mutex<HashMap<ConnectionId, Arc<Mutex<StreamState>>>>,
    requests: Mutex<VecDeque<Request>>,
    /// Notified for each request.
    has_request: Notify,
    /// Whether the thread must end.
    ends: AtomicBool,
}

/// A byte stream to another program. It is closed on drop: what was written arrives.
pub struct Stream {
    connection: Connection,
    state: Arc<Mutex<StreamState>>,
    /// Dropped last: the hub closes the endpoint.
    hub: Arc<Hub>,
}

#[derive(Default)]
struct StreamState {
    stage: Stage,
    /// What has arrived, and how much of its first message was read.
    arrived: VecDeque<Message>,
    read: usize,
    /// Whether nothing more arrives.
    is_at_end: bool,
    /// Whether a write was refused, and nothing was returned since.
    is_blocked: bool,
    /// Whether this end has written the end of the stream.
    is_shut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
enum Stage {
    /// The other program has not accepted it yet.
    #[default]
    Connecting,
    Open,
    /// The other program has closed its end.
    Closed,
    /// It was rejected or lost, for this reason.
    Failed(io::ErrorKind, Arc<Error>),
}

/// The request of another program for a stream, which is rejected on drop.
#[derive(Debug)]
pub struct StreamRequest {
    request: Request,
    /// Dropped last, as in a stream.
    hub: Arc<Hub>,
}

impl StreamEndpoint {
    /// Opens an endpoint for streams, and starts its thread.
    ///
    /// # Errors
    /// Those of [`Endpoint::open`], and of the system if it has no thread left.
    pub fn open(options: &Options) -> io::Result<Self> {
        let endpoint = Endpoint::open(options)?;
        let (streams, requests, has_request, ends) = Default::default();
        let switch = Arc::new(Switch { endpoint, streams, requests, has_request, ends });
        let events = Arc::clone(&switch);
        let builder = thread::Builder::new().name("combray-streams".into());
        let thread = Some(builder.spawn(move || events.handle_all())?);
        Ok(Self { hub: Arc::new(Hub { switch, thread }) })
    }

    /// Returns the address of the endpoint, with its key; see [`Endpoint::uri`].
    pub fn uri(&self) -> &str {
        self.hub.switch.endpoint.uri()
    }

    /// Waits for the next stream of another program, and accepts it. If the future is dropped
    /// before it is ready, no stream is lost.
    ///
    /// # Errors
    /// Those of [`StreamRequest::accept`], which concern one stream: the next call may succeed.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.request().await.accept()
    }

    /// Waits for the next request for a stream, to accept or reject it. If the future is dropped
    /// before it is ready, no request is lost.
    pub async fn request(&self) -> StreamRequest {
        loop {
            let notified = self.hub.switch.has_request.notified();
            if let Some(request) = self.hub.switch.next_request() {
                return StreamRequest { request, hub: Arc::clone(&self.hub) };
            }
            notified.await;
        }
    }

    /// Connects to the endpoint with this URI. If the future is dropped before it is ready, the
    /// connection is closed.
    ///
    /// # Errors
    /// `ConnectionRefused` if no process has this URI, or the other program has rejected the
    /// stream or did not accept it within a minute; `OutOfMemory` if the endpoint has no memory
    /// left for a connection.
    pub async fn connect(&self, uri: &str) -> io::Result<Stream> {
        self.connect_with(uri, &[], CONNECT_TIME).await
    }

    /// Connects like [`connect`](Self::connect), with data for the
    /// [request](StreamRequest::data), at most 1000 bytes, and a limit of the time.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect); `InvalidInput` for longer data.
    pub async fn connect_with(
        &self,
        uri: &str,
        data: &[u8],
        limit: Duration,
    ) -> io::Result<Stream> {
        let request = [GREETING, data].concat();
        let connect = || self.hub.switch.endpoint.connect(uri, &request, limit);
        let stream = self.hub.add(Stage::Connecting, connect)?;
        poll_fn(|context| stream.poll_connected(context)).await?;
        Ok(stream)
    }
}

impl StreamRequest {
    /// Returns the data that the other program has given with its request.
    pub fn data(&self) -> &[u8] {
        self.request.data().strip_prefix(GREETING).unwrap_or_default()
    }

    /// Accepts the stream.
    ///
    /// # Errors
    /// `NotConnected` if the other program has ended or given up.
    pub fn accept(self) -> io::Result<Stream> {
        let Self { request, hub } = self;
        hub.add(Stage::Open, || request.accept())
    }

    /// Rejects the stream, with a reason for the other program of at most 1024 bytes.
    ///
    /// # Errors
    /// `NotConnected` if the other program has ended or given up; `InvalidInput` for a longer
    /// reason.
    pub fn reject(self, reason: &str) -> io::Result<()> {
        Ok(self.request.reject(reason.as_bytes())?)
    }
}

impl Hub {
    /// Makes a connection and its stream.
    fn add(
        self: &Arc<Self>,
        stage: Stage,
        connect: impl FnOnce() -> Result<Connection>,
    ) -> io::Result<Stream> {
        let state = Arc::new(Mutex::new(StreamState { stage, ..StreamState::default() }));
        // Events of the connection wait until it is known here.
        let mut streams = lock(&self.switch.streams);
        let connection = connect()?;
        streams.insert(connection.id(), Arc::clone(&state));
        drop(streams);
        Ok(Stream { connection, state, hub: Arc::clone(self) })
    }
}

impl Switch {
    /// Takes the oldest request. The task that waits for the next one is woken if there are more.
    fn next_request(&self) -> Option<Request> {
        let mut waiting = lock(&self.requests);
        let request = waiting.pop_front();
        if !waiting.is_empty() {
            self.has_request.notify_one();
        }
        request
    }

    /// Waits for events and handles them, until the endpoint is to be closed.
    fn handle_all(&self) {
        while !self.ends.load(Ordering::Acquire) {
            match self.endpoint.wait(None) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => {}
                // The endpoint is there, so this does not happen.
                Err(_) => return,
            }
        }
    }

    fn handle(&self, event: Event) {
        match event {
            Event::Request(request) if request.data().starts_with(GREETING) => {
                lock(&self.requests).push_back(request);
                self.has_request.notify_one();
            }
            Event::Request(request) => {
                // It fails if the other program has given up.
                let _ = request.reject(b"this endpoint accepts streams only");
            }
            Event::Connected(id) => self.change(id, |state| state.stage = Stage::Open),
            Event::Rejected { connection, reason } => {
                let error = match reason {
                    Rejection::Failed(error) => error,
                    Rejection::ByProgram(data) => Error::new(ErrorKind::Port, said(&data)),
                };
                self.change(connection, |state| {
                    state.stage = Stage::Failed(io::ErrorKind::ConnectionRefused, error.into());
                });
            }
            Event::Received { connection, message } => self.change(connection, |state| {
                if message.is_empty() {
                    state.is_at_end = true;
                } else if !state.is_at_end {
                    state.arrived.push_back(message);
                }
            }),
            Event::Writable(id) => self.change(id, |state| state.is_blocked = false),
            Event::Closed(id) => self.change(id, |state| state.stage = Stage::Closed),
            Event::Lost { connection, error } => self.change(connection, |state| {
                state.stage = Stage::Failed(io::ErrorKind::ConnectionReset, error.into());
            }),
            Event::Silent(id) => self.change(id, |state| {
                let detail = "the other process has given no sign of life in time";
                let error = Error::new(ErrorKind::PeerFailed, detail);
                state.stage = Stage::Failed(io::ErrorKind::TimedOut, error.into());
            }),
            // Streams send no memory of theirs. The thread is woken to end.
            Event::Sent { .. } | Event::Completed { .. } | Event::Woken => {}
        }
    }

    /// Changes a stream, and wakes the tasks that wait for it.
    fn change(&self, id: ConnectionId, change: impl FnOnce(&mut StreamState)) {
        let state = lock(&self.streams).get(&id).map(Arc::clone);
        if let Some(state) = state {
            let mut state = lock(&state);
            change(&mut state);
            let wakers = [state.reader.take(), state.writer.take()];
            drop(state);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

/// Returns the text of a rejection.
fn said(data: &[u8]) -> String {
    match data {
        [] => "the other program has rejected the stream".into(),
        _ => {
            format!("the other program has rejected the stream: {}", String::from_utf8_lossy(data))
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Requests hold the endpoint, too.
        lock(&self.switch.requests).clear();
        let closing = Closing { switch: Arc::clone(&self.switch), thread: self.thread.take() };
        // It waits for other processes, which must not stop the tasks of this thread. A runtime
        // that ends drops the value here.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(closing))),
            Err(_) => drop(closing),
        }
    }
}

/// Ends the thread of an endpoint on drop, and closes the endpoint.
struct Closing {
    switch: Arc<Switch>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let endpoint = &self.switch.endpoint;
        self.switch.ends.store(true, Ordering::Release);
        // The endpoint is there, so it does not fail.
        let _ = endpoint.wake();
        // An error means that the thread has panicked, which was reported already.
        let _ = thread.join();
    }
}

impl Stream {
    /// Lets reads and writes fail with `TimedOut` if nothing comes from the other process for
    /// `limit`, although it is asked for a sign of life; `None`: no longer.
    ///
    /// # Errors
    /// `NotConnected` if the other program has closed the stream or ended.
    pub fn set_keepalive(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(self.connection.set_keepalive(limit)?)
    }

    fn poll_connected(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        match &state.stage {
            Stage::Connecting => {
                state.writer = Some(context.waker().clone());
                Poll::Pending
            }
            Stage::Failed(..) => Poll::Ready(Err(state.failure())),
            Stage::Open | Stage::Closed => Poll::Ready(Ok(())),
        }
    }

    /// Sends a message, or the end of the stream if it is empty.
    fn poll_send(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        match &state.stage {
            Stage::Failed(..) => return Poll::Ready(Err(state.failure())),
            _ if state.is_shut => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Stage::Closed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Stage::Connecting | Stage::Open => {}
        }
        if !state.is_blocked {
            match self.connection.send(data).map_err(|error| (error.kind(), error)) {
                Ok(()) => {
                    state.is_shut = data.is_empty();
                    return Poll::Ready(Ok(()));
                }
                Err((ErrorKind::Pending, _)) => state.is_blocked = true,
                // The event that ends the stream was not handled yet.
                Err((ErrorKind::Argument | ErrorKind::Closed, _)) => {}
                Err((_, error)) => return Poll::Ready(Err(error.into())),
            }
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reads what has arrived.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let before = buffer.filled().len();
        while let Some(message) = state.arrived.front()
            && buffer.remaining() > 0
        {
            let rest = &message[state.read..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            state.read += count;
            if count == rest.len() {
                state.read = 0;
                state.arrived.pop_front();
            }
        }
        if buffer.filled().len() > before || buffer.remaining() == 0 || state.is_at_end {
            return Poll::Ready(Ok(()));
        }
        match &state.stage {
            Stage::Failed(..) => return Poll::Ready(Err(state.failure())),
            Stage::Closed => return Poll::Ready(Ok(())),
            Stage::Connecting | Stage::Open => {}
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl StreamState {
    /// Returns why the stream has failed, if it has.
    fn failure(&self) -> io::Error {
        match &self.stage {
            Stage::Failed(kind, error) => io::Error::new(*kind, Arc::clone(error)),
            _ => io::ErrorKind::Other.into(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let turn = ready!(coop::poll_proceed(context));
        let outcome = ready!(self.poll_receive(context, buffer));
        turn.made_progress();
        Poll::Ready(outcome)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let turn = ready!(coop::poll_proceed(context));
        let data = &data[..data.len().min(WRITE_MAX)];
        let outcome = ready!(self.poll_send(context, data));
        turn.made_progress();
        Poll::Ready(outcome.map(|()| data.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = parts.iter().filter(|part| !part.is_empty());
        let (first, second) = (filled.next(), filled.next());
        let (Some(first), Some(_)) = (first, second) else {
            return self.poll_write(context, first.map_or(&[], |first| first));
        };
        if first.len() >= WRITE_MAX {
            return self.poll_write(context, first);
        }
        let mut gathered = Vec::new();
        for part in parts {
            let left = WRITE_MAX - gathered.len();
            gathered.extend_from_slice(&part[..part.len().min(left)]);
        }
        self.poll_write(context, &gathered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What was written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_done = {
            let state = lock(&self.state);
            state.is_shut || matches!(state.stage, Stage::Closed)
        };
        if is_done { Poll::Ready(Ok(())) } else { self.poll_send(context, &[]) }
    }
}

impl fmt::Debug for StreamEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamEndpoint({:?})", self.hub.switch.endpoint)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({:?})", self.switch.endpoint)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.connection)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        lock(&self.hub.switch.streams).remove(&self.connection.id());
    }
}

/// Locks a mutex; none of the code under the locks of this module panics half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
