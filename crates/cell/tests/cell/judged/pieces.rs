//! The pieces that lines are made from, in `pieces.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    pub plain: Vec<String>,
    pub protected: Vec<String>,
    pub folders: Vec<String>,
    pub patterns: Vec<String>,
    pub words: Vec<String>,
    pub names: Vec<String>,
    pub operators: Vec<String>,
    pub redirects: Vec<String>,
    pub assignments: Vec<String>,
    pub frames: Vec<String>,
    pub commands: Vec<String>,
    pub options: BTreeMap<String, Vec<String>>,
}

impl Pieces {
    pub fn new() -> Self {
        toml::from_str(include_str!("pieces.toml")).unwrap()
    }
}
