//! Idempotency keys: a request whose key was used gets the recorded effect, or waits for the call that has it.

use std::time::Duration;

use windlass_journal::JournalError;
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::recovery::RecoveryPlan;
use windlass_kernel::{Code, TraceId};
use windlass_policy::Verdict;
use windlass_store::{IdempotencyRecord, Slot};

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::recover::Recovery;
use crate::report::CallReport;
use crate::supervisor::{Conditions, Ruling};

impl Gateway {
    /// Returns the record of the request's idempotency key, if another call has used it up.
    pub(crate) fn key_record(
        &self,
        request: &ActionRequest,
    ) -> Result<Option<IdempotencyRecord>, GatewayError> {
        match &request.idempotency_key {
            Some(key) => {
                let record = self.store.load_idempotency(&slot_of(request, key.clone()))?;
                Ok(record.filter(|record| request.run.is_some() || !record.did_not_run))
            }
            None => Ok(None),
        }
    }

    /// Handles a request whose idempotency key is taken: returns the recorded effect, waits for a call
    /// in progress, or refuses the request if the key was used for another request.
    pub(crate) fn repeat(
        &self,
        request: ActionRequest,
        record: IdempotencyRecord,
        timeout: Duration,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let slot = record.reservation.slot.clone();
        let trace_id = request.trace_id;
        let digest = request
            .proposal
            .digest()
            .map_err(|source| JournalError::NotCanonical { trace_id, source })?;
        if record.reservation.request_digest != digest {
            let reason = format!(
                "the idempotency key was used for another request, in trace {}; use a new key for a \
                 new request",
                record.trace_id
            );
            let code = Some(Code::IdempotencyConflict);
            let rules = Vec::new();
            return self.deny(request, Ruling { verdict: Verdict::Deny, code, reason, rules });
        }
        let wait_max = timeout + self.settings.key_wait;
        self.await_effect(&slot, record, wait_max, request.run, conditions)
    }

    /// Waits until the call with the key has ended or is on hold. Recovers it if its process dies.
    pub(crate) fn await_effect(
        &self,
        slot: &Slot,
        mut record: IdempotencyRecord,
        wait_max: Duration,
        run: Option<TraceId>,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            if record.effect_digest.is_some() {
                let mut report = self.show(record.trace_id)?;
                report.replayed = true;
                return Ok(report);
            }
            match self.recover_for(record.trace_id, run, conditions) {
                // The call may have ended since the record was read: then its effect is replayed.
                Ok(Recovery { plan, report }) => {
                    return Ok(CallReport { replayed: plan == RecoveryPlan::Nothing, ..report });
                }
                Err(error) if !error.is_held() || waited >= wait_max => return Err(error),
                Err(_) => {}
            }
            GatewayError::check_signal()?;
            std::thread::sleep(pause);
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(50));
            if let Some(newer) = self.store.load_idempotency(slot)? {
                record = newer;
            }
        }
    }
}

/// The slot of an idempotency key, in which a request takes effect at most once.
pub(crate) fn slot_of(request: &ActionRequest, idempotency_key: String) -> Slot {
    Slot {
        server_id: request.proposal.tool_server.clone(),
        tool_name: request.proposal.tool_name.clone(),
        idempotency_key,
    }
}
