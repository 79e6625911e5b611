//! What the core loop asks of the world around a session.

use windlass_hooks::HookEvent;
use windlass_kernel::{Digest, TraceId};

use super::cached::CoreProgress;
use super::judge::Judge;
use super::note::{CloseStep, CoreNote, PlanStep};
use super::state::CoreState;

/// A session, for files that are named after it.
#[derive(Clone, Copy, Debug)]
pub struct SessionFacts<'a> {
    /// The event at hand.
    pub event: &'a HookEvent,
    /// The session's run.
    pub run: TraceId,
}

/// A workflow with those that it is composed of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Its steps, in order.
    pub steps: Vec<PlanStep>,
    /// Its gates.
    pub gates: Vec<String>,
}

/// The file of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeFile {
    /// Its digest, which is that of the client's copy.
    pub digest: Digest,
}

/// What the hydrator is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HydrationContext {
    /// The private file that it was written to.
    pub file: String,
    /// What the agent is told besides, such as what could not be asked.
    pub told: Option<String>,
}

/// What judges are given besides the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeMaterial {
    /// The context of hydration.
    pub context: String,
    /// The axioms.
    pub axioms: String,
    /// The last uses of tools.
    pub calls: String,
    /// The state of the work: changed files and their differences.
    pub work: String,
    /// The transcript.
    pub transcript: String,
    /// Earlier reflections.
    pub reflections: String,
}

/// How a close went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// The steps, up to the one that failed.
    pub steps: Vec<CloseStep>,
    /// The commit, if all succeeded.
    pub commit: Option<String>,
    /// The files in which others have pushed changes of the same lines, if that is why it failed.
    pub conflict: Vec<String>,
}

impl CloseReport {
    /// Whether every step succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.steps.iter().all(|step| step.ok)
    }
}

/// What the core loop asks of the world around a session. Whatever fails says why; nothing is allowed for it.
pub trait CoreSurroundings {
    /// Whether a line of shell certainly only reads.
    fn only_reads(&self, line: &str) -> bool;

    /// A workflow.
    ///
    /// # Errors
    /// Why there is none of this name.
    fn workflow(&self, id: &str) -> Result<Workflow, String>;

    /// The file of a judge.
    ///
    /// # Errors
    /// Why the client's copy of it is not ours.
    fn judge_file(&self, judge: Judge) -> Result<JudgeFile, String>;

    /// Writes what the hydrator is given for a prompt into a private file.
    ///
    /// # Errors
    /// Why it could not be written: then the prompt is refused.
    fn write_context(
        &self,
        facts: SessionFacts<'_>,
        prompt: &str,
        number: u32,
        state: &CoreState,
    ) -> Result<HydrationContext, String>;

    /// Removes what the hydrator was given: nobody needs it any more.
    fn forget_context(&self, file: &str);

    /// What a judge is given.
    fn material(&self, facts: SessionFacts<'_>, judge: Judge, state: &CoreState) -> JudgeMaterial;

    /// Reads the answer of a judge strictly; what it verifies must meet the gates of the workflow.
    ///
    /// # Errors
    /// Why it is not an answer.
    fn read_answer(
        &self,
        judge: Judge,
        id: &str,
        text: &str,
        gates: &[String],
    ) -> Result<CoreNote, String>;

    /// The files of the workspace as a tree, if they are in a repository.
    fn tree(&self) -> Option<String>;

    /// The commit of the repository, and the files that are changed.
    fn repository(&self) -> (Option<String>, Vec<String>);

    /// What the agent is given when a session starts; sets its variables.
    ///
    /// # Errors
    /// Why they could not be set.
    fn start(&self, facts: SessionFacts<'_>, progress: &CoreProgress) -> Result<String, String>;

    /// Writes what others read of the state, after it was recorded.
    fn project(&self, facts: SessionFacts<'_>, progress: &CoreProgress, ended: bool);

    /// Writes to the tracker what waits to be written; returns what was.
    fn deliver(&self, facts: SessionFacts<'_>, state: &CoreState) -> Vec<CoreNote>;

    /// Writes to the tracker what other sessions of the project could not write.
    fn deliver_others(&self, facts: SessionFacts<'_>);

    /// Writes the session's insights; returns their file.
    ///
    /// # Errors
    /// Why they could not be written.
    fn write_insights(
        &self,
        facts: SessionFacts<'_>,
        progress: &CoreProgress,
        stop_reason: &str,
    ) -> Result<String, String>;

    /// Writes what was said in the session, from the client's own record; returns the file, or nothing if the client has
    /// no record of it.
    ///
    /// # Errors
    /// Why it could not be written.
    fn write_transcript(&self, facts: SessionFacts<'_>) -> Result<Option<String>, String>;

    /// Formats, commits, synchronises and pushes the work.
    fn close(&self, facts: SessionFacts<'_>, state: &CoreState) -> CloseReport;
}
