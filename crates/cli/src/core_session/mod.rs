//! What the core loop of a session asks of a project.

pub mod agents;
pub mod answers;
pub mod closing;
pub mod context;
pub mod deliveries;
pub mod documents;
pub mod places;
mod start;
pub mod tracking;
pub mod workflows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_kernel::run::RunName;
use windlass_policy::{Question, Verdict};
use windlass_runtime::{Clock as _, PolicySupervisor, SystemClock};
use windlass_sessions::SessionHistory;
use windlass_sessions::core::{
    CloseReport, CloseStep, CoreNote, CoreProgress, CoreState, CoreSurroundings, HydrationContext,
    Judge, JudgeFile, JudgeMaterial, SessionFacts, Workflow,
};
use windlass_store::Store;
use windlass_workspace::Git;

use self::closing::Closing;
use self::context::Parts;
use self::deliveries::DeliveryQueue;
use self::documents::SessionFiles;
use crate::config::Config;
use crate::people::user_name;
use crate::project::Project;
use crate::{memory, work};

/// The most of the work's differences that a judge is given.
const DIFF_BYTES_MAX: usize = 60_000;
/// The most of a transcript that a judge is given.
const TRANSCRIPT_BYTES_MAX: usize = 60_000;

/// The most of one turn that a written transcript has.
const TURN_CHARS_MAX: usize = 4000;

/// The file in the state folder with the earlier reflections.
const REFLECTIONS: &str = "core-reflections.md";

/// A project as the core loop of a session sees it.
pub struct ProjectCore<'a> {
    /// The project.
    pub project: &'a Project,
    /// Its configuration files.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// Its settings.
    pub config: &'a Config,
    /// Its policy.
    pub supervisor: &'a PolicySupervisor,
    /// Its journal.
    pub store: &'a Arc<dyn Store>,
    /// The folder that is worked in.
    pub root: &'a str,
    /// The path of our program, if it runs lines of shell in cells.
    pub cell: Option<&'a str>,
}

impl ProjectCore<'_> {
    fn home(&self) -> PathBuf {
        places::home(&self.project.folder, self.config.core.home.as_deref())
    }

    fn axioms(&self) -> String {
        context::file_in(&self.home(), "AXIOMS.md").unwrap_or_else(|| context::AXIOMS.to_owned())
    }

    fn session_files<'b>(
        &self,
        facts: &SessionFacts<'b>,
        data: Option<&'b Path>,
    ) -> SessionFiles<'b> {
        SessionFiles {
            session: &facts.event.session,
            run: facts.run,
            folder: &facts.event.cwd,
            data,
        }
    }

    /// The changed files and their differences.
    fn work_state(&self) -> String {
        let git = Git::new(self.project.workspace());
        let read = || -> Result<String, windlass_workspace::GitError> {
            let tree = git.tree_of_worktree()?;
            let base = match git.upstream()? {
                // What is committed and not pushed is work, too.
                Some(upstream) => {
                    let name = format!("refs/remotes/{}/{}", upstream.remote, upstream.branch);
                    git.commit_at(&name)?.or(git.head()?)
                }
                None => git.head()?,
            };
            let base = match base {
                Some(commit) => git.tree_of(&commit)?,
                None => git.empty_tree()?,
            };
            git.patch_to(&base.into(), &tree)
        };
        match read() {
            Ok(patch) if patch.is_empty() => "no file is changed".to_owned(),
            Ok(patch) => cut(&patch, DIFF_BYTES_MAX),
            Err(error) => format!("the differences could not be read: {error}"),
        }
    }

    /// What the tracker says of the work. Its reflections are kept: it is asked at starts and prompts only, and the
    /// framework agent is started later.
    fn asked(&self, tracker: &dyn windlass_work::Tracker) -> (String, Option<String>) {
        let context::WorkContext { text, reflections, problem } =
            context::work(tracker, &user_name());
        if let (Some(reflections), Some(path)) = (reflections, self.reflections_path()) {
            // Without them the framework agent is told that there are none, and reflects all the same.
            drop(documents::write(&path, reflections.as_bytes()));
        }
        (text, problem)
    }

    fn reflections_path(&self) -> Option<PathBuf> {
        Some(self.project.state().ok()?.join(REFLECTIONS))
    }

    /// The earlier reflections, as the tracker had them at the last start or prompt.
    fn known_reflections(&self) -> String {
        let bytes = self.reflections_path().and_then(|path| std::fs::read(path).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    fn tracker(&self) -> Result<Box<dyn windlass_work::Tracker>, String> {
        work::tracker(self.project, self.config).map_err(|failure| failure.summary())
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let start = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default();
    format!("{start}\n[cut to {bytes_max} bytes]")
}

impl CoreSurroundings for ProjectCore<'_> {
    fn only_reads(&self, line: &str) -> bool {
        if windlass_hooks::is_own_line(line) {
            return true;
        }
        let question = Question {
            server: "shell".to_owned(),
            tool: "read".to_owned(),
            declared_class: None,
            args: serde_json::json!({ "line": line }),
            has_key: false,
            phase: None,
            agent: None,
        };
        self.supervisor.judgement(&question).verdict == Verdict::Allow
    }

    fn workflow(&self, id: &str) -> Result<Workflow, String> {
        workflows::selected(self.files, id)
    }

    fn judge_file(&self, judge: Judge) -> Result<JudgeFile, String> {
        let ours = agents::client_file(&agents::source(self.files, judge)?);
        agents::require_only(Path::new(self.root), judge, &ours)?;
        let path = agents::client_path(Path::new(self.root), judge);
        let theirs = std::fs::read(&path).map_err(|error| {
            format!(
                "the agent `{}` cannot be used: `{}` cannot be read: {error}; ask the user to run `windlass install claude \
                 --loop core`",
                judge.as_str(),
                path.display()
            )
        })?;
        let digest = agents::digest(&theirs);
        if digest != agents::digest(ours.as_bytes()) {
            return Err(format!(
                "the agent `{}` cannot be used: `{}` is not the file that Windlass wrote; ask the user to run `windlass \
                 install claude --loop core`",
                judge.as_str(),
                path.display()
            ));
        }
        Ok(JudgeFile { digest })
    }

    fn write_context(
        &self,
        facts: SessionFacts<'_>,
        prompt: &str,
        number: u32,
        state: &CoreState,
    ) -> Result<HydrationContext, String> {
        let mut told = Vec::new();
        let (work, problem) = match self.tracker() {
            Ok(tracker) => self.asked(tracker.as_ref()),
            Err(reason) => (String::new(), Some(format!("The tracker was not asked: {reason}"))),
        };
        told.extend(problem);
        let (memories, problem) = match memory::memory(self.project, self.config) {
            Ok(memory) => context::memories(memory.as_ref(), prompt, &self.supervisor.redactor()),
            Err(failure) => {
                (String::new(), Some(format!("The memory was not asked: {}", failure.summary())))
            }
        };
        told.extend(problem);
        let session = format!(
            "id: {}\nrun: {}\nfolder: {}\nproject: {}\nprompt: {number}\ntime: {}",
            facts.event.session,
            RunName::of(facts.run),
            facts.event.cwd,
            self.project.root.display(),
            SystemClock.now()
        );
        let values = BTreeMap::from([
            ("prompt", prompt.to_owned()),
            ("session", session),
            ("work", work),
            ("memory", memories),
            (
                "transcript",
                context::recent(&context::turns(
                    facts.event.transcript.as_deref(),
                    &self.supervisor.redactor(),
                )),
            ),
            ("workflows", workflows::described(self.files)?),
            ("state", start::state_of(state)),
        ]);
        let template = context::file_in(&self.home(), "hydration-context.md");
        let template = template.unwrap_or_else(|| context::TEMPLATE.to_owned());
        let text = self.supervisor.redactor().redacted(&context::filled(&template, &values));
        let path = context::write(&text).map_err(|error| error.to_string())?;
        let file = path.into_os_string().into_string().map_err(|_| "its path is not UTF-8")?;
        Ok(HydrationContext { file, told: Some(told.join("\n")).filter(|text| !text.is_empty()) })
    }

    fn forget_context(&self, file: &str) {
        context::forget(Path::new(file));
    }

    fn material(&self, facts: SessionFacts<'_>, judge: Judge, state: &CoreState) -> JudgeMaterial {
        let mut material = JudgeMaterial::default();
        let calls = || {
            SessionHistory::read(self.store.as_ref(), facts.run)
                .map(|history| context::calls(&history.calls))
                .unwrap_or_else(|error| format!("they could not be read: {error}"))
        };
        match judge {
            Judge::PromptHydrator => {
                let written = state.context.as_ref().and_then(|path| std::fs::read(path).ok());
                material.context = match written {
                    Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    None => format!("The context is gone. The prompt: {}", state.prompt_text),
                };
            }
            Judge::Critic => {}
            Judge::Custodiet => {
                material.axioms = self.axioms();
                material.calls = calls();
                material.work = self.work_state();
            }
            Judge::QaVerifier => {
                material.work = self.work_state();
                material.calls = calls();
            }
            Judge::Framework => {
                let turns =
                    context::turns(facts.event.transcript.as_deref(), &self.supervisor.redactor());
                let page = windlass_hooks::conversation_markdown("The session", &turns, 400);
                material.transcript = cut(&page, TRANSCRIPT_BYTES_MAX);
                let work = self.supervisor.redactor().redacted(&self.work_state());
                material.work = cut(&work, DIFF_BYTES_MAX / 3);
                material.reflections = self.known_reflections();
            }
        }
        for text in [
            &mut material.context,
            &mut material.calls,
            &mut material.work,
            &mut material.transcript,
            &mut material.reflections,
        ] {
            *text = self.supervisor.redactor().redacted(text);
        }
        material
    }

    fn read_answer(
        &self,
        judge: Judge,
        id: &str,
        text: &str,
        gates: &[String],
    ) -> Result<CoreNote, String> {
        answers::read(judge, id, text, gates, |workflow| self.workflow(workflow))
    }

    fn tree(&self) -> Option<String> {
        let tree = Git::new(self.project.workspace()).tree_of_worktree().ok()?;
        Some(tree.as_str().to_owned())
    }

    fn repository(&self) -> (Option<String>, Vec<String>) {
        let git = Git::new(self.project.workspace());
        let head = git.head().ok().flatten().map(|commit| commit.as_str().to_owned());
        let dirty = git.uncommitted().unwrap_or_default();
        (head, dirty.into_iter().map(|(path, _)| path).collect())
    }

    fn start(&self, facts: SessionFacts<'_>, progress: &CoreProgress) -> Result<String, String> {
        start::set_variables(self, &facts)?;
        Ok(start::context(self, &facts, progress))
    }

    fn project(&self, facts: SessionFacts<'_>, progress: &CoreProgress, ended: bool) {
        if let Ok(queue) = DeliveryQueue::of(self.project) {
            // The session itself has it in its journal and tries again.
            drop(queue.keep(&RunName::of(facts.run).to_string(), &progress.state));
        }
        let data = places::data();
        let files = self.session_files(&facts, data.as_deref());
        let Some(path) = files.state_path() else { return };
        let mut document = files.state(progress, ended.then(|| SystemClock.now()));
        if progress.state.insights.is_some() {
            document.insights = Some(files.insights(progress, "end_turn"));
        }
        // It shows what is recorded; nothing depends on it.
        drop(document.to_bytes().map(|bytes| documents::write(&path, &bytes)));
    }

    fn deliver(&self, facts: SessionFacts<'_>, state: &CoreState) -> Vec<CoreNote> {
        let Some(_lock) = DeliveryQueue::of(self.project).ok().and_then(|queue| queue.lock())
        else {
            return Vec::new();
        };
        let Ok(tracker) = self.tracker() else { return Vec::new() };
        let run = RunName::of(facts.run).to_string();
        tracking::deliver(tracker.as_ref(), &run, &user_name(), state)
    }

    fn deliver_others(&self, facts: SessionFacts<'_>) {
        if let Ok(queue) = DeliveryQueue::of(self.project) {
            queue.deliver_others(&RunName::of(facts.run).to_string(), || self.tracker());
        }
    }

    fn write_insights(
        &self,
        facts: SessionFacts<'_>,
        progress: &CoreProgress,
        stop_reason: &str,
    ) -> Result<String, String> {
        let data = places::data().ok_or("neither ACA_DATA nor HOME names a folder")?;
        let files = self.session_files(&facts, Some(&data));
        let path = files.insights_path().ok_or("there is no folder for them")?;
        let bytes = files.insights(progress, stop_reason).to_bytes();
        documents::write(&path, &bytes.map_err(|error| error.to_string())?)?;
        path.into_os_string().into_string().map_err(|_| "their path is not UTF-8".to_owned())
    }

    fn write_transcript(&self, facts: SessionFacts<'_>) -> Result<Option<String>, String> {
        let mut turns =
            context::turns(facts.event.transcript.as_deref(), &self.supervisor.redactor());
        if turns.is_empty() {
            turns = context::turns_of(&facts.event.session, &self.supervisor.redactor());
        }
        if turns.is_empty() {
            return Ok(None);
        }
        let files = self.session_files(&facts, None);
        let path = files.transcript_path().ok_or("HOME names no folder")?;
        let title = format!("Session {}", RunName::of(facts.run));
        let page = windlass_hooks::conversation_markdown(&title, &turns, TURN_CHARS_MAX);
        let json = serde_json::to_string(&turns).map_err(|error| error.to_string())?;
        let redacted = |text: &str| self.supervisor.redactor().redacted(text);
        documents::write(&path.with_extension("json"), redacted(&json).as_bytes())?;
        documents::write(&path, redacted(&page).as_bytes())?;
        path.into_os_string()
            .into_string()
            .map(Some)
            .map_err(|_| "its path is not UTF-8".to_owned())
    }

    fn close(&self, facts: SessionFacts<'_>, state: &CoreState) -> CloseReport {
        let Some(binary) = self.cell else {
            let detail =
                "lines of shell have no cell here, and the repository's own hook needs one";
            let step =
                CloseStep { step: "format".to_owned(), ok: false, detail: detail.to_owned() };
            return CloseReport { steps: vec![step], ..CloseReport::default() };
        };
        let run = RunName::of(facts.run).to_string();
        let project = self.project.root.display().to_string();
        let mut cell: Vec<String> =
            [binary, "-C", &project, "cell", "--session", &run].map(str::to_owned).to_vec();
        if self.project.workspace() != self.project.root {
            cell.extend(["--workspace".to_owned(), self.root.to_owned()]);
        }
        let tracker = self.tracker();
        let title = state.work_plan().map_or(state.prompt_text.as_str(), |plan| &plan.intent);
        let runs = windlass_journal::Runs::new(Arc::clone(self.store));
        let own = RunName::of(facts.run).to_string();
        // Sessions that cannot be read may be blocked.
        let blocked = match crate::commands::session_core::blocked(&runs, self.config) {
            Ok(all) => all.into_iter().map(|(name, _)| name).find(|name| *name != own),
            Err(error) => Some(format!("(unknown: {error})")),
        };
        Closing {
            git: Git::new(self.project.workspace()),
            tries: closing::TRIES,
            of_run: None,
            began: state.began.as_ref(),
            blocked,
            workspace: self.project.workspace(),
            format: self.config.core.format.as_deref(),
            title,
            run: &run,
            cell,
            tracker: tracker.as_deref().map_err(Clone::clone),
            redactor: &self.supervisor.redactor(),
        }
        .run()
    }
}

/// The text that a session starts with, in parts.
fn start_parts(core: &ProjectCore<'_>, facts: &SessionFacts<'_>) -> Parts {
    let mut parts = Parts::new();
    let here = Path::new(&facts.event.cwd);
    let agents = context::file_in(here, "AGENTS.md");
    // A session in a sub folder is one of the project all the same.
    let agents = agents.or_else(|| context::file_in(core.project.workspace(), "AGENTS.md"));
    parts.add("AGENTS.md", &agents.unwrap_or_default());
    parts.add("CORE.md", &context::file_in(here, "CORE.md").unwrap_or_default());
    parts.add("AXIOMS.md", &core.axioms());
    parts
}
