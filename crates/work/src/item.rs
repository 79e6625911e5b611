//! Items of work, and what is asked of a tracker.

use serde::{Deserialize, Serialize};

/// An item of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its id, such as `ws-4k2p`.
    pub id: String,
    /// One line.
    pub title: String,
    /// What it is.
    pub kind: Kind,
    /// Where it stands.
    pub status: Status,
    /// Who works on it.
    pub assignee: Option<String>,
    /// 0 is the most urgent, 4 the least.
    pub priority: u8,
    /// Any text.
    pub description: String,
    /// In alphabetical order.
    pub labels: Vec<String>,
    /// The ids of the items that block it and are not closed.
    pub blockers: Vec<String>,
    /// Its other links, each as `kind:id`: `parent`, `child`, `blocks`, `related`, or `blocked-by` for a
    /// blocker that is closed.
    pub links: Vec<String>,
    /// When it was created, in RFC 3339 and UTC.
    pub created_at: String,
    /// When it was changed last.
    pub updated_at: String,
    /// When it was closed.
    #[serde(default)]
    pub closed_at: Option<String>,
    /// Why it was closed.
    #[serde(default)]
    pub close_reason: Option<String>,
}

/// Defines an enum whose variants have one text form each.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its text form.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::WorkError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|each| each.name() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|each| each.name()).collect();
                    crate::WorkError::invalid(format!(
                        "`{}` is not {} ({})", text.escape_debug(), $what, names.join(", ")
                    ))
                })
            }
        }
    };
}

named! {
    /// What an item is.
    Kind, "a type",
    /// Anything that is to be done.
    Task = "task",
    /// Something new.
    Feature = "feature",
    /// Something wrong.
    Bug = "bug",
    /// Work that consists of other items.
    Epic = "epic",
    /// Upkeep.
    Chore = "chore",
}

named! {
    /// Where an item stands.
    Status, "a status",
    /// Nobody has begun.
    Open = "open",
    /// Somebody works on it.
    InProgress = "in_progress",
    /// It cannot go on.
    Blocked = "blocked",
    /// It is done or given up.
    Closed = "closed",
}

named! {
    /// How one item is linked to another.
    LinkKind, "a kind of link",
    /// The first blocks the second.
    Blocks = "blocks",
    /// Both have to do with each other.
    Related = "related",
    /// The first is the parent of the second.
    Parent = "parent",
}

/// An item to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// One line.
    pub title: String,
    /// What it is.
    pub kind: Kind,
    /// Who works on it.
    pub assignee: Option<String>,
    /// 0 is the most urgent, 4 the least.
    pub priority: u8,
    /// Any text.
    pub description: String,
    /// In any order.
    pub labels: Vec<String>,
}

impl NewItem {
    /// A task with a title and nothing else.
    #[must_use]
    pub fn task(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            kind: Kind::Task,
            assignee: None,
            priority: 2,
            description: String::new(),
            labels: Vec::new(),
        }
    }
}

/// A change of an item; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The new title.
    pub title: Option<String>,
    /// The new kind.
    pub kind: Option<Kind>,
    /// The new status, which is not `closed`: that needs a reason.
    pub status: Option<Status>,
    /// Who works on it; the empty text is nobody.
    pub assignee: Option<String>,
    /// The new priority.
    pub priority: Option<u8>,
    /// The new description.
    pub description: Option<String>,
    /// Labels that it gets.
    pub labels_added: Vec<String>,
    /// Labels that it loses.
    pub labels_removed: Vec<String>,
}
