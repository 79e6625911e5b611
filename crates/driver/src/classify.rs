//! What a request is about, by its words alone.
//!
//! A trigger matches as a whole word or phrase, in any case, with any white space between its words.
//! It does not match inside a longer word, nor inside a compound: `plan.md`, `re-implement` and
//! `src/refactor/mod.rs` name things. A request that begins with the name of an intent and a colon has that
//! intent. If no trigger matches, the first words count (`fix the bug`). If nothing is recognised, the
//! person is asked; nothing is guessed.

use serde::{Deserialize, Serialize};

use crate::{DriverConfig, Intent, IntentId, Outcome, Trigger};

/// The longest request that is classified.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// The intent of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Classification {
    /// One intent.
    Resolved {
        /// The intent.
        intent: IntentId,
        /// The trigger or opening that matched, as the configuration has it, or the intent's name if the
        /// request names it.
        trigger: String,
    },
    /// No intent, or several of the same priority.
    Ambiguous {
        /// The intents that match; empty if none does.
        candidates: Vec<IntentId>,
        /// What to ask the person.
        question: String,
    },
}

impl Classification {
    /// PASS when an intent was found, ASK_USER otherwise.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Resolved { .. } => Outcome::Pass,
            Self::Ambiguous { .. } => Outcome::AskUser,
        }
    }
}

/// Classifies a request. An intent that it names at its beginning (`code_generation: …`) is its intent. Otherwise,
/// of all intents with a trigger in it, the one with the lowest priority number; without a trigger, of those with
/// an opening. Several with that number, or none at all, are ambiguous.
#[must_use]
pub fn classify(config: &DriverConfig, request: &str) -> Classification {
    if request.len() > REQUEST_BYTES_MAX {
        let question = format!(
            "the request has {} bytes, more than {REQUEST_BYTES_MAX}; say briefly which of these \
             it is: {}",
            request.len(),
            list(config.intents.iter().map(|intent| &intent.name)),
        );
        return Classification::Ambiguous { candidates: Vec::new(), question };
    }
    let text = fold(request);
    if let Some(intent) = config.intents.iter().find(|intent| is_named(&text, intent)) {
        return named(intent);
    }
    let by_trigger = |trigger: &Trigger| contains_phrase(&text, &trigger.folded);
    let by_opening = |opening: &Trigger| begins_with_phrase(&text, &opening.folded);
    best(config, |intent| intent.triggers.iter().find(|trigger| by_trigger(trigger)))
        .or_else(|| {
            best(config, |intent| intent.openings.iter().find(|opening| by_opening(opening)))
        })
        .unwrap_or_else(|| {
            let all = list(config.intents.iter().map(|intent| &intent.name));
            let question =
                format!("the intent of the request is not clear; which of these is it: {all}");
            Classification::Ambiguous { candidates: Vec::new(), question }
        })
}

/// Classifies a request whose intent a person has named; asks if there is no such intent.
#[must_use]
pub fn classify_as(config: &DriverConfig, name: &str) -> Classification {
    let name = fold(name);
    let found = config.intents.iter().find(|intent| fold(intent.name.as_str()) == name);
    found.map_or_else(
        || {
            let all = list(config.intents.iter().map(|intent| &intent.name));
            let question = format!(
                "there is no intent of the name that was given; which of these is it: {all}"
            );
            Classification::Ambiguous { candidates: Vec::new(), question }
        },
        named,
    )
}

fn named(intent: &Intent) -> Classification {
    Classification::Resolved { intent: intent.name.clone(), trigger: intent.name.to_string() }
}

/// The intent with the lowest priority number of those that have a hit; `None` if none has one.
fn best<'a>(
    config: &'a DriverConfig,
    hit: impl Fn(&'a Intent) -> Option<&'a Trigger>,
) -> Option<Classification> {
    let mut hits = config.intents.iter().filter_map(|intent| Some((intent, hit(intent)?)));
    let (intent, trigger) = hits.next()?;
    // Intents are sorted by priority, so rivals follow directly.
    let rivals = hits.take_while(|(other, _)| other.priority == intent.priority);
    let mut candidates = vec![intent.name.clone()];
    candidates.extend(rivals.map(|(rival, _)| rival.name.clone()));
    if candidates.len() > 1 {
        let question =
            format!("the request matches several intents; which is it: {}", list(&candidates));
        return Some(Classification::Ambiguous { candidates, question });
    }
    Some(Classification::Resolved { intent: intent.name.clone(), trigger: trigger.text.clone() })
}

/// Whether a request begins with the name of an intent and a colon.
fn is_named(text: &[char], intent: &Intent) -> bool {
    let rest = text.strip_prefix(fold(intent.name.as_str()).as_slice());
    rest.is_some_and(|rest| rest.iter().find(|char| **char != ' ') == Some(&':'))
}

fn list<'a>(names: impl IntoIterator<Item = &'a IntentId>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The text in the form that is compared: case folded, white space collapsed and trimmed.
pub(crate) fn fold(text: &str) -> Vec<char> {
    let mut folded: Vec<char> = Vec::with_capacity(text.len());
    for char in text.chars() {
        if char.is_whitespace() {
            if folded.last().is_some_and(|last| *last != ' ') {
                folded.push(' ');
            }
        } else if char == 'ı' {
            // Its upper case is that of another letter.
            folded.push(char);
        } else {
            folded.extend(char.to_uppercase().flat_map(char::to_lowercase));
        }
    }
    if folded.last() == Some(&' ') {
        folded.pop();
    }
    folded
}

/// Whether a folded text has a word.
pub(crate) fn has_word(folded: &[char]) -> bool {
    folded.iter().any(|char| is_word(*char))
}

/// Letters, digits, `_`, and what attaches to a letter: combining marks and joiners.
fn is_word(char: char) -> bool {
    char.is_alphanumeric()
        || matches!(char, '_' | '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}'
            | '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether a character joins the words on both sides to a compound.
const fn joins(char: char) -> bool {
    matches!(char, '-' | '\'' | '’' | '.' | '/' | '\\' | ':' | '@' | '‐' | '‑')
}

fn contains_phrase(text: &[char], trigger: &[char]) -> bool {
    let windows = text.windows(trigger.len().max(1)).enumerate();
    windows.filter(|(_, window)| *window == trigger).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().iter().rev();
        let after = text.get(at + trigger.len()..).unwrap_or_default().iter();
        is_edge(before) && is_edge(after)
    })
}

/// Whether a text begins with a phrase; a `please` before it does not count.
fn begins_with_phrase(text: &[char], phrase: &[char]) -> bool {
    let polite = ['p', 'l', 'e', 'a', 's', 'e'];
    let text = match text.strip_prefix(&polite) {
        Some(rest) if is_edge(rest.iter()) => rest,
        Some(_) | None => text,
    };
    let skipped = text.iter().take_while(|char| !is_word(**char)).count();
    let rest = text.get(skipped..).and_then(|text| text.strip_prefix(phrase));
    rest.is_some_and(|rest| is_edge(rest.iter()))
}

/// Whether a word ends where these characters begin.
fn is_edge<'a>(mut beyond: impl Iterator<Item = &'a char>) -> bool {
    match beyond.next() {
        None => true,
        Some(next) if is_word(*next) => false,
        Some(next) if joins(*next) => beyond.next().is_none_or(|second| !is_word(*second)),
        Some(_) => true,
    }
}
