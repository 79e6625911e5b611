//! Checks that the parts of a bundle agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::Run;
use windlass_kernel::{Machine, PlanId, TraceId};
use windlass_workspace::TreeId;

use super::verify::BundleVerifier;
use super::{BundleFault, ENVELOPE, FILES, HEADS, MANIFEST, Manifest, STATEMENT, journal_name};
use crate::attestation::{self, Envelope};
use crate::head::SignedHead;
use crate::journal::{CallReference, Trace};
use crate::key::PublicKey;

impl<R: std::io::Read + std::io::Seek> BundleVerifier<'_, R> {
    /// Compares the manifest, the signed heads, the traces and the statement with each other.
    pub(super) fn check_consistency(&mut self, manifest: &Manifest, signer: Option<&PublicKey>) {
        let trace_ids: Vec<TraceId> = self.traces.keys().copied().collect();
        if manifest.trace_ids != trace_ids {
            self.fault(BundleFault::JournalMismatch { name: MANIFEST.to_owned() });
        }
        if let Some(heads) = self.read::<Vec<SignedHead>>(HEADS) {
            self.check_heads(manifest, &heads, signer);
        }
        let Some(run) = self.traces.remove(&manifest.trace_id) else {
            self.fault(BundleFault::MissingMember { name: journal_name(manifest.trace_id) });
            return;
        };
        self.check_calls(&run);
        self.check_run(manifest, &run, signer);
        self.check_files(&run);
        self.traces.insert(manifest.trace_id, run);
    }

    /// Checks that every trace has exactly one signed head, and every signed head matches a trace.
    fn check_heads(
        &mut self,
        manifest: &Manifest,
        heads: &[SignedHead],
        signer: Option<&PublicKey>,
    ) {
        if !heads.is_sorted_by(|one, next| one.trace_id < next.trace_id) {
            self.invalid(HEADS, "its heads are not sorted");
        }
        let signed: BTreeMap<TraceId, &SignedHead> =
            heads.iter().map(|head| (head.trace_id, head)).collect();
        let mut faults = Vec::new();
        for (trace_id, trace) in &self.traces {
            let matches = signed.get(trace_id).is_some_and(|signed| {
                signed.matches(trace.head())
                    && signed.run_id.as_deref() == Some(&manifest.run_id)
                    && signed.policy_hash == manifest.policy_hash
            });
            if !matches {
                faults.push(BundleFault::HeadMismatch { trace_id: *trace_id });
            }
        }
        for head in heads {
            if !self.traces.contains_key(&head.trace_id) {
                faults.push(BundleFault::HeadMismatch { trace_id: head.trace_id });
            }
            if let Some(signer) = signer.filter(|signer| !head.is_signed_by(signer)) {
                let name = format!("the head of {}", head.trace_id);
                faults.push(BundleFault::BadSignature { name, key: signer.id() });
            }
        }
        self.report.faults.extend(faults);
    }

    /// Checks that every call that the run references, directly or through another call, is in the
    /// bundle and matches the reference, and that no trace is unrelated to the run.
    fn check_calls(&mut self, run: &Trace) {
        let mut faults = Vec::new();
        let mut referenced: BTreeSet<TraceId> = BTreeSet::new();
        let mut pending: Vec<CallReference> = run.calls.clone();
        while let Some(reference) = pending.pop() {
            let trace_id = reference.trace_id;
            let call = self.traces.get(&trace_id);
            match call {
                None => faults.push(BundleFault::MissingCall { trace_id }),
                Some(call) if !matches_reference(call, &reference) => {
                    faults.push(BundleFault::CallMismatch { trace_id });
                }
                Some(_) => {}
            }
            if referenced.insert(trace_id) {
                pending.extend(call.into_iter().flat_map(|call| &call.calls));
            }
        }
        let plan_id = PlanId(run.head().trace_id.0);
        for (trace_id, trace) in &self.traces {
            // That the grant is there was checked with the references.
            if let Some((used, request_digest)) = trace.grant_use()
                && let Some(grant) = self.traces.get(&used.grant).and_then(Trace::grant)
                && !grant.records(*trace_id, request_digest, used.entry_digest)
            {
                faults.push(BundleFault::CallMismatch { trace_id: used.grant });
            }
            // No event references a call that was in progress when the process died, but the call
            // itself references the run.
            let related = referenced.contains(trace_id)
                || trace.plan_id == Some(plan_id)
                || (trace.plan_id.is_none() && trace.purged() > 0);
            if !related {
                faults.push(BundleFault::UnrelatedTrace { trace_id: *trace_id });
            }
        }
        self.report.faults.extend(faults);
    }

    /// Checks that the files are those of the checkpoints: each workspace is there in full or not at all.
    fn check_files(&mut self, trace: &Trace) {
        let Some(index) = self.files.take() else { return };
        let roots: BTreeSet<TreeId> = trace.run().into_iter().flat_map(checkpoint_trees).collect();
        if let Err(reason) = index.check(&roots) {
            self.invalid(FILES, reason);
        }
        let there = roots.iter().filter(|root| index.has(root)).count();
        self.report.workspaces = u64::try_from(there).unwrap_or(u64::MAX);
    }

    /// Checks the manifest and the statement against the journal of the run.
    fn check_run(&mut self, manifest: &Manifest, trace: &Trace, signer: Option<&PublicKey>) {
        let is_run = trace.head().state.is_some_and(|state| state.machine() == Machine::Run);
        let run = trace.run();
        let started = run.and_then(|run| run.started.as_deref());
        let matches = started.is_none_or(|started| {
            started.run_id == manifest.run_id && Some(started.policy_hash) == manifest.policy_hash
        });
        if !is_run || !matches {
            self.fault(BundleFault::JournalMismatch { name: MANIFEST.to_owned() });
        }
        let expected =
            attestation::write(&manifest.run_id, manifest.policy_hash, trace.head(), run);
        let Some(statement) = self.documents.get(STATEMENT).cloned() else { return };
        if expected.as_ref() != Ok(&statement) {
            self.fault(BundleFault::JournalMismatch { name: STATEMENT.to_owned() });
        }
        self.report.outcome =
            run.and_then(|run| run.ended.as_ref()).map(|ended| ended.outcome.as_str());
        self.report.commit = run.and_then(|run| run.newest_commit()).map(str::to_owned);
        let Some(envelope) = self.read::<Envelope>(ENVELOPE) else { return };
        if let Some(reason) = signer.and_then(|key| envelope.check(key, &statement).err()) {
            self.invalid(ENVELOPE, reason);
        }
    }
}

/// The snapshots of the run's checkpoints.
fn checkpoint_trees(run: &Run) -> impl Iterator<Item = TreeId> {
    let workspaces = run.checkpoints.iter().filter_map(|checkpoint| checkpoint.workspace.as_ref());
    let trees = workspaces.flat_map(|workspace| [Some(&workspace.tree), workspace.branch.as_ref()]);
    trees.flatten().filter_map(|tree| tree.parse().ok())
}

/// Whether a call matches a reference: a call that had ended must end with the referenced entry; any
/// other call must contain it.
fn matches_reference(call: &Trace, reference: &CallReference) -> bool {
    let Some(digest) = reference.entry_digest else { return !call.digests.is_empty() };
    match reference.state {
        Some(state) if state.is_terminal() => {
            call.head().entry_digest == digest && call.head().state == Some(state)
        }
        Some(_) | None => call.digests.contains(&digest),
    }
}
