//! The core loop in driven runs: its builtins, and what the tracker is told.

pub mod audits;
mod blocks;
mod gates;
mod telling;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::executors::{Builtin, BuiltinJob};
use windlass_engine::{EngineError, RunObservers, WorkResult};
use windlass_formats::core::Insights;
use windlass_journal::Runs;
use windlass_kernel::run::Run;
use windlass_redact::Redactor;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_sessions::core::{
    CoreNote, CoreProgress, CoreSettings, CoreState, Counters, Judge, StepStatus,
};
use windlass_store::Store;

use crate::commands::session_found::{self, Found};
use crate::config::Config;
use crate::core_session::closing::{Closing, RunWork, TRIES};
use crate::core_session::documents::{self, SessionFiles, begun};
use crate::core_session::{answers, context, places, workflows};
use crate::people::user_name;
use crate::project::Project;
use crate::{memory, work};

/// The most of a transcript that is analysed.
const TRANSCRIPT_BYTES_MAX: usize = 200_000;

/// The names of the builtins.
pub const BUILTINS: [&str; 7] = [
    "core/answer",
    "core/close",
    "core/context",
    "core/gates",
    "core/insights",
    "core/session",
    "core/write-insights",
];

/// A builtin and its name.
pub type NamedBuiltin = (String, Box<dyn Builtin>);

/// What the builtins need of a project.
struct CoreRun {
    project: Project,
    files: BTreeMap<String, Vec<u8>>,
    config: Config,
    redactor: Arc<Redactor>,
    store: Arc<dyn Store>,
}

/// The builtins of the core loop, and the observers that tell the tracker of blocks.
pub fn parts(
    project: &Project,
    files: &BTreeMap<String, Vec<u8>>,
    config: &Config,
    redactor: &Arc<Redactor>,
    store: &Arc<dyn Store>,
) -> Result<(Vec<NamedBuiltin>, Arc<dyn RunObservers>), crate::failure::Failure> {
    let run = Arc::new(CoreRun {
        project: Project::find(Some(&project.root))?,
        files: files.clone(),
        config: config.clone(),
        redactor: Arc::clone(redactor),
        store: Arc::clone(store),
    });
    let kinds = [
        Kind::Answer,
        Kind::Close,
        Kind::Context,
        Kind::Gates,
        Kind::Insights,
        Kind::Session,
        Kind::WriteInsights,
    ];
    let step = |(name, kind): (&&str, Kind)| {
        let step: Box<dyn Builtin> = Box::new(Step { run: Arc::clone(&run), kind });
        ((*name).to_owned(), step)
    };
    let builtins = BUILTINS.iter().zip(kinds).map(step).collect();
    Ok((builtins, Arc::new(blocks::Blocks { run })))
}

#[derive(Clone, Copy)]
enum Kind {
    /// Judges the form of an agent's answer.
    Answer,
    /// Closes the work.
    Close,
    /// Gathers what the plan is made from.
    Context,
    /// Judges the gates of the workflow that no agent judges.
    Gates,
    /// Writes the insights, and what belongs into the tracker.
    Insights,
    /// Gathers what is known of a session that is over.
    Session,
    /// Writes what an agent found in it.
    WriteInsights,
}

struct Step {
    run: Arc<CoreRun>,
    kind: Kind,
}

impl Builtin for Step {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        Ok(match self.kind {
            Kind::Answer => self.run.answer(job),
            Kind::Close => self.run.close(job),
            Kind::Context => self.run.context(job),
            Kind::Gates => self.run.gates(job),
            Kind::Insights => self.run.insights(job),
            Kind::Session => self.run.session(job),
            Kind::WriteInsights => self.run.write_insights(job),
        })
    }
}

/// The answer of a phase, if it is done.
fn answer_of(run: &Run, phase: &str) -> Option<Value> {
    let mut phases = run.all_phases();
    phases
        .find(|(one, _)| one.id == phase)
        .and_then(|(_, state)| Some(state.done.as_ref()?.answer.clone()))
}

/// The steps that a worker says it has done.
fn steps_done(answer: Option<&Value>) -> Vec<String> {
    let steps = answer.and_then(|answer| answer.get("steps")?.as_array());
    let done = steps.into_iter().flatten().filter_map(|step| {
        let is_done = step.get("status").and_then(Value::as_str) == Some("completed");
        step.get("step").and_then(Value::as_str).filter(|_| is_done)
    });
    done.map(str::to_owned).collect()
}

/// The agent whose answer a phase has.
fn judge_of(phase: &str) -> Option<Judge> {
    match phase {
        "hydrate" => Some(Judge::PromptHydrator),
        "critic" => Some(Judge::Critic),
        "qa" => Some(Judge::QaVerifier),
        "reflect" => Some(Judge::Framework),
        _ => None,
    }
}

impl CoreRun {
    /// The state of the loop, from the answers so far.
    fn state(&self, run: &Run) -> CoreState {
        let mut state = CoreState::default();
        let at = begun(run.head.trace_id);
        let task = task_of(run);
        let taken = CoreNote::PromptTaken { number: 1, text: task, context: None, skipped: None };
        state.apply(at, &taken, CoreSettings::default().revisions_max);
        for phase in ["hydrate", "critic", "qa", "reflect"] {
            let (Some(judge), Some(answer)) = (judge_of(phase), answer_of(run, phase)) else {
                continue;
            };
            let started = CoreNote::JudgeStarted {
                judge,
                id: phase.to_owned(),
                file: windlass_kernel::Digest::of(b""),
                prompt: windlass_kernel::Digest::of(b""),
                tree: None,
            };
            state.apply(at, &started, 0);
            let gates = state.plan().map(|plan| plan.gates.clone()).unwrap_or_default();
            if let Ok(note) = self.read(judge, phase, &answer, &gates) {
                state.apply(at, &note, 0);
            }
            // The plan is approved by now: these are its steps.
            if judge == Judge::Critic {
                for step in steps_done(answer_of(run, "execute").as_ref()) {
                    let status = StepStatus::Completed;
                    state.apply(at, &CoreNote::Step { step, status }, 0);
                }
            }
        }
        state
    }

    fn read(
        &self,
        judge: Judge,
        id: &str,
        answer: &Value,
        gates: &[String],
    ) -> Result<CoreNote, String> {
        let selected = |workflow: &str| workflows::selected(&self.files, workflow);
        let mut answer = answer.clone();
        // Clients of agents are asked for a summary with every answer.
        if let (Judge::Critic | Judge::QaVerifier, Some(fields)) = (judge, answer.as_object_mut()) {
            fields.remove("summary");
        }
        let note = answers::read(judge, id, &answer.to_string(), gates, selected)?;
        gates::require_possible(&note)?;
        Ok(note)
    }

    /// Whether the answer of the phase has the form that its agent must give it.
    fn answer(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let phase = &job.assignment.phase.id;
        let run = job.recorder.run();
        let read = match (judge_of(phase), answer_of(&run, phase)) {
            (None, Some(answer)) if phase == "analyse" => {
                self.rich(&run, &answer).map(|_| ()).map_err(|error| error.clone())
            }
            (Some(judge), Some(answer)) => {
                let state = self.state(&run);
                let gates = state.plan().map(|plan| plan.gates.clone()).unwrap_or_default();
                let read = self.read(judge, phase, &answer, &gates).map(|_| ());
                // The work is approved, or done as far as its steps say. That is told again at the end.
                if read.is_ok() && matches!(judge, Judge::Critic | Judge::QaVerifier) {
                    drop(self.deliver(&run, state));
                }
                read
            }
            (None, _) => Err(format!("no agent of the core loop does the phase `{phase}`")),
            (_, None) => Err("there is no answer".to_owned()),
        };
        WorkResult::answer(match read {
            Ok(()) => json!({ "verdict": "valid", "reason": "the answer has its form" }),
            Err(reason) => json!({
                "verdict": "invalid",
                "reason": reason,
                "findings": [format!("the answer was refused: {reason}")],
            }),
        })
    }

    fn context(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let task = task_of(&job.assignment.run);
        let mut missing = Vec::new();
        let (items, problem) = match work::tracker(&self.project, &self.config) {
            Ok(tracker) => {
                let asked = context::work(tracker.as_ref(), &user_name());
                (asked.text, asked.problem)
            }
            Err(failure) => (String::new(), Some(failure.summary())),
        };
        missing.extend(problem);
        let (memories, problem) = match memory::memory(&self.project, &self.config) {
            Ok(memory) => context::memories(memory.as_ref(), &task, &self.redactor),
            Err(failure) => (String::new(), Some(failure.summary())),
        };
        missing.extend(problem);
        let described = match workflows::described(&self.files) {
            Ok(described) => described,
            Err(reason) => return WorkResult::failed("validation_error", reason),
        };
        let home = places::home(&self.project.folder, self.config.core.home.as_deref());
        let axioms =
            context::file_in(&home, "AXIOMS.md").unwrap_or_else(|| context::AXIOMS.to_owned());
        let run = &job.assignment.run;
        let session = format!(
            "run: {}\nfolder: {}\ntime: {}",
            run_id(run),
            job.assignment.workspace.display(),
            SystemClock.now()
        );
        let values = BTreeMap::from([
            ("prompt", task),
            ("session", session),
            ("state", "a run that has just begun; no plan yet".to_owned()),
            ("work", items),
            ("memory", memories),
            ("transcript", "none: a run has no conversation before it".to_owned()),
            ("workflows", described),
        ]);
        let template = context::file_in(&home, "hydration-context.md")
            .unwrap_or_else(|| context::TEMPLATE.to_owned());
        WorkResult::answer(json!({
            "axioms": axioms,
            "context": self.redactor.redacted(&context::filled(&template, &values)),
            "missing": missing,
            "summary": "work items, memories and workflows are gathered",
        }))
    }

    fn insights(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let run = job.recorder.run();
        let state = self.state(&run);
        let run_id = run_id(&run);
        let (items, problem) = match self.deliver(&run, state.clone()) {
            Ok(notes) => (notes, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let Some(data) = places::data() else {
            return WorkResult::failed(
                "validation_error",
                "neither ACA_DATA nor HOME names a folder",
            );
        };
        let folder = self.project.root.display().to_string();
        let files = SessionFiles {
            session: &run_id,
            run: run.head.trace_id,
            folder: &folder,
            data: Some(&data),
        };
        let progress =
            CoreProgress { head: run.head.entry_digest, state, counters: Counters::default() };
        let insights = files.insights(&progress, "run_ended");
        let written =
            files.insights_path().ok_or_else(|| "there is no folder".to_owned()).and_then(|path| {
                let bytes = insights.to_bytes().map_err(|error| error.to_string())?;
                documents::write(&path, &bytes).map(|()| path)
            });
        match written {
            Ok(path) => WorkResult::answer(json!({
                "items": items.iter().filter_map(item_of).collect::<Vec<_>>(),
                "path": path,
                "summary": problem.unwrap_or_else(|| "insights are written".to_owned()),
            })),
            Err(reason) => WorkResult::failed("critical_failure", reason),
        }
    }

    /// The session that a run analyses: the last word of its task names it.
    fn found(&self, run: &Run) -> Result<Found, String> {
        let task = task_of(run);
        let name = task.split_whitespace().last().unwrap_or_default();
        let runs = Runs::new(Arc::clone(&self.store));
        session_found::find(&self.project, &runs, Some(name)).map_err(|failure| failure.summary())
    }

    /// The insights of a session that follow from its records.
    fn automatic(&self, found: &Found, data: &Path) -> Result<(Insights, PathBuf), String> {
        let (run, head) = (found.trace_id(), found.run.head.entry_digest);
        let progress =
            CoreProgress::fold(self.store.as_ref(), run, head, &self.config.core.settings())
                .map_err(|error| error.to_string())?;
        let files =
            SessionFiles { session: &found.id, run, folder: &found.folder, data: Some(data) };
        let path = files.insights_path().ok_or("there is no folder for insights")?;
        Ok((files.recorded(&progress, "session_ended"), path))
    }

    fn session(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let gathered = || -> Result<Value, String> {
            let found = self.found(&job.assignment.run)?;
            let data = places::data().ok_or("neither ACA_DATA nor HOME names a folder")?;
            let (automatic, _) = self.automatic(&found, &data)?;
            let turns = context::turns_of(&found.id, &self.redactor);
            if turns.is_empty() {
                return Err(format!("the client has no record of session `{}`", found.id));
            }
            let page = windlass_hooks::conversation_markdown("The session", &turns, 1000);
            let page = context::ends_of(&page, TRANSCRIPT_BYTES_MAX);
            Ok(json!({
                "recorded": automatic,
                "summary": "the transcript is gathered",
                "transcript": self.redactor.redacted(&page),
            }))
        };
        match gathered() {
            Ok(answer) => WorkResult::answer(answer),
            Err(reason) => WorkResult::failed("validation_error", reason),
        }
    }

    /// What an agent found in a session, over what is recorded of it.
    fn rich(&self, run: &Run, answer: &Value) -> Result<(Insights, PathBuf), String> {
        let found = self.found(run)?;
        let data = places::data().ok_or("neither ACA_DATA nor HOME names a folder")?;
        let (automatic, path) = self.automatic(&found, &data)?;
        let mut value = serde_json::to_value(&automatic).map_err(|error| error.to_string())?;
        let fields = value.as_object_mut().ok_or("the insights are no object")?;
        let own = answer.as_object().ok_or("the answer is no object")?;
        for name in ["session_id", "date", "project"] {
            if own.contains_key(name) {
                return Err(format!("`{name}` is recorded and not for the agent to say"));
            }
        }
        fields.extend(own.clone());
        let rich = Insights::from_value(&value).map_err(|error| error.to_string())?;
        rich.merge(&automatic).map(|merged| (merged, path)).map_err(|error| error.to_string())
    }

    fn write_insights(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let run = job.recorder.run();
        let written = answer_of(&run, "analyse")
            .ok_or_else(|| "there is no analysis".to_owned())
            .and_then(|answer| {
                let (insights, path) = self.rich(&run, &answer)?;
                let bytes = insights.to_bytes().map_err(|error| error.to_string())?;
                documents::write(&path, &bytes).map(|()| (insights.summary, path))
            });
        match written {
            Ok((summary, path)) => WorkResult::answer(json!({ "path": path, "summary": summary })),
            Err(reason) => WorkResult::failed("critical_failure", reason),
        }
    }

    fn close(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let run = job.recorder.run();
        let binary = match std::env::current_exe() {
            Ok(path) => path.display().to_string(),
            Err(error) => return WorkResult::failed("critical_failure", error.to_string()),
        };
        let workspace = &job.assignment.workspace;
        let cell = cell_words(&binary, &self.project.root, workspace, &run_id(&run));
        let tracker =
            work::tracker(&self.project, &self.config).map_err(|failure| failure.summary());
        let title = answer_of(&run, "execute")
            .and_then(|answer| Some(answer.get("commit_message")?.as_str()?.to_owned()))
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| task_of(&run));
        let git = job.git();
        let tries = job.with.get("tries").and_then(Value::as_u64).unwrap_or(TRIES);
        let report = Closing {
            git,
            tries,
            of_run: Some(run_work(&run)),
            began: None,
            blocked: None,
            workspace,
            format: self.config.core.format.as_deref(),
            title: &title,
            run: &run_id(&run),
            cell,
            tracker: tracker.as_deref().map_err(Clone::clone),
            redactor: &self.redactor,
        }
        .run();
        let failed = report.steps.iter().find(|step| !step.ok);
        let steps = json!(report.steps);
        if failed.is_none() {
            let mut state = self.state(&run);
            let closed = CoreNote::Closed { commit: report.commit.clone() };
            state.apply(begun(run.head.trace_id), &closed, 0);
            // The work is pushed; that an item stays open is no failure of it.
            drop(self.deliver(&run, state));
        }
        match failed {
            None => WorkResult::answer(json!({
                "commit": report.commit, "reason": "pushed and proven", "steps": steps,
                "summary": "the work is committed and pushed", "verdict": "closed",
            })),
            // Only what is proven is closed: the loop says how often it is tried, and when a person is asked.
            Some(step) => {
                WorkResult::failed("critical_failure", format!("{}: {}", step.step, step.detail))
            }
        }
    }
}

/// What the close of a run has to know of its work.
fn run_work(run: &Run) -> RunWork {
    let base = run.started.as_ref().and_then(|started| started.base.clone());
    let began = base.and_then(|base| Some((base.commit.parse().ok()?, base.tree?.parse().ok()?)));
    RunWork { began, reviewed: run.reviewed.as_ref().and_then(|tree| tree.parse().ok()) }
}

fn cell_words(binary: &str, project: &Path, workspace: &Path, run: &str) -> Vec<String> {
    let project_text = project.display().to_string();
    let mut words: Vec<String> =
        [binary, "-C", &project_text, "cell", "--session", run].map(str::to_owned).to_vec();
    let root: Option<PathBuf> = project.canonicalize().ok();
    if root.as_deref() != Some(workspace) {
        words.extend(["--workspace".to_owned(), workspace.display().to_string()]);
    }
    words
}

fn item_of(note: &CoreNote) -> Option<String> {
    let CoreNote::Delivered { item, .. } = note else { return None };
    Some(item.clone()).filter(|item| !item.is_empty())
}

fn run_id(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
}

/// The task of a run in words.
fn task_of(run: &Run) -> String {
    let task = run.started.as_ref().map(|started| &started.task);
    let text = task.and_then(|task| task.get("task")?.as_str().map(str::to_owned));
    text.or_else(|| task.map(Value::to_string)).unwrap_or_default()
}
