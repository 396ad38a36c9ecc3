//! Who connects to the job from outside, to ask it something: `combray ps`.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use hangs::JobReport;
use sys::process::{self, Interest};

use crate::is_no_end;
use crate::jobs::{self, JobRequest, JobSummary};

/// Those that are connected. The address has no place in any folder, so that nothing is left of it,
/// whoever is killed.
#[derive(Default)]
pub(super) struct Clients {
    listener: Option<UnixListener>,
    connected: Vec<ConnectedClient>,
    next: ClientId,
}

/// Names a client, also after it has gone.
pub(super) type ClientId = u64;

struct ConnectedClient {
    id: ClientId,
    stream: UnixStream,
    request: Vec<u8>,
    /// What it has not taken.
    answer: Vec<u8>,
    /// All that it will get is in `answer`.
    is_answered: bool,
    /// When it is given up.
    deadline: Instant,
}

/// What somebody asks for.
pub(super) enum ClientRequest {
    Summary(ClientId),
    Report(ClientId),
}

/// No more at once.
const CLIENTS_MAX: usize = 8;

/// How long a client may take for all that it does.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(15);

impl Clients {
    /// Listens for those who ask the job of this launcher. Where the system does not allow it,
    /// nobody can ask.
    pub(super) fn listen(launcher: u32) -> Self {
        let open = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind_addr(&jobs::address(process::user(), launcher)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Self { listener: open().ok(), ..Self::default() }
    }

    /// Appends the descriptors to watch; returns how many.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let now = Instant::now();
        self.connected.retain(|client| now < client.deadline);
        let before = list.len();
        let room = self.connected.len() < CLIENTS_MAX;
        let listener = self.listener.as_ref().filter(|_| room);
        list.extend(listener.map(|listener| (listener.as_raw_fd(), Interest::Read)));
        for client in &self.connected {
            let interest = if client.answer.is_empty() { Interest::Read } else { Interest::Write };
            list.push((client.stream.as_raw_fd(), interest));
        }
        list.len() - before
    }

    /// Lets those go on that are ready, in the order of [`watched`](Self::watched); returns what
    /// they ask for.
    pub(super) fn serve(&mut self, ready: &[bool]) -> Vec<ClientRequest> {
        let mut requests = Vec::new();
        let own = ready.len() - self.connected.len();
        let (listening, clients) = ready.split_at(own);
        let mut ready = clients.iter();
        self.connected.retain_mut(|client| {
            !ready.next().is_some_and(|ready| *ready) || client.serve(&mut requests)
        });
        if listening == [true] {
            self.accept();
        }
        requests
    }

    /// Takes one in, if it belongs to the same person, or to the system's administrator.
    fn accept(&mut self) {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        let user = sys::socket::peer_user(stream.as_fd());
        if user.is_ok_and(|user| user == process::user() || user == 0)
            && stream.set_nonblocking(true).is_ok()
        {
            self.next += 1;
            self.connected.push(ConnectedClient {
                id: self.next,
                stream,
                request: Vec::new(),
                answer: Vec::new(),
                is_answered: false,
                deadline: Instant::now() + CLIENT_TIME_MAX,
            });
        }
    }

    /// Answers somebody who asked what the job is.
    pub(super) fn tell(&mut self, client: ClientId, summary: &JobSummary) {
        self.send(client, serde_json::to_vec(summary).unwrap_or_default());
    }

    /// Answers somebody who asked what all ranks do.
    pub(super) fn answer(&mut self, client: ClientId, report: &JobReport) {
        self.send(client, serde_json::to_vec(report).unwrap_or_default());
    }

    fn send(&mut self, client: ClientId, answer: Vec<u8>) {
        let mut ignored = Vec::new();
        self.connected.retain_mut(|one| {
            if one.id == client {
                (one.answer, one.is_answered) = (answer.clone(), true);
                return one.serve(&mut ignored);
            }
            true
        });
    }
}

impl ConnectedClient {
    /// Reads or writes; false when it is to be forgotten.
    fn serve(&mut self, requests: &mut Vec<ClientRequest>) -> bool {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(length) => drop(self.answer.drain(..length)),
                Err(error) => return is_no_end(&error),
            }
        }
        if self.is_answered {
            return false;
        }
        let mut bytes = [0; jobs::REQUEST_BYTES_MAX];
        match self.stream.read(&mut bytes) {
            Ok(length) if length > 0 => self.request.extend_from_slice(&bytes[..length]),
            Err(error) if is_no_end(&error) => return true,
            // Nobody waits for the answer any more.
            _ => return false,
        }
        match JobRequest::parse(&self.request) {
            Some(JobRequest::Summary) => requests.push(ClientRequest::Summary(self.id)),
            Some(JobRequest::Report) => requests.push(ClientRequest::Report(self.id)),
            None => return self.request.len() < jobs::REQUEST_BYTES_MAX,
        }
        self.request.clear();
        true
    }
}
