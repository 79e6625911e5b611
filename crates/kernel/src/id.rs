//! Ids: UUIDs of version 7, with one type for each kind of thing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::canon::Canonical;
use crate::digest::{read_hex, write_hex};
use crate::text_form::text_form;

/// Text that is not a lower-case UUID of version 7.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("an id is a lower-case UUID of version 7, like 01890a5d-ac96-774b-bcce-b302099a8057")]
pub struct IdError;

/// A UUID of version 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid7([u8; 16]);

/// The start and end of each group of hex digits in the text form; hyphens are between them.
const GROUPS: [(usize, usize); 5] = [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)];

impl Uuid7 {
    /// Creates an id from its binary form.
    ///
    /// # Errors
    /// [`IdError`] if the version or variant bits are not those of a UUIDv7.
    pub const fn from_bytes(bytes: [u8; 16]) -> Result<Self, IdError> {
        let [_, _, _, _, _, _, version, _, variant, ..] = bytes;
        if version >> 4 == 7 && variant >> 6 == 0b10 { Ok(Self(bytes)) } else { Err(IdError) }
    }

    /// Creates an id from a time and 10 random bytes.
    #[must_use]
    pub const fn from_parts(unix_ms: u64, random: [u8; 10]) -> Self {
        let [_, _, t0, t1, t2, t3, t4, t5] = unix_ms.to_be_bytes();
        let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9] = random;
        let version = (r0 & 0x0f) | 0x70;
        let variant = (r2 & 0x3f) | 0x80;
        Self([t0, t1, t2, t3, t4, t5, version, r1, variant, r3, r4, r5, r6, r7, r8, r9])
    }

    /// The id in binary form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The hex digits of the text form. Not inlined: merged with the code that inserts the hyphens, the
    /// compiler would write them one by one, which takes more than twice as long.
    #[inline(never)]
    fn hex(&self) -> [u8; 32] {
        let mut out = [0; 32];
        write_hex(&self.0, &mut out);
        out
    }

    /// Returns the 36 characters of the text form.
    #[must_use]
    pub fn text(&self) -> [u8; 36] {
        let hex = self.hex();
        let mut out = [b'-'; 36];
        let mut rest: &[u8] = &hex;
        for (start, end) in GROUPS {
            let (group, tail) = rest.split_at(end - start);
            if let Some(slot) = out.get_mut(start..end) {
                slot.copy_from_slice(group);
            }
            rest = tail;
        }
        out
    }
}

impl Uuid7 {
    /// Parses the text form.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, IdError> {
        if text.len() != 36 {
            return Err(IdError);
        }
        let mut hex = [0u8; 32];
        let mut rest = hex.as_mut_slice();
        for (start, end) in GROUPS {
            let group = text.get(start..end).ok_or(IdError)?;
            let (slot, tail) = rest.split_at_mut_checked(group.len()).ok_or(IdError)?;
            slot.copy_from_slice(group);
            rest = tail;
            if end < 36 && text.get(end) != Some(&b'-') {
                return Err(IdError);
            }
        }
        let mut bytes = [0u8; 16];
        read_hex(&hex, &mut bytes).ok_or(IdError)?;
        Self::from_bytes(bytes)
    }
}

text_form! {
    Uuid7, IdError, |id| id.text(),
    "UUID of version 7, lower case.",
    "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            schemars::JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(pub Uuid7);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }

        impl Canonical for $name {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self)
            }
        }
    )*};
}

ids! {
    /// The id of a trace: one chain of entries without gaps and with one writer at a time.
    TraceId,
    /// The id of the plan (a run, or a stand-alone call) that a trace belongs to.
    PlanId,
    /// The id of an artifact.
    ArtifactId,
    /// The id of a checkpoint of a run.
    CheckpointId,
    /// The id of a tool call, the same for every dispatch.
    ToolCallId,
    /// The id of a process that has a store open.
    HolderId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(text.parse::<TraceId>().unwrap().to_string(), text);
    }

    #[test]
    fn an_id_created_from_parts_is_valid() {
        let id = Uuid7::from_parts(0x0189_0a5d_ac96, [0xff; 10]);
        assert_eq!(id.to_string(), "01890a5d-ac96-7fff-bfff-ffffffffffff");
        assert_eq!(Uuid7::from_bytes(*id.as_bytes()), Ok(id));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "01890A5D-AC96-774B-BCCE-B302099A8057",
            "01890a5d-ac96-474b-bcce-b302099a8057",
            "01890a5d-ac96-774b-0cce-b302099a8057",
            "01890a5dac96774bbcceb302099a8057",
            "01890a5d-ac96-774b-bcce-b302099a80570",
            "{1890a5d-ac96-774b-bcce-b302099a8057",
            "../../../../etc/passwd",
            "01890a5d_ac96_774b_bcce_b302099a8057",
            "01890a5d-ac96-774b-bcce-b302099é057",
        ] {
            assert_eq!(text.parse::<TraceId>(), Err(IdError), "{text}");
        }
    }
}
