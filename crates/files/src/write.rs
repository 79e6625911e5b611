//! `write`: a whole file.

use serde_json::{Value, json};
use windlass_kernel::Digest;
use windlass_kernel::artifact::FileChange;

use crate::arguments::Arguments;
use crate::error::FilesError;
use crate::files::version_of;
use crate::root::Root;
use crate::target::{Content, Step, Target};

pub(crate) fn foresee(root: &Root, arguments: &Arguments<'_>) -> Result<FileChange, FilesError> {
    let target = Target::new(root, arguments.path(), Content::OnlyDigest)?;
    check_version(&target, arguments)?;
    Ok(target.change(Digest::of(content(arguments))))
}

pub(crate) fn write(
    root: &Root,
    arguments: &Arguments<'_>,
    foreseen: Option<&FileChange>,
) -> Result<Value, FilesError> {
    let target = Target::new(root, arguments.path(), Content::OnlyDigest)?;
    let content = content(arguments);
    let after = Digest::of(content);
    let change = match foreseen {
        Some(foreseen) if foreseen.after != after => {
            let message = "the content is not the one that was foreseen; make the call again";
            return Err(FilesError::Changed(message.to_owned()));
        }
        Some(foreseen) => foreseen.clone(),
        None => {
            check_version(&target, arguments)?;
            target.change(after)
        }
    };
    let executable = arguments.flag("executable");
    match target.next_step(&change)? {
        Step::Write => target.write(root, content, executable)?,
        Step::Nothing => target.set_mode(executable)?,
    }
    Ok(json!({
        "path": change.path,
        "version": version_of(&after),
        "bytes": content.len(),
        "created": change.before.is_none(),
    }))
}

fn content<'a>(arguments: &Arguments<'a>) -> &'a [u8] {
    arguments.text("content").unwrap_or_default().as_bytes()
}

fn check_version(target: &Target, arguments: &Arguments<'_>) -> Result<(), FilesError> {
    let version = arguments.text("version");
    if target.before().is_some() && version.is_none() {
        let text = &target.text;
        let advice = "read it first, then pass its `version` to replace it, or change a part of it with `edit`";
        return Err(FilesError::Invalid(format!("`{text}` exists; {advice}")));
    }
    target.check_version(version)
}
