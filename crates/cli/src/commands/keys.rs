//! `windlass keys`: the keys that sign bundles and anchors, and the trusted public keys.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_seal::{KeyError, KeyFile, KeyStore, PublicKey, Signer, Trust};

use crate::args::Keys as Command;
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, Style};
use crate::project::Project;

/// The key folder in the state folder.
const FOLDER: &str = "keys";
/// The maximum size of a public key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Runs a subcommand of `keys`.
pub fn run(project: &Project, command: Command, output: &Output) -> CommandResult {
    let keys = open(project)?;
    match command {
        Command::Show => show(&keys, output),
        Command::List => list(&keys, output),
        Command::Rotate => rotate(&keys, output),
    }
}

/// Opens the project's keys.
pub fn open(project: &Project) -> Result<KeyStore, Failure> {
    Ok(KeyStore::open(project.state()?.join(FOLDER))?)
}

/// The path of a public key.
fn path_of(keys: &KeyStore, key: &PublicKey) -> PathBuf {
    keys.folder().join(format!("{}.pub", key.id()))
}

/// The signing key, generated if there is none, and the path of its public key.
pub fn signer(keys: &KeyStore, output: &Output) -> Result<(Signer, PathBuf), Failure> {
    let fresh = keys.current()?.is_none();
    let signer = keys.signer_or_generate(SystemClock.now())?;
    let path = path_of(keys, &signer.public());
    if fresh && !output.json {
        let shown = path.display();
        output.note(&format!("a signing key was created; publish its public key: `{shown}`"));
    }
    Ok((signer, path))
}

/// The trusted keys: the given ones, or else the project's.
pub fn trust(project: Option<&Project>, given: &[PathBuf]) -> Result<Trust, Failure> {
    if given.is_empty() {
        return match project {
            Some(project) => match open(project) {
                Ok(keys) => Ok(keys.trust()?),
                // A fresh clone has no keys yet.
                Err(failure) if failure.code() == Code::ProjectMissing => Ok(Trust::default()),
                Err(failure) => Err(failure),
            },
            None => Ok(Trust::default()),
        };
    }
    let keys: Result<Vec<PublicKey>, Failure> = given.iter().map(|path| read(path)).collect();
    // Rotation statements are signed, and only extend trust from trusted keys; without them fewer keys
    // are trusted.
    let rotations = project.and_then(|project| open(project).ok()?.rotations().ok());
    Ok(Trust::new(keys?).with_rotations(rotations.unwrap_or_default()))
}

/// Reads a public key file named on the command line.
fn read(path: &Path) -> Result<PublicKey, Failure> {
    let bytes = input::read(path, KEY_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8 text");
    text.and_then(PublicKey::from_pem).map_err(|what| {
        let message = format!("`{}` is not a public key: {what}", path.display());
        Failure::new(Code::KeyInvalid, message)
            .hint("use the output of `windlass keys show` from the project that signed the file")
    })
}

fn describe(keys: &KeyStore, file: &KeyFile) -> Value {
    json!({
        "created_at": file.created_at,
        "file": path_of(keys, &file.key),
        "key_id": file.key.id(),
        "public_key": file.key.to_pem(),
        "retired_at": file.retired_at,
    })
}

fn show(keys: &KeyStore, output: &Output) -> CommandResult {
    let missing = || KeyError::Missing { path: keys.folder().to_owned() };
    let current = keys.current()?.ok_or_else(missing)?;
    if output.json {
        output.value(&describe(keys, &current))?;
    } else {
        output.bytes(current.to_text().as_bytes());
    }
    Ok(0)
}

fn list(keys: &KeyStore, output: &Output) -> CommandResult {
    let all = keys.all()?;
    if output.json {
        let values: Vec<Value> = all.iter().map(|file| describe(keys, file)).collect();
        output.value(&values)?;
        return Ok(0);
    }
    if all.is_empty() {
        output.line("no keys: nothing has been signed yet");
        return Ok(0);
    }
    let rows: Vec<_> = all
        .iter()
        .map(|file| {
            let (state, style) = match file.retired_at {
                Some(at) => (format!("retired {at}"), Style::Faint),
                None => ("current".to_owned(), Style::Good),
            };
            let made = (file.created_at.to_string(), Some(Style::Faint));
            vec![(file.key.id().to_string(), None), made, (state, Some(style))]
        })
        .collect();
    output.table(&["KEY", "CREATED", "STATE"], &rows);
    Ok(0)
}

fn rotate(keys: &KeyStore, output: &Output) -> CommandResult {
    let rotated = keys.rotate(SystemClock.now())?;
    if output.json {
        let (old, new) = (describe(keys, &rotated.old), describe(keys, &rotated.new));
        output.value(&json!({ "new": new, "old": old, "rotated_at": rotated.statement.ts() }))?;
        return Ok(0);
    }
    let (old, new) = (rotated.old.key.id(), rotated.new.key.id());
    output.line(&format!(
        "{new} is the new signing key; {old} is retired, its private key destroyed"
    ));
    let path = path_of(keys, &rotated.new.key);
    output.note(&format!("publish the new public key: `{}`", path.display()));
    Ok(0)
}
