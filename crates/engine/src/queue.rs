//! The queue of holds, and the answers to them.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_journal::{Check, JournalError, Reader, RunFilter, Runs};
use windlass_kernel::artifact::{Edit, NamedFile};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{
    Event, Hold, NoteKind, Resolution, Revocation, Run, RunName, SendBack, UnsignedVote, Vote,
    VoteDecision,
};
use windlass_kernel::{
    Call, Code, Digest, State, TraceId, check_name, is_same_name, shown_with_files,
};

use windlass_runtime::{Answer, Attribution, CallView, Who, first_difference};
use windlass_workspace::TreeId;

use crate::engine::{Engine, refuse_ended, run_name};
use crate::error::EngineError;
use crate::repository::Patch;
use crate::run_recorder::RunRecorder;
use crate::turn::open_hold;

/// The maximum length of a reason.
pub(crate) const REASON_BYTES_MAX: usize = 4096;
/// The maximum number of conditions of one approval.
const CONDITIONS_MAX: usize = 50;

/// A run that waits for a person.
#[derive(Clone, Debug)]
pub struct WaitingRun {
    /// The run's trace.
    pub trace_id: TraceId,
    /// The run.
    pub run: Run,
    /// The open hold.
    pub hold: Hold,
}

/// The open holds.
#[derive(Debug, Default)]
pub struct HoldQueue {
    /// The oldest waiting runs, oldest first.
    pub waiting: Vec<WaitingRun>,
    /// The number of all waiting runs.
    pub count: usize,
    /// Those among the oldest whose traces are corrupt.
    pub damaged: Vec<(RunName, JournalError)>,
}

/// The result of an answer.
#[derive(Clone, Debug)]
pub struct AnswerResult {
    /// The run after the answer.
    pub run: Run,
    /// The resolution of the hold by all answers so far.
    pub resolution: Resolution,
}

impl HoldQueue {
    /// Reads the open holds, oldest first, at most `limit`, and counts all of them. A corrupt trace does
    /// not hide the others.
    ///
    /// # Errors
    /// [`JournalError`] if the store cannot be read.
    pub fn read(runs: &Runs, limit: usize) -> Result<Self, JournalError> {
        let filter =
            RunFilter { open_only: true, state: Some(State::Checkpoint), limit: usize::MAX };
        let found = runs.list(&filter)?;
        let mut queue = Self { count: found.len(), ..Self::default() };
        // The list is newest first; only the returned runs are read.
        for one in found.iter().rev().take(limit) {
            let trace_id = one.trace.head.trace_id;
            let run = match runs.read(trace_id) {
                Ok(run) => run,
                Err(error) if error.is_damage() => {
                    queue.damaged.push((one.name, error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(hold) = run.hold.clone() {
                queue.waiting.push(WaitingRun { trace_id, run, hold });
            }
        }
        queue.waiting.sort_by_key(|one| one.hold.since);
        Ok(queue)
    }
}

/// What a person should see of a hold.
#[derive(Clone, Debug)]
pub struct HoldDetails {
    /// The call on hold.
    pub call: Option<CallView>,
    /// The changes of the run so far, as a patch.
    pub diff: Option<Patch>,
    /// The files that are not as the run left them.
    pub changed: Vec<String>,
    /// Whether the policy is not that of the run any more, so that it cannot go on.
    pub policy_changed: bool,
    /// Whether the run goes on only with the files as it left them.
    pub must_stay: bool,
    /// The folder with the files of a merge conflict, which a person resolves there.
    pub conflict: Option<PathBuf>,
    /// The digest that an answer refers to.
    pub shown: Digest,
}

/// A person's answer to a hold.
#[derive(Clone, Copy, Debug)]
pub struct HoldAnswer<'a> {
    /// The decision.
    pub decision: VoteDecision,
    /// The name of the person.
    pub by: &'a str,
    /// The reason.
    pub reason: &'a str,
    /// The digest of what the person was shown; without one the present hold is meant.
    pub shown: Option<Digest>,
    /// The conditions of an approval.
    pub conditions: &'a [String],
    /// The arguments that the person puts in place of those of the call on hold.
    pub edit: Option<&'a Value>,
    /// What the person who rejects wants done again.
    pub again: Option<Again<'a>>,
    /// What became of the interrupted call on hold, if the person who approves knows it.
    pub settled: Option<Answer>,
}

/// What a person who rejects wants done again.
#[derive(Clone, Copy, Debug)]
pub struct Again<'a> {
    /// The phase; without one, the usual one.
    pub to: Option<&'a str>,
    /// What is to be done better.
    pub findings: &'a [String],
}

impl HoldAnswer<'_> {
    fn check(&self) -> Result<(), EngineError> {
        for condition in self.conditions {
            check("condition", condition, REASON_BYTES_MAX, "what must be true")?;
        }
        if self.decision == VoteDecision::Rejected && !self.conditions.is_empty() {
            return Err(invalid("a rejection has a reason, not conditions".to_owned()));
        }
        if self.conditions.len() > CONDITIONS_MAX {
            return Err(invalid(format!("an approval has at most {CONDITIONS_MAX} conditions")));
        }
        for finding in self.again.map(|again| again.findings).unwrap_or_default() {
            check("finding", finding, REASON_BYTES_MAX, "what is to be done better")?;
        }
        check_person(self.by, self.reason)
    }
}

impl Engine {
    /// Records a person's signed answer to the hold that they were shown. Each person answers once. An answer
    /// that is refused is noted in the run.
    ///
    /// # Errors
    /// [`EngineError`]: nothing but a note is recorded, except that an expired hold ends its run.
    pub fn answer(
        &self,
        trace_id: TraceId,
        answer: HoldAnswer<'_>,
    ) -> Result<AnswerResult, EngineError> {
        answer.check()?;
        let reason = self.redacted(answer.reason);
        let conditions: Vec<String> =
            answer.conditions.iter().map(|condition| self.redacted(condition)).collect();
        let by = answer.by.trim();
        let findings: Vec<String> = answer
            .again
            .map(|again| again.findings)
            .unwrap_or_default()
            .iter()
            .map(|finding| self.redacted(finding))
            .collect();
        let again = answer.again.map(|again| Again { findings: &findings, ..again });
        let answer = HoldAnswer { by, reason: &reason, conditions: &conditions, again, ..answer };
        let mut recorder = self.open_to_answer(trace_id)?;
        refuse_ended(recorder.run())?;
        let hold = open_hold(recorder.run())?;
        if hold.is_expired(self.recording.clock.now()) {
            self.expire(&mut recorder)?;
        }
        let vote = match self.signed_vote(recorder.run(), &hold, answer) {
            Ok(vote) => vote,
            Err(error) => {
                self.note_refusal(&mut recorder, answer.by, answer.decision.as_str(), &error)?;
                return Err(error);
            }
        };
        recorder.append(vec![Event::Voted(Box::new(vote))])?;
        let hold = recorder.run().hold.as_ref();
        let resolution = hold.map_or(Resolution::Open, Hold::resolution);
        let goes_on = |hold: &Hold| recorder.run().continues_after_rejection(hold);
        let goes_on = recorder.run().hold.as_ref().is_some_and(goes_on);
        if resolution == Resolution::Rejected && !goes_on {
            self.end_rejected(&mut recorder)?;
        }
        Ok(AnswerResult { run: recorder.run().clone(), resolution })
    }

    /// Ends a run whose hold nobody answered in time; returns whether it did.
    ///
    /// # Errors
    /// [`EngineError`] if the run cannot be read or written.
    pub fn expire_hold(&self, trace_id: TraceId) -> Result<bool, EngineError> {
        let mut recorder = self.open(trace_id)?;
        let now = self.recording.clock.now();
        let run = recorder.run();
        let is_due =
            run.ended.is_none() && run.hold.as_ref().is_some_and(|hold| hold.is_expired(now));
        if !is_due {
            return Ok(false);
        }
        match self.expire(&mut recorder) {
            Ok(()) | Err(EngineError::Expired { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What a person should see of a hold as it is now: the call, and the changes so far.
    ///
    /// # Errors
    /// [`EngineError`] if the call or the repository cannot be read.
    pub fn hold_details(
        &self,
        run: &Run,
        hold: &Hold,
        since: Option<&str>,
    ) -> Result<HoldDetails, EngineError> {
        let call = match hold.held.call {
            Some(call) => Some(self.gateway_of(call)?.view(call)?),
            None => None,
        };
        let files = call.as_ref().map(|call| call.changed_files.as_slice()).unwrap_or_default();
        let shown = shown_with_files(hold.shown, files);
        if since.is_some_and(|since| since.parse::<TreeId>().is_err()) {
            return Err(invalid("a tree is named by its full id".to_owned()));
        }
        let diff = match self.repository.diff(&self.workspace(run), run, since) {
            // A work tree that is gone has no changes to show.
            Err(_) if since.is_none() => None,
            diff => diff?,
        };
        // What a phase at work has changed so far is not told as a change of somebody else.
        let theirs = if self.is_own_work(run, hold)? { None } else { diff.as_ref() };
        let changed = theirs.map(|diff| diff.changed.clone()).unwrap_or_default();
        let must_stay = self.requires_unchanged(run, hold)?;
        let phase = run.position(&hold.held.phase).and_then(|position| run.phase(position));
        let conflict = phase
            .filter(|_| hold.held.trigger == Trigger::MergeConflict)
            .map(|(phase, state)| self.phase_workspace(run, phase, state.attempt));
        // A policy that cannot be read is told when somebody answers.
        let policy_changed = matches!(self.has_its_policy(run), Ok(false));
        Ok(HoldDetails { call, diff, changed, policy_changed, must_stay, conflict, shown })
    }

    /// Records what a person says became of the interrupted call that a run waits for.
    fn settle_call(
        &self,
        run: &Run,
        hold: &Hold,
        answer: HoldAnswer<'_>,
        settled: Answer,
    ) -> Result<(), EngineError> {
        let HoldAnswer { by, reason, decision, .. } = answer;
        let call = hold.held.call.filter(|_| hold.held.approvals <= 1);
        let Some(call) = call.filter(|_| decision == VoteDecision::Approved) else {
            let message = "the run does not wait for a call that one person can settle";
            return Err(invalid(message.to_owned()));
        };
        let run = Some(run.head.trace_id);
        let who = Who::Person { name: by, people: self.people.as_ref(), run };
        let attribution = Attribution { who, reason, edit: None, files: &[] };
        self.gateway_of(call)?.decide(call, settled, attribution)?;
        Ok(())
    }

    /// Withdraws a person's answer, which nothing has acted on yet.
    ///
    /// # Errors
    /// [`EngineError`]: nothing but a note is recorded.
    pub fn revoke(&self, trace_id: TraceId, by: &str, reason: &str) -> Result<Run, EngineError> {
        let by = by.trim();
        check_person(by, reason)?;
        let reason = &*self.redacted(reason);
        let mut recorder = self.open_in_turn(trace_id, &mut |_| Ok(()))?;
        refuse_ended(recorder.run())?;
        let run = run_name(recorder.run());
        let Some(hold) = recorder.run().hold.clone() else {
            return Err(EngineError::NotOnHold { run });
        };
        let now = self.recording.clock.now();
        if hold.held.expires_at.is_some_and(|expires_at| expires_at <= now) {
            let message =
                "the time to answer is over, so the answer stays; resume or cancel the run";
            return Err(invalid(message.to_owned()));
        }
        if !hold.votes.iter().any(|(vote, _)| is_same_name(&vote.by.name, by)) {
            return Err(invalid(format!("`{by}` has not answered this hold")));
        }
        let statement = Revocation::statement(&recorder.run().head, reason, hold.shown);
        let signed = match self.people.sign(by, &statement) {
            Ok(signed) => signed,
            Err(error) => {
                let error = EngineError::Person(error);
                self.note_refusal(&mut recorder, by, "REVOKED", &error)?;
                return Err(error);
            }
        };
        let (reason, shown) = (reason.to_owned(), hold.shown);
        let revoked = Revocation { by: signed, reason, shown };
        recorder.append(vec![Event::Revoked(Box::new(revoked))])?;
        Ok(recorder.run().clone())
    }

    /// Checks an answer against its hold and has it signed.
    fn signed_vote(
        &self,
        run: &Run,
        hold: &Hold,
        answer: HoldAnswer<'_>,
    ) -> Result<Vote, EngineError> {
        let HoldAnswer { decision, by, reason, shown, conditions, edit, again, settled } = answer;
        let name = run_name(run);
        let files = self.changed_files(hold, decision)?;
        let is_stale = match shown {
            Some(shown) => shown != shown_with_files(hold.shown, &files),
            // What is not run again may have changed them itself.
            None => settled.is_none() && !files.is_empty(),
        };
        if is_stale {
            let path = self.changed_path(hold, &files)?;
            return Err(EngineError::Stale { run: name, path });
        }
        if !hold.asks(by) {
            let reviewers = hold.held.reviewers.join(", ");
            let message = format!("`{by}` is not asked; the reviewers are: {reviewers}");
            let hint = hold.held.reviewers.first().map(|reviewer| {
                format!("answer as one of them: `windlass queue approve {name} --by {reviewer} --reason TEXT`")
            });
            return Err(EngineError::Invalid { code: Code::RequestInvalid, message, hint });
        }
        if decision == VoteDecision::Approved && hold.excludes(by) {
            return Err(EngineError::Starter { run: name, by: by.to_owned() });
        }
        if !conditions.is_empty() && hold.held.trigger != Trigger::ConsensusRequested {
            return Err(invalid("only the approval of a reviewer can have conditions".to_owned()));
        }
        let edit = self.edit_of(hold, decision, edit)?;
        let (conditions, reason, shown) = (conditions.to_vec(), reason.to_owned(), hold.shown);
        let send_back = again.map(|again| send_back(run, hold, again)).transpose()?;
        let unsigned = UnsignedVote { conditions, decision, edit, files, reason, send_back, shown };
        let signed = self.people.sign(by, &unsigned.statement(&run.head))?;
        let vote = unsigned.signed(signed);
        if let Some((other, _)) = hold.votes.iter().find(|(other, _)| other.is_same(&vote)) {
            let (by, other) = (vote.by.name, other.by.name.clone());
            return Err(EngineError::SamePerson { run: name, by, other });
        }
        // From here on something is recorded: nothing may refuse the vote any more.
        if let Some(settled) = settled {
            self.settle_call(run, hold, answer, settled)?;
        }
        Ok(vote)
    }

    /// The arguments that a person puts in place of those of the call on hold.
    fn edit_of(
        &self,
        hold: &Hold,
        decision: VoteDecision,
        args: Option<&Value>,
    ) -> Result<Option<Edit>, EngineError> {
        let Some(args) = args else { return Ok(None) };
        let Some(call) = hold.held.call.filter(|_| decision == VoteDecision::Approved) else {
            let message =
                "only the arguments of a call can be changed, and only when it is approved";
            return Err(invalid(message.to_owned()));
        };
        if hold.held.approvals > 1 {
            let message = "what several people approve cannot be changed by one of them";
            return Err(invalid(message.to_owned()));
        }
        if self.recording.redactor.find(args).is_some() {
            let (code, hint) = (Code::SecretInRequest, None);
            let message = "the arguments contain a secret, which would be stored".to_owned();
            return Err(EngineError::Invalid { code, message, hint });
        }
        let state = Reader::<Call>::state_of(self.store(), call, Check::Verified)?;
        let Some((request, _)) = state.request.filter(|_| args.is_object()) else {
            return Err(invalid("the arguments must be a JSON object".to_owned()));
        };
        let edit = Edit::of(&request.proposal, args.clone());
        edit.map(Some).map_err(|error| invalid(format!("the arguments are not valid: {error}")))
    }

    /// The files that the call on hold names, if they are no longer as they were at the question.
    fn changed_files(
        &self,
        hold: &Hold,
        decision: VoteDecision,
    ) -> Result<Vec<NamedFile>, EngineError> {
        match hold.held.call {
            Some(call) if decision == VoteDecision::Approved => {
                Ok(self.gateway_of(call)?.view(call)?.changed_files)
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// The first file that is no longer as it was when the call on hold was requested.
    fn changed_path(&self, hold: &Hold, now: &[NamedFile]) -> Result<Option<String>, EngineError> {
        let Some(call) = hold.held.call.filter(|_| !now.is_empty()) else { return Ok(None) };
        let state = Reader::<Call>::state_of(self.store(), call, Check::Verified)?;
        Ok(state.request.and_then(|(request, _)| first_difference(&request.files, now)))
    }

    /// A text as it may be stored.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.recording.redactor.redact_text(&mut text);
        text
    }

    /// Notes an answer that was refused in the run.
    fn note_refusal(
        &self,
        recorder: &mut RunRecorder,
        by: &str,
        decision: &str,
        error: &EngineError,
    ) -> Result<(), EngineError> {
        let body = json!({
            "by": by,
            "code": error.code().as_str(),
            "decision": decision,
            "reason": error.to_string(),
        });
        recorder.append(vec![Event::Noted { what: NoteKind::Refusal, body }])
    }
}

/// What a person wants done again, with the phase that they mean.
fn send_back(run: &Run, hold: &Hold, again: Again<'_>) -> Result<SendBack, EngineError> {
    let findings = again.findings.to_vec();
    let targets = run.redo_targets(&hold.held);
    let hint = (!targets.is_empty()).then(|| format!("it can go back to: {}", targets.join(", ")));
    let refused = |message| EngineError::Invalid { code: Code::RequestInvalid, message, hint };
    let to = match (again.to, run.redo_default(&hold.held)) {
        (Some(to), _) => to,
        (None, Some(usual)) => usual,
        (None, None) => {
            let message = "no phase before this hold can be done again; approve or reject it";
            return Err(refused(message.to_owned()));
        }
    };
    run.redo_target(&hold.held, to).map_err(refused)?;
    Ok(SendBack { findings, to: to.to_owned() })
}

/// Checks the name of a person and a reason.
pub(crate) fn check_person(by: &str, reason: &str) -> Result<(), EngineError> {
    check_name(by).map_err(|message| invalid(message.to_owned()))?;
    check("reason", reason, REASON_BYTES_MAX, "why")
}

fn check(what: &str, text: &str, bytes_max: usize, meaning: &str) -> Result<(), EngineError> {
    let control = text.chars().any(|one| one.is_control() && one != '\n');
    if !text.trim().is_empty() && text.len() <= bytes_max && !control {
        return Ok(());
    }
    Err(invalid(format!(
        "the {what} must be 1 to {bytes_max} bytes of plain text and say {meaning}"
    )))
}

const fn invalid(message: String) -> EngineError {
    EngineError::Invalid { code: Code::RequestInvalid, message, hint: None }
}
