//! Reads YAML strictly: what JSON can say, in one document, and nothing that changes what is seen.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Tagged;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use thiserror::Error;

use super::DEPTH_MAX;

/// YAML that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum YamlError {
    /// It is longer than the reader takes.
    #[error("the text is {bytes} bytes long, more than the {bytes_max} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It is not text.
    #[error("the text is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// A node has a tag.
    #[error("{0}a tag such as `{1}` is not read here")]
    Tag(Place, String),
    /// A node has an anchor, or is an alias of another one.
    #[error("{0}anchors and aliases are not read here")]
    Alias(Place),
    /// An object takes pairs over from another one.
    #[error("{0}the merge key `<<` is not read here")]
    MergeKey(Place),
    /// An object has a key twice.
    #[error("{0}a key stands there twice")]
    DuplicateKey(Place),
    /// There is more than one document.
    #[error("{0}a second document starts; only one is read")]
    Documents(Place),
    /// It is nested too deep.
    #[error("{0}it is nested deeper than {DEPTH_MAX} levels")]
    TooDeep(Place),
    /// It is not YAML.
    #[error("{0}{1}")]
    Syntax(Place, String),
}

/// Where in the text something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(Option<(u64, u64)>);

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(formatter, "line {line}, column {column}: "),
            None => Ok(()),
        }
    }
}

/// Reads one YAML document of at most `bytes_max` bytes.
///
/// # Errors
/// [`YamlError`] when it is too long, not UTF-8, not one YAML document, uses tags, anchors,
/// aliases or merge keys, has a key twice, or is nested too deep.
pub fn read(bytes: &[u8], bytes_max: usize) -> Result<Value, YamlError> {
    if bytes.len() > bytes_max {
        return Err(YamlError::TooLarge { bytes: bytes.len(), bytes_max });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| YamlError::NotUtf8 { at: error.valid_up_to() })?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 0,
            max_anchors: 0,
            max_depth: DEPTH_MAX,
            max_documents: 1,
            // The length of the text is what limits these.
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_merge_keys: 0,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        strict_booleans: true,
        strict_indentation: true,
        with_snippet: false,
    };
    let node: Tagged<Node> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| explain(&error))?;
    match node {
        Tagged(Node(value), None) => Ok(value),
        Tagged(_, Some(tag)) => Err(YamlError::Tag(Place(None), tag)),
    }
}

/// Marks the message about a tag on its way through the reader.
const TAG: &str = "a tag is not read here: ";

fn explain(error: &serde_saphyr::Error) -> YamlError {
    use serde_saphyr::Error as Saphyr;

    let error = error.without_snippet();
    let place = Place(error.location().map(|at| (at.line(), at.column())));
    if let Saphyr::Budget { breach, .. } = error {
        return if matches!(
            breach,
            BudgetBreach::Aliases { .. }
                | BudgetBreach::Anchors { .. }
                | BudgetBreach::AliasAnchorRatio { .. }
        ) {
            YamlError::Alias(place)
        } else if matches!(breach, BudgetBreach::Documents { .. }) {
            YamlError::Documents(place)
        } else if matches!(breach, BudgetBreach::MergeKeys { .. }) {
            YamlError::MergeKey(place)
        } else {
            YamlError::TooDeep(place)
        };
    }
    if matches!(error, Saphyr::MergeKeyNotAllowed { .. }) {
        YamlError::MergeKey(place)
    } else if matches!(error, Saphyr::UnknownAnchor { .. } | Saphyr::AliasError { .. }) {
        YamlError::Alias(place)
    } else if matches!(error, Saphyr::DuplicateMappingKey { .. }) {
        YamlError::DuplicateKey(place)
    } else if matches!(error, Saphyr::MultipleDocuments { .. }) {
        YamlError::Documents(place)
    } else {
        let message = error.to_string();
        let line = message.lines().next().unwrap_or_default();
        if line.starts_with("recursion limit exceeded") {
            return YamlError::TooDeep(place);
        }
        match line.split_once(TAG) {
            Some((_, tag)) => YamlError::Tag(
                place,
                tag.chars().take_while(|char| *char != '`').take(80).collect(),
            ),
            None => {
                // The place is told apart from the message.
                let message = line.rsplit_once(" at line ").map_or(line, |(message, _)| message);
                YamlError::Syntax(place, message.chars().take(300).collect())
            }
        }
    }
}

/// A value none of whose parts has a tag.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes).map(Self)
    }
}

struct Nodes;

/// Takes the value out of a node, unless it has a tag.
fn untagged<E: serde::de::Error>(node: Tagged<Node>) -> Result<Value, E> {
    match node {
        Tagged(Node(value), None) => Ok(value),
        Tagged(_, Some(tag)) => Err(E::custom(format!("{TAG}{tag}`"))),
    }
}

impl<'de> Visitor<'de> for Nodes {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON has too")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(node) = seq.next_element::<Tagged<Node>>()? {
            items.push(untagged(node)?);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(Tagged(key, tag)) = access.next_key::<Tagged<String>>()? {
            if let Some(tag) = tag {
                return Err(A::Error::custom(format!("{TAG}{tag}`")));
            }
            let value = untagged(access.next_value::<Tagged<Node>>()?)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the key `{key}` stands there twice")));
            }
        }
        Ok(Value::Object(map))
    }
}
