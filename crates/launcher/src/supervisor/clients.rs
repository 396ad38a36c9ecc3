//! The connections of `combray ps`, which asks the job questions.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use serde::Serialize;
use sys::process::{self, Interest};

use crate::is_no_end;
use crate::job::{ClientId, JobEvent};
use crate::jobs::{self, JobRequest};

/// The connected clients. The address is in the abstract namespace, so that no file remains,
/// whichever process is killed.
#[derive(Default)]
pub(super) struct Clients {
    listener: Option<UnixListener>,
    connected: Vec<ConnectedClient>,
    next: ClientId,
}

struct ConnectedClient {
    id: ClientId,
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// How many bytes of the answer were sent.
    sent: usize,
    /// Whether `answer` is complete.
    is_answered: bool,
    /// When the connection is closed.
    deadline: Instant,
}

/// The maximal number of clients at a time.
const CLIENTS_MAX: usize = 8;

/// The maximal duration of a connection.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(15);

impl Clients {
    /// Listens for clients that ask about the job of this launcher. If the system does not allow
    /// it, the job cannot be asked.
    pub(super) fn listen(launcher: u32) -> Self {
        let open = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind_addr(&jobs::address(process::user(), launcher)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Self { listener: open().ok(), ..Self::default() }
    }

    /// Appends the descriptors to watch; returns their number.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let now = Instant::now();
        self.connected.retain(|client| now < client.deadline);
        let before = list.len();
        let room = self.connected.len() < CLIENTS_MAX;
        let listener = self.listener.as_ref().filter(|_| room);
        list.extend(listener.map(|listener| (listener.as_raw_fd(), Interest::Read)));
        for client in &self.connected {
            let interest = if client.rest().is_empty() { Interest::Read } else { Interest::Write };
            list.push((client.stream.as_raw_fd(), interest));
        }
        list.len() - before
    }

    /// Serves the clients that are ready, in the order of [`watched`](Self::watched). Returns their
    /// requests.
    pub(super) fn serve(&mut self, ready: &[bool]) -> Vec<JobEvent> {
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

    /// Accepts a client if it runs as the user of the job or as root.
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
                sent: 0,
                is_answered: false,
                deadline: Instant::now() + CLIENT_TIME_MAX,
            });
        }
    }

    /// Answers a client.
    pub(super) fn send(&mut self, client: ClientId, answer: &impl Serialize) {
        self.send_bytes(client, serde_json::to_vec(answer).unwrap_or_default());
    }

    /// Sends a client what each rank has recorded; none: it is too long for an answer. Each is
    /// freed when it was copied.
    pub(super) fn send_traces(&mut self, client: ClientId, traces: Option<Vec<Vec<u8>>>) {
        if self.connected.iter().any(|one| one.id == client) {
            self.send_bytes(client, jobs::traces_reply(traces));
        }
    }

    fn send_bytes(&mut self, client: ClientId, mut answer: Vec<u8>) {
        let mut ignored = Vec::new();
        self.connected.retain_mut(|one| {
            if one.id == client {
                (one.answer, one.sent) = (std::mem::take(&mut answer), 0);
                one.is_answered = true;
                return one.serve(&mut ignored);
            }
            true
        });
    }
}

impl ConnectedClient {
    /// Returns the part of the answer that the client has not received yet.
    fn rest(&self) -> &[u8] {
        &self.answer[self.sent..]
    }

    /// Reads or writes. Returns false when the connection is to be closed.
    fn serve(&mut self, requests: &mut Vec<JobEvent>) -> bool {
        while !self.rest().is_empty() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) => return is_no_end(&error),
            }
        }
        if self.is_answered {
            return false;
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(length) if length > 0 => self.request.extend_from_slice(&bytes[..length]),
            Err(error) if is_no_end(&error) => return true,
            // The client has disconnected.
            _ => return false,
        }
        match JobRequest::parse(&self.request) {
            Some(JobRequest::Summary) => requests.push(JobEvent::SummaryRequest(self.id)),
            Some(JobRequest::Report) => requests.push(JobEvent::ReportRequest(self.id)),
            Some(JobRequest::Resize(resizing)) => {
                requests.push(JobEvent::ResizeRequest(self.id, resizing));
            }
            Some(JobRequest::Trace) => requests.push(JobEvent::TraceRequest(self.id)),
            None => return self.request.len() < jobs::REQUEST_BYTES_MAX,
        }
        self.request.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_answer_arrives_in_pieces_and_ends_the_connection() {
        let (stream, mut reader) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + CLIENT_TIME_MAX;
        let (request, answer) = (Vec::new(), Vec::new());
        let client = ConnectedClient {
            id: 3,
            stream,
            request,
            answer,
            sent: 0,
            is_answered: false,
            deadline,
        };
        let mut clients = Clients { connected: vec![client], ..Clients::default() };
        let answer: Vec<u8> = (0..4_000_000_u32).map(|number| (number % 251) as u8).collect();
        clients.send_bytes(3, answer.clone());
        assert!(clients.connected[0].sent < answer.len());
        let (mut received, mut some) = (Vec::new(), vec![0; 100_000]);
        loop {
            match reader.read(&mut some).unwrap() {
                0 => break,
                length => received.extend_from_slice(&some[..length]),
            }
            clients.serve(&vec![true; clients.connected.len()]);
        }
        assert!(received == answer && clients.connected.is_empty());
    }
}
