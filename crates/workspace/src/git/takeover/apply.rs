//! Applies the checked changes to the repository.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use super::files::{self, FILE_BYTES_MAX, FileChange, git_dir};
use super::layers::read_file;
use super::logs;
use super::refs::{RefChange, RefValue, head_of, transaction};
use super::{
    LOCK_PAUSE, LOCK_WAIT, OPERATION, Plan, TakeOver, TakeOverError, repository_git, worktrees,
};
use crate::git::Access;
use crate::git::error::GitCause;
use crate::git::replace::replace;

impl TakeOver<'_> {
    /// Refuses when another git process holds the lock of a file that is going to be replaced. A lock
    /// with exactly the new content is our own, which a crash left.
    pub(super) fn check_locks(
        &self,
        files: &[FileChange],
        heads: &[(String, RefValue)],
    ) -> Result<(), TakeOverError> {
        let mut replaced = Vec::new();
        for change in files {
            if change.path.file_name().is_some_and(|name| name == "index") {
                let after = change.after.as_deref();
                let content = after.map(|file| read_file(file, FILE_BYTES_MAX)).transpose();
                let content = content.map_err(|error| TakeOverError::file(&change.path, &error))?;
                replaced.push((change.path.clone(), content));
            }
        }
        for (id, head) in heads {
            replaced.push((head_of(&git_dir(id)), Some(content_of(head))));
        }
        for (path, content) in replaced {
            let mut lock = path.into_os_string();
            lock.push(".lock");
            match fs::read(self.common.join(&lock)) {
                Ok(left) if Some(&left) == content.as_ref() => {}
                Ok(_) => {
                    let lock = lock.to_string_lossy().into_owned();
                    return Err(TakeOverError::Locked(lock));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Applies everything, the refs first.
    pub(super) fn apply(
        &self,
        plan: &Plan,
        before_step: &mut dyn FnMut(&str) -> Result<(), TakeOverError>,
    ) -> Result<(), TakeOverError> {
        before_step("refs")?;
        self.set_refs(&plan.refs)?;
        for change in plan.refs.iter().filter(|change| is_symbolic(change)) {
            before_step(&change.name)?;
            self.set_symbolic(change)?;
        }
        for (id, head) in &plan.heads {
            before_step("HEAD")?;
            let path = head_of(&git_dir(id));
            waiting(|| replace(&self.common.join(&path), &content_of(head)))
                .map_err(|error| TakeOverError::file(&path, &error))?;
        }
        for change in &plan.files {
            before_step(&change.path.to_string_lossy())?;
            waiting(|| files::apply(self.common, change))
                .map_err(|error| TakeOverError::file(&change.path, &error))?;
        }
        for new in &plan.new_worktrees {
            before_step(&new.id)?;
            worktrees::add(self.common, new)
                .map_err(|error| TakeOverError::file(&git_dir(&new.id), &error))?;
        }
        for id in &plan.removed_worktrees {
            before_step(id)?;
            worktrees::remove(self.common, id)
                .map_err(|error| TakeOverError::file(&git_dir(id), &error))?;
        }
        Ok(())
    }

    /// Sets refs to ids in one transaction, which compares each with its old value.
    fn set_refs(&self, changes: &[RefChange]) -> Result<(), TakeOverError> {
        let direct: Vec<RefChange> =
            changes.iter().filter(|change| !is_symbolic(change)).cloned().collect();
        if direct.is_empty() {
            return Ok(());
        }
        let output = repository_git(self.common, Access::Write)
            .args(["-c", "core.logAllRefUpdates=false", "-c", "core.fsync=objects,reference"])
            .env("GIT_COMMITTER_NAME", logs::NAME)
            .env("GIT_COMMITTER_EMAIL", "")
            .args(["update-ref", "-m", logs::NAME, "--stdin"])
            .stdin(transaction(&direct, self.digits))
            .run()?;
        if output.code == Some(0) {
            return Ok(());
        }
        let error = output.failure(OPERATION, self.common);
        if let GitCause::Locked(line) = &error.cause {
            return Err(TakeOverError::Locked(line.clone()));
        }
        let GitCause::Exit { line, .. } = &error.cause else { return Err(error.into()) };
        // The value was compared before, so it changed just now.
        Err(if line.contains("but expected") {
            TakeOverError::Conflict(line.clone())
        } else {
            TakeOverError::damaged(Path::new("refs"), line)
        })
    }

    fn set_symbolic(&self, change: &RefChange) -> Result<(), TakeOverError> {
        let git = repository_git(self.common, Access::Write).arg("symbolic-ref");
        let git = match change.after.as_ref().and_then(RefValue::target) {
            Some(target) => git.args([&*change.name, target]),
            None => git.args(["-d", &*change.name]),
        };
        git.output()?;
        Ok(())
    }
}

/// Tries again while somebody else holds the lock of a file. The refs are set by then, so the rest should follow.
fn waiting(mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match act() {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && began.elapsed() < LOCK_WAIT =>
            {
                std::thread::sleep(LOCK_PAUSE);
            }
            done => return done,
        }
    }
}

fn is_symbolic(change: &RefChange) -> bool {
    [&change.before, &change.after].into_iter().flatten().any(|value| value.target().is_some())
}

/// How git writes a value.
fn content_of(value: &RefValue) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}
