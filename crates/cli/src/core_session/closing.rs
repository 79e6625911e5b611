//! Closes the work of a session: formatted, committed, put on top of what others did, pushed, and proven to be.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_cell::{
    Ending, Excess, Limits, OnSignal, ProcessError, Program, describe_exit, one_line,
};
use windlass_redact::Redactor;
use windlass_sessions::core::{CloseReport, CloseStep};
use windlass_work::Tracker;
use windlass_workspace::{
    CommitId, CommitMerge, Git, GitError, Pushed, Rebased, RefUpdate, TreeId, Treeish, Upstream,
};

/// How long the format command or the repository's hook may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
/// How much of what they print is read.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The longest first line of a commit message.
const TITLE_CHARS_MAX: usize = 72;

/// How often a push is tried, if others push meanwhile, unless the loop says so.
pub const TRIES: u64 = 3;

/// The work of a driven run that is closed.
pub struct RunWork {
    /// The commit and the files from which it started, if those differed: what differed then is not its work.
    pub began: Option<(CommitId, TreeId)>,
    /// The files that were last reviewed.
    pub reviewed: Option<TreeId>,
}

/// What a close needs.
pub struct Closing<'a> {
    /// The repository, by the folder that is worked in.
    pub git: Git,
    /// How often a push is tried, if others push meanwhile.
    pub tries: u64,
    /// The work of a driven run; `None` for that of a person's session.
    pub of_run: Option<RunWork>,
    /// The commit at the beginning of the session, and the files that were changed already: they are not its work.
    pub began: Option<&'a (Option<String>, Vec<String>)>,
    /// Another session of the project that is blocked.
    pub blocked: Option<String>,
    /// The folder that is worked in.
    pub workspace: &'a Path,
    /// The line that formats the files, if there is one.
    pub format: Option<&'a str>,
    /// What the work is, for the commit.
    pub title: &'a str,
    /// The name of the session's run.
    pub run: &'a str,
    /// Our program and the arguments that run a line in a cell.
    pub cell: Vec<String>,
    /// The tracker, or why there is none.
    pub tracker: Result<&'a dyn Tracker, String>,
    /// Takes secrets out of what the steps tell.
    pub redactor: &'a Redactor,
}

/// Why a step failed.
enum Failed {
    /// For a reason that is told.
    Reason(String),
    /// Others have pushed changes of the same lines in these files.
    Conflict(Vec<String>),
}

impl Failed {
    /// The reason, and the files with conflicts.
    fn told(self) -> (String, Vec<String>) {
        match self {
            Self::Reason(reason) => (reason, Vec::new()),
            Self::Conflict(paths) => {
                let shown = paths.join(", ");
                let reason = format!(
                    "conflict with what others have pushed in {shown}; a person must resolve it"
                );
                (reason, paths)
            }
        }
    }
}

impl From<GitError> for Failed {
    fn from(error: GitError) -> Self {
        Self::Reason(error.to_string())
    }
}

/// A commit, and the files that were there then.
type Before = (CommitId, TreeId);
type Done = Result<String, Failed>;

impl Closing<'_> {
    /// Closes the work, step by step, up to the first that fails.
    pub fn run(&self) -> CloseReport {
        let mut report = CloseReport::default();
        let git = self.git.clone();
        // What runs in between, such as the format command, can change neither.
        let pinned = OnceCell::new();
        let place = || {
            let place: &Place = pinned.get().ok_or_else(no_branch)?;
            place.require_unchanged(&git).map(|()| &place.upstream)
        };
        let steps: [(&str, &dyn Fn() -> Done); 8] = [
            ("check", &|| self.check(&git, &pinned)),
            ("format", &|| self.format()),
            ("stage", &|| self.stage(&git)),
            ("commit", &|| self.commit(&git)),
            ("pull", &|| pulled(&git, place()?).map(|pulled| pulled.told())),
            ("sync", &|| self.sync()),
            ("push", &|| self.push(&git, place()?)),
            ("proof", &|| self.prove(&git, place()?)),
        ];
        for (name, step) in steps {
            let (ok, detail) = match step() {
                Ok(detail) => (true, detail),
                Err(failed) => {
                    let (reason, conflict) = failed.told();
                    report.conflict = conflict;
                    (false, reason)
                }
            };
            let detail = one_line(&self.redactor.redacted(&detail));
            report.steps.push(CloseStep { step: name.to_owned(), ok, detail });
            if !ok {
                return report;
            }
        }
        report.commit = git.head().ok().flatten().map(|commit| commit.as_str().to_owned());
        report
    }

    /// Only the session's own work is closed, and only from a repository that is between no two states.
    fn check(&self, git: &Git, pinned: &OnceCell<Place>) -> Done {
        if let Some(name) = &self.blocked {
            let reason = format!("session {name} is blocked, and its files may be among these");
            return Err(Failed::Reason(reason));
        }
        if let Some(name) = git.unfinished()? {
            return Err(Failed::Reason(format!(
                "the repository is in the middle of a {name}: finish or abort it"
            )));
        }
        let Some(branch) = git.branch()? else {
            return Err(no_branch());
        };
        let place = Place { upstream: upstream(git)?, branch };
        let Place { upstream, branch } = pinned.get_or_init(|| place);
        if upstream.branch != *branch {
            return Err(Failed::Reason(format!(
                "the branch `{branch}` follows `{}/{}`: give it a branch of its own with `git push -u {} {branch}`",
                upstream.remote, upstream.branch, upstream.remote
            )));
        }
        if let Some(name) = git.changed_submodules()?.first() {
            return Err(Failed::Reason(format!(
                "the submodule `{name}` has changes of its own, which the close leaves alone: commit and push them in it, \
                 or undo them"
            )));
        }
        let changed = git.uncommitted()?;
        if let Some((head, dirty)) = self.began {
            let own = |path: &&String| changed.iter().any(|(one, _)| one == *path);
            let before: Vec<&str> = dirty.iter().filter(own).map(String::as_str).take(5).collect();
            if !before.is_empty() {
                return Err(Failed::Reason(format!(
                    "these were changed before the session and are not its work: {}; commit, stash or ignore them",
                    before.join(", ")
                )));
            }
            let tracked = format!("refs/remotes/{}/{}", upstream.remote, upstream.branch);
            if let (Some(head), Some(tip)) = (head, git.commit_at(&tracked)?)
                && git.has_commit(head)?
                && !git.is_in(head, &tip)?
            {
                return Err(Failed::Reason(
                    "there are commits from before the session that are not pushed: push them first".to_owned(),
                ));
            }
        }
        match &self.of_run {
            Some(work) => self.require_reviewed(git, work)?,
            None => {
                let top = git.top_level()?;
                let below = self.workspace.strip_prefix(&top).unwrap_or(Path::new(""));
                let mut outside = changed.iter().map(|(path, _)| path);
                if let Some(path) = outside.find(|path| !Path::new(path).starts_with(below)) {
                    let reason = format!("`{path}` is changed, but not in the project");
                    return Err(Failed::Reason(reason));
                }
            }
        }
        Ok("only the session's work".to_owned())
    }

    /// Nothing is committed that nobody has seen: the files are those that were last reviewed, unless there is nothing to
    /// commit.
    fn require_reviewed(&self, git: &Git, work: &RunWork) -> Result<(), Failed> {
        let Some(reviewed) = &work.reviewed else { return Ok(()) };
        let (head, now) = (git.head()?, git.tree_of_worktree()?);
        if now == *reviewed || head.is_some_and(|head| self.is_committed(git, &head, &now)) {
            return Ok(());
        }
        let stat = git.diff_to(&Treeish::Tree(reviewed.clone()), &now)?;
        let names: Vec<String> =
            stat.files.iter().take(5).map(|file| file.path.display().to_string()).collect();
        let reason =
            format!("files have changed since they were last reviewed: {}", names.join(", "));
        Err(Failed::Reason(reason))
    }

    fn is_committed(&self, git: &Git, head: &CommitId, now: &TreeId) -> bool {
        let own = self.own_tree(git, head, now).ok();
        own.is_some_and(|own| git.tree_of(head).is_ok_and(|head| head == own))
    }

    /// What was there before, and is not the work that is closed.
    fn before(&self, git: &Git, head: &CommitId, now: &TreeId) -> Result<Option<Before>, Failed> {
        match &self.of_run {
            Some(work) => Ok(work.began.clone()),
            // What git was told not to compare is a person's own.
            None => Ok(git.uncompared(head, now)?.map(|tree| (head.clone(), tree))),
        }
    }

    /// The tree of the commit on top of `head`: the work, and nothing that was there before.
    fn own_tree(&self, git: &Git, head: &CommitId, now: &TreeId) -> Result<TreeId, Failed> {
        let Some((base, began)) = self.before(git, head, now)? else { return Ok(now.clone()) };
        match git.own_tree(head, (&base, &began), now)? {
            CommitMerge::Clean(own) => Ok(own),
            CommitMerge::Conflict(paths) => {
                let paths: Vec<String> =
                    paths.iter().map(|path| path.display().to_string()).collect();
                Err(Failed::Reason(format!(
                    "the work has changed what was not committed when it began, and cannot be told from that: {}",
                    paths.join(", ")
                )))
            }
        }
    }

    /// Stages the work, for the repository's own hook.
    fn stage(&self, git: &Git) -> Done {
        let now = git.tree_of_worktree()?;
        match git.head()? {
            None => git.stage(&now, None)?,
            Some(head) => {
                let own = self.own_tree(git, &head, &now)?;
                let before = self.before(git, &head, &now)?;
                git.stage(&own, before.as_ref().map(|(base, began)| (&head, base, began)))?;
            }
        }
        Ok("all changes are staged".to_owned())
    }

    fn format(&self) -> Done {
        match self.format {
            None => Ok("no format command is set".to_owned()),
            Some(line) => self.in_cell(line).map(|()| "formatted".to_owned()),
        }
    }

    /// Commits the work after the repository's own hook has seen it, in a cell.
    fn commit(&self, git: &Git) -> Done {
        let head = git.head()?;
        let own = || -> Result<(TreeId, TreeId), Failed> {
            let now = git.tree_of_worktree()?;
            match &head {
                None => Ok((now.clone(), now)),
                Some(head) => Ok((self.own_tree(git, head, &now)?, now)),
            }
        };
        let (mut tree, mut now) = own()?;
        if let Some(head) = &head
            && git.tree_of(head)? == tree
        {
            return Ok("nothing to commit".to_owned());
        }
        let hook = git.hook("pre-commit")?;
        let mut note = String::new();
        if hook.runs && hook.is_outside {
            note = "; the pre-commit hook is outside of the repository and was not run".to_owned();
        } else if hook.runs {
            let program = hook.path.display().to_string();
            self.in_cell(&format!("'{}'", program.replace('\'', r"'\''")))?;
            // What the hook changed is what it wants committed.
            (tree, now) = own()?;
        }
        let before = match &head {
            Some(head) => self.before(git, head, &now)?,
            None => None,
        };
        let git = git.clone().signing_as_user()?;
        let us = git.identity()?;
        let parents: Vec<CommitId> = head.iter().cloned().collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        let commit = git.commit_tree(&tree, &parents, &self.message(), &us, &us, now)?;
        match git.update_ref("HEAD", &commit, head.as_ref())? {
            RefUpdate::Updated | RefUpdate::AlreadyThere => {}
            RefUpdate::Moved { .. } => {
                return Err(Failed::Reason("the branch has moved meanwhile".to_owned()));
            }
        }
        match (&head, before) {
            (Some(head), Some((base, began))) => {
                git.reset_index_of_run(&commit, head, &base, &began)?;
            }
            (_, _) => git.reset_index(&commit)?,
        }
        Ok(format!("{}{note}", commit.as_str()))
    }

    /// Pushes the commits on top of those of others. If others push meanwhile, it is tried again on top of theirs. The
    /// branch and the files are brought there after the remote has it, so that nothing of others has to be undone.
    fn push(&self, git: &Git, upstream: &Upstream) -> Done {
        for left in (0..self.tries.max(1)).rev() {
            let Pulled { head, onto, tip } = pulled(git, upstream)?;
            if tip != head {
                git.check_move_to(&head, &tip)?;
            }
            match git.push(upstream, &tip)? {
                Pushed::Done => {
                    if tip != head {
                        git.move_branch_to(&head, &tip)?;
                    }
                    let (remote, branch) = (&upstream.remote, &upstream.branch);
                    return Ok(format!("{} to {remote}/{branch}", tip.as_str()));
                }
                // Others were faster.
                Pushed::Refused(_) if left > 0 && git.remote_tip(upstream)? != onto => {}
                Pushed::Refused(reason) => {
                    return Err(Failed::Reason(format!("the remote refuses: {reason}")));
                }
            }
        }
        Err(Failed::Reason("others push all the time: try again later".to_owned()))
    }

    /// The remote has our commit, and nothing is left to commit.
    fn prove(&self, git: &Git, upstream: &Upstream) -> Done {
        let (head, tip) = (git.head()?, git.remote_tip(upstream)?);
        let Some(head) = head.filter(|head| tip.as_ref() == Some(head)) else {
            return Err(Failed::Reason("the remote is not at our commit".to_owned()));
        };
        let left = match &self.of_run {
            None => git.uncommitted()?.into_iter().map(|(path, _)| path).next(),
            Some(_) => {
                let own = self.own_tree(git, &head, &git.tree_of_worktree()?)?;
                let stat = git.diff_to(&Treeish::Commit(head), &own)?;
                stat.files.first().map(|file| file.path.display().to_string())
            }
        };
        if let Some(path) = left {
            let reason = format!("there are changes that are not committed: {path}");
            return Err(Failed::Reason(reason));
        }
        Ok(format!("up to date with {}/{}", upstream.remote, upstream.branch))
    }

    fn message(&self) -> String {
        let line = self.title.lines().next().unwrap_or_default().trim();
        let line = if line.is_empty() { "Work of a session" } else { line };
        let title: String = line.chars().take(TITLE_CHARS_MAX).collect();
        format!("{title}\n\nWindlass-Session: {}\n", self.run)
    }

    fn sync(&self) -> Done {
        let tracker = self.tracker.as_ref().map_err(|reason| Failed::Reason(reason.clone()))?;
        tracker.sync().map_err(|error| Failed::Reason(error.to_string()))
    }

    /// Runs a line in a cell; fails if it does.
    fn in_cell(&self, line: &str) -> Result<(), Failed> {
        let mut argv: Vec<PathBuf> = self.cell.iter().map(PathBuf::from).collect();
        argv.extend([PathBuf::from("--"), PathBuf::from(line)]);
        let limits = Limits { timeout: COMMAND_TIMEOUT, output_bytes_max: OUTPUT_BYTES_MAX };
        let finished = run_program(&argv, self.workspace, limits)
            .map_err(|error| Failed::Reason(format!("`{line}` could not be run: {error}")))?;
        match (&finished.ending, finished.status) {
            (Ending::Exited, Some(status)) if status.success() => Ok(()),
            (_, status) => {
                let output = [finished.stdout, finished.stderr].concat();
                let text = String::from_utf8_lossy(&output).into_owned();
                let last: Vec<&str> = text.trim().lines().rev().take(5).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                let how = status.map_or_else(|| "did not end".to_owned(), describe_exit);
                Err(Failed::Reason(format!("`{line}` {how}: {}", last.join(" | "))))
            }
        }
    }
}

fn run_program(
    argv: &[PathBuf],
    cwd: &Path,
    limits: Limits,
) -> Result<windlass_cell::Finished, ProcessError> {
    let variables: Vec<_> = std::env::vars_os().collect();
    windlass_cell::run(&Program {
        argv: argv.iter().map(|word| word.as_os_str()).collect(),
        stdin: None,
        env: variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect(),
        cwd,
        limits,
        // What it starts makes the cell.
        confined: None,
        excess: Excess::Drop,
        on_signal: OnSignal::End,
    })
}

/// The branch that is closed, and where it is pushed to, as it was when the close began.
struct Place {
    branch: String,
    upstream: Upstream,
}

impl Place {
    fn require_unchanged(&self, git: &Git) -> Result<(), Failed> {
        let same = git.branch()?.as_ref() == Some(&self.branch) && upstream(git)? == self.upstream;
        let moved = || Failed::Reason("the branch or its remote was changed meanwhile".to_owned());
        if same { Ok(()) } else { Err(moved()) }
    }
}

fn no_branch() -> Failed {
    Failed::Reason("no branch is checked out: check one out".to_owned())
}

fn upstream(git: &Git) -> Result<Upstream, Failed> {
    git.upstream()?.ok_or_else(|| {
        Failed::Reason(
            "the branch has no remote to push to; name one with `git push -u REMOTE BRANCH`"
                .to_owned(),
        )
    })
}

/// Our commits on top of those of others.
struct Pulled {
    /// The commit of the branch.
    head: CommitId,
    /// That of the remote's branch, if there is one.
    onto: Option<CommitId>,
    /// The last of ours on top of it.
    tip: CommitId,
}

impl Pulled {
    fn told(&self) -> String {
        match &self.onto {
            None => "the remote has no such branch yet".to_owned(),
            Some(_) if self.tip == self.head => "nothing new".to_owned(),
            Some(onto) => format!("on top of {}: {}", onto.as_str(), self.tip.as_str()),
        }
    }
}

/// Gets what others have pushed, and puts our commits on top of it; the branch stays where it is.
fn pulled(git: &Git, upstream: &Upstream) -> Result<Pulled, Failed> {
    let head = git.head()?.ok_or_else(|| Failed::Reason("there is no commit".to_owned()))?;
    let Some(onto) = git.remote_tip(upstream)? else {
        return Ok(Pulled { tip: head.clone(), head, onto: None });
    };
    let known = git.commit_at(&format!("refs/remotes/{}/{}", upstream.remote, upstream.branch))?;
    git.fetch(upstream)?;
    if let Some(known) = known
        && !git.is_ancestor(&known, &onto)?
    {
        return Err(Failed::Reason(
            "the remote's branch was rewritten: a person must look at it".to_owned(),
        ));
    }
    match git.clone().signing_as_user()?.rebased_onto(&onto)? {
        Rebased::Already => Ok(Pulled { tip: head.clone(), head, onto: Some(onto) }),
        Rebased::Done(tip) => Ok(Pulled { head, onto: Some(onto), tip }),
        Rebased::Conflict(paths) => {
            let paths = paths.iter().map(|path| path.display().to_string());
            Err(Failed::Conflict(paths.collect()))
        }
    }
}
