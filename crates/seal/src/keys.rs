//! The key folder: one signing key, and the public keys of all present and past signing keys.
//!
//! A rotation takes several steps. Writing its statement commits it: after a crash, a rotation without
//! a statement is undone, and one with a statement is finished.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use windlass_kernel::Timestamp;
use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::key::{KeyFile, KeyId, Signer};
use crate::rotation::Rotation;
use crate::trust::Trust;
use crate::{document, file};

const SIGNING: &str = "signing.pem";
const NEXT: &str = "next.pem";
const ROTATIONS: &str = "rotations.json";
const LOCK: &str = ".lock";
/// Keeps the signing key out of a git repository that contains the folder.
const IGNORE: &str = ".gitignore";
const PUBLIC: &str = "pub";
const KEY_BYTES_MAX: u64 = 4096;
/// The maximum size of the list of rotations.
pub(crate) const ROTATIONS_BYTES_MAX: usize = 1 << 20;
/// The maximum number of rotations.
pub(crate) const ROTATIONS_MAX: usize = 1000;

/// The keys of a project.
#[derive(Debug)]
pub struct KeyStore {
    folder: PathBuf,
}

/// The keys of a completed rotation.
#[derive(Debug)]
pub struct RotatedKeys {
    /// The retired key.
    pub old: KeyFile,
    /// The new signing key.
    pub new: KeyFile,
    /// The statement that both keys signed.
    pub statement: Rotation,
}

impl KeyStore {
    /// The key folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens a key folder. The folder is created only when the first key is.
    ///
    /// # Errors
    /// [`KeyError::Invalid`] if the path is not a folder, or other users may write into it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let folder = folder.into();
        match folder.symlink_metadata() {
            Ok(metadata) if !metadata.is_dir() => {
                Err(KeyError::invalid(&folder, "it is not a folder"))
            }
            Ok(metadata) if metadata.permissions().mode() & 0o022 != 0 => {
                Err(KeyError::invalid(&folder, "other users may write into it"))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(KeyError::unreadable(&folder, error))
            }
            Ok(_) | Err(_) => Ok(Self { folder }),
        }
    }

    /// The public key of the signing key; `None` if there is no signing key.
    ///
    /// # Errors
    /// [`KeyError`] if a key file is not usable.
    pub fn current(&self) -> Result<Option<KeyFile>, KeyError> {
        let Some(signer) = self.load(SIGNING)? else { return Ok(None) };
        let id = signer.public().id();
        let file = self.public(&id)?;
        let reason = format!("its public key `{id}.{PUBLIC}` is missing");
        file.map(Some).ok_or_else(|| KeyError::invalid(&self.path(SIGNING), reason))
    }

    /// The signing key.
    ///
    /// # Errors
    /// [`KeyError::Missing`] if there is none; [`KeyError::Invalid`] if it is not usable, or other users
    /// may read it.
    pub fn signer(&self) -> Result<Signer, KeyError> {
        let missing = || KeyError::Missing { path: self.folder.clone() };
        if !self.folder.is_dir() {
            return Err(missing());
        }
        let _lock = self.lock()?;
        self.finish_rotation()?;
        self.load(SIGNING)?.ok_or_else(missing)
    }

    /// The signing key; generated if there is none.
    ///
    /// # Errors
    /// As [`KeyStore::signer`] and [`KeyStore::generate`].
    pub fn signer_or_generate(&self, now: Timestamp) -> Result<Signer, KeyError> {
        match self.signer() {
            Err(KeyError::Missing { .. }) => match self.generate(now) {
                // Another process generated a key first.
                Err(KeyError::Exists { .. }) => self.signer(),
                generated => generated,
            },
            found => found,
        }
    }

    /// Generates a key where there is none. Earlier keys, whose private part was lost, are retired.
    ///
    /// # Errors
    /// [`KeyError::Exists`] if there is one; [`KeyError`] if it cannot be written.
    pub fn generate(&self, now: Timestamp) -> Result<Signer, KeyError> {
        let _lock = self.lock()?;
        self.finish_rotation()?;
        if self.load(SIGNING)?.is_some() {
            return Err(KeyError::Exists { path: self.folder.clone() });
        }
        let signer = random_signer().map_err(|error| KeyError::unwritable(&self.folder, error))?;
        // Keys whose private part was lost sign nothing any more; what they have signed stays valid.
        for lost in self.all()?.into_iter().filter(|file| file.retired_at.is_none()) {
            self.save_public(&KeyFile { retired_at: Some(now), ..lost })?;
        }
        self.save_public(&KeyFile { key: signer.public(), created_at: now, retired_at: None })?;
        self.save(SIGNING, &signer)?;
        Ok(signer)
    }

    /// Replaces the signing key by a new one and destroys the old one. Both keys sign a statement of the
    /// rotation, so that trust in one extends to the other.
    ///
    /// # Errors
    /// [`KeyError::Missing`] if there is no key; [`KeyError`] if a file cannot be read or written.
    pub fn rotate(&self, now: Timestamp) -> Result<RotatedKeys, KeyError> {
        if !self.folder.is_dir() {
            return Err(KeyError::Missing { path: self.folder.clone() });
        }
        let _lock = self.lock()?;
        self.finish_rotation()?;
        let old = self.load(SIGNING)?;
        let old = old.ok_or_else(|| KeyError::Missing { path: self.folder.clone() })?;
        let path = self.path(ROTATIONS);
        let mut rotations = self.rotations()?;
        if rotations.len() >= ROTATIONS_MAX {
            return Err(KeyError::invalid(&path, "it already has the maximum number of rotations"));
        }
        let new = random_signer().map_err(|error| KeyError::unwritable(&self.folder, error))?;
        let statement =
            Rotation::sign(&old, &new, now).map_err(|reason| KeyError::invalid(&path, reason))?;
        self.save(NEXT, &new)?;
        self.save_public(&KeyFile { key: new.public(), created_at: now, retired_at: None })?;
        rotations.push(statement.clone());
        let bytes =
            document::write(&rotations).map_err(|reason| KeyError::invalid(&path, reason))?;
        file::write(&path, &bytes, 0o644).map_err(|error| KeyError::unwritable(&path, error))?;
        self.finish_rotation()?;
        let public = |signer: &Signer| {
            let missing = || KeyError::invalid(&path, "the public key of a rotation is missing");
            self.public(&signer.public().id())?.ok_or_else(missing)
        };
        Ok(RotatedKeys { old: public(&old)?, new: public(&new)?, statement })
    }

    /// The public key with this id; `None` if there is none.
    ///
    /// # Errors
    /// [`KeyError`] if its file is not usable.
    pub fn public(&self, id: &KeyId) -> Result<Option<KeyFile>, KeyError> {
        let path = self.path(&format!("{id}.{PUBLIC}"));
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(None);
        };
        let text = file::read_text(&file, KEY_BYTES_MAX)
            .map_err(|error| KeyError::unreadable(&path, error))?;
        let stored =
            KeyFile::from_text(&text).map_err(|reason| KeyError::invalid(&path, reason))?;
        if stored.key.id() == *id {
            return Ok(Some(stored));
        }
        Err(KeyError::invalid(&path, format!("it has the key `{}`", stored.key.id())))
    }

    /// The public keys of all present and past signing keys, oldest first.
    ///
    /// # Errors
    /// [`KeyError`] if a file is not usable.
    pub fn all(&self) -> Result<Vec<KeyFile>, KeyError> {
        let mut keys = Vec::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(keys),
            entries => entries.map_err(|error| KeyError::unreadable(&self.folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| KeyError::unreadable(&self.folder, error))?;
            let path = PathBuf::from(entry.file_name());
            if path.extension().is_none_or(|extension| extension != PUBLIC) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let id =
                stem.parse().map_err(|reason: &str| KeyError::invalid(&entry.path(), reason))?;
            keys.extend(self.public(&id)?);
        }
        keys.sort_by_key(|file| (file.created_at, file.key.id()));
        Ok(keys)
    }

    /// All rotations, oldest first.
    ///
    /// # Errors
    /// [`KeyError`] if the list is not usable, or a rotation in it is not valid.
    pub fn rotations(&self) -> Result<Vec<Rotation>, KeyError> {
        let path = self.path(ROTATIONS);
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(Vec::new());
        };
        let text = file::read_text(&file, u64::try_from(ROTATIONS_BYTES_MAX).unwrap_or_default())
            .map_err(|error| KeyError::unreadable(&path, error))?;
        let rotations: Vec<Rotation> = document::read(text.as_bytes(), ROTATIONS_BYTES_MAX)
            .map_err(|reason| KeyError::invalid(&path, reason))?;
        if rotations.iter().all(Rotation::is_valid) {
            return Ok(rotations);
        }
        Err(KeyError::invalid(&path, "a rotation is not signed by both keys"))
    }

    /// Trust in all keys of the project.
    ///
    /// # Errors
    /// [`KeyError`] if a file is not usable.
    pub fn trust(&self) -> Result<Trust, KeyError> {
        Ok(Trust::of_files(&self.all()?).with_rotations(self.rotations()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Locks the folder for writing; creates it if it is missing.
    fn lock(&self) -> Result<File, KeyError> {
        let lock = || -> io::Result<File> {
            match std::fs::DirBuilder::new().mode(0o700).create(&self.folder) {
                Ok(()) => file::sync_parent(&self.folder)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let file = File::from(rustix::fs::open(self.path(LOCK), flags, mode)?);
            file.lock()?;
            // The lock is held, so dead processes left these files, which may contain a key.
            for entry in std::fs::read_dir(&self.folder)? {
                let entry = entry?;
                if file::is_temporary(&entry.file_name().to_string_lossy()) {
                    remove(&entry.path())?;
                }
            }
            // A state folder may lie in a repository.
            if !self.path(IGNORE).exists() {
                file::write(&self.path(IGNORE), b"*\n", 0o600)?;
            }
            Ok(file)
        };
        lock().map_err(|error| KeyError::unwritable(&self.folder, error))
    }

    /// Reads a signing key; `None` if there is none.
    fn load(&self, name: &str) -> Result<Option<Signer>, KeyError> {
        let path = self.path(name);
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(|error| KeyError::unreadable(&path, error))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(KeyError::invalid(&path, "other users may read or write it"));
        }
        let text = file::read_text(&file, KEY_BYTES_MAX)
            .map(Zeroizing::new)
            .map_err(|error| KeyError::unreadable(&path, error))?;
        Signer::from_pem(&text).map(Some).map_err(|reason| KeyError::invalid(&path, reason))
    }

    fn save(&self, name: &str, signer: &Signer) -> Result<(), KeyError> {
        let path = self.path(name);
        file::write(&path, signer.to_pem().as_bytes(), 0o600)
            .map_err(|error| KeyError::unwritable(&path, error))
    }

    fn save_public(&self, file: &KeyFile) -> Result<(), KeyError> {
        let path = self.path(&format!("{}.{PUBLIC}", file.key.id()));
        file::write(&path, file.to_text().as_bytes(), 0o644)
            .map_err(|error| KeyError::unwritable(&path, error))
    }

    /// Finishes a rotation whose statement was written; undoes one whose statement was not.
    fn finish_rotation(&self) -> Result<(), KeyError> {
        if let Some(next) = self.load(NEXT)? {
            let committed =
                self.rotations()?.iter().any(|rotation| *rotation.to() == next.public());
            let path = self.path(NEXT);
            if committed {
                replace_key(&path, &self.path(SIGNING))
            } else {
                let public = self.path(&format!("{}.{PUBLIC}", next.public().id()));
                remove(&public).and_then(|()| remove(&path))
            }
            .map_err(|error| KeyError::unwritable(&path, error))?;
        }
        let Some(last) = self.rotations()?.pop() else { return Ok(()) };
        match self.public(&last.from().id())? {
            Some(file) if file.retired_at.is_none() => {
                self.save_public(&KeyFile { retired_at: Some(last.ts()), ..file })
            }
            _ => Ok(()),
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Replaces an old key file by a new one and overwrites the old bytes, as far as the disk allows.
fn replace_key(new: &Path, old: &Path) -> io::Result<()> {
    let replaced = file::open(old, OFlags::RDWR)?;
    std::fs::rename(new, old)?;
    file::sync_parent(old)?;
    if let Some(mut replaced) = replaced {
        let length = usize::try_from(replaced.metadata()?.len()).unwrap_or_default();
        replaced.seek(io::SeekFrom::Start(0))?;
        replaced.write_all(&vec![0; length])?;
        replaced.sync_all()?;
    }
    Ok(())
}

pub(crate) fn random_signer() -> io::Result<Signer> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Signer::from_seed(&seed))
}
