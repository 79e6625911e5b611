//! `windlass keys`: the keys that sign bundles and anchors, and whom to trust.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_seal::{KeyError, KeyFile, KeyStore, PublicKey, Signer, Trust};

use crate::args::Keys as Command;
use crate::failure::{Done, Failure};
use crate::output::{Ink, Output};
use crate::project::{Project, read_limited};

/// The folder of keys in the project's.
const FOLDER: &str = "keys";
/// The largest file with a public key.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Runs a subcommand of `keys`.
pub fn run(project: &Project, command: Command, output: &Output) -> Done {
    let keys = open(project)?;
    match command {
        Command::Show => show(project, &keys, output),
        Command::List => list(project, &keys, output),
        Command::Rotate => rotate(project, &keys, output),
    }
}

/// Opens the project's keys.
pub fn open(project: &Project) -> Result<KeyStore, Failure> {
    Ok(KeyStore::open(project.folder.join(FOLDER))?)
}

/// Where a public key lies.
fn path_of(project: &Project, key: &PublicKey) -> PathBuf {
    project.folder.join(FOLDER).join(format!("{}.pub", key.id()))
}

/// The key that signs, made now if there is none, with where its public half lies.
pub fn signer(
    project: &Project,
    keys: &KeyStore,
    output: &Output,
) -> Result<(Signer, PathBuf), Failure> {
    let fresh = keys.current()?.is_none();
    let signer = keys.signer_or_generate(SystemClock.now())?;
    let path = path_of(project, &signer.public());
    if fresh && !output.json {
        let shown = path.display();
        output.note(&format!("a signing key was made; give away its public key: `{shown}`"));
    }
    Ok((signer, path))
}

/// Whom to trust: the keys that were given, or else those of the project.
pub fn trust(project: Option<&Project>, given: &[PathBuf]) -> Result<Trust, Failure> {
    if given.is_empty() {
        return match project {
            Some(project) => Ok(open(project)?.trust()?),
            None => Ok(Trust::default()),
        };
    }
    let keys: Result<Vec<PublicKey>, Failure> = given.iter().map(|path| read(path)).collect();
    // Statements prove themselves, and only lead on from what is trusted: without them less is.
    let rotations = project.and_then(|project| open(project).ok()?.rotations().ok());
    Ok(Trust::new(keys?).with_rotations(rotations.unwrap_or_default()))
}

/// Reads a public key that a person names.
fn read(path: &Path) -> Result<PublicKey, Failure> {
    let bytes = read_limited(path, KEY_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not text");
    text.and_then(PublicKey::from_pem).map_err(|what| {
        let message = format!("`{}` is not a public key: {what}", path.display());
        Failure::new(Code::KeyInvalid, message)
            .hint("give what `windlass keys show` prints where the file was signed")
    })
}

fn describe(project: &Project, file: &KeyFile) -> Value {
    json!({
        "created_at": file.created_at,
        "file": path_of(project, &file.key),
        "key_id": file.key.id(),
        "public_key": file.key.to_pem(),
        "retired_at": file.retired_at,
    })
}

fn show(project: &Project, keys: &KeyStore, output: &Output) -> Done {
    let missing = || KeyError::Missing { path: project.folder.join(FOLDER) };
    let current = keys.current()?.ok_or_else(missing)?;
    if output.json {
        output.value(&describe(project, &current))?;
    } else {
        output.bytes(current.to_text().as_bytes());
    }
    Ok(0)
}

fn list(project: &Project, keys: &KeyStore, output: &Output) -> Done {
    let all = keys.all()?;
    if output.json {
        let values: Vec<Value> = all.iter().map(|file| describe(project, file)).collect();
        output.value(&values)?;
        return Ok(0);
    }
    if all.is_empty() {
        output.line("no keys: nothing was signed yet");
        return Ok(0);
    }
    let rows: Vec<_> = all
        .iter()
        .map(|file| {
            let (state, ink) = match file.retired_at {
                Some(at) => (format!("retired {at}"), Ink::Faint),
                None => ("signs".to_owned(), Ink::Good),
            };
            let made = (file.created_at.to_string(), Some(Ink::Faint));
            vec![(file.key.id().to_string(), None), made, (state, Some(ink))]
        })
        .collect();
    output.table(&["KEY", "MADE", "STATE"], &rows);
    Ok(0)
}

fn rotate(project: &Project, keys: &KeyStore, output: &Output) -> Done {
    let rotated = keys.rotate(SystemClock.now())?;
    if output.json {
        let (old, new) = (describe(project, &rotated.old), describe(project, &rotated.new));
        output.value(&json!({ "new": new, "old": old, "rotated_at": rotated.statement.ts() }))?;
        return Ok(0);
    }
    let (old, new) = (rotated.old.key.id(), rotated.new.key.id());
    output.line(&format!("{new} signs from now on; {old} is retired and can sign no more"));
    let path = path_of(project, &rotated.new.key);
    output.note(&format!("give away the new public key: `{}`", path.display()));
    Ok(0)
}
