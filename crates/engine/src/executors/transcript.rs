//! Transcripts of agents: what they said and did, without secrets. While an attempt goes on its transcript is a file;
//! what an invocation leaves of it is stored by digest, and the digest is recorded.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use windlass_kernel::Digest;
use windlass_redact::Redactor;
use windlass_runtime::Clock;
use windlass_workspace::BlobStore;

use super::AgentJob;

/// The largest transcript of an attempt.
const BYTES_MAX: u64 = 16 << 20;
/// The longest text in it.
const TEXT_CHARS_MAX: usize = 16_000;

/// The transcripts of a project.
#[derive(Clone, Debug)]
pub struct Transcripts {
    folder: PathBuf,
}

impl Transcripts {
    /// Those in a folder, which is made when the first one is written.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder with the files of a run's attempts that have not ended.
    #[must_use]
    pub fn live(&self, run_id: &str) -> PathBuf {
        self.folder.join("live").join(run_id)
    }

    /// The stored ones.
    ///
    /// # Errors
    /// A message if they cannot be opened.
    pub fn stored(&self) -> Result<BlobStore, String> {
        BlobStore::open(self.folder.join("stored")).map_err(|error| error.to_string())
    }
}

/// The transcript of one attempt of one agent.
pub struct Transcript {
    writer: Mutex<Result<Writer, String>>,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
}

struct Writer {
    path: PathBuf,
    file: File,
    bytes: u64,
    transcripts: Transcripts,
}

/// What was stored of a transcript.
pub(super) struct StoredTranscript {
    digest: Digest,
    bytes: u64,
}

impl Transcript {
    /// Opens the transcript of an attempt, which an earlier invocation may have begun.
    pub(super) fn open(
        transcripts: Option<&Transcripts>,
        run_id: &str,
        name: &str,
        redactor: Arc<Redactor>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let writer = match transcripts {
            None => Err("transcripts are not kept".to_owned()),
            Some(transcripts) => Writer::open(transcripts, run_id, name)
                .map_err(|error| format!("the transcript cannot be written: {error}")),
        };
        Self { writer: Mutex::new(writer), redactor, clock }
    }

    /// Adds a line. A transcript that cannot be written does not stop the work; its record says why it is missing.
    pub fn add(&self, kind: &str, mut body: Value) {
        self.redactor.redact(&mut body);
        cut(&mut body);
        let line = json!({ "at": self.clock.now(), "kind": kind, "body": body });
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(open) = writer.as_mut()
            && let Err(error) = open.add(&line)
        {
            *writer = Err(format!("the transcript cannot be written: {error}"));
        }
    }

    /// Stores what there is, and returns what is recorded of it.
    pub(super) fn store(&self, job: &AgentJob<'_>, is_over: bool) -> Value {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = writer.as_ref().map_err(Clone::clone).and_then(|open| open.store(is_over));
        let mut note = json!({
            "invocation": job.invocation,
            "phase": job.phase,
            "attempt": job.attempt,
            "agent": job.agent.name,
        });
        if let Some(object) = note.as_object_mut() {
            match stored {
                Ok(StoredTranscript { digest, bytes }) => {
                    object.insert("transcript".to_owned(), json!(digest));
                    object.insert("bytes".to_owned(), json!(bytes));
                }
                Err(reason) => drop(object.insert("no_transcript".to_owned(), json!(reason))),
            }
        }
        note
    }
}

impl Writer {
    fn open(transcripts: &Transcripts, run_id: &str, name: &str) -> io::Result<Self> {
        let folder = transcripts.live(run_id);
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.jsonl"));
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, transcripts: transcripts.clone() })
    }

    fn add(&mut self, line: &Value) -> io::Result<()> {
        let text = format!("{line}\n");
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.bytes.saturating_add(length) > BYTES_MAX {
            // One line more, by which it is full, so that this is said once.
            let text = match self.bytes < BYTES_MAX {
                true => format!("{}\n", json!({ "kind": "cut" })),
                false => return Ok(()),
            };
            self.bytes = BYTES_MAX;
            return self.file.write_all(text.as_bytes());
        }
        self.bytes += length;
        self.file.write_all(text.as_bytes())
    }

    fn store(&self, is_over: bool) -> Result<StoredTranscript, String> {
        let stored = self.transcripts.stored()?;
        let blob = stored.put_file(&self.path, BYTES_MAX * 2).map_err(|error| error.to_string())?;
        if is_over {
            // It is stored; what cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(&self.path);
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
        Ok(StoredTranscript { digest: blob.digest, bytes: blob.bytes })
    }
}

/// Cuts long texts.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
                let left = text.len() - at;
                text.truncate(at);
                text.push_str(&format!("… ({left} bytes more)"));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(cut),
        Value::Object(object) => object.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads the lines of a transcript; one that is not whole is the last.
pub fn read_lines(text: &str) -> Vec<Value> {
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

/// The transcripts of a run that have not ended, by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn live_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    files.sort();
    Ok(files)
}
