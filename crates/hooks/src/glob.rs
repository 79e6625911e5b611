//! Patterns of file names, split into the folder that they start in and the rest.
//!
//! A policy judges the folder of a search, so a pattern may not lead out of it.

/// Characters with a meaning in the patterns of any client.
const SPECIAL: [char; 11] = ['*', '?', '[', ']', '{', '}', '(', ')', '!', '|', '\\'];

/// Splits a pattern into its leading folders, which are plain names, and the rest.
///
/// # Errors
/// A rest that may lead out of the folder.
pub(crate) fn split(pattern: &str) -> Result<(&str, &str), String> {
    if pattern.is_empty() || pattern.starts_with('~') || pattern.contains("://") {
        return Err(format!("the pattern `{pattern}` is not plain"));
    }
    let plain = pattern.find(SPECIAL).unwrap_or(pattern.len());
    let (folder, rest) = match pattern.get(..plain).and_then(|plain| plain.rfind('/')) {
        Some(0) => ("/", pattern.get(1..).unwrap_or_default()),
        Some(slash) => pattern.split_at_checked(slash).unwrap_or_default(),
        None => ("", pattern),
    };
    let rest = rest.trim_start_matches('/');
    check(rest)?;
    Ok((folder, if rest.is_empty() { "*" } else { rest }))
}

/// Refuses a pattern that may match outside the folder that it is applied to.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    let leads_out = pattern.contains("..")
        || pattern.starts_with(['/', '~'])
        || pattern.contains('\\')
        || ["{/", ",/", "(/", "|/", "{~", ",~"].iter().any(|part| pattern.contains(part));
    if leads_out {
        return Err(format!("the pattern `{pattern}` may lead out of its folder"));
    }
    Ok(())
}
