//! `windlass people`: who may decide.

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_seal::{NewKey, Person, Protection, SshPublicKey};

use crate::args::{AddPerson, People};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, Style, sanitize};
use crate::people::{AccountPeople, ask, read_passphrase};
use crate::secrets::shown;

/// The maximum size of a file with a public key of SSH.
const KEY_BYTES_MAX: u64 = 16 << 10;

/// Runs a subcommand of `people`.
pub fn run(command: &People, output: &Output) -> CommandResult {
    let people = AccountPeople::open()?;
    match command {
        People::List => list(&people, output),
        People::Add(options) => add(&people, options, output),
        People::Revoke { name } => {
            let person = people.store().revoke(name, SystemClock.now())?;
            if output.json {
                output.value(&describe(&person))?;
            } else {
                let (name, key) = (sanitize(&person.name), person.key.id());
                output.line(&format!("revoked the key {key} of {name}; past decisions stay valid"));
            }
            Ok(0)
        }
    }
}

fn describe(person: &Person) -> Value {
    json!({
        "added_at": person.added_at,
        "key_id": person.key.id(),
        "name": person.name,
        "protection": person.protection,
        "public_key": person.key,
        "revoked_at": person.revoked_at,
    })
}

fn list(people: &AccountPeople, output: &Output) -> CommandResult {
    let all = people.store().all()?;
    if output.json {
        output.value(&all.iter().map(describe).collect::<Vec<_>>())?;
        return Ok(0);
    }
    if all.is_empty() {
        output.line("nobody yet; add yourself with `windlass people add NAME`");
        return Ok(0);
    }
    let row = |person: &Person| {
        let (state, style) = match (person.revoked_at, person.protection) {
            (Some(at), _) => (format!("revoked {at}"), Style::Faint),
            (None, Protection::None) => {
                ("not protected: counts for the account".to_owned(), Style::Warn)
            }
            (None, Protection::Passphrase) => ("passphrase".to_owned(), Style::Good),
            (None, Protection::Agent) if person.application.is_some() => {
                ("hardware key, by an SSH agent".to_owned(), Style::Good)
            }
            (None, Protection::Agent) => ("SSH agent".to_owned(), Style::Good),
        };
        vec![
            (sanitize(&person.name), None),
            (person.key.id().to_string(), Some(Style::Faint)),
            (person.added_at.to_string(), Some(Style::Faint)),
            (state, Some(style)),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    output.table(&["NAME", "KEY", "ADDED", "PROTECTION"], &rows);
    Ok(0)
}

fn add(people: &AccountPeople, options: &AddPerson, output: &Output) -> CommandResult {
    let locked = |reason: String| Failure::new(Code::PersonLocked, reason);
    let key = if let Some(path) = &options.ssh_key {
        let bytes = input::read(path, KEY_BYTES_MAX)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8 text");
        let key = text.and_then(SshPublicKey::parse).map_err(|what| {
            let message = format!("`{}` is not usable: {what}", path.display());
            Failure::new(Code::KeyInvalid, message)
        })?;
        NewKey::Agent(key)
    } else if let Some(path) = &options.passphrase_file {
        NewKey::Passphrase(read_passphrase(path).map_err(locked)?)
    } else if options.passphrase {
        let one = ask("new passphrase: ").map_err(locked)?;
        let other = ask("again: ").map_err(locked)?;
        if one != other {
            return Err(Failure::new(Code::RequestInvalid, "the passphrases differ"));
        }
        NewKey::Passphrase(one)
    } else {
        NewKey::Unprotected
    };
    // The list of people is stored and shown as it is.
    if shown(&options.name) != options.name {
        return Err(Failure::new(Code::RequestInvalid, "the name looks like a secret"));
    }
    let person = people.store().add(&options.name, key, SystemClock.now())?;
    if output.json {
        output.value(&describe(&person))?;
        return Ok(0);
    }
    let name = sanitize(&person.name);
    output.line(&format!("{name} can decide now, with the key {}", person.key.id()));
    if person.protection == Protection::None {
        output.note(
            "the key is not protected: every process of this account can use it, and all such keys count \
             as one approver; `--passphrase` or `--ssh-key` protects it",
        );
    }
    Ok(0)
}
