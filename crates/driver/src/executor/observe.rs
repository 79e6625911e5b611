//! Reads the state of the workspace.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use windlass_beneath::{Folder, Kind};
use windlass_kernel::run::Run;
use windlass_kernel::{Digest, canon};

use super::{Driver, recorded};
use windlass_engine::EngineError;
use windlass_engine::executors::BuiltinJob;

/// The maximum size of the context file.
const CONTEXT_BYTES_MAX: usize = 1 << 20;
/// The maximum number of compared files, and the maximum size of one.
const FILES_MAX: usize = 5000;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The digest that stands for a removed file.
const REMOVED: Digest = Digest::GENESIS;

/// The state of the context file.
pub(super) struct ContextFile {
    pub digest: Option<Digest>,
    pub is_valid: bool,
    pub bytes: u64,
}

impl Driver {
    /// Reads the project's context file; a JSON object that is not empty is valid.
    pub(super) fn context_file(&self, workspace: &Path) -> Result<ContextFile, EngineError> {
        let path = workspace.join(self.config().context_file());
        let read = || -> std::io::Result<(Vec<u8>, u64)> {
            let file = Folder::open(workspace)?.file(Path::new(self.config().context_file()))?;
            let length = file.metadata()?.len();
            // What is longer is not valid, so its content does not matter.
            let is_short = usize::try_from(length).is_ok_and(|len| len <= CONTEXT_BYTES_MAX);
            let mut bytes = Vec::new();
            if is_short {
                file.take(length).read_to_end(&mut bytes)?;
            }
            Ok((bytes, length))
        };
        match read() {
            Ok((bytes, length)) => {
                let parsed = canon::parse(&bytes, CONTEXT_BYTES_MAX).ok();
                let object = parsed.as_ref().and_then(serde_json::Value::as_object);
                Ok(ContextFile {
                    digest: Some(Digest::of(&bytes)),
                    is_valid: object.is_some_and(|object| !object.is_empty()),
                    bytes: length,
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(ContextFile { digest: None, is_valid: false, bytes: 0 })
            }
            Err(error) => Err(EngineError::Invalid {
                code: windlass_kernel::Code::FileUnreadable,
                message: format!("`{}` cannot be read: {error}", path.display()),
                hint: None,
            }),
        }
    }
}

/// The files that differ from the run's base, with their digests; `None` if they are not known, for
/// example because there are too many.
pub(super) fn files(job: &BuiltinJob<'_>) -> Result<Option<BTreeMap<String, Digest>>, EngineError> {
    let run = job.recorder.run();
    let workspace = &job.assignment.workspace;
    let names = match job.repository.change(workspace, &run)? {
        Some(change) => change.files,
        None => match walk(workspace) {
            Some(names) => names,
            None => return Ok(None),
        },
    };
    if names.len() > FILES_MAX {
        return Ok(None);
    }
    let Ok(root) = Folder::open(workspace) else { return Ok(None) };
    let digests = names.into_iter().map(|name| {
        let digest = digest(&root, Path::new(&name))?;
        Some((name, digest))
    });
    Ok(digests.collect())
}

fn digest(root: &Folder, path: &Path) -> Option<Digest> {
    match root.look(path).ok()?.map(|found| found.kind) {
        None => Some(REMOVED),
        Some(Kind::Link) => {
            let target = root.link_target(path).ok()?;
            Some(Digest::of(target.to_string_lossy().as_bytes()))
        }
        Some(Kind::File) => root.read(path, FILE_BYTES_MAX).ok().map(|bytes| Digest::of(&bytes)),
        Some(Kind::Folder | Kind::Pipe | Kind::Socket | Kind::Device) => None,
    }
}

/// All files of a folder that is not a repository; `None` if there are too many.
fn walk(root: &Path) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut open = vec![String::new()];
    while let Some(prefix) = open.pop() {
        for entry in std::fs::read_dir(root.join(&prefix)).ok()? {
            let entry = entry.ok()?;
            let name = format!("{prefix}{}", entry.file_name().into_string().ok()?);
            if matches!(name.as_str(), ".git" | ".windlass") {
                continue;
            }
            if entry.file_type().ok()?.is_dir() {
                open.push(format!("{name}/"));
            } else {
                names.push(name);
            }
            if names.len() > FILES_MAX {
                return None;
            }
        }
    }
    names.sort();
    Some(names)
}

/// The files that have changed since the task began, with their digests; `None` if they are not known.
pub(super) fn changed(
    job: &BuiltinJob<'_>,
) -> Result<Option<BTreeMap<String, Digest>>, EngineError> {
    let Some(before) = baseline(&job.recorder.run()) else { return Ok(None) };
    let Some(now) = files(job)? else { return Ok(None) };
    let mut changed: BTreeMap<String, Digest> = BTreeMap::new();
    for (path, digest) in &now {
        if before.get(path) != Some(digest) {
            changed.insert(path.clone(), *digest);
        }
    }
    // A file that differed from the base before and does not any more has changed too.
    let root = Folder::open(&job.assignment.workspace).ok();
    for path in before.keys().filter(|path| !now.contains_key(*path)) {
        let digest = root.as_ref().and_then(|root| digest(root, Path::new(path)));
        changed.insert(path.clone(), digest.unwrap_or(REMOVED));
    }
    Ok(Some(changed))
}

fn baseline(run: &Run) -> Option<BTreeMap<String, Digest>> {
    let state = recorded::answer_of(run, "state")?;
    BTreeMap::deserialize(state.get("baseline")?).ok()
}
