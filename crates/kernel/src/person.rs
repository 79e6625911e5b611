//! People's decisions: who decided, signed with that person's key.
//!
//! A decision is recorded with its signature, and every fold verifies it: a journal with a decision that
//! nobody signed is corrupt.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::artifact::NamedFile;
use crate::canon::{self, canonical};
use crate::entry::present;
use crate::key::{PublicKey, Signature};
use crate::run::SendBack;
use crate::{Digest, TraceId};

/// The maximum length of a person's name.
const NAME_BYTES_MAX: usize = 128;
/// The first line of the signed bytes, so that no signature of another document is valid here.
const KIND: &str = "windlass decision 1";

/// What a person decides, as far as it does not depend on the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The digest of the entry that the decision follows.
    pub after: Digest,
    /// The conditions of an approval.
    pub conditions: &'a [String],
    /// The decision.
    pub decision: Cow<'a, str>,
    /// The digest of the proposal with the arguments that the person put in, if they did.
    pub edit: Option<Digest>,
    /// The files that a call names, as the person saw them, if they had changed since the question.
    pub files: &'a [NamedFile],
    /// The reason.
    pub reason: &'a str,
    /// What the person wants done again, if they do.
    pub send_back: Option<&'a SendBack>,
    /// The digest of what the person was shown.
    pub shown: Digest,
    /// The trace of the run or call.
    pub trace_id: TraceId,
}

/// A person who decided, with the signature of the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// Whom the decision counts for. Keys that every process of an account can use count for the account.
    pub approver: String,
    /// The person's public key.
    pub key: PublicKey,
    /// The person's name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// What a hardware key adds to its signature.
    #[serde(deserialize_with = "present")]
    pub security_key: Option<SecurityKey>,
    /// The signature of the decision.
    pub signature: Signature,
}

/// What a FIDO key signs besides the decision, as OpenSSH defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecurityKey {
    /// The application that the key was made for.
    pub application: String,
    /// The number of signatures of the key.
    pub counter: u32,
    /// The flags; bit 0 says that a person touched the key.
    pub flags: u8,
}

canonical! {
    SecurityKey { application, counter, flags }
    Signed { approver, key, name, security_key, signature }
}

/// The signed document.
#[derive(Serialize)]
struct Document<'a> {
    after: Digest,
    approver: &'a str,
    conditions: &'a [String],
    decision: &'a str,
    edit: Option<Digest>,
    files: &'a [NamedFile],
    name: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_back: Option<&'a SendBack>,
    shown: Digest,
    trace_id: TraceId,
}

impl Statement<'_> {
    /// The bytes that the person signs.
    #[must_use]
    pub fn to_bytes(&self, name: &str, approver: &str) -> Vec<u8> {
        let document = Document {
            after: self.after,
            approver,
            conditions: self.conditions,
            decision: &self.decision,
            edit: self.edit,
            files: self.files,
            name,
            reason: self.reason,
            send_back: self.send_back,
            shown: self.shown,
            trace_id: self.trace_id,
        };
        let mut bytes = format!("{KIND}\n").into_bytes();
        // Text and digests always have a canonical form.
        bytes.extend(canon::to_bytes(&document).unwrap_or_default());
        bytes
    }
}

impl Signed {
    /// Whether this is the person's signature of the statement.
    #[must_use]
    pub fn verifies(&self, statement: &Statement<'_>) -> bool {
        let bytes = statement.to_bytes(&self.name, &self.approver);
        match &self.security_key {
            None => self.key.verifies(&bytes, &self.signature),
            Some(hardware) => {
                hardware.is_touched() && {
                    let bytes = hardware.to_sign(&bytes);
                    self.key.verifies(&bytes, &self.signature)
                }
            }
        }
    }
}

impl SecurityKey {
    const fn is_touched(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The bytes that the hardware signs.
    fn to_sign(&self, message: &[u8]) -> Vec<u8> {
        let mut bytes = Digest::of(self.application.as_bytes()).as_bytes().to_vec();
        bytes.push(self.flags);
        bytes.extend(self.counter.to_be_bytes());
        bytes.extend(Digest::of(message).as_bytes());
        bytes
    }
}

/// The digest of what a person was shown: the question, and files that have changed since it was asked.
#[must_use]
pub fn shown_with_files(shown: Digest, files: &[NamedFile]) -> Digest {
    #[derive(Serialize)]
    struct Shown<'a> {
        files: &'a [NamedFile],
        shown: Digest,
    }
    if files.is_empty() {
        return shown;
    }
    Digest::of(&canon::to_bytes(&Shown { files, shown }).unwrap_or_default())
}

/// A name in the form in which names are compared: without regard to case (`ß` is `ss`), single spaces, none
/// around it.
#[must_use]
pub fn normalise_name(name: &str) -> String {
    let spaced = name.split_whitespace().collect::<Vec<_>>().join(" ");
    // In upper case all letters are one that are one without regard to case.
    spaced.to_uppercase().to_lowercase()
}

/// The letters of names, by script. Letters that are another way to write some of these are left out: what
/// looks alike must be alike.
const SCRIPTS: &[&[RangeInclusive<char>]] = &[
    // Latin, without ligatures, `ſ` and letters with an apostrophe.
    &[
        'a'..='z',
        'A'..='Z',
        '\u{C0}'..='\u{D6}',
        '\u{D8}'..='\u{F6}',
        '\u{F8}'..='\u{131}',
        '\u{134}'..='\u{13E}',
        '\u{141}'..='\u{148}',
        '\u{14A}'..='\u{17E}',
        '\u{1E00}'..='\u{1E99}',
        '\u{1E9E}'..='\u{1EFF}',
    ],
    // Greek
    &['\u{386}'..='\u{386}', '\u{388}'..='\u{3CE}'],
    // Cyrillic
    &['\u{400}'..='\u{481}', '\u{48A}'..='\u{52F}'],
    // Armenian
    &['\u{531}'..='\u{556}', '\u{561}'..='\u{586}'],
    // Hebrew
    &['\u{5D0}'..='\u{5EA}'],
    // Arabic
    &['\u{620}'..='\u{64A}', '\u{671}'..='\u{674}', '\u{679}'..='\u{6D3}'],
    // Devanagari, Bengali, Tamil, Telugu, Thai, Georgian, Ethiopic
    &['\u{900}'..='\u{957}'],
    &['\u{980}'..='\u{9D7}'],
    &['\u{B80}'..='\u{BD7}'],
    &['\u{C00}'..='\u{C56}'],
    &['\u{E01}'..='\u{E32}', '\u{E34}'..='\u{E4D}'],
    &['\u{10D0}'..='\u{10FA}'],
    &['\u{1200}'..='\u{135A}'],
    // Korean
    &['\u{AC00}'..='\u{D7A3}'],
    // Chinese and Japanese
    &[
        '\u{3041}'..='\u{3096}',
        '\u{30A1}'..='\u{30FA}',
        '\u{30FC}'..='\u{30FC}',
        '\u{3400}'..='\u{4DBF}',
        '\u{4E00}'..='\u{9FFF}',
    ],
];

/// The script of a letter, as its place in the table.
fn script(letter: char) -> Option<usize> {
    SCRIPTS.iter().position(|script| script.iter().any(|range| range.contains(&letter)))
}

/// Whether two names are one person's.
#[must_use]
pub fn is_same_name(one: &str, other: &str) -> bool {
    normalise_name(one) == normalise_name(other)
}

/// Checks the name of a person: letters of one script, digits and the marks of names and addresses, on one line.
///
/// # Errors
/// A message that says what a name may be.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_mark = |one: char| one.is_ascii_digit() || " .-_@+'".contains(one);
    let is_valid = |one: char| is_mark(one) || one.is_alphabetic() && script(one).is_some();
    if normalise_name(name).is_empty()
        || name.len() > NAME_BYTES_MAX
        || !name.trim().chars().all(is_valid)
    {
        return Err("a name is 1 to 128 bytes of letters, digits, spaces and `.-_@+'`");
    }
    let mut scripts = name.chars().filter_map(script);
    if scripts.next().is_some_and(|first| scripts.any(|other| other != first)) {
        return Err("the letters of a name must be of one script, so that no two names look alike");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid7;
    use crate::key::Signer;

    fn statement() -> Statement<'static> {
        Statement {
            after: Digest::of(b"entry"),
            conditions: &[],
            decision: "APPROVED".into(),
            edit: None,
            files: &[],
            reason: "seen",
            send_back: None,
            shown: Digest::of(b"hold"),
            trace_id: TraceId(Uuid7::from_parts(1, [7; 10])),
        }
    }

    fn signed(statement: &Statement<'_>) -> Signed {
        let signer = Signer::from_seed(&[1; 32]);
        let (name, approver) = ("Ann".to_owned(), "person ann".to_owned());
        let signature = signer.sign(&statement.to_bytes(&name, &approver));
        Signed { approver, key: signer.public(), name, security_key: None, signature }
    }

    #[test]
    fn a_signature_is_valid_for_one_statement_of_one_person() {
        let right = statement();
        let ann = signed(&right);
        assert!(ann.verifies(&right));
        let others = [
            Statement { after: Digest::of(b"x"), ..right.clone() },
            Statement { decision: "REJECTED".into(), ..right.clone() },
            Statement { edit: Some(Digest::of(b"x")), ..right.clone() },
            Statement { reason: "other", ..right.clone() },
            Statement { shown: Digest::of(b"x"), ..right.clone() },
            Statement { trace_id: TraceId(Uuid7::from_parts(2, [7; 10])), ..right.clone() },
        ];
        for other in others {
            assert!(!ann.verifies(&other), "{other:?}");
        }
        let condition = ["x".to_owned()];
        assert!(!ann.verifies(&Statement { conditions: &condition, ..right.clone() }));
        let file = [NamedFile { digest: Digest::of(b"x"), path: "x".to_owned() }];
        assert!(!ann.verifies(&Statement { files: &file, ..right.clone() }));
        let key = Signer::from_seed(&[2; 32]).public();
        for forged in [
            Signed { name: "Bob".to_owned(), ..ann.clone() },
            Signed { approver: "person bob".to_owned(), ..ann.clone() },
            Signed { key, ..ann.clone() },
        ] {
            assert!(!forged.verifies(&right), "{forged:?}");
        }
    }

    #[test]
    fn a_hardware_key_must_have_been_touched() {
        let right = statement();
        let signer = Signer::from_seed(&[3; 32]);
        let (name, approver) = ("ann".to_owned(), "person ann".to_owned());
        let touched = SecurityKey { application: "ssh:".to_owned(), counter: 9, flags: 1 };
        let sign = |hardware: SecurityKey| {
            let bytes = hardware.to_sign(&right.to_bytes(&name, &approver));
            let signature = signer.sign(&bytes);
            let (name, approver) = (name.clone(), approver.clone());
            Signed { approver, key: signer.public(), name, security_key: Some(hardware), signature }
        };
        let good = sign(touched.clone());
        assert!(good.verifies(&right));
        assert!(!sign(SecurityKey { flags: 0, ..touched.clone() }).verifies(&right));
        let counted = Some(SecurityKey { counter: 10, ..touched });
        assert!(!Signed { security_key: counted, ..good.clone() }.verifies(&right));
        assert!(!Signed { security_key: None, ..good }.verifies(&right));
    }

    #[test]
    fn names_are_compared_normalised() {
        for same in ["Ann Lee", " ann  lee ", "ANN\tLEE"] {
            assert!(is_same_name(same, "ann lee"), "{same}");
        }
        assert!(!is_same_name("ann", "anne"));
        assert!(is_same_name("straße", "STRASSE"));
        assert!(is_same_name("ΝΊΚΟΣ", "νίκος"));
        for name in
            ["ann", "Zoë O'Neil", "a.b+c@example.org", "Ольга", "Νίκος 2", "山田 たろう", "김민수"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["оwner", "ｏwner", "ſam", "ﬁona", "a²", "١", "annе", "𝐚nn", "ᴀnn", "e\u{301}"]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["", "  ", "a\nb", "a\u{200b}nn", "a/b", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
