//! An MCP server for tests. It writes down every execution, so that a test can count them, and it
//! can misbehave in each way that a client must survive.
//!
//! ```text
//! test_server [--http [--port N] [--stateless] [--bearer TOKEN]]
//!             [--log FILE] [--honour-keys] [--page-size N]
//! ```
//!
//! Over HTTP it prints its URL as its first line of output.

mod http;
mod log;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::ServiceExt;
use tokio::runtime::Runtime;

use log::Log;
use tools::TestServer;

/// What the server was started with.
#[derive(Debug, Default)]
struct Options {
    http: bool,
    port: u16,
    stateless: bool,
    bearer: Option<String>,
    log: Option<PathBuf>,
    honour_keys: bool,
    page_size: Option<usize>,
}

/// Serves until the client is gone, or for ever over HTTP; the options are the process's arguments.
pub fn main_from_args() {
    let arguments = std::env::args().skip(1).collect();
    if let Err(error) = parse(arguments).and_then(serve) {
        // Standard error is for people and the output is the client's.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{error}\n").as_bytes());
        std::process::exit(2);
    }
}

fn parse(arguments: Vec<String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--http" => options.http = true,
            "--port" => options.port = number(&value()?)?,
            "--stateless" => options.stateless = true,
            "--bearer" => options.bearer = Some(value()?),
            "--log" => options.log = Some(value()?.into()),
            "--honour-keys" => options.honour_keys = true,
            "--page-size" => options.page_size = Some(number(&value()?)?),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    Ok(options)
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn serve(options: Options) -> Result<(), String> {
    let log = Log::new(options.log.clone(), options.honour_keys);
    let server = TestServer::new(Arc::new(log), options.page_size, options.http);
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        if options.http {
            return http::serve(server, &options).await;
        }
        let service = server.serve(rmcp::transport::stdio()).await;
        let service = service.map_err(|error| error.to_string())?;
        service.waiting().await.map(drop).map_err(|error| error.to_string())
    })?;
    // Standard input may still be read by a thread that nobody can wake.
    runtime.shutdown_background();
    Ok(())
}
