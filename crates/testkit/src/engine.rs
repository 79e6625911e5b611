//! What engines of tests are put together from.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use windlass_connect::Confinement;
use windlass_engine::{
    AnswerResult, CommitHook, Engine, EngineError, GatewayProvider, HoldAnswer, HoldPackets, Patch,
    PinRequest, PinnedPath, PreparedCommit, PurgedCheckpoint, Repository,
};
use windlass_kernel::run::{Base, Change, Commit, Run, VoteDecision};
use windlass_kernel::{Code, Digest, RiskLevel, Timestamp, TraceId};
use windlass_policy::{Judgement, Question};
use windlass_runtime::Gateway;

use crate::gateway::test_set;

/// The commit and tree of an empty repository.
const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A repository that is as clean as it is told to be.
#[derive(Default)]
pub struct FakeRepository {
    /// Whether it has changes.
    pub dirty: AtomicBool,
    /// Whether there is none.
    pub missing: AtomicBool,
    /// How often it was asked whether it is clean.
    pub asked: AtomicUsize,
}

impl FakeRepository {
    /// The change of the workspace: the same at every point of every run.
    #[must_use]
    pub fn change() -> Change {
        let diff_digest = Digest::of(b"a change");
        Change { commit: None, diff_digest, files: Vec::new(), lines: 3, tree: EMPTY.to_owned() }
    }

    fn clean(&self) -> Result<(), EngineError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if !self.dirty.load(Ordering::SeqCst) {
            return Ok(());
        }
        let message = "the repository has changes".to_owned();
        Err(EngineError::Requirement { code: Code::RepoDirty, message })
    }
}

impl Repository for FakeRepository {
    fn base(&self, _: &Path) -> Result<Option<Base>, EngineError> {
        if self.missing.load(Ordering::SeqCst) {
            return Ok(None);
        }
        Ok(Some(Base { branch: Some("main".to_owned()), commit: EMPTY.to_owned(), tree: None }))
    }

    fn uncommitted_tree(&self, _: &Path) -> Result<Option<String>, EngineError> {
        Ok(None)
    }

    fn require_clean(&self, _: &Path) -> Result<(), EngineError> {
        self.clean()
    }

    fn require_unchanged(&self, _: &Path, _: &Run) -> Result<(), EngineError> {
        self.clean()
    }

    fn tracked_changes(&self, _: &Path) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    fn change(&self, _: &Path, _: &Run) -> Result<Option<Change>, EngineError> {
        Ok(Some(Self::change()))
    }

    fn moved(&self, _: &Path, _: &Run) -> Result<Option<String>, EngineError> {
        Ok(None)
    }

    fn change_without(
        &self,
        _: &Path,
        _: &Run,
        _: &[PathBuf],
    ) -> Result<Option<Change>, EngineError> {
        Ok(Some(Self::change()))
    }

    fn diff(&self, _: &Path, _: &Run, _: Option<&str>) -> Result<Option<Patch>, EngineError> {
        Ok(None)
    }

    fn require_filters(&self, _: &Path) -> Result<(), EngineError> {
        Ok(())
    }

    fn pinned(&self, request: &PinRequest<'_>) -> Result<Vec<PinnedPath>, EngineError> {
        match request.written.and_then(<[String]>::first) {
            None => Ok(Vec::new()),
            Some(path) => {
                let message = format!("`{path}` is not in the commit from which the run started");
                Err(EngineError::Requirement { code: Code::PinnedUnavailable, message })
            }
        }
    }

    fn require_reviewed(&self, _: &Path, _: &Run) -> Result<(), EngineError> {
        Ok(())
    }

    fn pre_commit_hook(&self, _: &Path, _: &Run) -> Result<CommitHook, EngineError> {
        Ok(CommitHook::None)
    }

    fn prepare_commit(
        &self,
        _: &Path,
        _: &Run,
        _: &str,
        _: Timestamp,
    ) -> Result<PreparedCommit, EngineError> {
        Ok(PreparedCommit::Nothing)
    }

    fn publish_commit(&self, _: &Path, _: &Run, _: &Commit) -> Result<(), EngineError> {
        Ok(())
    }

    fn has_commit(&self, _: &Path, _: &Commit) -> Result<bool, EngineError> {
        Ok(true)
    }

    fn make_worktree(&self, _: &Path, _: &str, _: &Base) -> Result<(), EngineError> {
        Ok(())
    }

    fn add_phase_worktree(&self, folder: &Path, _: &Base, _: &File) -> Result<(), EngineError> {
        let what = format!("no work tree can be made at `{}`", folder.display());
        Err(EngineError::NoCheckpoint { what })
    }

    fn remove_phase_worktree(&self, _: &Path, _: &File) -> Result<(), EngineError> {
        Ok(())
    }
}

/// One gateway for every folder, with the test tools' classes and nothing confined.
pub struct OneGateway(pub Arc<Gateway>);

impl GatewayProvider for OneGateway {
    fn gateway(&self, _: &Path) -> Result<Arc<Gateway>, EngineError> {
        Ok(Arc::clone(&self.0))
    }

    fn confinement(&self, _: &Path, _: TraceId) -> Option<Confinement> {
        None
    }

    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel> {
        test_set().registry().find(server, tool).map(|(_, tool)| tool.class)
    }

    fn judgement(&self, _: &Path, _: &Question) -> Option<Judgement> {
        None
    }

    fn definitions(&self, _: &std::path::Path) -> Vec<windlass_engine::ToolDefinition> {
        Vec::new()
    }

    fn sizes(&self) -> (usize, usize) {
        (3, 13)
    }
}

/// No files show holds.
pub struct NoPackets;

impl HoldPackets for NoPackets {
    fn remove_checkpoints(&self, _: &[PurgedCheckpoint], _: bool) -> Result<u64, EngineError> {
        Ok(0)
    }

    fn check(&self, _: &Run) -> Result<(), EngineError> {
        Ok(())
    }

    fn remove(&self, _: &Run, _: bool) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}

/// Answers holds with fewer words.
pub trait Votes {
    /// Answers a hold.
    ///
    /// # Errors
    /// As [`Engine::answer`].
    fn vote(
        &self,
        trace_id: TraceId,
        decision: VoteDecision,
        by: &str,
        reason: &str,
        shown: Option<Digest>,
        conditions: &[String],
    ) -> Result<AnswerResult, EngineError>;
}

impl Votes for Engine {
    fn vote(
        &self,
        trace_id: TraceId,
        decision: VoteDecision,
        by: &str,
        reason: &str,
        shown: Option<Digest>,
        conditions: &[String],
    ) -> Result<AnswerResult, EngineError> {
        self.answer(
            trace_id,
            HoldAnswer {
                decision,
                by,
                reason,
                shown,
                conditions,
                edit: None,
                again: None,
                settled: None,
            },
        )
    }
}
