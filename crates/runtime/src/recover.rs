//! Recovery: acquire the lease, replay from the replay point, plan, act, release. It follows the same
//! path as a live call: fold the entries, then perform the next step.

use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::artifact::{ActionRequest, EffectError, Redispatch, SettledBy};
use windlass_kernel::recovery::{RecoveryPlan, UncertainRule, plan};
use windlass_kernel::{Call, Machine, Outcome, State, TraceId};
use windlass_store::{After, AppendError, TraceFilter, TraceState};

use crate::call_log::CallLog;
use crate::dispatch::Settlement;
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::objection::Objection;
use crate::report::{CallReport, HoldQuestion};
use crate::supervisor::{Conditions, Preparation};
use crate::unknown_effect::UnknownEffect;

/// The number of open traces that are listed at a time.
const PAGE: usize = 256;

/// The recovery of one call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// The recovery step.
    pub plan: RecoveryPlan,
    /// The call after the recovery.
    pub report: CallReport,
}

/// The result of the recovery of one open call.
#[derive(Debug)]
pub struct RecoveredCall {
    /// The trace.
    pub trace_id: TraceId,
    /// The result; an error does not affect other traces.
    pub result: Result<Recovery, GatewayError>,
}

impl Gateway {
    /// Recovers all open calls whose process is dead, the oldest first. Those of runs are left to the runs.
    ///
    /// # Errors
    /// [`GatewayError`] if the open traces cannot be listed.
    pub fn recover_all(&self) -> Result<Vec<RecoveredCall>, GatewayError> {
        let ids = self.open_calls(None)?.into_iter().map(|state| state.head.trace_id);
        let recover = |trace_id| RecoveredCall { trace_id, result: self.recover(trace_id) };
        let is_own = |call: &RecoveredCall| !matches!(call.result, Err(GatewayError::OfRun { .. }));
        Ok(ids.map(recover).filter(is_own).collect())
    }

    /// Recovers the calls that a dead process interrupted, except those of runs and those that need a
    /// person. A process does this when it starts.
    ///
    /// # Errors
    /// [`GatewayError`] if the open traces cannot be listed.
    pub fn recover_interrupted(&self) -> Result<Vec<RecoveredCall>, GatewayError> {
        let mut all = Vec::new();
        for state in [State::Authorized, State::Executing] {
            for state in self.open_calls(Some(state))? {
                let trace_id = state.head.trace_id;
                if !self.store.is_held(&state)? && self.can_recover_without_person(trace_id) {
                    all.push(RecoveredCall { trace_id, result: self.recover(trace_id) });
                }
            }
        }
        Ok(all)
    }

    /// Lists the open calls, the oldest first.
    fn open_calls(&self, state: Option<State>) -> Result<Vec<TraceState>, GatewayError> {
        let mut all = Vec::new();
        let mut filter =
            TraceFilter { state, machine: Some(Machine::Call), ..TraceFilter::open(PAGE) };
        loop {
            let page = self.store.list_traces(&filter)?;
            filter.before = page.last().map(|state| state.head.trace_id);
            let full = page.len() == PAGE;
            all.extend(page);
            if !full {
                all.reverse();
                return Ok(all);
            }
        }
    }

    /// Whether recovery can continue a call without a person.
    fn can_recover_without_person(&self, trace_id: TraceId) -> bool {
        let plan = || -> Result<RecoveryPlan, GatewayError> {
            let call = Reader::<Call>::state_of(self.store.as_ref(), trace_id, Check::Verified)?;
            let request = call.effective_request().filter(|request| request.run.is_none());
            let Some(request) = request else { return Ok(RecoveryPlan::Nothing) };
            let Ok(preparation) = self.prepare_request(trace_id, &request) else {
                return Ok(RecoveryPlan::Hold);
            };
            let count = count(&self.store.list_redispatches(trace_id)?);
            Ok(plan(&call, preparation.uncertain_rule(), count, preparation.retries_max))
        };
        // Recovery itself reports a call that cannot be read.
        !matches!(plan(), Ok(RecoveryPlan::Nothing | RecoveryPlan::Judge | RecoveryPlan::Hold))
    }

    /// Recovers one call: completes it or puts it on hold.
    ///
    /// # Errors
    /// [`GatewayError`]: `Journal` with `Held` if another live process works on the call, or with the
    /// chain error if its trace is corrupt; `OfRun` if a run makes it. The trace is then not changed.
    pub fn recover(&self, trace_id: TraceId) -> Result<Recovery, GatewayError> {
        self.recover_for(trace_id, None, Conditions::default())
    }

    /// Recovers one call of this run, or of none.
    pub(crate) fn recover_for(
        &self,
        trace_id: TraceId,
        run: Option<TraceId>,
        conditions: Conditions,
    ) -> Result<Recovery, GatewayError> {
        let log = CallLog::start();
        let result = self.recover_call(trace_id, run, conditions);
        log.recovery(trace_id, &result);
        result
    }

    fn recover_call(
        &self,
        trace_id: TraceId,
        run: Option<TraceId>,
        conditions: Conditions,
    ) -> Result<Recovery, GatewayError> {
        let recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
        require_run(recorder.state(), run)?;
        let redispatches = self.store.list_redispatches(trace_id)?;
        let preparation = self.prepare(&recorder).map(|how| how.under(conditions));
        let (rule, retries_max) = match &preparation {
            Ok(preparation) => (preparation.uncertain_rule(), preparation.retries_max),
            // A tool that is no longer registered cannot be called; a person must decide.
            Err(_) => (UncertainRule::Hold, 0),
        };
        let count = count(&redispatches);
        let plan = plan(recorder.state(), rule, count, retries_max);
        let report = match plan {
            RecoveryPlan::Nothing => self.leave(recorder, redispatches, None)?,
            RecoveryPlan::Judge => {
                if let Ok(preparation) = &preparation
                    && let Some(taken) = self.recorded_use(&recorder)?
                {
                    GatewayError::check_signal()?;
                    let report = self.start_granted(recorder, taken, preparation)?;
                    return Ok(Recovery { plan, report });
                }
                let reason = match &recorder.state().request {
                    Some((request, _)) => self.judge(request).reason,
                    None => String::new(),
                };
                self.leave(recorder, redispatches, Some((HoldQuestion::MayItRun, reason)))?
            }
            RecoveryPlan::Start => self.start_approved(recorder, &preparation?)?,
            RecoveryPlan::Redispatch
            | RecoveryPlan::Probe
            | RecoveryPlan::Compensate
            | RecoveryPlan::Hold => match &preparation {
                Ok(preparation) => {
                    let unknown = UnknownEffect { recorder, redispatches, failure: None };
                    self.resolve(unknown, preparation)?
                }
                Err(error) => {
                    let reason = if let GatewayError::Recovery { reason, .. } = error {
                        reason.clone()
                    } else {
                        error.to_string()
                    };
                    self.leave_on_hold(recorder, redispatches, reason)?
                }
            },
        };
        Ok(Recovery { plan, report })
    }

    /// Prepares the dispatch of the recorder's call.
    pub(crate) fn prepare(&self, recorder: &CallRecorder) -> Result<Preparation, GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let Some(request) = recorder.state().effective_request() else {
            return Err(GatewayError::missing(trace_id, "request"));
        };
        self.prepare_request(trace_id, &request)
    }

    /// Prepares the dispatch of a request.
    pub(crate) fn prepare_request(
        &self,
        trace_id: TraceId,
        request: &ActionRequest,
    ) -> Result<Preparation, GatewayError> {
        self.require_workspace(trace_id, request)?;
        self.prepare_any(request).map_err(|refusal| GatewayError::Recovery {
            trace_id,
            reason: format!("{}: {}", refusal.code, refusal.reason),
        })
    }

    /// Fails if the request is for a workspace that is not this gateway's.
    pub(crate) fn require_workspace(
        &self,
        trace_id: TraceId,
        request: &ActionRequest,
    ) -> Result<(), GatewayError> {
        let workspace = &request.proposal.workspace;
        if *workspace == self.workspace {
            return Ok(());
        }
        let reason = format!("it works in another workspace, `{workspace}`");
        Err(GatewayError::Recovery { trace_id, reason })
    }

    /// Leaves a call unchanged and writes a replay point for the next reader.
    fn leave(
        &self,
        recorder: CallRecorder,
        redispatches: Vec<Redispatch>,
        hold: Option<(HoldQuestion, String)>,
    ) -> Result<CallReport, GatewayError> {
        recorder.write_replay_point(self.clock.now())?;
        let call = recorder.into_state();
        let hold = hold.map(|(question, reason)| (question, reason, self.view_of(&call)));
        let report = CallReport::of(call, redispatches);
        Ok(match hold {
            Some((question, reason, view)) => report.on_hold(question, reason, view),
            None => report,
        })
    }

    /// Leaves a call that may have run to a person.
    pub(crate) fn leave_on_hold(
        &self,
        recorder: CallRecorder,
        redispatches: Vec<Redispatch>,
        reason: String,
    ) -> Result<CallReport, GatewayError> {
        self.leave(recorder, redispatches, Some((HoldQuestion::DidItRun, reason)))
    }

    /// Dispatches a call that was approved and never dispatched, unless there is a reason now not to run it. What the
    /// policy of now denies ends without an effect; what a person must be asked about waits.
    pub(crate) fn start_approved(
        &self,
        mut recorder: CallRecorder,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        GatewayError::check_signal()?;
        let objection = self.objection(&recorder)?;
        let key = self.add_tool_call(&mut recorder, preparation)?;
        match recorder.commit(key, After::Keep) {
            Ok(()) => match objection {
                None => self.dispatch_and_settle(recorder, preparation, Vec::new()),
                Some(Objection::Denied { code, reason: message }) => {
                    let error = Some(EffectError { code, message, may_have_run: false });
                    let (outcome, result, by) = (Outcome::Error, Value::Null, SettledBy::Answer);
                    let settlement = Settlement { outcome, result, error, duration_ms: 0, by };
                    self.settle(recorder, settlement, Vec::new())
                }
                Some(Objection::Asks(reason)) => {
                    let reason = format!("it has not run, and it was not started: {reason}");
                    self.leave_on_hold(recorder, Vec::new(), reason)
                }
            },
            Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                Err(GatewayError::Recovery {
                    trace_id: recorder.state().head.trace_id,
                    reason: format!("its idempotency key was used by trace {}", record.trace_id),
                })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Fails if an open call belongs to a run other than `run`.
pub(crate) fn require_run(call: &Call, run: Option<TraceId>) -> Result<(), GatewayError> {
    let own = call.request.as_ref().and_then(|(request, _)| request.run);
    let is_open = call.head.state.is_some_and(|state| !state.is_terminal());
    match own {
        Some(own) if is_open && run != Some(own) => {
            Err(GatewayError::OfRun { trace_id: call.head.trace_id, run: own })
        }
        Some(_) | None => Ok(()),
    }
}

/// The number of repeated dispatches.
pub(crate) fn count(redispatches: &[Redispatch]) -> u32 {
    u32::try_from(redispatches.len()).unwrap_or(u32::MAX)
}
