//! The folder of keys: one that signs, and the public half of every one that ever did.
//!
//! A rotation is done in steps, and the statement of it is the step that counts: what a dead process
//! left before it is removed, what it left after it is finished.

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
/// Keeps the signing key out of the repository that the folder may lie in.
const IGNORE: &str = ".gitignore";
const PUBLIC: &str = "pub";
const KEY_BYTES_MAX: u64 = 4096;
/// The longest list of rotations.
pub(crate) const ROTATIONS_BYTES_MAX: usize = 1 << 20;
/// How many rotations can be listed.
pub(crate) const ROTATIONS_MAX: usize = 1000;

/// The keys of a project.
#[derive(Debug)]
pub struct Keys {
    folder: PathBuf,
}

/// What a rotation has done.
#[derive(Debug)]
pub struct Rotated {
    /// The key that signed before, now retired.
    pub old: KeyFile,
    /// The key that signs from now on.
    pub new: KeyFile,
    /// What both say of it.
    pub statement: Rotation,
}

impl Keys {
    /// Opens a folder of keys. Nothing is made before it is needed.
    ///
    /// # Errors
    /// [`KeyError::Invalid`] when others may write into the folder, or it is none.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let folder = folder.into();
        match folder.symlink_metadata() {
            Ok(metadata) if !metadata.is_dir() => {
                Err(KeyError::invalid(&folder, "it is not a folder"))
            }
            Ok(metadata) if metadata.permissions().mode() & 0o022 != 0 => {
                Err(KeyError::invalid(&folder, "others than its owner may write into it"))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(KeyError::unreadable(&folder, error))
            }
            Ok(_) | Err(_) => Ok(Self { folder }),
        }
    }

    /// The public half of the key that signs; `None` when nothing was ever signed.
    ///
    /// # Errors
    /// [`KeyError`] when a key file cannot be used.
    pub fn current(&self) -> Result<Option<KeyFile>, KeyError> {
        let Some(signer) = self.load(SIGNING)? else { return Ok(None) };
        let id = signer.public().id();
        let file = self.public(&id)?;
        let what = format!("its public key `{id}.{PUBLIC}` is missing");
        file.map(Some).ok_or_else(|| KeyError::invalid(&self.path(SIGNING), what))
    }

    /// The key that signs.
    ///
    /// # Errors
    /// [`KeyError::Missing`] when there is none; [`KeyError::Invalid`] when it cannot be used, or
    /// others than its owner may read it.
    pub fn signer(&self) -> Result<Signer, KeyError> {
        let missing = || KeyError::Missing { path: self.folder.clone() };
        if !self.folder.is_dir() {
            return Err(missing());
        }
        let _lock = self.lock()?;
        self.finish_rotation()?;
        self.load(SIGNING)?.ok_or_else(missing)
    }

    /// The key that signs, made now if there is none.
    ///
    /// # Errors
    /// As [`Keys::signer`] and [`Keys::generate`].
    pub fn signer_or_generate(&self, now: Timestamp) -> Result<Signer, KeyError> {
        match self.signer() {
            Err(KeyError::Missing { .. }) => match self.generate(now) {
                // Another process was quicker.
                Err(KeyError::Exists { .. }) => self.signer(),
                made => made,
            },
            found => found,
        }
    }

    /// Makes the first key.
    ///
    /// # Errors
    /// [`KeyError::Exists`] when there is one; [`KeyError`] when it cannot be written.
    pub fn generate(&self, now: Timestamp) -> Result<Signer, KeyError> {
        let _lock = self.lock()?;
        self.finish_rotation()?;
        if self.load(SIGNING)?.is_some() {
            return Err(KeyError::Exists { path: self.folder.clone() });
        }
        let signer = random_signer().map_err(|error| KeyError::unwritable(&self.folder, error))?;
        self.keep(&KeyFile { key: signer.public(), created_at: now, retired_at: None })?;
        self.save(SIGNING, &signer)?;
        Ok(signer)
    }

    /// Puts a new key in the place of the one that signs, which is destroyed. Both sign a statement of
    /// that, so that those who trust one can trust the other.
    ///
    /// # Errors
    /// [`KeyError::Missing`] when there is no key; [`KeyError`] when a file cannot be read or written.
    pub fn rotate(&self, now: Timestamp) -> Result<Rotated, KeyError> {
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
            return Err(KeyError::invalid(&path, "there were too many rotations"));
        }
        let new = random_signer().map_err(|error| KeyError::unwritable(&self.folder, error))?;
        let statement =
            Rotation::sign(&old, &new, now).map_err(|what| KeyError::invalid(&path, what))?;
        self.save(NEXT, &new)?;
        self.keep(&KeyFile { key: new.public(), created_at: now, retired_at: None })?;
        rotations.push(statement.clone());
        let bytes = document::write(&rotations).map_err(|what| KeyError::invalid(&path, what))?;
        file::write(&path, &bytes, 0o644).map_err(|error| KeyError::unwritable(&path, error))?;
        self.finish_rotation()?;
        let kept = |id| self.public(&id)?.ok_or_else(|| KeyError::invalid(&path, "a key is gone"));
        Ok(Rotated { old: kept(old.public().id())?, new: kept(new.public().id())?, statement })
    }

    /// A key that signs or once did; `None` when it is not one of these.
    ///
    /// # Errors
    /// [`KeyError`] when its file cannot be used.
    pub fn public(&self, id: &KeyId) -> Result<Option<KeyFile>, KeyError> {
        let path = self.path(&format!("{id}.{PUBLIC}"));
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(None);
        };
        let text = file::read_text(&file, KEY_BYTES_MAX)
            .map_err(|error| KeyError::unreadable(&path, error))?;
        let kept = KeyFile::from_text(&text).map_err(|what| KeyError::invalid(&path, what))?;
        if kept.key.id() == *id {
            return Ok(Some(kept));
        }
        Err(KeyError::invalid(&path, format!("it is the key `{}`", kept.key.id())))
    }

    /// All keys that sign or once did, oldest first.
    ///
    /// # Errors
    /// [`KeyError`] when a file cannot be used.
    pub fn all(&self) -> Result<Vec<KeyFile>, KeyError> {
        let mut kept = Vec::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kept),
            entries => entries.map_err(|error| KeyError::unreadable(&self.folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| KeyError::unreadable(&self.folder, error))?;
            let path = PathBuf::from(entry.file_name());
            if path.extension().is_none_or(|extension| extension != PUBLIC) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let id = stem.parse().map_err(|what: &str| KeyError::invalid(&entry.path(), what))?;
            kept.extend(self.public(&id)?);
        }
        kept.sort_by_key(|file| (file.created_at, file.key.id()));
        Ok(kept)
    }

    /// All rotations, oldest first.
    ///
    /// # Errors
    /// [`KeyError`] when the list cannot be used, or one of them does not hold.
    pub fn rotations(&self) -> Result<Vec<Rotation>, KeyError> {
        let path = self.path(ROTATIONS);
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(Vec::new());
        };
        let text = file::read_text(&file, u64::try_from(ROTATIONS_BYTES_MAX).unwrap_or_default())
            .map_err(|error| KeyError::unreadable(&path, error))?;
        let rotations: Vec<Rotation> = document::read(text.as_bytes(), ROTATIONS_BYTES_MAX)
            .map_err(|what| KeyError::invalid(&path, what))?;
        if rotations.iter().all(Rotation::holds) {
            return Ok(rotations);
        }
        Err(KeyError::invalid(&path, "a rotation is not signed by both keys"))
    }

    /// Trust in all keys of the project.
    ///
    /// # Errors
    /// [`KeyError`] when a file cannot be used.
    pub fn trust(&self) -> Result<Trust, KeyError> {
        Ok(Trust::of_files(&self.all()?).with_rotations(self.rotations()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Waits for the right to change the folder, which is made if it is missing.
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
            // Whoever left these is dead, and there may be a key in them.
            for entry in std::fs::read_dir(&self.folder)? {
                let entry = entry?;
                if file::is_temporary(&entry.file_name().to_string_lossy()) {
                    remove(&entry.path())?;
                }
            }
            // Projects that are older than keys do not ignore them by themselves.
            if !self.path(IGNORE).exists() {
                file::write(&self.path(IGNORE), b"*\n", 0o600)?;
            }
            Ok(file)
        };
        lock().map_err(|error| KeyError::unwritable(&self.folder, error))
    }

    /// Reads a signing key; `None` when there is none.
    fn load(&self, name: &str) -> Result<Option<Signer>, KeyError> {
        let path = self.path(name);
        let opened = file::open(&path, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| KeyError::unreadable(&path, error))? else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(|error| KeyError::unreadable(&path, error))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(KeyError::invalid(&path, "others than its owner may use it"));
        }
        let text = file::read_text(&file, KEY_BYTES_MAX)
            .map(Zeroizing::new)
            .map_err(|error| KeyError::unreadable(&path, error))?;
        Signer::from_pem(&text).map(Some).map_err(|what| KeyError::invalid(&path, what))
    }

    fn save(&self, name: &str, signer: &Signer) -> Result<(), KeyError> {
        let path = self.path(name);
        file::write(&path, signer.to_pem().as_bytes(), 0o600)
            .map_err(|error| KeyError::unwritable(&path, error))
    }

    fn keep(&self, kept: &KeyFile) -> Result<(), KeyError> {
        let path = self.path(&format!("{}.{PUBLIC}", kept.key.id()));
        file::write(&path, kept.to_text().as_bytes(), 0o644)
            .map_err(|error| KeyError::unwritable(&path, error))
    }

    /// Brings a rotation that was stated to its end, and forgets one that was not.
    fn finish_rotation(&self) -> Result<(), KeyError> {
        if let Some(next) = self.load(NEXT)? {
            let stated = self.rotations()?.iter().any(|rotation| *rotation.to() == next.public());
            let path = self.path(NEXT);
            if stated {
                replace_key(&path, &self.path(SIGNING))
            } else {
                let public = self.path(&format!("{}.{PUBLIC}", next.public().id()));
                remove(&public).and_then(|()| remove(&path))
            }
            .map_err(|error| KeyError::unwritable(&path, error))?;
        }
        let Some(last) = self.rotations()?.pop() else { return Ok(()) };
        match self.public(&last.from().id())? {
            Some(kept) if kept.retired_at.is_none() => {
                self.keep(&KeyFile { retired_at: Some(last.ts()), ..kept })
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

/// Moves a new key over an old one, and wipes the old one's bytes as far as the disk lets us.
fn replace_key(new: &Path, old: &Path) -> io::Result<()> {
    let gone = file::open(old, OFlags::RDWR)?;
    std::fs::rename(new, old)?;
    file::sync_parent(old)?;
    if let Some(mut gone) = gone {
        let length = usize::try_from(gone.metadata()?.len()).unwrap_or_default();
        gone.seek(io::SeekFrom::Start(0))?;
        gone.write_all(&vec![0; length])?;
        gone.sync_all()?;
    }
    Ok(())
}

fn random_signer() -> io::Result<Signer> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Signer::from_seed(&seed))
}
