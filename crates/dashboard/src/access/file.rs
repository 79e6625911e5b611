//! The file of people, logins and links. Whoever changes it holds its lock, so that a link is used once.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::{Code, Digest, Timestamp, check_name, is_same_name};

use super::secret::{digest_of, is_same};
use super::{Person, Role, Scope, Secret, Visitor};

/// The files, in their folder.
const ACCESS: &str = "access.json";
const LOCK: &str = "access.lock";
/// How much of the digest of the folder is in the names of cookies.
const MARK_CHARS: usize = 8;
/// The largest file that is read.
const BYTES_MAX: u64 = 4 << 20;
/// The most people, logins and links. The oldest logins and links give way.
const PEOPLE_MAX: usize = 1000;
const LOGINS_MAX: usize = 1000;
const LINKS_MAX: usize = 1000;
/// How long a login by cookie lasts.
const LOGIN_MS: i64 = 14 * 86_400_000;
/// The version of the file.
const FORMAT: u32 = 1;

/// Why access cannot be read or changed.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The file or its folder cannot be used.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file does not say what it should.
    #[error("`{}` cannot be understood: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A name that nobody can have.
    #[error("`{name}` is no name: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// There is already somebody of this name.
    #[error(
        "there is already somebody called `{name}`; to give them another role, remove them and add them again"
    )]
    Exists {
        /// The name.
        name: String,
    },
    /// There is nobody of this name.
    #[error("nobody here is called `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// There are too many people.
    #[error("there are already {PEOPLE_MAX} people")]
    Full,
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
}

impl AccessError {
    /// The public code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::File { action: "write" | "create" | "lock", .. } => Code::FileUnwritable,
            Self::File { .. } | Self::Content { .. } => Code::FileUnreadable,
            Self::Name { .. } | Self::Exists { .. } | Self::Full => Code::RequestInvalid,
            Self::Unknown { .. } => Code::PersonUnknown,
            Self::Random(_) => Code::Internal,
        }
    }
}

/// What a link was exchanged for.
#[derive(Debug)]
pub struct Entered {
    /// The value of the cookie, which replaces that of its name.
    pub cookie: Secret,
    /// What the link is for.
    pub scope: Scope,
    /// When the last thing ends that the cookie is for.
    pub until: Timestamp,
}

/// Who may use the dashboards of an account.
#[derive(Clone, Debug)]
pub struct Access {
    folder: PathBuf,
    /// A part of the names of its cookies: browsers send them to all servers of a machine, whatever their ports.
    mark: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    people: Vec<Person>,
    logins: Vec<Login>,
    links: Vec<Link>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    name: String,
    secret: Digest,
    scope: Scope,
    expires_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    name: String,
    secret: Digest,
    scope: Scope,
    expires_at: Timestamp,
}

impl Access {
    /// The people of a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// [`AccessError`] if it cannot be made or read.
    pub fn open(folder: &Path) -> Result<Self, AccessError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| failed("create", folder, source))?;
        let digest = Digest::of(folder.as_os_str().as_encoded_bytes()).hex();
        let mark = digest.as_str().chars().take(MARK_CHARS).collect();
        let access = Self { folder: folder.to_owned(), mark };
        access.read()?;
        Ok(access)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What its cookies have in their names.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// What differs after each change of the file.
    pub(crate) fn stamp(&self) -> Option<(u64, i64, i64)> {
        let found = std::fs::metadata(self.folder.join(ACCESS)).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec()))
    }

    /// The people, by name.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn people(&self) -> Result<Vec<Person>, AccessError> {
        Ok(self.read()?.people)
    }

    /// Adds somebody and returns the token, which is shown once.
    ///
    /// # Errors
    /// [`AccessError`] if the name is taken or no name.
    pub fn add(&self, name: &str, role: Role, now: Timestamp) -> Result<Secret, AccessError> {
        check_name(name).map_err(|reason| AccessError::Name { name: name.to_owned(), reason })?;
        let token = Secret::new().map_err(AccessError::Random)?;
        self.change(|content| {
            if content.people.iter().any(|person| is_same_name(&person.name, name)) {
                return Err(AccessError::Exists { name: name.to_owned() });
            }
            if content.people.len() >= PEOPLE_MAX {
                return Err(AccessError::Full);
            }
            let (name, token) = (name.to_owned(), token.digest());
            content.people.push(Person { name, role, token, created_at: now });
            content.people.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(())
        })?;
        Ok(token)
    }

    /// Removes somebody: tokens, logins and links end at once.
    ///
    /// # Errors
    /// [`AccessError::Unknown`], or if the file cannot be changed.
    pub fn remove(&self, name: &str) -> Result<(), AccessError> {
        self.change(|content| {
            let before = content.people.len();
            content.people.retain(|person| !is_same_name(&person.name, name));
            content.logins.retain(|login| !is_same_name(&login.name, name));
            content.links.retain(|link| !is_same_name(&link.name, name));
            match content.people.len() < before {
                true => Ok(()),
                false => Err(AccessError::Unknown { name: name.to_owned() }),
            }
        })
    }

    /// Makes a link for somebody, which can be used once until it expires.
    ///
    /// # Errors
    /// [`AccessError::Unknown`], or if the file cannot be changed.
    pub fn link(
        &self,
        name: &str,
        scope: Scope,
        now: Timestamp,
        valid_ms: i64,
    ) -> Result<Secret, AccessError> {
        let secret = Secret::new().map_err(AccessError::Random)?;
        self.change(|content| {
            content.person(name)?;
            content.links.retain(|link| link.expires_at > now);
            let over = (content.links.len() + 1).saturating_sub(LINKS_MAX);
            content.links.drain(..over);
            let expires_at = later(now, valid_ms);
            let (name, digest) = (name.to_owned(), secret.digest());
            content.links.push(Link { name, secret: digest, scope, expires_at });
            Ok(())
        })?;
        Ok(secret)
    }

    /// Whether a link could be used now.
    ///
    /// # Errors
    /// [`AccessError`] if the file cannot be read.
    pub fn is_usable(&self, link: &str, now: Timestamp) -> Result<bool, AccessError> {
        let shown = digest_of(link);
        let content = self.read()?;
        Ok(content.links.iter().any(|link| link.expires_at > now && is_same(&link.secret, &shown)))
    }

    /// Uses a link up and exchanges it for a cookie. `None` if there is no such link.
    ///
    /// A browser has one cookie for all holds to which links have led it: what those are for that it sends goes over to
    /// the new one, whose value nobody else can know. A new login takes the place of the one that it sends.
    ///
    /// # Errors
    /// [`AccessError`] if the file cannot be changed.
    pub fn enter(
        &self,
        link: &str,
        cookies: &[&str],
        now: Timestamp,
    ) -> Result<Option<Entered>, AccessError> {
        let (shown, sent) = (digest_of(link), cookies.iter().map(|cookie| digest_of(cookie)));
        let sent: Vec<Digest> = sent.collect();
        // Whoever guesses does not make the file be written.
        if !self.is_usable(link, now)? {
            return Ok(None);
        }
        let cookie = Secret::new().map_err(AccessError::Random)?;
        let mut entered = None;
        self.change(|content| {
            content.links.retain(|link| link.expires_at > now);
            content.logins.retain(|login| login.expires_at > now);
            let at = content.links.iter().position(|link| is_same(&link.secret, &shown));
            let Some(Link { name, scope, expires_at, .. }) = at.map(|at| content.links.remove(at))
            else {
                return Ok(());
            };
            let secret = cookie.digest();
            let is_sent = |login: &Login| sent.iter().any(|one| is_same(one, &login.secret));
            content.logins.retain(|login| !(is_sent(login) && login.scope.is_replaced_by(&scope)));
            let over = (content.logins.len() + 1).saturating_sub(LOGINS_MAX);
            content.logins.drain(..over);
            let mut until = match &scope {
                Scope::All => later(now, LOGIN_MS),
                Scope::Hold { .. } => expires_at,
            };
            let login = Login { name, secret, scope: scope.clone(), expires_at: until };
            for login in content.logins.iter_mut().filter(|login| is_sent(login)) {
                if matches!((&login.scope, &scope), (Scope::Hold { .. }, Scope::Hold { .. })) {
                    login.secret = secret;
                    until = until.max(login.expires_at);
                }
            }
            content.logins.push(login);
            entered = Some((scope, until));
            Ok(())
        })?;
        Ok(entered.map(|(scope, until)| Entered { cookie, scope, until }))
    }

    /// Ends a login.
    ///
    /// # Errors
    /// [`AccessError`] if the file cannot be changed.
    pub fn leave(&self, cookie: &str) -> Result<(), AccessError> {
        let shown = digest_of(cookie);
        self.change(|content| {
            content.logins.retain(|login| !is_same(&login.secret, &shown));
            Ok(())
        })
    }

    /// Whose token this is.
    pub(super) fn by_token(&self, token: &str) -> Result<Option<Visitor>, AccessError> {
        let shown = digest_of(token);
        let people = self.read()?.people;
        let found = people.into_iter().find(|person| is_same(&person.token, &shown));
        Ok(found.map(|person| Visitor { name: person.name, role: person.role, scope: Scope::All }))
    }

    /// Whose cookies these are; nobody's are left out.
    pub(super) fn by_cookies(
        &self,
        cookies: &[&str],
        now: Timestamp,
    ) -> Result<Vec<Visitor>, AccessError> {
        let content = self.read()?;
        let shown: Vec<Digest> = cookies.iter().map(|cookie| digest_of(cookie)).collect();
        let is_shown = |login: &&Login| shown.iter().any(|one| is_same(&login.secret, one));
        let visitor = |login: &Login| {
            let person = content.person(&login.name).ok()?;
            let (name, role) = (person.name.clone(), person.role);
            Some(Visitor { name, role, scope: login.scope.clone() })
        };
        let valid = content.logins.iter().filter(|login| login.expires_at > now);
        Ok(valid.filter(is_shown).filter_map(visitor).collect())
    }

    fn read(&self) -> Result<Content, AccessError> {
        let path = self.folder.join(ACCESS);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Content { format: FORMAT, ..Content::default() });
            }
            Err(error) => return Err(failed("open", &path, error)),
        };
        let mut bytes = Vec::new();
        let read = file.take(BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| failed("read", &path, error))?;
        let content: Content = serde_json::from_slice(&bytes).map_err(|error| {
            AccessError::Content { path: path.clone(), reason: error.to_string() }
        })?;
        if content.format != FORMAT {
            let reason = format!("its format is {}, not {FORMAT}", content.format);
            return Err(AccessError::Content { path, reason });
        }
        Ok(content)
    }

    /// Changes the content under the lock: all of the change is written, or nothing.
    fn change(
        &self,
        change: impl FnOnce(&mut Content) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        let lock_path = self.folder.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|error| failed("lock", &lock_path, error))?;
        lock.lock().map_err(|error| failed("lock", &lock_path, error))?;
        let mut content = self.read()?;
        change(&mut content)?;
        let path = self.folder.join(ACCESS);
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".access-").tempfile_in(&self.folder)?;
            serde_json::to_writer_pretty(&mut file, &content)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| failed("write", &path, error))
    }
}

impl Content {
    fn person(&self, name: &str) -> Result<&Person, AccessError> {
        let found = self.people.iter().find(|person| is_same_name(&person.name, name));
        found.ok_or_else(|| AccessError::Unknown { name: name.to_owned() })
    }
}

/// A time later by some milliseconds; the same time if there is none so late.
fn later(now: Timestamp, ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms)).unwrap_or(now)
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> AccessError {
    AccessError::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
