//! The people who decide, and their keys: one list for all projects of an account.
//!
//! A person is never removed from the list, only revoked, so that old decisions can be attributed.

mod agent;

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef, SecretDocument};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use windlass_kernel::{
    PublicKey, Signature, Signed, Signer, Statement, Timestamp, is_same_name, normalise_name,
};
use zeroize::Zeroizing;

pub use agent::SshPublicKey;

use crate::error::PeopleError;
use crate::keys::random_signer;
use crate::{document, file};

const LIST: &str = "people.json";
const LOCK: &str = ".lock";
const LIST_BYTES_MAX: usize = 1 << 20;
const KEY_BYTES_MAX: u64 = 16 << 10;
/// The most people of one account.
const PEOPLE_MAX: usize = 1000;
/// The name of an encrypted key in PEM.
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const PLAIN: &str = "PRIVATE KEY";

/// How a person's key is kept from other processes of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// It is not: every process of the account can sign.
    None,
    /// It is encrypted with a passphrase.
    Passphrase,
    /// An SSH agent has it, perhaps on hardware.
    Agent,
}

impl Protection {
    /// The name in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Passphrase => "passphrase",
            Self::Agent => "agent",
        }
    }
}

/// A person who can decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// When the person was added.
    pub added_at: Timestamp,
    /// The application of a hardware key.
    pub application: Option<String>,
    /// The public key.
    pub key: PublicKey,
    /// The name.
    pub name: String,
    /// How the key is protected.
    pub protection: Protection,
    /// When the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// The list of people.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// A random name of the account.
    account: String,
    people: Vec<Person>,
}

/// The key of a new person.
#[derive(Debug)]
pub enum NewKey {
    /// A key that every process of the account can use.
    Unprotected,
    /// A key that is encrypted with this passphrase.
    Passphrase(Zeroizing<String>),
    /// A key that an SSH agent has.
    Agent(SshPublicKey),
}

/// What it takes to use a protected key.
pub trait Unlock {
    /// The passphrase of a person's key.
    ///
    /// # Errors
    /// A message if it cannot be had.
    fn passphrase(&self, name: &str) -> Result<Zeroizing<String>, String>;

    /// The socket of the SSH agent.
    ///
    /// # Errors
    /// A message if there is none.
    fn agent_socket(&self) -> Result<PathBuf, String>;
}

/// The people of an account.
#[derive(Debug)]
pub struct PeopleStore {
    folder: PathBuf,
}

impl PeopleStore {
    /// Opens the folder of the people. It is created with the first person.
    ///
    /// # Errors
    /// [`PeopleError`] if it is not a folder of the user alone.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, PeopleError> {
        let folder = folder.into();
        match folder.symlink_metadata() {
            Ok(meta) if !meta.is_dir() || meta.permissions().mode() & 0o022 != 0 => Err(
                PeopleError::invalid(&folder, "it is not a folder that only its user may change"),
            ),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PeopleError::file(&folder, &error))
            }
            Ok(_) | Err(_) => Ok(Self { folder }),
        }
    }

    /// All people, revoked ones included, in the order in which they were added.
    ///
    /// # Errors
    /// [`PeopleError`] if the list cannot be read.
    pub fn all(&self) -> Result<Vec<Person>, PeopleError> {
        Ok(self.load()?.map(|list| list.people).unwrap_or_default())
    }

    /// Adds a person.
    ///
    /// # Errors
    /// [`PeopleError::Exists`] if there is one of this name; [`PeopleError`] if the files cannot be written.
    pub fn add(&self, name: &str, key: NewKey, now: Timestamp) -> Result<Person, PeopleError> {
        windlass_kernel::check_name(name).map_err(PeopleError::Name)?;
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let _lock = self.lock()?;
        let mut list = match self.load()? {
            Some(list) => list,
            None => List { account: random_name(&self.folder)?, people: Vec::new() },
        };
        let is_there = |one: &&Person| is_same_name(&one.name, &name) && one.revoked_at.is_none();
        if let Some(one) = list.people.iter().find(is_there) {
            return Err(PeopleError::Exists { name: one.name.clone() });
        }
        if list.people.len() >= PEOPLE_MAX {
            return Err(PeopleError::invalid(
                &self.path(LIST),
                "it has the maximum number of people",
            ));
        }
        let (key, protection, application) = match key {
            NewKey::Unprotected => (self.new_key(None)?, Protection::None, None),
            NewKey::Passphrase(passphrase) => {
                (self.new_key(Some(&passphrase))?, Protection::Passphrase, None)
            }
            NewKey::Agent(key) => (key.key, Protection::Agent, key.application),
        };
        if list.people.iter().any(|one| one.key == key) {
            return Err(PeopleError::KeyTaken);
        }
        let person = Person { added_at: now, application, key, name, protection, revoked_at: None };
        list.people.push(person.clone());
        self.save(&list)?;
        Ok(person)
    }

    /// Revokes a person's key and destroys it: it signs nothing any more.
    ///
    /// # Errors
    /// [`PeopleError::Unknown`] if there is no such person; [`PeopleError`] if the list cannot be written.
    pub fn revoke(&self, name: &str, now: Timestamp) -> Result<Person, PeopleError> {
        let _lock = self.lock()?;
        let unknown = || PeopleError::Unknown { name: name.to_owned(), revoked_at: None };
        let mut list = self.load()?.ok_or_else(unknown)?;
        let is_there =
            |one: &&mut Person| is_same_name(&one.name, name) && one.revoked_at.is_none();
        let person = list.people.iter_mut().find(is_there).ok_or_else(unknown)?;
        person.revoked_at = Some(now);
        let person = person.clone();
        self.save(&list)?;
        let path = self.key_path(&person.key);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PeopleError::file(&path, &error))
            }
            Ok(()) | Err(_) => Ok(person),
        }
    }

    /// The person with this name whose key was not revoked.
    ///
    /// # Errors
    /// [`PeopleError::Unknown`] if there is none.
    pub fn find(&self, name: &str) -> Result<Person, PeopleError> {
        Ok(self.find_in_list(name)?.0)
    }

    fn find_in_list(&self, name: &str) -> Result<(Person, String), PeopleError> {
        let list = self.load()?.unwrap_or(List { account: String::new(), people: Vec::new() });
        let mut named: Vec<Person> =
            list.people.into_iter().filter(|one| is_same_name(&one.name, name)).collect();
        match named.pop() {
            Some(person) if person.revoked_at.is_none() => Ok((person, list.account)),
            last => {
                let revoked_at = last.and_then(|person| person.revoked_at);
                Err(PeopleError::Unknown { name: name.to_owned(), revoked_at })
            }
        }
    }

    /// Signs a statement as a person.
    ///
    /// # Errors
    /// [`PeopleError`] if there is no such person, or the key cannot be used.
    pub fn sign(
        &self,
        name: &str,
        statement: &Statement<'_>,
        unlock: &dyn Unlock,
    ) -> Result<Signed, PeopleError> {
        let (person, account) = self.find_in_list(name)?;
        // Every process of the account could have signed with an unprotected key.
        let approver = match person.protection {
            Protection::None => format!("account {account}"),
            Protection::Passphrase | Protection::Agent => {
                format!("person {}", normalise_name(&person.name))
            }
        };
        let bytes = statement.to_bytes(&person.name, &approver);
        let locked = |reason| PeopleError::Locked { name: person.name.clone(), reason };
        let (signature, security_key): (Signature, _) = match person.protection {
            Protection::None => (self.signer(&person, None)?.sign(&bytes), None),
            Protection::Passphrase => {
                let passphrase = unlock.passphrase(&person.name).map_err(locked)?;
                (self.signer(&person, Some(&passphrase))?.sign(&bytes), None)
            }
            Protection::Agent => {
                let socket = unlock.agent_socket().map_err(locked)?;
                let key = SshPublicKey { key: person.key, application: person.application.clone() };
                agent::sign(&socket, &key, &bytes).map_err(locked)?
            }
        };
        let signed = Signed {
            approver,
            key: person.key,
            name: person.name.clone(),
            security_key,
            signature,
        };
        if signed.verifies(statement) {
            return Ok(signed);
        }
        Err(locked("the key made a signature that is not valid".to_owned()))
    }

    /// Makes a key and stores it.
    fn new_key(&self, passphrase: Option<&str>) -> Result<PublicKey, PeopleError> {
        let signer = random_signer().map_err(|error| PeopleError::file(&self.folder, &error))?;
        let path = self.key_path(&signer.public());
        let pem = match passphrase {
            None => signer.to_pem(),
            Some(passphrase) => encrypt(&signer, passphrase)
                .ok_or_else(|| PeopleError::invalid(&path, "the key could not be encrypted"))?,
        };
        file::write(&path, pem.as_bytes(), 0o600)
            .map_err(|error| PeopleError::file(&path, &error))?;
        Ok(signer.public())
    }

    /// The private key of a person.
    fn signer(&self, person: &Person, passphrase: Option<&str>) -> Result<Signer, PeopleError> {
        let path = self.key_path(&person.key);
        let opened = file::open(&path, OFlags::RDONLY);
        let opened = opened.map_err(|error| PeopleError::file(&path, &error))?;
        let Some(opened) = opened else {
            return Err(PeopleError::invalid(&path, "the private key is missing"));
        };
        let meta = opened.metadata().map_err(|error| PeopleError::file(&path, &error))?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(PeopleError::invalid(&path, "other users may read or change it"));
        }
        let text = file::read_text(&opened, KEY_BYTES_MAX)
            .map(Zeroizing::new)
            .map_err(|error| PeopleError::file(&path, &error))?;
        let signer = match passphrase {
            None => Signer::from_pem(&text).map_err(|what| PeopleError::invalid(&path, what))?,
            Some(passphrase) => decrypt(&text, passphrase).ok_or_else(|| {
                let reason = "the passphrase is wrong".to_owned();
                PeopleError::Locked { name: person.name.clone(), reason }
            })?,
        };
        if signer.public() == person.key {
            return Ok(signer);
        }
        Err(PeopleError::invalid(&path, "it is another key"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn key_path(&self, key: &PublicKey) -> PathBuf {
        self.path(&format!("{}.pem", key.id()))
    }

    fn load(&self) -> Result<Option<List>, PeopleError> {
        let path = self.path(LIST);
        let opened = file::open(&path, OFlags::RDONLY);
        let opened = opened.map_err(|error| PeopleError::file(&path, &error))?;
        let Some(opened) = opened else { return Ok(None) };
        let bytes_max = u64::try_from(LIST_BYTES_MAX).unwrap_or_default();
        let text = file::read_text(&opened, bytes_max)
            .map_err(|error| PeopleError::file(&path, &error))?;
        document::read(text.as_bytes(), LIST_BYTES_MAX)
            .map(Some)
            .map_err(|reason| PeopleError::invalid(&path, reason))
    }

    fn save(&self, list: &List) -> Result<(), PeopleError> {
        let path = self.path(LIST);
        let bytes = document::write(list).map_err(|reason| PeopleError::invalid(&path, reason))?;
        file::write(&path, &bytes, 0o600).map_err(|error| PeopleError::file(&path, &error))
    }

    /// Locks the list; creates its folder if it is missing.
    fn lock(&self) -> Result<File, PeopleError> {
        let lock = || -> io::Result<File> {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let file = File::from(rustix::fs::open(self.path(LOCK), flags, mode)?);
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|error| PeopleError::file(&self.folder, &error))
    }
}

fn random_name(folder: &Path) -> Result<String, PeopleError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| PeopleError::file(folder, &io::Error::other(error.to_string())))?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

fn encrypt(signer: &Signer, passphrase: &str) -> Option<Zeroizing<String>> {
    let (_, plain) = SecretDocument::from_pem(&signer.to_pem()).ok()?;
    let plain = PrivateKeyInfoRef::try_from(plain.as_bytes()).ok()?;
    let encrypted = plain.encrypt(passphrase).ok()?;
    encrypted.to_pem(ENCRYPTED, LineEnding::LF).ok()
}

fn decrypt(pem: &str, passphrase: &str) -> Option<Signer> {
    let (label, encrypted) = SecretDocument::from_pem(pem).ok()?;
    if label != ENCRYPTED {
        return None;
    }
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes()).ok()?;
    let plain = encrypted.decrypt(passphrase).ok()?;
    Signer::from_pem(&plain.to_pem(PLAIN, LineEnding::LF).ok()?).ok()
}
