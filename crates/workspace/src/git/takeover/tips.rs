//! The objects that refs and current commits are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::layers::Layers;
use super::refs::{RefValue, Refs, Stored, read_refs};
use super::{TakeOverError, canonical, digits_of, head};

/// The objects that refs and current commits of a repository are, those of all its work trees included. `common` is the git
/// directory that they share.
///
/// # Errors
/// [`TakeOverError`].
pub fn tips(common: &Path) -> Result<BTreeSet<String>, TakeOverError> {
    let common = canonical(common)?;
    let digits = digits_of(&common)?;
    let mut ids = vec![String::new()];
    for entry in std::fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        ids.extend(entry.file_name().into_string());
    }
    let refs = read_refs(&common, digits)?;
    Ok(tips_of(&refs, &heads(&Layers { upper: None, lower: common }, ids.iter(), digits)))
}

pub(super) fn tips_of(refs: &Refs, heads: &BTreeMap<String, RefValue>) -> BTreeSet<String> {
    let values = refs.values().filter_map(Stored::value).chain(heads.values());
    values.filter_map(RefValue::id).map(str::to_owned).collect()
}

/// The valid current commits of git directories.
pub(super) fn heads<'a>(
    layers: &Layers,
    ids: impl Iterator<Item = &'a String>,
    digits: usize,
) -> BTreeMap<String, RefValue> {
    ids.filter_map(|id| Some((id.clone(), head(layers, id, digits)?))).collect()
}
