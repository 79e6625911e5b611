//! Moves something out of a workspace, also to another file system.

use std::io;
use std::path::{Path, PathBuf};

use windlass_beneath::{Access, Folder, Kind};

use crate::rel_path::RelPath;

/// The permissions of a file that are kept.
pub const MODES: u32 = 0o777;

/// Moves an entry to a folder of ours. It is not deleted: it may be a person who has just made it.
///
/// # Errors
/// Those of the operating system.
pub fn move_away(root: &Folder, place: &Path, path: &RelPath) -> io::Result<Option<PathBuf>> {
    let path = path.as_path();
    if root.look(path)?.is_none() {
        return Ok(None);
    }
    let target = Folder::open(place)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    drop(target.make_folder(folder)?);
    let moved = match root.move_to(path, &target, path) {
        // A folder that even its owner may not change.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            root.open_up(path)?;
            if !folder.as_os_str().is_empty() {
                root.open_up(folder)?;
            }
            root.move_to(path, &target, path)
        }
        moved => moved,
    };
    match moved {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(root, &target, path)?;
            remove(root, path)?;
        }
        moved => moved?,
    }
    Ok(Some(place.join(path)))
}

/// The names in a folder, which its owner is let into.
fn names(root: &Folder, path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = root.folder(path).and_then(|folder| folder.entries());
    let entries = match entries {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            root.open_up(path)?;
            root.folder(path)?.entries()?
        }
        entries => entries?,
    };
    Ok(entries.into_iter().map(|(name, _)| path.join(name)).collect())
}

/// Copies an entry with what is in it. Of a pipe, a socket or a device nothing can be copied: a file says that it was there.
fn copy(root: &Folder, target: &Folder, top: &Path) -> io::Result<()> {
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let Some(entry) = root.look(&path)? else { continue };
        match entry.kind {
            Kind::Folder => {
                drop(target.make_folder(&path)?);
                waiting.extend(names(root, &path)?);
            }
            Kind::File => {
                let mut draft = target.draft(&path, Access::Exactly(entry.mode & MODES))?;
                io::copy(&mut root.file(&path)?, &mut draft)?;
                draft.create()?;
            }
            Kind::Link => target.make_link(&root.link_target(&path)?, &path)?,
            Kind::Pipe | Kind::Socket | Kind::Device => {
                target.create(&path, format!("{}\n", entry.kind.as_str()).as_bytes(), 0o600)?;
            }
        }
    }
    Ok(())
}

/// Removes an entry with what is in it.
fn remove(root: &Folder, top: &Path) -> io::Result<()> {
    let (mut waiting, mut folders) = (vec![top.to_owned()], Vec::new());
    while let Some(path) = waiting.pop() {
        match root.look(&path)?.map(|entry| entry.kind) {
            None => {}
            Some(Kind::Folder) => {
                waiting.extend(names(root, &path)?);
                folders.push(path);
            }
            Some(_) => root.remove_file(&path)?,
        }
    }
    folders.into_iter().rev().try_for_each(|path| root.remove_folder(&path))
}
