//! Placeholder surface, replaced by the merge of the policy crate.
/// Verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// a
    Allow,
    /// b
    Ask,
    /// c
    Deny,
}
/// Fill.
#[must_use]
pub fn fill_template(
    args: &serde_json::Value,
    _k: Option<&str>,
    _c: Option<&str>,
    _o: &serde_json::Value,
) -> serde_json::Value {
    args.clone()
}
