//! What the programs of this package share: files with URIs, HTTP over streams, and percentiles.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use combray_endpoints::streams::{Stream, StreamEndpoint};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

/// What the programs may fail with.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// So long, a process waits for another one.
const PATIENCE: Duration = Duration::from_secs(60);

/// The body of requests and responses.
pub type Body = Full<Bytes>;

/// Writes the URI of a rank to its file in a folder; only this user can read it.
///
/// # Errors
/// Those of the file system.
pub fn publish(folder: &Path, rank: usize, uri: &str) -> io::Result<()> {
    let draft = folder.join(format!("draft-{rank}"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(uri.as_bytes())?;
    fs::rename(draft, folder.join(format!("service-{rank}")))
}

/// Waits for the URI of a rank.
///
/// # Errors
/// There is no file of the URI after a minute.
pub async fn find(folder: &Path, rank: usize) -> Result<String> {
    let (file, started) = (folder.join(format!("service-{rank}")), Instant::now());
    loop {
        match fs::read_to_string(&file) {
            Ok(uri) => return Ok(uri),
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(format!("{}: {error}", file.display()).into());
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Returns the URIs of the ranks that a folder has, in order.
///
/// # Errors
/// Those of the file system; there is none.
pub fn services(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    while let Ok(uri) = fs::read_to_string(folder.join(format!("service-{}", found.len()))) {
        found.push(uri);
    }
    if found.is_empty() {
        return Err(format!(
            "{} has no file service-0: start http_service first",
            folder.display()
        )
        .into());
    }
    Ok(found)
}

/// A connection of HTTP to a service.
pub struct Client(SendRequest<Body>);

impl Client {
    /// Connects to the service with this URI.
    ///
    /// # Errors
    /// Those of the stream and of HTTP.
    pub async fn connect(endpoint: &StreamEndpoint, uri: &str) -> Result<Self> {
        let stream: Stream = endpoint.connect(uri).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with the sender; the next request reports errors.
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends a request with a body, and waits for the whole response.
    ///
    /// # Errors
    /// Those of the stream and of HTTP.
    pub async fn call(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let request = Request::builder().method(method).uri(path).header("host", "combray");
        self.0.ready().await?;
        let response = self.0.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

/// Returns bytes that look random, which a client can compute, too.
pub fn pattern(bytes: usize) -> Bytes {
    (0..bytes).map(|place| (place.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect()
}

/// Returns a response of status 200.
///
/// # Errors
/// None.
pub fn answer(body: impl Into<Bytes>) -> std::result::Result<hyper::Response<Body>, Infallible> {
    Ok(hyper::Response::new(Full::new(body.into())))
}

/// Times that something took, in nanoseconds.
#[derive(Debug, Default)]
pub struct Times(Vec<u64>);

impl Times {
    /// Adds the time since a moment.
    pub fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed().as_nanos() as u64);
    }

    /// Adds the times of another collection.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Describes them: how many, the median, and the 99th percentile, in microseconds.
    pub fn describe(mut self) -> String {
        self.0.sort_unstable();
        let count = self.0.len();
        let at = |percent: usize| {
            self.0.get((count * percent / 100).min(count.saturating_sub(1))).copied().unwrap_or(0)
        };
        let [median, most] = [50, 99].map(|percent| at(percent) as f64 / 1000.0);
        format!("{count} times, median {median:.1} µs, 99 % within {most:.1} µs")
    }
}
