//! The limits of the fields of a request.

use std::ops::RangeInclusive;

use crate::KEY_CHARS_MAX;
use crate::artifact::ActionRequest;

/// The most bytes of the name of a server or tool.
const NAME_BYTES_MAX: usize = 64;
/// The characters of an intent.
pub const INTENT_CHARS: RangeInclusive<usize> = 10..=1000;
/// The most resources of a request.
const RESOURCES_MAX: usize = 256;
/// The most bytes of the kind of a resource.
pub const KIND_BYTES_MAX: usize = 64;
/// The most bytes of the id of a resource.
pub const ID_BYTES_MAX: usize = 4096;
/// The most bytes of the name of an agent or phase.
pub const AGENT_BYTES_MAX: usize = 128;
/// The most bytes of a workspace.
const WORKSPACE_BYTES_MAX: usize = 4096;

/// A field of a request that breaks a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFault {
    /// The field.
    pub field: &'static str,
    /// The requirement.
    pub requirement: &'static str,
}

/// Whether a text is the name of a server or tool.
fn is_tool_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

const fn require(
    holds: bool,
    field: &'static str,
    requirement: &'static str,
) -> Result<(), RequestFault> {
    if holds { Ok(()) } else { Err(RequestFault { field, requirement }) }
}

impl ActionRequest {
    /// Checks the fields that a type alone does not limit.
    ///
    /// # Errors
    /// [`RequestFault`] names the first one.
    pub fn check_limits(&self) -> Result<(), RequestFault> {
        let name = "1 to 64 of a-z, 0-9, `_` and `-`";
        require(is_tool_name(&self.proposal.tool_server), "server", name)?;
        require(is_tool_name(&self.proposal.tool_name), "tool", name)?;
        require(self.proposal.args.is_object(), "args", "a JSON object")?;
        let intent = INTENT_CHARS.contains(&self.intent.chars().count());
        require(intent, "intent", "10 to 1000 characters long")?;
        let count = (1..=RESOURCES_MAX).contains(&self.resources.len());
        require(count, "list of resources", "1 to 256 long")?;
        let fits = self.resources.iter().all(|resource| {
            (1..=KIND_BYTES_MAX).contains(&resource.kind.len())
                && (1..=ID_BYTES_MAX).contains(&resource.id.len())
        });
        require(fits, "every resource", "a kind of 1 to 64 and an id of 1 to 4096 bytes")?;
        let key = self.idempotency_key.as_ref().map_or(1, |key| key.chars().count());
        require((1..=KEY_CHARS_MAX).contains(&key), "idempotency key", "1 to 255 characters long")?;
        for (field, value) in [("agent", &self.agent), ("phase", &self.phase)] {
            let bytes = value.as_ref().map_or(1, String::len);
            require((1..=AGENT_BYTES_MAX).contains(&bytes), field, "1 to 128 bytes long")?;
        }
        let workspace = (1..=WORKSPACE_BYTES_MAX).contains(&self.proposal.workspace.len());
        require(workspace, "workspace", "1 to 4096 bytes long")
    }
}
