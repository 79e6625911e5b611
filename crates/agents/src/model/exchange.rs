//! One request to a model's service, and its answer.

use std::time::{Duration, Instant};

use windlass_broker::{End, ModelTrouble, Unreachable, Usage};
use windlass_connect::{ResponsePiece, post_stream};
use windlass_engine::EngineError;

use super::ModelSettings;
use super::api::TurnReader;
use super::turn::Turn;
use crate::forwarder::now;
use crate::invocation::TICK;

/// The largest response.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// Why the invocation does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The stop switch is on.
    Stopped,
    /// The working time is used up.
    TimeUp,
}

/// How an exchange ended.
pub(super) enum Exchanged {
    /// The model answered; the flag says that it had to stop in the middle.
    Answer { turn: Turn, is_cut: bool, usage: Usage },
    /// It did not.
    Trouble { trouble: ModelTrouble, message: String, usage: Option<Usage> },
    /// The request cannot be sent, or its answer cannot be taken: why.
    Unusable { reason: String },
    /// Nobody waits for it any more.
    Interrupted(Interruption),
}

/// Asks whether to go on.
pub(super) type Watch<'a> = dyn Fn() -> Result<Option<Interruption>, EngineError> + 'a;

/// Sends a request and reads the answer. The connection is closed whatever the end is.
pub(super) fn exchange(
    settings: &ModelSettings,
    body: Vec<u8>,
    watch: &Watch<'_>,
) -> Result<Exchanged, EngineError> {
    let mut headers = settings.api.headers();
    headers.extend(settings.endpoint.headers.iter().cloned());
    let posted = match post_stream(&settings.api.url(&settings.endpoint.url), &headers, body) {
        Ok(posted) => posted,
        Err(error) => return Ok(Exchanged::Unusable { reason: error.to_string() }),
    };
    let mut last_news = Instant::now();
    let mut received = 0_usize;
    let mut reader: Option<TurnReader> = None;
    let end = loop {
        if let Some(interruption) = watch()? {
            return Ok(Exchanged::Interrupted(interruption));
        }
        let Some(piece) = posted.next(TICK) else {
            if last_news.elapsed() >= settings.silence {
                break End::Idle;
            }
            continue;
        };
        last_news = Instant::now();
        match (piece, &mut reader) {
            (ResponsePiece::Head { status, headers }, _) => {
                reader = Some(TurnReader::new(settings.api, status, &headers, now()));
            }
            (ResponsePiece::Bytes(bytes), Some(reader)) => {
                received = received.saturating_add(bytes.len());
                if received > RESPONSE_BYTES_MAX {
                    let reason = format!(
                        "the answer of the model is larger than {RESPONSE_BYTES_MAX} bytes"
                    );
                    return Ok(Exchanged::Unusable { reason });
                }
                reader.push(&bytes);
            }
            (ResponsePiece::End, Some(_)) => break End::Done,
            (ResponsePiece::Failed(_), Some(_)) => break End::Broken,
            // The service could not be reached.
            (ResponsePiece::Bytes(_) | ResponsePiece::End | ResponsePiece::Failed(_), None) => {
                break End::Failed(Unreachable::Connect);
            }
        }
    };
    let Some(reader) = reader else {
        let trouble = ModelTrouble::of_end(end).unwrap_or(ModelTrouble::Cut);
        return Ok(Exchanged::Trouble { trouble, message: String::new(), usage: None });
    };
    let (response, turn) = reader.finish(end);
    let usage = response.usage;
    // A part that could not be read may have been a call.
    let unread = response.is_partial.then_some(ModelTrouble::Cut);
    Ok(match response.trouble.or(unread) {
        Some(trouble) => {
            Exchanged::Trouble { trouble, message: response.message, usage: Some(usage) }
        }
        None => {
            let cut = ["max_tokens", "length", "max_output_tokens"];
            let is_cut = response.stop_reason.is_some_and(|reason| cut.contains(&reason.as_str()));
            Exchanged::Answer { turn, is_cut, usage }
        }
    })
}

/// Waits, unless it is interrupted.
pub(super) fn pause(
    time: Duration,
    watch: &Watch<'_>,
) -> Result<Option<Interruption>, EngineError> {
    let began = Instant::now();
    loop {
        if let Some(interruption) = watch()? {
            return Ok(Some(interruption));
        }
        match time.checked_sub(began.elapsed()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(TICK)),
            Some(_) | None => return Ok(None),
        }
    }
}
