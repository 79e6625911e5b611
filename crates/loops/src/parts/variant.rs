//! Variants of a loop: which of its phases take part.

use std::collections::{BTreeMap, BTreeSet};

use windlass_text::Position;
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::effect;
use crate::parts::fields::{self, Fields};
use crate::parts::text;

/// The most variants of a loop.
const VARIANTS_MAX: usize = 50;

/// One variant of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Its title, if it has one.
    pub title: Option<String>,
    /// The phases that take part even if they are optional.
    pub include: Vec<String>,
    /// The phases that do not take part.
    pub exclude: Vec<String>,
}

/// Reads all variants with their positions.
pub fn read(
    node: Option<&Node>,
    ids: &BTreeSet<&str>,
) -> Result<BTreeMap<String, (Variant, Position)>, Diagnostic> {
    let Some(node) = node else { return Ok(BTreeMap::new()) };
    let entries = fields::map(node, "variants")?;
    if entries.len() > VARIANTS_MAX {
        return Err(Problem::TooMany { key: "variants", max: VARIANTS_MAX }.at(node.position));
    }
    let mut variants = BTreeMap::new();
    for (key, value) in entries {
        if !text::is_id(&key.name) {
            return Err(text::bad_id(&key.name, "the name of a variant").at(key.position));
        }
        variants.insert(key.name.clone(), (variant(value, ids)?, key.position));
    }
    Ok(variants)
}

fn variant(node: &Node, ids: &BTreeSet<&str>) -> Result<Variant, Diagnostic> {
    let fields = Fields::new(node, "variants", "a variant", &["title", "include", "exclude"])?;
    let title = fields.get("title").map(|node| text::line(node, "title")).transpose()?;
    let mut seen = BTreeMap::new();
    let mut named = |key: &'static str, shown_key| {
        let Some(node) = fields.get(key) else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for item in fields::list(node, key)? {
            let name = fields::string(item, key)?;
            if !ids.contains(name) {
                return Err(effect::unknown(name, shown_key, ids.iter().copied()).at(item.position));
            }
            match seen.insert(name.to_owned(), (key, item.position.line)) {
                Some((before, _)) if before != key => {
                    return Err(Problem::IncludedAndExcluded(shown(name)).at(item.position));
                }
                Some((_, first_line)) => {
                    let (what, name) = ("the phase", shown(name));
                    return Err(Problem::DuplicateName { what, name, first_line }.at(item.position));
                }
                None => names.push(name.to_owned()),
            }
        }
        Ok(names)
    };
    let include = named("include", "`include`")?;
    let exclude = named("exclude", "`exclude`")?;
    Ok(Variant { title, include, exclude })
}
