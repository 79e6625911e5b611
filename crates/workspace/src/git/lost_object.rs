//! Objects that no ref names yet, which somebody's `git gc --prune=now` may remove at any moment.

use std::thread;
use std::time::Duration;

/// The pauses before something is done again whose objects vanished.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
];

/// Does something with objects that no ref names yet. If its error says that one of them is lost, it is done again, which
/// writes them again.
///
/// # Errors
/// That of the last try.
pub fn while_objects_vanish<T, E>(
    is_lost: impl Fn(&E) -> bool,
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for pause in PAUSES {
        match act() {
            Err(error) if is_lost(&error) => thread::sleep(pause),
            done => return done,
        }
    }
    act()
}

/// Whether a message of git is about an object that does not exist, as after `git gc --prune=now` of somebody else.
#[must_use]
pub fn names_lost_object(message: &str) -> bool {
    const WORDS: [&str; 15] = [
        "bad object",
        "bad tree object",
        "failed to unpack tree object",
        "invalid object",
        "invalid sha1 pointer",
        "missing blob",
        "missing tree",
        "nonexistent object",
        "not a tree object",
        "not a valid object",
        "Not a valid object name",
        "Not a valid commit name",
        "unable to get size of object",
        "unable to get type of object",
        "unable to read",
    ];
    WORDS.iter().any(|word| message.contains(word))
}
