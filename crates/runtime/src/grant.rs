//! Grants: a call that the policy asks about runs without a question if a person has granted it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_journal::{Check, JournalError, Reader, Recorder};
use windlass_kernel::artifact::{ActionRequest, DecidedBy, Decision};
use windlass_kernel::grant::{
    Decided, EndCause, Event, GRANT, Grant, GrantEvent, REVOKE, Status, Terms, is_reason,
};
use windlass_kernel::{
    ArtifactId, Code, Digest, Machine, PlanId, RiskLevel, State, Timestamp, TraceId,
};
use windlass_store::{After, AppendError, IdempotencyRecord, KeyAction, StoreError};

use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::grant_list::{GrantList, grants_in};
use crate::people::{People, PersonError};
use crate::report::CallReport;
use crate::request::{CallRequest, RequestError};
use crate::supervisor::{Conditions, Preparation};

/// A grant that has expired is closed so much later: a clock that was wrong for some days ends none for good.
const CLOCK_ERROR_MS_MAX: i64 = 7 * 24 * 3_600_000;

type GrantRecorder = Recorder<Grant>;

/// A recorded use of a grant, under which a call can be dispatched.
pub(crate) struct TakenUse {
    grant: TraceId,
    entry_digest: Digest,
    name: String,
    reason: String,
}

impl TakenUse {
    fn of(grant: &Grant, entry_digest: Digest) -> Option<Self> {
        let (_, decided) = grant.granted.as_ref()?;
        Some(Self {
            grant: grant.head.trace_id,
            entry_digest,
            name: decided.by.name.clone(),
            reason: decided.reason.clone(),
        })
    }
}

impl Gateway {
    /// Sets the people whose grants count. Without them every grant is ignored.
    #[must_use]
    pub fn with_people(mut self, people: Arc<dyn People>) -> Self {
        self.people = Some(people);
        self
    }

    fn people(&self) -> Result<&dyn People, PersonError> {
        self.people.as_deref().ok_or_else(|| PersonError {
            code: Code::PersonUnknown,
            message: "nobody here can decide".to_owned(),
        })
    }

    /// Records a person's grant. A grant that is refused is recorded too, as a denied call of the tool
    /// `windlass/grant`.
    ///
    /// # Errors
    /// [`GatewayError`]: `Request` if the terms are invalid, `GrantRefused` if the policy refuses them,
    /// `Person` if the person cannot decide.
    pub fn grant(&self, terms: Terms, by: &str, reason: &str) -> Result<Grant, GatewayError> {
        let reason = check_reason(self.redacted(reason))?;
        let now = self.clock.now();
        terms
            .check(now)
            .map_err(|reason| RequestError::Field { field: "terms", reason: reason.to_owned() })?;
        let given = self.give(terms.clone(), by, &reason);
        self.record_grant_refusal("grant", &given, by, &reason, json!(terms))?;
        given
    }

    fn give(&self, terms: Terms, by: &str, reason: &str) -> Result<Grant, GatewayError> {
        let texts = [Some(&terms.tool), terms.command.as_ref(), terms.path.as_ref()];
        if texts.into_iter().flatten().any(|text| self.redacted(text) != *text) {
            let reason = "a pattern contains a secret, which would be stored".to_owned();
            return Err(GatewayError::GrantRefused { code: Code::SecretInRequest, reason });
        }
        if !terms.everything {
            self.supervisor.check_grant(&terms).map_err(|refusal| GatewayError::GrantRefused {
                code: refusal.code,
                reason: refusal.reason,
            })?;
        }
        let trace_id = TraceId(self.clock.new_id());
        let mut recorder =
            GrantRecorder::begin(&self.store, trace_id, PlanId(trace_id.0), Vec::new());
        let statement = terms.statement(&recorder.state().head, GRANT, reason);
        let by = self.people()?.sign(by, &statement)?;
        let event = Event::Granted { by, reason: reason.to_owned(), terms };
        self.record(&mut recorder, event, self.clock.now())?;
        Ok(recorder.into_state())
    }

    /// Records that a person revokes a grant. It cannot be used any more.
    ///
    /// # Errors
    /// [`GatewayError`]: `Journal` if there is no such grant or another process is using it, `GrantEnded`
    /// if it has ended, `Person` if the person cannot decide.
    pub fn revoke_grant(
        &self,
        trace_id: TraceId,
        by: &str,
        reason: &str,
    ) -> Result<Grant, GatewayError> {
        let reason = check_reason(self.redacted(reason))?;
        let revoked = self.revoke(trace_id, by, &reason);
        self.record_grant_refusal("revoke", &revoked, by, &reason, json!({ "grant": trace_id }))?;
        revoked
    }

    fn revoke(&self, trace_id: TraceId, by: &str, reason: &str) -> Result<Grant, GatewayError> {
        let mut recorder = self.acquire_grant(trace_id, self.settings.key_wait)?;
        let grant = recorder.state();
        let status = grant.status(self.clock.now());
        let Some((terms, _)) = grant.granted.as_ref().filter(|_| status == Status::Open) else {
            return Err(GatewayError::GrantEnded { trace_id, status });
        };
        let statement = terms.statement(&grant.head, REVOKE, reason);
        let by = self.people()?.sign(by, &statement)?;
        let event = Event::Revoked { by, reason: reason.to_owned() };
        self.record(&mut recorder, event, self.clock.now())?;
        Ok(recorder.into_state())
    }

    /// Lists the grants, newest first; those that have ended only on request.
    ///
    /// # Errors
    /// [`GatewayError`] if the store fails.
    pub fn grants(&self, ended_too: bool) -> Result<GrantList, GatewayError> {
        let store = self.store.as_ref();
        let mut list = grants_in(store, State::Granted)?;
        if ended_too {
            let ended = grants_in(store, State::Withdrawn)?;
            list.unreadable += ended.unreadable;
            list.grants.extend(ended.grants);
            list.grants.sort_by_key(|grant| std::cmp::Reverse(grant.head.trace_id));
            list.grants.dedup_by_key(|grant| grant.head.trace_id);
        }
        list.unreadable += store.count()?.unreadable;
        Ok(list)
    }

    /// Returns a grant, verified.
    ///
    /// # Errors
    /// [`GatewayError`] if there is no such grant or its trace is corrupt.
    pub fn show_grant(&self, trace_id: TraceId) -> Result<Grant, GatewayError> {
        let read = Reader::<Grant>::state_of(self.store.as_ref(), trace_id, Check::Verified);
        read.map_err(|error| not_found(trace_id, error).into())
    }

    fn grants_in(&self, state: State) -> Result<Vec<Grant>, GatewayError> {
        Ok(grants_in(self.store.as_ref(), state)?.grants)
    }

    /// Records a use of a grant that covers the recorder's call, if there is one: of a grant for the run
    /// before one for the project, of an older one before a newer one.
    ///
    /// INVARIANT: the use is durable before the call is decided, and the grant's lease is held from the
    /// count of its uses until then, so that no process exceeds their number.
    pub(crate) fn take_use(
        &self,
        recorder: &CallRecorder,
    ) -> Result<Option<TakenUse>, GatewayError> {
        let Some(people) = &self.people else { return Ok(None) };
        let now = self.clock.now();
        let mut found = Vec::new();
        for grant in self.grants_in(State::Granted)? {
            match grant.status(now) {
                Status::Open if self.matches(&grant, recorder, people.as_ref()) => {
                    found.push(grant);
                }
                Status::Expired | Status::UsedUp => self.end_grant(grant.head.trace_id)?,
                Status::Open | Status::Revoked => {}
            }
        }
        let is_for_project =
            |grant: &Grant| grant.granted.as_ref().is_none_or(|(terms, _)| terms.run.is_none());
        found.sort_by_key(|grant| (is_for_project(grant), grant.head.trace_id));
        for grant in found {
            if let Some(taken) = self.use_grant(grant.head.trace_id, recorder)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// The use that was recorded for the recorder's call before its process died. It is not counted
    /// again.
    pub(crate) fn recorded_use(
        &self,
        recorder: &CallRecorder,
    ) -> Result<Option<TakenUse>, GatewayError> {
        let (Some(people), Some((_, digest))) = (&self.people, recorder.state().request.as_ref())
        else {
            return Ok(None);
        };
        let (call, now) = (recorder.state().head.trace_id, self.clock.now());
        for grant in self.grants_in(State::Granted)? {
            let in_time = grant.granted.as_ref().is_some_and(|(terms, _)| now < terms.until);
            if let Some(found) = grant.use_of(call, *digest)
                && in_time
                && self.matches(&grant, recorder, people.as_ref())
            {
                return Ok(TakenUse::of(&grant, found.entry_digest));
            }
        }
        Ok(None)
    }

    /// Whether a grant covers the recorder's call, and the person who gave it can decide now.
    pub(crate) fn matches(
        &self,
        grant: &Grant,
        recorder: &CallRecorder,
        people: &dyn People,
    ) -> bool {
        let request = recorder.state().request.as_ref();
        request.is_some_and(|(request, _)| self.is_covered(grant, request, people))
    }

    fn is_covered(&self, grant: &Grant, request: &ActionRequest, people: &dyn People) -> bool {
        let Some((terms, decided)) = &grant.granted else { return false };
        terms.includes(request.plan_id)
            && people.knows(&decided.by)
            && match terms.everything {
                // What Windlass itself does is never let through like this.
                true => self.hands_over(),
                false => self.supervisor.covers(request, terms),
            }
    }

    /// Whether a grant covers a request that is not recorded yet.
    pub(crate) fn is_granted(&self, request: &ActionRequest) -> Result<bool, GatewayError> {
        let Some(people) = &self.people else { return Ok(false) };
        let now = self.clock.now();
        let covers = |grant: &Grant| {
            grant.status(now) == Status::Open && self.is_covered(grant, request, people.as_ref())
        };
        Ok(self.grants_in(State::Granted)?.iter().any(covers))
    }

    /// Whether a grant of everything can be used for calls of a plan.
    pub(crate) fn is_everything_granted(&self, plan_id: PlanId) -> Result<bool, GatewayError> {
        let now = self.clock.now();
        Ok(self.grants_in(State::Granted)?.iter().any(|grant| {
            let terms = grant.granted.as_ref().map(|(terms, _)| terms);
            terms.is_some_and(|terms| terms.everything && terms.includes(plan_id))
                && grant.status(now) == Status::Open
        }))
    }

    /// Records a use of one grant by the recorder's call; `None` if it cannot be used any more, or other
    /// processes use it for too long.
    fn use_grant(
        &self,
        trace_id: TraceId,
        call: &CallRecorder,
    ) -> Result<Option<TakenUse>, GatewayError> {
        let Some((_, request_digest)) = call.state().request else { return Ok(None) };
        let wait = self.settings.key_wait;
        let Some(mut recorder) = self.try_grant(trace_id, wait)? else { return Ok(None) };
        let now = self.clock.now();
        if recorder.state().status(now) != Status::Open {
            return Ok(None);
        }
        let number = recorder.state().used().saturating_add(1);
        let event = Event::Used { call: call.state().head.trace_id, number, request_digest };
        match self.record(&mut recorder, event, now) {
            Ok(()) => {}
            // The lease was lost, so that another process counts now.
            Err(GatewayError::Journal(JournalError::Append(AppendError::Fenced { .. }))) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let grant = recorder.into_state();
        Ok(TakenUse::of(&grant, grant.head.entry_digest))
    }

    /// Closes a grant that is used up or has expired, so that it is not looked at again.
    fn end_grant(&self, trace_id: TraceId) -> Result<(), GatewayError> {
        let Some(mut recorder) = self.try_grant(trace_id, Duration::ZERO)? else { return Ok(()) };
        let now = self.clock.now();
        let ended_long_ago = |(terms, _): &(Terms, Decided)| {
            now.unix_ms().saturating_sub(terms.until.unix_ms()) >= CLOCK_ERROR_MS_MAX
        };
        let cause = match recorder.state().status(now) {
            // It cannot be used now, and can again if the clock was wrong.
            Status::Expired if !recorder.state().granted.as_ref().is_some_and(ended_long_ago) => {
                return Ok(());
            }
            Status::Expired => EndCause::Expired,
            Status::UsedUp => EndCause::UsedUp,
            Status::Open | Status::Revoked => return Ok(()),
        };
        self.record(&mut recorder, Event::Ended { cause }, now)
    }

    /// Acquires a grant; `None` if others hold it for too long or it is damaged.
    fn try_grant(
        &self,
        trace_id: TraceId,
        wait_max: Duration,
    ) -> Result<Option<GrantRecorder>, GatewayError> {
        match self.acquire_grant(trace_id, wait_max) {
            Ok(recorder) => Ok(Some(recorder)),
            Err(error) if error.is_held() => Ok(None),
            Err(GatewayError::Journal(error)) if error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires a grant, waiting for other processes that use it.
    fn acquire_grant(
        &self,
        trace_id: TraceId,
        wait_max: Duration,
    ) -> Result<GrantRecorder, GatewayError> {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            match GrantRecorder::open(&self.store, trace_id, Vec::new()) {
                Err(JournalError::Held(_)) if waited < wait_max => {}
                opened => return opened.map_err(|error| not_found(trace_id, error).into()),
            }
            GatewayError::check_signal()?;
            std::thread::sleep(pause);
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Commits an event of a grant and releases its lease.
    fn record(
        &self,
        recorder: &mut GrantRecorder,
        event: Event,
        ts: Timestamp,
    ) -> Result<(), GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let artifact_id = ArtifactId(self.clock.new_id());
        recorder.add(&GrantEvent::new(trace_id, artifact_id, ts, event))?;
        Ok(recorder.commit(KeyAction::None, After::Release)?)
    }

    /// Dispatches a pending call under a recorded use of a grant.
    pub(crate) fn start_granted(
        &self,
        mut recorder: CallRecorder,
        taken: TakenUse,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        let TakenUse { grant, entry_digest, name, reason } = taken;
        let by = DecidedBy::Grant { entry_digest, grant, name };
        self.add_decision(&mut recorder, Decision::Approve, reason, None, by)?;
        if self.hands_over() {
            return self.commit_hand_over(recorder, preparation);
        }
        let key = self.add_tool_call(&mut recorder, preparation)?;
        match recorder.commit(key, After::Keep) {
            Ok(()) => self.dispatch_and_settle(recorder, preparation, Vec::new()),
            Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                let trace_id = recorder.state().head.trace_id;
                let proposal = recorder.state().proposal_digest();
                let run = recorder.state().request.as_ref().and_then(|(request, _)| request.run);
                // It releases the lease.
                drop(recorder);
                self.close_repeated(trace_id, run, proposal, *record, preparation)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Closes a pending call whose key another call has used meanwhile, and returns that call's result if
    /// it was for the same request.
    fn close_repeated(
        &self,
        trace_id: TraceId,
        run: Option<TraceId>,
        proposal: Option<Digest>,
        record: IdempotencyRecord,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        let mut recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
        let reason = format!("its idempotency key was used by trace {}", record.trace_id);
        let (code, by) = (Some(Code::IdempotencyConflict), DecidedBy::Policy { rules: Vec::new() });
        self.add_decision(&mut recorder, Decision::Deny, reason, code, by)?;
        recorder.commit(KeyAction::None, After::Release)?;
        if proposal != Some(record.reservation.request_digest) {
            return Ok(CallReport::of(recorder.into_state(), Vec::new()));
        }
        let slot = record.reservation.slot.clone();
        let wait_max = preparation.limits.timeout + self.settings.key_wait;
        let conditions = Conditions { until: preparation.until, ..Conditions::default() };
        self.await_effect(&slot, record, wait_max, run, conditions)
    }

    /// Records that a decision about a grant was refused.
    fn record_grant_refusal(
        &self,
        action: &str,
        result: &Result<Grant, GatewayError>,
        by: &str,
        reason: &str,
        about: serde_json::Value,
    ) -> Result<(), GatewayError> {
        let Err(
            error @ (GatewayError::Person(_)
            | GatewayError::GrantRefused { .. }
            | GatewayError::GrantEnded { .. }),
        ) = result
        else {
            return Ok(());
        };
        let request = CallRequest {
            server: "windlass".to_owned(),
            tool: "grant".to_owned(),
            args: json!({ "about": about, "action": action, "by": by, "reason": reason }),
            intent: "decide on a pattern of calls".to_owned(),
            resources: Vec::new(),
            declared_class: RiskLevel::Write,
            key: None,
            plan_id: None,
            agent: None,
            phase: None,
            run: None,
        };
        self.refuse(request, error.code(), error.to_string()).map(|_| ())
    }
}

fn check_reason(reason: String) -> Result<String, RequestError> {
    if is_reason(&reason) {
        return Ok(reason);
    }
    let reason = "1 to 4096 bytes long and not blank".to_owned();
    Err(RequestError::Field { field: "reason", reason })
}

/// A trace that does not exist is a grant that does not exist.
fn not_found(trace_id: TraceId, error: JournalError) -> JournalError {
    if matches!(error, JournalError::Store(StoreError::NotFound { .. })) {
        JournalError::WrongMachine { trace_id, expected: Machine::Grant }
    } else {
        error
    }
}
