//! Whether the parts of a bundle say the same.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::{Machine, PlanId, TraceId};

use super::verify::Checker;
use super::{ENVELOPE, Fault, HEADS, MANIFEST, Manifest, STATEMENT, journal_name};
use crate::head::SignedHead;
use crate::journal::{Named, Trace};
use crate::key::PublicKey;
use crate::statement::{self, Envelope};

impl<R: std::io::Read + std::io::Seek> Checker<'_, R> {
    /// Compares the manifest, the signed heads, the traces and the statement with each other.
    pub(super) fn agree(&mut self, manifest: &Manifest, signer: Option<&PublicKey>) {
        let there: Vec<TraceId> = self.traces.keys().copied().collect();
        if manifest.trace_ids != there {
            self.fault(Fault::Disagrees { name: MANIFEST.to_owned() });
        }
        if let Some(heads) = self.read::<Vec<SignedHead>>(HEADS) {
            self.agree_heads(manifest, &heads, signer);
        }
        let Some(run) = self.traces.remove(&manifest.trace_id) else {
            self.fault(Fault::MemberMissing { name: journal_name(manifest.trace_id) });
            return;
        };
        self.agree_calls(&run);
        self.agree_run(manifest, &run, signer);
        self.traces.insert(manifest.trace_id, run);
    }

    /// Every trace has one signed head, and every signed head is the end of a trace.
    fn agree_heads(
        &mut self,
        manifest: &Manifest,
        heads: &[SignedHead],
        signer: Option<&PublicKey>,
    ) {
        if !heads.is_sorted_by(|one, next| one.trace_id < next.trace_id) {
            self.unusable(HEADS, "its heads are not in order");
        }
        let signed: BTreeMap<TraceId, &SignedHead> =
            heads.iter().map(|head| (head.trace_id, head)).collect();
        let mut faults = Vec::new();
        for (trace_id, trace) in &self.traces {
            let of_run = signed.get(trace_id).is_some_and(|signed| {
                signed.is_of(trace.head())
                    && signed.run_id.as_deref() == Some(&manifest.run_id)
                    && signed.policy_hash == manifest.policy_hash
            });
            if !of_run {
                faults.push(Fault::Head { trace_id: *trace_id });
            }
        }
        for head in heads {
            if !self.traces.contains_key(&head.trace_id) {
                faults.push(Fault::Head { trace_id: head.trace_id });
            }
            if let Some(signer) = signer.filter(|signer| !head.verifies(signer)) {
                let name = format!("the head of {}", head.trace_id);
                faults.push(Fault::Signature { name, key: signer.id() });
            }
        }
        self.report.faults.extend(faults);
    }

    /// Every call that the run names, or that such a call names, is there and is that call; every
    /// other trace is the run's too.
    fn agree_calls(&mut self, run: &Trace) {
        let mut faults = Vec::new();
        let mut names: BTreeSet<TraceId> = BTreeSet::new();
        let mut left: Vec<Named> = run.calls.clone();
        while let Some(named) = left.pop() {
            let trace_id = named.trace_id;
            let call = self.traces.get(&trace_id);
            match call {
                None => faults.push(Fault::CallMissing { trace_id }),
                Some(call) if !is_named(call, &named) => {
                    faults.push(Fault::CallDiffers { trace_id });
                }
                Some(_) => {}
            }
            if names.insert(trace_id) {
                left.extend(call.into_iter().flat_map(|call| &call.calls));
            }
        }
        let plan_id = PlanId(run.head().trace_id.0);
        for (trace_id, trace) in &self.traces {
            // A call that was under way when the run died is named by nobody, but names the run.
            let belongs = names.contains(trace_id)
                || trace.plan_id == Some(plan_id)
                || (trace.plan_id.is_none() && trace.purged() > 0);
            if !belongs {
                faults.push(Fault::TraceForeign { trace_id: *trace_id });
            }
        }
        self.report.faults.extend(faults);
    }

    /// The manifest and the statement say of the run what its journal says.
    fn agree_run(&mut self, manifest: &Manifest, trace: &Trace, signer: Option<&PublicKey>) {
        let is_run = trace.head().state.is_some_and(|state| state.machine() == Machine::Run);
        let run = trace.run();
        let started = run.and_then(|run| run.started.as_deref());
        let same = started.is_none_or(|started| {
            started.run_id == manifest.run_id && Some(started.policy_hash) == manifest.policy_hash
        });
        if !is_run || !same {
            self.fault(Fault::Disagrees { name: MANIFEST.to_owned() });
        }
        let expected = statement::write(&manifest.run_id, manifest.policy_hash, trace.head(), run);
        let Some(statement) = self.documents.get(STATEMENT).cloned() else { return };
        if expected.as_ref() != Ok(&statement) {
            self.fault(Fault::Disagrees { name: STATEMENT.to_owned() });
        }
        self.report.outcome =
            run.and_then(|run| run.ended.as_ref()).map(|ended| ended.outcome.as_str());
        self.report.commit =
            run.and_then(|run| run.commit.as_ref()).map(|commit| commit.commit.clone());
        let Some(envelope) = self.read::<Envelope>(ENVELOPE) else { return };
        if let Some(what) = signer.and_then(|key| envelope.check(key, &statement).err()) {
            self.unusable(ENVELOPE, what);
        }
    }
}

/// Whether a call is the one that is named: one that had ended ends with the entry that is named, one
/// that had not has it somewhere.
fn is_named(call: &Trace, named: &Named) -> bool {
    let Some(digest) = named.entry_digest else { return !call.digests.is_empty() };
    match named.state {
        Some(state) if state.is_terminal() => {
            call.head().entry_digest == digest && call.head().state == Some(state)
        }
        Some(_) | None => call.digests.contains(&digest),
    }
}
