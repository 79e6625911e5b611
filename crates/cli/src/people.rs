//! The people of this account: who may decide, and how their keys are used.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use windlass_dashboard::{Key, Keys};
use windlass_kernel::run::plan::{Doer, Plan, Reviewer};
use windlass_kernel::{Code, Signed, Statement, is_same_name};
use windlass_runtime::{People, PersonError};
use windlass_seal::{PeopleError, PeopleStore, Person, Protection, Unlock};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::state::StateRoot;

/// The folder of the people in the folder of all states.
const FOLDER: &str = ".people";
/// The longest passphrase.
const PASSPHRASE_BYTES_MAX: u64 = 1024;

/// The phases whose quorum people with these keys cannot reach, in words: unprotected keys of an account approve as one.
pub fn unreachable_quorums(plan: &Plan, people: &[Person]) -> Vec<String> {
    let is_unprotected = |name: &str| {
        let mut active = people.iter().filter(|person| person.revoked_at.is_none());
        active
            .any(|person| is_same_name(&person.name, name) && person.protection == Protection::None)
    };
    let mut found = Vec::new();
    for phase in &plan.phases {
        let Doer::Consensus { quorum, reviewers, .. } = &phase.doer else { continue };
        let as_one: Vec<&str> = reviewers
            .iter()
            .filter(|one| matches!(one, Reviewer::Person { .. }))
            .map(Reviewer::name)
            .filter(|name| is_unprotected(name))
            .collect();
        let reached = reviewers.len() - as_one.len().saturating_sub(1);
        if reached < usize::try_from(*quorum).unwrap_or(usize::MAX) {
            found.push(format!(
                "phase `{}` needs {quorum} approvals and can have {reached} at most: {} have keys without protection, \
                 which count as one approver; `windlass people add NAME --passphrase` adds a key that counts by itself",
                phase.id,
                as_one.join(", ")
            ));
        }
    }
    found
}

/// The people of this account.
#[derive(Debug)]
pub struct AccountPeople {
    store: PeopleStore,
    passphrase_file: Mutex<Option<PathBuf>>,
}

impl AccountPeople {
    /// Opens the list of people.
    pub fn open() -> Result<Self, Failure> {
        // The folder does not exist there; whoever runs in a cell has nothing to decide.
        if let Some(inside) = windlass_cell::inside_a_cell() {
            return Err(
                Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
            );
        }
        let store = PeopleStore::open(StateRoot::find()?.path().join(FOLDER))?;
        Ok(Self { store, passphrase_file: Mutex::new(None) })
    }

    /// The list itself.
    pub const fn store(&self) -> &PeopleStore {
        &self.store
    }

    /// Reads passphrases from a file instead of asking for them.
    pub fn use_passphrase_file(&self, path: Option<&Path>) {
        let mut file = self.passphrase_file.lock().unwrap_or_else(PoisonError::into_inner);
        *file = path.map(Path::to_owned);
    }

    /// The name of the person who decides: the given one, or the user's own.
    pub fn decider(&self, named: Option<&str>) -> Result<String, Failure> {
        if let Some(name) = named {
            return Ok(name.to_owned());
        }
        let people = self.store.all()?;
        let active: Vec<&Person> =
            people.iter().filter(|person| person.revoked_at.is_none()).collect();
        let user = user_name();
        let own = active.iter().find(|person| is_same_name(&person.name, &user));
        match (own, active.as_slice()) {
            (Some(person), _) | (None, [person]) => Ok(person.name.clone()),
            (None, []) => Err(Failure::new(Code::PersonUnknown, "nobody here can decide yet")),
            (None, _) => Err(Failure::new(Code::RequestInvalid, "say who decides")
                .hint("add `--by NAME`; `windlass people list` lists the names")),
        }
    }

    /// Fails unless there is an active person of this name.
    pub fn require_known(&self, name: &str) -> Result<(), Failure> {
        let people = self.store.all()?;
        let is_it =
            |person: &Person| is_same_name(&person.name, name) && person.revoked_at.is_none();
        if people.iter().any(is_it) {
            return Ok(());
        }
        let message = format!("nobody here is called `{}`", crate::output::sanitize(name));
        Err(Failure::new(Code::PersonUnknown, message))
    }

    /// Fails unless the person's key is protected: otherwise every process of the account could sign with it, also one
    /// that an agent started.
    pub fn require_protected(&self, name: &str) -> Result<(), Failure> {
        let people = self.store.all()?;
        let is_open = |person: &Person| {
            is_same_name(&person.name, name)
                && person.protection == Protection::None
                && person.revoked_at.is_none()
        };
        if !people.iter().any(is_open) {
            return Ok(());
        }
        let message = format!(
            "the key of {name} is not protected, and the agent's shell runs without a cell: it could sign this itself"
        );
        Err(Failure::new(Code::PersonLocked, message)
            .hint("decide with a key that has a passphrase: windlass people add NAME --passphrase"))
    }

    /// Adds the user if nobody can decide yet; returns the name.
    pub fn add_user(&self) -> Result<Option<String>, Failure> {
        if !self.store.all()?.is_empty() {
            return Ok(None);
        }
        let now = windlass_runtime::Clock::now(&windlass_runtime::SystemClock);
        match self.store.add(&user_name(), windlass_seal::NewKey::Unprotected, now) {
            Ok(person) => Ok(Some(person.name)),
            // Another process was faster.
            Err(PeopleError::Exists { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Keys for AccountPeople {
    fn key_of(&self, name: &str) -> Key {
        // What cannot be read is told when somebody decides.
        let people = self.store.all().unwrap_or_default();
        let is_it =
            |person: &&Person| is_same_name(&person.name, name) && person.revoked_at.is_none();
        match people.iter().find(is_it).map(|person| person.protection) {
            None => Key::Missing,
            Some(Protection::Passphrase) => Key::Locked,
            Some(Protection::None | Protection::Agent) => Key::Ready,
        }
    }

    fn knows(&self, signed: &Signed) -> bool {
        People::knows(self, signed)
    }
}

/// The name of the user of this account.
pub fn user_name() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let valid = named.filter(|name| windlass_kernel::check_name(name).is_ok());
    valid.unwrap_or_else(|| "owner".to_owned())
}

impl People for AccountPeople {
    fn sign(&self, name: &str, statement: &Statement<'_>) -> Result<Signed, PersonError> {
        let signed = self.store.sign(name, statement, self);
        signed.map_err(|error| PersonError { code: error.code(), message: error.to_string() })
    }

    fn knows(&self, signed: &Signed) -> bool {
        let is_theirs = |person: &Person| {
            person.revoked_at.is_none()
                && person.key == signed.key
                && is_same_name(&person.name, &signed.name)
        };
        self.store.all().is_ok_and(|people| people.iter().any(is_theirs))
    }
}

impl Unlock for AccountPeople {
    fn passphrase(&self, name: &str) -> Result<Zeroizing<String>, String> {
        let file = self.passphrase_file.lock().unwrap_or_else(PoisonError::into_inner);
        match file.as_deref() {
            Some(path) => read_passphrase(path),
            None => ask(&format!("passphrase of {name}: ")),
        }
    }

    fn agent_socket(&self) -> Result<PathBuf, String> {
        let socket = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
        socket.map(PathBuf::from).ok_or_else(|| "SSH_AUTH_SOCK names no SSH agent".to_owned())
    }
}

/// Reads the first line of a file; `-` is standard input.
pub fn read_passphrase(path: &Path) -> Result<Zeroizing<String>, String> {
    let mut text = Zeroizing::new(String::new());
    let read = if path == Path::new("-") {
        std::io::stdin().take(PASSPHRASE_BYTES_MAX).read_to_string(&mut text)
    } else {
        let regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
        if !regular {
            return Err(format!("`{}` is not a file", path.display()));
        }
        File::open(path).and_then(|file| file.take(PASSPHRASE_BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
    let line = Zeroizing::new(text.lines().next().unwrap_or_default().to_owned());
    if line.is_empty() { Err("the passphrase is empty".to_owned()) } else { Ok(line) }
}

/// Asks for a passphrase on the terminal, which does not show it.
pub fn ask(prompt: &str) -> Result<Zeroizing<String>, String> {
    let no_terminal = |_| "there is no terminal to ask on; use --passphrase-file".to_owned();
    let mut terminal =
        File::options().read(true).write(true).open("/dev/tty").map_err(no_terminal)?;
    let before = tcgetattr(&terminal).map_err(|error| no_terminal(error.into()))?;
    let mut hidden: Termios = before.clone();
    // Ctrl-C comes as a character, so that the terminal is never left without its echo.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)
        .map_err(|error| no_terminal(error.into()))?;
    let typed = terminal.write_all(prompt.as_bytes()).map_err(no_terminal).and_then(|()| {
        let mut line = Zeroizing::new(Vec::new());
        let mut byte = [0];
        loop {
            let count = terminal.read(&mut byte).map_err(no_terminal)?;
            match (count, byte[0]) {
                (0, _) | (_, b'\n' | b'\r') => break,
                (_, 3 | 4 | 26 | 28) => return Err("no passphrase was given".to_owned()),
                (_, 8 | 127) => drop(line.pop()),
                (_, typed) => line.push(typed),
            }
            if line.len() > 1024 {
                return Err("the passphrase is too long".to_owned());
            }
        }
        let text = std::str::from_utf8(&line).map_err(|_| "the passphrase is not UTF-8")?;
        Ok(Zeroizing::new(text.to_owned()))
    });
    // If this fails, so would everything else on this terminal.
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &before);
    drop(terminal.write_all(b"\n"));
    match typed {
        Ok(text) if text.is_empty() => Err("the passphrase is empty".to_owned()),
        typed => typed,
    }
}

impl From<PeopleError> for Failure {
    fn from(error: PeopleError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
