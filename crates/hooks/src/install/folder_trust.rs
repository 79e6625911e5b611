//! Trust in a project's folder in Gemini CLI's `trustedFolders.json`: in other folders it starts no hooks.

use std::collections::BTreeSet;

use super::edit::{Item, applied, insertion, removal};
use super::error::{InstallError, Position};
use super::json::{Comments, Node, parse};
use super::render::{Json, Style};
use super::{InstallState, text_of};

/// What we write for a folder.
const TRUSTED: &str = "TRUST_FOLDER";

/// The file in which this folder is trusted.
pub(crate) fn installed(folder: &str, before: Option<&[u8]>) -> Result<Vec<u8>, InstallError> {
    let before = text_of(before.unwrap_or_default())?;
    let text = if before.trim_ascii().is_empty() { "{}\n" } else { before };
    let root = checked(text)?;
    match root.get(folder) {
        Some(level) if is_trust(level) => Ok(text.as_bytes().to_vec()),
        Some(level) => {
            let at = Position::at(text, level.span.start);
            Err(InstallError::Disabled { reason: distrust(folder), at })
        }
        None => {
            let json = Json::text(TRUSTED);
            let item = Item { key: Some(folder), json: &json };
            let splices = insertion(text, &Style::of(text, &root), &root, &[item]);
            let after = applied(text, splices).ok_or(InstallError::Unsound)?;
            let sound = checked(&after).is_ok_and(|after| {
                let others = |root: &Node| {
                    let members = root.members().iter().filter(|member| member.key != folder);
                    members.cloned().collect::<Vec<_>>()
                };
                after.get(folder).is_some_and(is_trust) && others(&after) == others(&root)
            });
            if sound { Ok(after.into_bytes()) } else { Err(InstallError::Unsound) }
        }
    }
}

/// The file without the trust that was not there before; none, if nothing is left.
pub(crate) fn removed(
    folder: &str,
    now: &str,
    before: Option<&str>,
) -> Result<Option<String>, InstallError> {
    let root = checked(now)?;
    let original = before.and_then(|text| checked(text).ok());
    let was_there = original.is_some_and(|root| root.get(folder).is_some());
    let place = root.members().iter().position(|member| member.key == folder);
    let place =
        place.filter(|_| !was_there && root.get(folder).and_then(Node::text) == Some(TRUSTED));
    let Some(place) = place else { return Ok(Some(now.to_owned())) };
    let splices = removal(now, &root, &BTreeSet::from([place]));
    let after = applied(now, splices).ok_or(InstallError::Unsound)?;
    if checked(&after).map_err(|_| InstallError::Unsound)?.get(folder).is_some() {
        return Err(InstallError::Unsound);
    }
    let bare: String = after.split_ascii_whitespace().collect();
    let empty_before = before.is_none_or(|text| text.trim_ascii().is_empty());
    Ok(if empty_before && bare == "{}" { None } else { Some(after) })
}

/// Whether the folder is trusted.
pub(crate) fn state(folder: &str, now: Option<&[u8]>) -> InstallState {
    let text = text_of(now.unwrap_or_default()).map(|text| text.trim_ascii_start());
    let root = text.and_then(|text| checked(if text.is_empty() { "{}" } else { text }));
    match root {
        Err(error) => InstallState::Changed { reason: error.to_string() },
        Ok(root) => match root.get(folder) {
            None => InstallState::Missing { events: vec![folder.to_owned()] },
            Some(level) if is_trust(level) => InstallState::Installed,
            Some(_) => InstallState::Disabled { reason: distrust(folder) },
        },
    }
}

fn checked(text: &str) -> Result<Node, InstallError> {
    let root = parse(text, Comments::Allowed)?;
    if root.is_object() {
        return Ok(root);
    }
    let at = Position::at(text, root.span.start);
    Err(InstallError::WrongType { name: "the file".to_owned(), expected: "an object", at })
}

fn is_trust(level: &Node) -> bool {
    matches!(level.text(), Some(TRUSTED | "TRUST_PARENT"))
}

fn distrust(folder: &str) -> String {
    format!("Gemini CLI is told not to trust `{folder}`")
}
