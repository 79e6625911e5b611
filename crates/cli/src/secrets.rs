//! The user's secrets: where their values come from, and how they are kept from what is shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use windlass_policy::is_secret_name;
use windlass_redact::{Redactor, SECRET_BYTES_MIN};
use windlass_runtime::NamedSecrets;

use crate::user_config::UserConfig;

/// The maximum size of a secret.
const BYTES_MAX: u64 = 64 << 10;

/// Where the value of a secret comes from: one of both.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSource {
    /// An environment variable.
    env: Option<String>,
    /// A file that only the user can read.
    file: Option<PathBuf>,
}

/// Checks the table `[secrets]`.
pub fn check(secrets: &BTreeMap<String, SecretSource>) -> Result<(), String> {
    for (name, source) in secrets {
        if !is_secret_name(name) {
            return Err(format!(
                " `secrets` has `{name}`; a name has 1 to 64 letters, digits, `_` and `-`"
            ));
        }
        match (&source.env, &source.file) {
            (Some(_), None) => {}
            (None, Some(path)) if path.is_absolute() => {}
            (None, Some(path)) => {
                let path = path.display();
                return Err(format!(" `secrets.{name}` has `{path}`, which is not absolute"));
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(format!(" `secrets.{name}` needs exactly one of `env` and `file`"));
            }
        }
    }
    Ok(())
}

/// Reads the values. A value that cannot be read is an error only for the call that names it.
pub fn read(secrets: &BTreeMap<String, SecretSource>) -> NamedSecrets {
    NamedSecrets::new(secrets.iter().map(|(name, source)| (name.clone(), value(source))))
}

fn value(source: &SecretSource) -> Result<String, String> {
    let (value, what) = match source {
        SecretSource { env: Some(name), .. } => match std::env::var_os(name) {
            None => return Err(format!("the environment variable `{name}` is not set")),
            Some(value) => (value.into_string().ok(), format!("the environment variable `{name}`")),
        },
        SecretSource { file: Some(path), .. } => {
            (read_file(path)?, format!("the file `{}`", path.display()))
        }
        SecretSource { env: None, file: None } => return Err("it has no source".to_owned()),
    };
    let Some(value) = value else { return Err(format!("{what} is not UTF-8")) };
    match value.len() {
        0 => Err(format!("{what} is empty")),
        1..SECRET_BYTES_MIN => Err(format!(
            "{what} has fewer than {SECRET_BYTES_MIN} bytes, too few to be taken out of what is stored"
        )),
        _ => Ok(value),
    }
}

/// The text of a file without its last line break; `None` if it is not UTF-8.
fn read_file(path: &Path) -> Result<Option<String>, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the file `{shown}` cannot be read: {error}");
    // A pipe in its place must not block.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(format!("`{shown}` is not a regular file"));
    }
    let user = rustix::process::geteuid().as_raw();
    if found.mode() & 0o077 != 0 || (found.uid() != user && found.uid() != 0) {
        return Err(format!("the file `{shown}` is open to other users; `chmod 600 {shown}`"));
    }
    if found.len() > BYTES_MAX {
        return Err(format!("the file `{shown}` is larger than {BYTES_MAX} bytes"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// The redactor of what this process shows.
static SHOWN: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Sets the secrets that this process must not show.
pub fn hide(redactor: &Arc<Redactor>) {
    // The first project's: a process opens one.
    drop(SHOWN.set(Arc::clone(redactor)));
}

/// A text as it may be shown.
pub fn shown(text: &str) -> String {
    let own = || {
        let secrets = UserConfig::load().map(|user| user.named_secrets()).unwrap_or_default();
        Arc::new(Redactor::new(secrets.redacted()))
    };
    SHOWN.get_or_init(own).redacted(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_must_be_private_and_have_a_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let source = || SecretSource { env: None, file: Some(path.clone()) };
        assert!(value(&source()).unwrap_err().contains("cannot be read"));
        std::fs::write(&path, "hunter22\n").unwrap();
        for (mode, says) in [(0o644, "open to other users"), (0o640, "open to other users")] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(value(&source()).unwrap_err().contains(says));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(value(&source()), Ok("hunter22".to_owned()));
        for (text, says) in [("\n", "is empty"), ("short", "fewer than 6"), ("", "is empty")] {
            std::fs::write(&path, text).unwrap();
            assert!(value(&source()).unwrap_err().contains(says), "{text}");
        }
        std::fs::write(&path, b"\xff\xff\xff\xff\xff\xff\xff").unwrap();
        assert!(value(&source()).unwrap_err().contains("not UTF-8"));
        let source = SecretSource { env: Some("WINDLASS_NO_SUCH".to_owned()), file: None };
        assert!(value(&source).unwrap_err().contains("is not set"));
    }
}
