//! A small world: a journal in memory, a clock that ticks, agents that do as they are told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_engine::RunObservers as _;
use windlass_journal::{Check, JournalError, Observer, ObserverError, Reader, Step};
use windlass_kernel::run::plan::{
    CheckTiming, Doer, Effect, HoldRule, OnRestart, PhaseCondition, Plan, Requirement, RunOutcome,
    Trigger,
};
use windlass_kernel::run::{
    CallRecord, Change, Event, Next, PhaseResult, Run, RunEvent, RunName, Started, Usage,
    VoteDecision, Work,
};
use windlass_kernel::{Code, Digest, HolderId, State, TraceId, Uuid7};
use windlass_runtime::Clock;
use windlass_store::{MemoryStore, Shared, Store};
use windlass_testkit::RunWriter;
use windlass_testkit::gateway::TestClock;
use windlass_testkit::people;
use windlass_testkit::plans::{self, phase, plan};
use windlass_views::Files;

/// 2026-02-02T12:00:00Z.
const NOON_MS: u64 = 1_770_033_600_000;

/// What the tries of phases come to, by phase and number; any other one succeeds.
pub type Script = BTreeMap<(&'static str, u32), PhaseResult>;

/// The process died: nothing more was recorded or written.
#[derive(Debug, PartialEq, Eq)]
pub struct Died;

pub struct World {
    pub store: Arc<dyn Store>,
    /// What the store keeps.
    pub shared: Shared,
    /// The run that was started last.
    pub started: Option<TraceId>,
    clock: Arc<dyn Clock>,
    pub folder: TempDir,
    /// How many appends may still be made before the process dies; it dies before it writes files.
    pub appends_left: Arc<AtomicUsize>,
}

impl World {
    pub fn new() -> Self {
        let clock = Arc::new(TestClock::new(NOON_MS, 1000));
        let shared = Shared::default();
        let store = Arc::new(MemoryStore::open(&shared, HolderId(clock.new_id())));
        let folder = tempfile::tempdir().unwrap();
        let appends_left = Arc::new(AtomicUsize::new(usize::MAX));
        Self { store, shared, started: None, clock, folder, appends_left }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("artifacts")
    }

    /// Files as a new process has them.
    pub fn files(&self) -> Files {
        self.files_at(&self.root())
    }

    pub fn files_at(&self, root: &Path) -> Files {
        Files::new(Arc::clone(&self.store), root.to_owned())
    }

    pub fn start(&mut self, files: &Files, plan: Plan) -> Result<TestRecorder, Died> {
        let trace_id = TraceId(self.clock.new_id());
        let started = Started {
            by: "ana".to_owned(),
            run_id: RunName::of(trace_id).to_string(),
            task: json!({
                "context_refs": ["docs/spec.md"],
                "task": "Implement feature X",
                "task_ref": "T-12",
            }),
            ..plans::started(plan)
        };
        let observers = self.observers(files, trace_id);
        self.started = Some(trace_id);
        let begun = RunWriter::begin(&self.store, &self.clock, trace_id, started, observers);
        Ok(TestRecorder(unless_dead(begun)?))
    }

    /// Takes a recorded run up, as a new process does.
    pub fn open(&self, files: &Files, trace_id: TraceId) -> TestRecorder {
        let observers = self.observers(files, trace_id);
        TestRecorder(RunWriter::open(&self.store, &self.clock, trace_id, observers).unwrap())
    }

    fn observers(&self, files: &Files, trace_id: TraceId) -> Vec<Box<dyn Observer<Run>>> {
        let appends_left = Arc::clone(&self.appends_left);
        vec![Box::new(Mortal { files: files.observe(trace_id), appends_left })]
    }

    /// Shows a recorded run to files that have not seen it.
    pub fn show(&self, files: &Files, trace_id: TraceId) -> Result<(), ObserverError> {
        let mut observers = [files.observe(trace_id)];
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.read(self.store.as_ref(), &mut observers).unwrap();
        observers[0].durable(reader.state())
    }

    /// The run as recorded.
    pub fn recorded(&self, trace_id: TraceId) -> Run {
        Reader::state_of(self.store.as_ref(), trace_id, Check::Verified).unwrap()
    }

    /// A whole run with this script, which is expected not to wait.
    pub fn run(&mut self, files: &Files, script: &Script) -> TestRecorder {
        let mut recorder = self.start(files, spine()).unwrap();
        recorder.drive(script).unwrap();
        recorder
    }

    /// Every file below the root with its content, but for the lock.
    pub fn tree(&self) -> BTreeMap<String, String> {
        tree_of(&self.root())
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }
}

/// The observer of a process that may die after an append, before it writes files.
struct Mortal {
    files: Box<dyn Observer<Run>>,
    appends_left: Arc<AtomicUsize>,
}

const DEAD: &str = "the process is dead";

impl Observer<Run> for Mortal {
    fn before(&mut self, run: &Run, event: &RunEvent) {
        self.files.before(run, event);
    }

    fn after(&mut self, step: &Step<'_, Run>) {
        self.files.after(step);
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        if self.appends_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let (code, message) = (Code::Internal, DEAD.to_owned());
            return Err(ObserverError { code, message, source: None });
        }
        self.files.durable(run)
    }
}

/// A run that is recorded event by event, and shown by files.
pub struct TestRecorder(RunWriter);

fn unless_dead<T>(result: Result<T, JournalError>) -> Result<T, Died> {
    match result {
        Err(JournalError::Observer(error)) if error.message == DEAD => Err(Died),
        result => Ok(result.unwrap()),
    }
}

impl TestRecorder {
    pub fn run(&self) -> &Run {
        self.0.run()
    }

    pub fn append(&mut self, event: Event) -> Result<(), Died> {
        unless_dead(self.0.append([event]))
    }

    /// Brings the files up to date with what was read.
    pub fn notify(&mut self) {
        self.0.notify().unwrap();
    }

    /// Makes one append of a run; says whether there was one to make.
    pub fn step(&mut self, script: &Script) -> Result<bool, Died> {
        let event = match self.run().next() {
            Next::Record(event) => *event,
            Next::Perform(works) => perform(self.run(), works[0], script),
            Next::Wait | Next::Done | Next::Nothing => return Ok(false),
        };
        self.append(event)?;
        Ok(true)
    }

    /// Takes a run as far as it goes.
    pub fn drive(&mut self, script: &Script) -> Result<(), Died> {
        while self.step(script)? {}
        Ok(())
    }

    pub fn vote(&mut self, by: &str, decision: VoteDecision) -> Result<(), Died> {
        let shown = self.run().hold.as_ref().unwrap().shown;
        let (head, reason) = (self.run().head, format!("{by} has seen it"));
        self.append(Event::Voted(people::vote(&head, by, decision, &reason, &[], shown)))
    }

    pub fn resume(&mut self) -> Result<(), Died> {
        self.append(Event::Resumed { by: "ana".to_owned(), worked_ms: None })
    }
}

pub fn tree_of(root: &Path) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    let Ok(folders) = std::fs::read_dir(root) else { return tree };
    for folder in folders.map(Result::unwrap).filter(|folder| folder.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            tree.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    tree
}

pub fn name(recorder: &TestRecorder) -> String {
    recorder.run().started.as_ref().unwrap().run_id.clone()
}

pub fn trace(recorder: &TestRecorder) -> TraceId {
    recorder.run().head.trace_id
}

fn perform(run: &Run, work: Work, script: &Script) -> Event {
    let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
    match work {
        Work::Review { .. } | Work::Merge { .. } | Work::Restore | Work::Setup => {
            unreachable!("{work:?}")
        }
        Work::Do { phase, attempt } => {
            let phase = run.phase(phase).unwrap().0.id.clone();
            let told = script.iter().find(|((id, at), _)| *id == phase && *at == attempt);
            let mut done = told.map_or_else(|| answered(json!({})), |(_, done)| done.clone());
            done.usage = usage;
            Event::PhaseDone { phase, attempt, done: Box::new(done) }
        }
        Work::Check { phase, check, attempt } => {
            let phase = run.phase(phase).unwrap().0.clone();
            Event::Checked {
                attempt,
                check: phase.checks[check].id.clone(),
                verdict: "in_scope".to_owned(),
                reason: "3 files of 3".to_owned(),
                findings: Value::Null,
                usage,
                duration_ms: 3,
                phase: phase.id,
            }
        }
    }
}

pub fn answered(answer: Value) -> PhaseResult {
    PhaseResult { duration_ms: 1500, ..plans::done(answer) }
}

pub fn verdict(verdict: &str) -> PhaseResult {
    answered(json!({ "verdict": verdict, "reason": format!("it is {verdict}"), "findings": ["x"] }))
}

pub fn failed(class: &str) -> PhaseResult {
    PhaseResult { duration_ms: 1500, ..plans::failed(class) }
}

/// Work that called tools and changed files.
pub fn built(number: u8) -> PhaseResult {
    let call = |tool: &str, at: u8| CallRecord {
        entry_digest: Digest::of(&[number, at]),
        state: State::Completed,
        tool: tool.to_owned(),
        trace_id: TraceId(Uuid7::from_parts(1, [at; 10])),
    };
    PhaseResult {
        calls: vec![call("fs/write", 1), call("fs/read", 2), call("fs/write", 3)],
        change: Some(Change {
            commit: None,
            diff_digest: Digest::of(&[number]),
            files: vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()],
            lines: 12,
            tree: "t".to_owned(),
        }),
        outputs: BTreeMap::from([("design.md".to_owned(), Digest::of(b"design"))]),
        ..answered(json!({ "note": number }))
    }
}

/// A run that passes.
pub fn passing() -> Script {
    Script::from([(("build", 1), built(1)), (("review", 1), verdict("approved"))])
}

/// The spine's steps, with one that is left out.
pub fn spine() -> Plan {
    let builtin = |name: &str| Doer::Builtin { name: name.to_owned(), with: BTreeMap::default() };
    let agent = |name: &str| Doer::Agent { agent: name.to_owned(), prompt: None };
    let escalate = plans::hold(Trigger::EscalationRequested);
    let mut build = phase("build", &["design"], agent("builder"));
    let in_scope = [("in_scope", Effect::Continue)];
    build.checks = vec![plans::check("scope", CheckTiming::After, builtin("scope"), &in_scope)];
    let mut review = phase("review", &["build"], agent("reviewer"));
    let waiver = Effect::Hold { approvals: Some(2), trigger: Trigger::WaiverRequested };
    review.gate = plans::gate(
        "review",
        &[
            ("approved", Effect::Continue),
            ("needs_revision", plans::redo("design", 2, escalate.clone())),
            ("rejected", plans::stop("review_rejected")),
            ("escalate", escalate),
            ("waive", waiver),
        ],
    );
    let mut audit = phase("audit", &["review"], builtin("audit"));
    audit.when = PhaseCondition::Fact { fact: "risky".to_owned(), one_of: vec!["yes".to_owned()] };
    let phases = vec![
        phase("hydrate", &[], builtin("hydrate")),
        phase("policy", &["hydrate"], builtin("policy")),
        phase("design", &["policy"], agent("designer")),
        build,
        review,
        audit,
        phase("steward", &["audit"], builtin("commit")),
    ];
    Plan {
        hold: HoldRule {
            approvals: 1,
            expires_ms: Some(86_400_000),
            retries: 3,
            starter_counts: false,
        },
        id: "spine".to_owned(),
        on_restart: OnRestart::Hold,
        require: vec![Requirement::CleanRepo],
        title: "Spine".to_owned(),
        ..plan(phases)
    }
}

/// The end of a run whose policy has changed.
pub fn policy_changed() -> Event {
    Event::Ended {
        outcome: RunOutcome::Blocked,
        reason: "POLICY_CHANGED_MID_RUN".to_owned(),
        detail: "the policy has changed since the run began".to_owned(),
    }
}

/// The path that could not be written.
pub fn unwritable(result: Result<(), ObserverError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.code, Code::FileUnwritable);
    error.message.split('`').nth(1).unwrap().to_owned()
}
