//! People whose keys follow from their names.

use windlass_kernel::run::{SendBack, UnsignedVote, Vote, VoteDecision};
use windlass_kernel::{Digest, Head, Signed, Signer, Statement, normalise_name};

/// The key of everybody with this name.
#[must_use]
pub fn signer(name: &str) -> Signer {
    Signer::from_seed(Digest::of(normalise_name(name).as_bytes()).as_bytes())
}

/// A statement as a person signs it, who counts for themselves.
#[must_use]
pub fn signed(name: &str, statement: &Statement<'_>) -> Signed {
    signed_for(name, &format!("person {}", normalise_name(name)), statement)
}

/// A statement as a person signs it, who counts for this approver.
#[must_use]
pub fn signed_for(name: &str, approver: &str, statement: &Statement<'_>) -> Signed {
    let signer = signer(name);
    Signed {
        approver: approver.to_owned(),
        key: signer.public(),
        name: name.to_owned(),
        security_key: None,
        signature: signer.sign(&statement.to_bytes(name, approver)),
    }
}

/// A person's answer to the hold of a run whose last entry is `head`.
#[must_use]
pub fn vote(
    head: &Head,
    name: &str,
    decision: VoteDecision,
    reason: &str,
    conditions: &[String],
    shown: Digest,
) -> Box<Vote> {
    let unsigned = UnsignedVote {
        conditions: conditions.to_vec(),
        decision,
        edit: None,
        files: Vec::new(),
        reason: reason.to_owned(),
        send_back: None,
        shown,
    };
    let by = signed(name, &unsigned.statement(head));
    Box::new(unsigned.signed(by))
}

/// A person's answer that counts for this approver.
#[must_use]
pub fn vote_for(
    head: &Head,
    name: &str,
    approver: &str,
    decision: VoteDecision,
    shown: Digest,
) -> Box<Vote> {
    let unsigned = UnsignedVote {
        conditions: Vec::new(),
        decision,
        edit: None,
        files: Vec::new(),
        reason: "because".to_owned(),
        send_back: None,
        shown,
    };
    let by = signed_for(name, approver, &unsigned.statement(head));
    Box::new(unsigned.signed(by))
}

/// A person's answer that sends the run back, whose last entry is `head`.
#[must_use]
pub fn vote_back(head: &Head, name: &str, back: SendBack, shown: Digest) -> Box<Vote> {
    let unsigned = UnsignedVote {
        conditions: Vec::new(),
        decision: VoteDecision::Rejected,
        edit: None,
        files: Vec::new(),
        reason: "because".to_owned(),
        send_back: Some(back),
        shown,
    };
    let by = signed(name, &unsigned.statement(head));
    Box::new(unsigned.signed(by))
}

#[cfg(feature = "gateway")]
mod runtime {
    use windlass_kernel::{Signed, Statement};
    use windlass_runtime::{Attribution, People, PersonError, Who};

    /// People of every name.
    #[derive(Clone, Copy, Debug)]
    pub struct Everybody;

    impl People for Everybody {
        fn sign(&self, name: &str, statement: &Statement<'_>) -> Result<Signed, PersonError> {
            Ok(super::signed(name, statement))
        }

        fn knows(&self, _: &Signed) -> bool {
            true
        }
    }

    /// The decision of one person.
    #[must_use]
    pub const fn by<'a>(name: &'a str, reason: &'a str) -> Attribution<'a> {
        Attribution {
            who: Who::Person { name, people: &Everybody, run: None },
            reason,
            edit: None,
            files: &[],
        }
    }
}

#[cfg(feature = "gateway")]
pub use runtime::{Everybody, by};
