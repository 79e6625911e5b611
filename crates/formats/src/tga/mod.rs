//! Calls in the form of the specification's own project: documents with `talos.tga.*` ids, whose artifacts
//! contain their digest in the field `_digest`.
//!
//! Such a document is `{"entries": […], "artifacts": […]}`. Artifacts beside entries are verified in this form
//! and in that of the journal.

mod artifacts;
mod shape;
mod upstream;
mod write;

pub use artifacts::{Artifacts, ArtifactsError};
pub use write::{UpstreamError, write};

/// The beginning of the `schema_id` of every upstream document.
const PREFIX: &str = "talos.tga.";
/// The `schema_version` of upstream artifacts.
const ARTIFACT_VERSION: &str = "tga.v1";
/// The field that contains the digest of an upstream artifact, which covers all other fields.
const DIGEST_FIELD: &str = "_digest";
/// The field that names the algorithm of the digest.
const ALGORITHM_FIELD: &str = "_digest_alg";
/// The only algorithm.
const ALGORITHM: &str = "sha256";
