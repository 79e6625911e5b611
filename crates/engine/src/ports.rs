//! Port numbers that no two runs of an account have at the same time.
//!
//! Each claim is a file, named after the first port, with the number of ports and the work tree that has them. A
//! claim ends with its work tree. All changes are made under one lock, which a new run holds until its first entry
//! is recorded.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use windlass_kernel::Code;
use windlass_kernel::run::{PortRange, Run};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::start::Lock;

const LOCK: &str = ".lock";

/// A claim of a work tree.
struct Claim {
    file: PathBuf,
    ports: PortRange,
    worktree: PathBuf,
}

impl Claim {
    fn read(file: PathBuf) -> Option<Self> {
        let first = file.file_name()?.to_str()?.parse().ok()?;
        let text = fs::read_to_string(&file).ok()?;
        let (count, worktree) = text.strip_suffix('\n')?.split_once('\n')?;
        let ports = PortRange { count: count.parse().ok()?, first };
        Some(Self { file, ports, worktree: PathBuf::from(worktree) })
    }
}

fn overlap(one: PortRange, other: PortRange) -> bool {
    let end = |ports: PortRange| u32::from(ports.first) + u32::from(ports.count);
    u32::from(one.first) < end(other) && u32::from(other.first) < end(one)
}

/// Whether no program on this machine listens at these ports.
fn are_free(ports: PortRange) -> bool {
    (0..ports.count).all(|offset| {
        let port = ports.first.saturating_add(offset);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    })
}

/// The claims of all runs of an account, locked.
pub(crate) struct Claims {
    folder: PathBuf,
    claims: Vec<Claim>,
    _lock: Lock,
}

impl Claims {
    /// Locks and reads the claims, and removes those whose work trees are gone.
    fn open(folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join(LOCK);
        let unwritable = |path: &Path, source| EngineError::Unwritable {
            path: path.display().to_string(),
            source,
        };
        let opened = fs::create_dir_all(folder)
            .and_then(|()| File::options().create(true).truncate(false).write(true).open(&path))
            .and_then(|file| file.lock().map(|()| file));
        let lock = Lock::new(opened.map_err(|source| unwritable(&path, source))?);
        let mut claims = Vec::new();
        for entry in fs::read_dir(folder).map_err(|source| unwritable(folder, source))?.flatten() {
            let Some(claim) = Claim::read(entry.path()) else { continue };
            if claim.worktree.is_dir() {
                claims.push(claim);
            } else {
                // One that cannot be removed is replaced by the next claim.
                drop(fs::remove_file(&claim.file));
            }
        }
        Ok(Self { folder: folder.to_owned(), claims, _lock: lock })
    }

    fn is_claimed(&self, ports: PortRange) -> bool {
        self.claims.iter().any(|claim| overlap(claim.ports, ports))
    }

    /// Records that a work tree, which exists, has these ports.
    pub(crate) fn write(&self, ports: PortRange, worktree: &Path) -> Result<(), EngineError> {
        let path = self.folder.join(ports.first.to_string());
        let Some(name) = worktree.to_str().filter(|name| !name.contains('\n')) else {
            return Err(unavailable(
                "the path of the work tree is not one line of text".to_owned(),
            ));
        };
        fs::write(&path, format!("{}\n{name}\n", ports.count))
            .map_err(|source| EngineError::Unwritable { path: path.display().to_string(), source })
    }
}

fn unavailable(message: String) -> EngineError {
    EngineError::Requirement { code: Code::PortUnavailable, message }
}

impl Engine {
    /// Finds ports that are free. The claims stay locked until the result is dropped.
    pub(crate) fn find_ports(
        &self,
        (base, count): (u16, u16),
    ) -> Result<(PortRange, Claims), EngineError> {
        let Some(folder) = &self.ports else {
            return Err(unavailable("this engine has no ports to give".to_owned()));
        };
        let claims = Claims::open(folder)?;
        let ranges = (base..=u16::MAX).step_by(usize::from(count.max(1)));
        let ranges = ranges.filter(|first| first.checked_add(count.saturating_sub(1)).is_some());
        let mut ranges = ranges.map(|first| PortRange { count, first });
        let free = ranges.find(|ports| !claims.is_claimed(*ports) && are_free(*ports));
        let Some(ports) = free else {
            return Err(unavailable(format!("no {count} ports from {base} on are free")));
        };
        Ok((ports, claims))
    }

    /// Fails if another run has meanwhile taken the ports of a run; a claim that was lost is renewed.
    pub(crate) fn require_ports(&self, run: &Run) -> Result<(), EngineError> {
        let setup = run.started.as_ref().and_then(|started| started.setup.as_ref());
        let (Some(ports), Some(folder)) = (setup.and_then(|setup| setup.ports), &self.ports) else {
            return Ok(());
        };
        let worktree = self.worktree_top(run);
        let claims = Claims::open(folder)?;
        if claims.claims.iter().any(|claim| claim.ports == ports && claim.worktree == worktree) {
            return Ok(());
        }
        if claims.is_claimed(ports) {
            let first = ports.first;
            return Err(unavailable(format!("another run has taken port {first} of this run")));
        }
        claims.write(ports, &worktree)
    }
}

#[cfg(test)]
mod tests {
    use windlass_kernel::run::PortRange;

    use super::overlap;

    #[test]
    fn ranges_overlap_when_they_share_a_port() {
        let range = |first, count| PortRange { count, first };
        for (one, other, shared) in [
            (range(100, 3), range(100, 3), true),
            (range(100, 3), range(102, 1), true),
            (range(100, 3), range(98, 3), true),
            (range(100, 9), range(103, 2), true),
            (range(100, 3), range(103, 3), false),
            (range(u16::MAX, 1), range(u16::MAX - 1, 1), false),
        ] {
            assert_eq!(overlap(one, other), shared, "{one:?} {other:?}");
            assert_eq!(overlap(other, one), shared, "{other:?} {one:?}");
        }
    }
}
