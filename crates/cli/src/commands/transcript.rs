//! `windlass status RUN --transcript PHASE`, and the transcripts in `windlass watch`: what agents said and did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_engine::executors::{Transcripts, live_files, read_lines};
use windlass_kernel::run::Run;
use windlass_kernel::{Code, Digest};

use crate::failure::{CommandResult, Failure};
use crate::input::unreadable;
use crate::output::{Output, Style, sanitize};
use crate::project::Project;

/// The most that is read of a file at once.
const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// The transcripts of a project.
pub fn transcripts(project: &Project) -> Result<Transcripts, Failure> {
    Ok(Transcripts::new(project.state()?.join("transcripts")))
}

/// Prints what the agents of a phase said and did, in all attempts.
pub fn show(project: &Project, run: &Run, phase: &str, output: &Output) -> CommandResult {
    if run.position(phase).is_none() {
        let names: Vec<&str> = run.all_phases().map(|(phase, _)| phase.id.as_str()).collect();
        return Err(Failure::new(Code::RequestInvalid, format!("there is no phase `{phase}`"))
            .hint(format!("the phases of this run are {}", names.join(", "))));
    }
    let transcripts = transcripts(project)?;
    let run_id = run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default();
    let folder = transcripts.live(&run_id);
    let live = live_files(&folder).map_err(|error| unreadable(&folder, &error))?;
    let name_of = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let growing: BTreeSet<String> = live.iter().map(|path| name_of(path)).collect();
    let mut found = 0;
    // What is stored of a file that still grows is its beginning.
    for (name, digest) in newest(run, phase).into_iter().filter(|(name, _)| !growing.contains(name))
    {
        let mut bytes = Vec::new();
        let stored = transcripts.stored().map_err(|why| Failure::new(Code::FileUnreadable, why))?;
        let copied = stored.copy_to(&digest, &mut bytes);
        copied.map_err(|error| Failure::of(error.code(), &error))?;
        found += 1;
        print(&name, Some(digest), &String::from_utf8_lossy(&bytes), output)?;
    }
    for path in live {
        let name = name_of(&path);
        let is_of_phase = name.split('.').next() == Some(phase);
        if is_of_phase {
            let bytes = crate::input::read(&path, 64 << 20)?;
            found += 1;
            print(&name, None, &String::from_utf8_lossy(&bytes), output)?;
        }
    }
    if found == 0 && !output.json {
        output.line("no agent has worked in this phase");
    }
    Ok(0)
}

/// The newest transcript of each attempt and agent of a phase, by name.
fn newest(run: &Run, phase: &str) -> BTreeMap<String, Digest> {
    let mut newest = BTreeMap::new();
    for note in &run.notes {
        let text = |key: &str| note.body.get(key).and_then(Value::as_str);
        let attempt = note.body.get("attempt").and_then(Value::as_u64).unwrap_or_default();
        let digest = text("transcript").and_then(|digest| digest.parse::<Digest>().ok());
        if let (Some(digest), Some(agent)) = (digest, text("agent"))
            && text("phase") == Some(phase)
        {
            newest.insert(format!("{phase}.{attempt}.{agent}"), digest);
        }
    }
    newest
}

fn print(name: &str, digest: Option<Digest>, text: &str, output: &Output) -> Result<(), Failure> {
    if output.json {
        for line in read_lines(text) {
            output.value(&json!({ "transcript": name, "digest": digest, "line": line }))?;
        }
        return Ok(());
    }
    output.line(&output.paint(&sanitize(name), Style::Bold));
    for line in read_lines(text) {
        output.line(&line_of(&line, output));
    }
    Ok(())
}

/// One line of a transcript for people.
fn line_of(line: &Value, output: &Output) -> String {
    let body = line.get("body").unwrap_or(&Value::Null);
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(sanitize).unwrap_or_default();
    let kind = line.get("kind").and_then(Value::as_str).unwrap_or_default();
    let said = match kind {
        "text" => text("text"),
        "call" => {
            let args = body.get("args").map(Value::to_string).unwrap_or_default();
            format!("{} {}", output.paint(&text("tool"), Style::Bold), sanitize(&args))
        }
        "result" => {
            let first = text("text").lines().next().unwrap_or_default().to_owned();
            output.paint(&format!("{}: {first}", text("state")), Style::Faint)
        }
        other => format!("{}: {}", sanitize(other), sanitize(&body.to_string())),
    };
    format!("  {}", said.replace('\n', "\n  "))
}

/// The lines that are added to the transcripts of a run.
pub struct Tail {
    folder: PathBuf,
    read: BTreeMap<PathBuf, u64>,
}

impl Tail {
    /// Those of a run from now on.
    pub fn new(transcripts: &Transcripts, run_id: &str) -> Self {
        let folder = transcripts.live(run_id);
        let length = |path: &PathBuf| path.metadata().map_or(0, |found| found.len());
        let files = live_files(&folder).unwrap_or_default();
        let read = files.into_iter().map(|path| (path.clone(), length(&path))).collect();
        Self { folder, read }
    }

    /// What has been added since the last time, as text. Files that cannot be read are tried again the next time.
    pub fn poll(&mut self, output: &Output) -> Vec<String> {
        let mut lines = Vec::new();
        for path in live_files(&self.folder).unwrap_or_default() {
            let from = self.read.get(&path).copied().unwrap_or_default();
            let mut added = Vec::new();
            let read = std::fs::File::open(&path).and_then(|mut file| {
                file.seek(SeekFrom::Start(from))?;
                file.take(CHUNK_BYTES_MAX).read_to_end(&mut added)
            });
            // A line that is still being written is read when it is whole.
            let whole = added.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if read.is_ok() && whole > 0 {
                added.truncate(whole);
                let text = String::from_utf8_lossy(&added).into_owned();
                lines.extend(read_lines(&text).iter().map(|line| line_of(line, output)));
                self.read.insert(path, from + u64::try_from(whole).unwrap_or_default());
            }
        }
        lines
    }
}
