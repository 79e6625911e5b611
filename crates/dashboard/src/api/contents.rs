//! What was stored once and never changes: documents of checkpoints, and contents by their digests.

use axum::http::StatusCode;
use windlass_kernel::{Code, Digest};

use super::{Route, content, get, kept};
use crate::act;
use crate::dashboard::{Context, shown};
use crate::problem::Problem;

/// The largest content that is sent. Bundles have larger ones.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// The routes.
pub(super) const ROUTES: &[Route] = &[
    kept(get(
        "/api/v1/projects/{project}/runs/{run}/checkpoints/{checkpoint}",
        "A checkpoint in full, by its name; without a version, the newest of that name",
        &[],
        None,
        act::checkpoint_document,
    )),
    content(
        "/api/v1/projects/{project}/contents/{digest}",
        "A content of the project's store as it was recorded, such as an output or a transcript, by its SHA-256; 8 MiB at most",
        stored,
    ),
];

/// The content in the path.
fn stored(context: &Context<'_>) -> Result<Vec<u8>, Problem> {
    context.require_all()?;
    let text = context.part("digest")?;
    let digest: Digest = text.parse().map_err(|_| {
        let message = format!("`{}` is no digest: 64 hexadecimal digits", shown(text));
        Problem::new(Code::RequestInvalid, message)
    })?;
    let found = context.project()?.content(digest, CONTENT_BYTES_MAX);
    found.map_err(|problem| match problem.code == Code::DocSizeExceeded.as_str() {
        true => problem.status(StatusCode::PAYLOAD_TOO_LARGE),
        false => problem,
    })
}
