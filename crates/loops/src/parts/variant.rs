//! Variants of a loop: which of its phases are there.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Fault, Place, Problem, shown};
use crate::near;
use crate::parts::effect;
use crate::parts::shape::{self, Fields};
use crate::parts::text;
use crate::yaml::Node;

/// The most variants of a loop.
const VARIANTS_MAX: usize = 50;

/// One variant of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Its title, if it has one.
    pub title: Option<String>,
    /// The phases that are made sure of: optional ones among them are there.
    pub include: Vec<String>,
    /// The phases that are left out.
    pub exclude: Vec<String>,
}

/// Reads all variants, each with its place.
pub fn read(
    node: Option<&Node>,
    ids: &BTreeSet<&str>,
) -> Result<BTreeMap<String, (Variant, Place)>, Fault> {
    let Some(node) = node else { return Ok(BTreeMap::new()) };
    let entries = shape::map(node, "variants")?;
    if entries.len() > VARIANTS_MAX {
        return Err(Problem::TooMany { key: "variants", most: VARIANTS_MAX }.at(node.at));
    }
    let mut variants = BTreeMap::new();
    for (key, value) in entries {
        if !text::is_id(&key.name) {
            return Err(text::bad_id(&key.name, "the name of a variant").at(key.at));
        }
        variants.insert(key.name.clone(), (variant(value, ids)?, key.at));
    }
    Ok(variants)
}

fn variant(node: &Node, ids: &BTreeSet<&str>) -> Result<Variant, Fault> {
    let fields = Fields::of(node, "variants", "a variant", &["title", "include", "exclude"])?;
    let title = fields.get("title").map(|node| text::line(node, "title")).transpose()?;
    let mut seen = BTreeMap::new();
    let mut named = |key: &'static str, shown_key| {
        let Some(node) = fields.get(key) else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for item in shape::list(node, key)? {
            let name = shape::string(item, key)?;
            if !ids.contains(name) {
                let near = near::nearest(name, ids.iter().copied());
                return Err(effect::unknown(name, shown_key, near).at(item.at));
            }
            match seen.insert(name.to_owned(), (key, item.at.line)) {
                Some((before, _)) if before != key => {
                    return Err(Problem::BothWays(shown(name)).at(item.at));
                }
                Some((_, first)) => {
                    let (what, name) = ("the phase", shown(name));
                    return Err(Problem::DuplicateName { what, name, first }.at(item.at));
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
