//! Connects TCP clients, such as browsers and load generators, to services over streams.
//!
//!     stream_proxy ADDRESS FOLDER
//!
//! Listens at ADDRESS, prints the address that it got, and connects each client to the next service
//! of FOLDER.

use std::path::Path;
use std::process::ExitCode;

use combray_endpoints::Options;
use combray_endpoints::streams::StreamEndpoint;
use services::Result;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, folder] = &arguments[..] else {
        eprintln!("usage: stream_proxy ADDRESS FOLDER");
        return ExitCode::FAILURE;
    };
    let outcome = Builder::new_current_thread().enable_all().build().map_err(Into::into);
    match outcome.and_then(|runtime| runtime.block_on(serve(address, Path::new(folder)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stream_proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str, folder: &Path) -> Result<()> {
    let endpoint = StreamEndpoint::open(&Options::new())?;
    let uris = services::services(folder)?;
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    for uri in uris.iter().cycle() {
        let (mut client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let (endpoint, uri) = (endpoint.clone(), uri.clone());
        tokio::spawn(async move {
            let copied = async {
                let mut stream = endpoint.connect(&uri).await?;
                copy_bidirectional(&mut client, &mut stream).await
            };
            // The client sees that its connection ends.
            if let Err(error) = copied.await {
                eprintln!("stream_proxy: a connection has ended: {error}");
            }
        });
    }
    Ok(())
}
