//! `windlass bundle restore`: rebuilds the workspace of a checkpoint from a bundle, without a project.

use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_seal::{BundleError, BundleReader};
use windlass_workspace::TreeId;

use crate::args::BundleRestore;
use crate::commands::verify::count;
use crate::commands::{bundle_check, keys};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, sanitize};
use crate::project::Project;

/// How many names a message lists.
const NAMES_MAX: usize = 10;

/// Verifies the bundle and writes the files of one checkpoint.
pub fn run(named: Option<&Path>, options: &BundleRestore, output: &Output) -> CommandResult {
    let project = match named {
        Some(_) => Some(Project::find(named)?),
        None => Project::find(None).ok(),
    };
    let trust = keys::trust(project.as_ref(), &options.key)?;
    let mut source = BufReader::new(input::open(&options.bundle)?);
    bundle_check::refuse_anchor(&mut source, &options.bundle)?;
    let report = bundle_check::verify(&mut source, &trust)?;
    if let Some(code) = report.code() {
        let fault = report.faults.first().map_or_else(
            || "no trusted key has signed it".to_owned(),
            |fault| sanitize(&fault.to_string()),
        );
        let message = format!("`{}` is not restored: {fault}", options.bundle.display());
        return Err(Failure::new(code, message));
    }
    let failed = |error: BundleError| Failure::of(error.code(), &error);
    let mut bundle = BundleReader::open(source).map_err(failed)?;
    let (name, document) = find(&mut bundle, &options.checkpoint)?;
    let tree = tree_of(&document).ok_or_else(|| not_there(&name, "its run had no workspace"))?;
    let index = bundle.objects().map_err(failed)?;
    let index = index
        .filter(|index| index.has(&tree))
        .ok_or_else(|| not_there(&name, "its files are not in the bundle"))?;
    let files = index.files(&tree).map_err(|reason| {
        Failure::new(Code::BundleInvalid, format!("`{name}` cannot be restored: {reason}"))
    })?;
    let target = Target::create(&options.to)?;
    bundle.unpack(&files, &target.temporary).map_err(failed)?;
    target.finish()?;
    if output.json {
        output.value(&json!({
            "bytes": files.bytes, "checkpoint": name, "files": files.count, "folder": options.to,
            "nested": files.nested, "run_id": report.run_id, "tree": tree,
        }))?;
        return Ok(0);
    }
    output.line(&format!(
        "{}: {} of {} {name}, {} bytes",
        options.to.display(),
        count(u64::try_from(files.count).unwrap_or(u64::MAX), "file", "files"),
        sanitize(&report.run_id),
        files.bytes,
    ));
    for path in &files.nested {
        let path = sanitize(&path.to_string_lossy());
        output
            .note(&format!("`{path}` is a repository of its own: a checkpoint has no files of it"));
    }
    Ok(0)
}

fn not_there(name: &str, why: &str) -> Failure {
    Failure::new(Code::CheckpointUnavailable, format!("`{name}` cannot be restored: {why}")).hint(
        "files that were purged or too large are not in a bundle; `windlass export RUN --bundle FILE` adds what is there",
    )
}

/// Finds a checkpoint by its name, by its name without version (the newest), or by its id.
fn find(
    bundle: &mut BundleReader<BufReader<fs::File>>,
    wanted: &str,
) -> Result<(String, Value), Failure> {
    let names = bundle.checkpoints();
    let mut newest: Option<(u64, String, Value)> = None;
    for name in &names {
        let bytes = bundle.checkpoint(name).map_err(|error| Failure::of(error.code(), &error))?;
        let document: Value =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let version = document.get("version").and_then(Value::as_u64).unwrap_or_default();
        let is_id = document.get("id").and_then(Value::as_str) == Some(wanted);
        if name == wanted || is_id {
            return Ok((name.clone(), document));
        }
        let is_named = name.strip_suffix(&format!("_v{version}")) == Some(wanted);
        if is_named && newest.as_ref().is_none_or(|(newest, ..)| *newest < version) {
            newest = Some((version, name.clone(), document));
        }
    }
    if let Some((_, name, document)) = newest {
        return Ok((name, document));
    }
    let mut listed: Vec<&str> = names.iter().map(String::as_str).take(NAMES_MAX).collect();
    let more = format!("and {} more", names.len().saturating_sub(NAMES_MAX));
    if names.len() > NAMES_MAX {
        listed.push(&more);
    }
    let wanted: String = wanted.chars().take(120).collect();
    let message = format!("the bundle has no checkpoint `{}`", sanitize(&wanted));
    Err(Failure::new(Code::CheckpointUnavailable, message)
        .hint(format!("its checkpoints: {}", sanitize(&listed.join(", ")))))
}

/// The tree in which a checkpoint's phase worked.
fn tree_of(document: &Value) -> Option<TreeId> {
    let workspace = document.pointer("/metadata/workspace")?;
    let text = |key: &str| workspace.get(key).and_then(Value::as_str);
    text("branch").or_else(|| text("tree"))?.parse().ok()
}

/// A folder that gets its name when it is complete.
struct Target {
    path: PathBuf,
    temporary: PathBuf,
}

impl Target {
    fn create(path: &Path) -> Result<Self, Failure> {
        let unwritable = |error: io::Error| unwritable(path, &error);
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let message = format!("`{}` is not empty", path.display());
                    return Err(Failure::new(Code::FileUnwritable, message)
                        .hint("choose a folder that does not exist yet"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unwritable(error)),
        }
        let name = path.file_name().ok_or_else(|| {
            let message = format!("`{}` does not name a folder", path.display());
            Failure::new(Code::RequestInvalid, message)
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".tmp-{}", std::process::id()));
        let temporary = path.with_file_name(hidden);
        fs::create_dir(&temporary).map_err(unwritable)?;
        Ok(Self { path: path.to_owned(), temporary })
    }

    /// Gives the folder its name. An empty folder of that name is replaced.
    fn finish(&self) -> Result<(), Failure> {
        fs::rename(&self.temporary, &self.path).map_err(|error| unwritable(&self.path, &error))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After `finish` there is none.
        drop(fs::remove_dir_all(&self.temporary));
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("`{}` cannot be written: {error}", path.display());
    Failure::new(Code::FileUnwritable, message)
}
