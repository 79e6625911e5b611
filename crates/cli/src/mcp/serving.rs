//! Serves a host over standard input and output, or over HTTP, until its clients are gone or a signal comes.

use std::io::PipeReader;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use windlass_kernel::Code;
use windlass_mcp::{HttpOptions, HttpServer, Identity, Server, StartError, Token, ToolHost};
use windlass_runtime::{Clock as _, SystemClock};

use super::closing::{Closing, Input, wait_for_signal};
use crate::atomic;
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::Output;
use crate::state::cannot_write;

/// The largest token file.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Serves the tools of a host. Calls in progress are finished before it returns.
pub fn serve(
    host: Arc<dyn ToolHost>,
    instructions: String,
    http: Option<(&str, Option<&Path>)>,
    signal: PipeReader,
    closing: &Arc<Closing>,
    output: &Output,
) -> CommandResult {
    let identity = Identity {
        name: "windlass".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: Some(instructions),
    };
    let server = Server::new(host, identity);
    let Some((address, token_file)) = http else {
        let unreadable = |error| input::unreadable(Path::new("standard input"), &error);
        let reader = Input::new(signal, Arc::clone(closing)).map_err(unreadable)?;
        let session = SystemClock.new_id().to_string();
        server.serve_stream(&session, reader, std::io::stdout()).map_err(unreadable)?;
        return Ok(0);
    };
    let unusable = |reason: String| {
        Failure::new(Code::RequestInvalid, format!("cannot serve at `{address}`: {reason}"))
            .hint("name a free address of this machine, such as 127.0.0.1:8431")
    };
    let listener = TcpListener::bind(address).map_err(|error| unusable(error.to_string()))?;
    let token = Token::new(token(token_file, output)?).ok_or_else(|| {
        let message = "the token must have at least 16 visible ASCII characters";
        Failure::new(Code::RequestInvalid, message).hint("remove the file to get a new token")
    })?;
    let started = HttpServer::start(listener, &server, HttpOptions::local(token));
    let running = started.map_err(|error| match error {
        StartError::NotLoopback(_) => unusable(error.to_string()),
        StartError::System(_) | StartError::Random(_) => Failure::of(Code::Internal, &error),
    })?;
    output.note(&format!("serving {}", running.url()));
    wait_for_signal(signal, closing);
    drop(running);
    Ok(0)
}

/// The token of HTTP clients: that of the file, or a new one, which is saved there or else printed.
fn token(file: Option<&Path>, output: &Output) -> Result<String, Failure> {
    if let Some(path) = file.filter(|path| path.exists()) {
        let bytes = input::read(path, TOKEN_BYTES_MAX)?;
        return Ok(String::from_utf8_lossy(&bytes).trim().to_owned());
    }
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Code::Internal, format!("the system has no random numbers: {error}"))
    })?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match file {
        Some(path) => {
            let text = format!("{token}\n");
            atomic::write(path, text.as_bytes()).map_err(|error| cannot_write(path, &error))?;
        }
        None => output.note(&format!("token {token}")),
    }
    Ok(token)
}
