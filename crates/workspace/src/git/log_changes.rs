//! Changes of commits, as `git log --raw` lists them.

/// The arguments of the listing; of a merge it has the files that differ from those of all parents.
pub(super) const LOG: [&str; 9] = [
    "log",
    "--raw",
    "--diff-merges=combined",
    "--root",
    "--no-renames",
    "--no-abbrev",
    "--format=",
    "-z",
    "--no-ext-diff",
];

/// The change of one file by one commit.
pub(super) struct LoggedChange<'a> {
    /// The modes in the parents and then in the commit.
    pub modes: Vec<&'a [u8]>,
    /// The name of the blob in the commit; zeros for a file that it removes.
    pub blob: &'a [u8],
    pub path: &'a [u8],
}

/// Reads `:mode mode blob blob status NUL path NUL` records, with a colon, a mode and a blob more for each further parent.
pub(super) fn logged_changes(listed: &[u8]) -> impl Iterator<Item = LoggedChange<'_>> {
    let mut records = listed.split(|byte| *byte == 0);
    std::iter::from_fn(move || {
        loop {
            let facts = records.next()?;
            let parents = facts.iter().take_while(|byte| **byte == b':').count();
            // An empty record stands between commits.
            if parents == 0 {
                continue;
            }
            let path = records.next().unwrap_or_default();
            let facts: Vec<&[u8]> =
                facts.get(parents..).unwrap_or_default().split(|byte| *byte == b' ').collect();
            let modes = facts.iter().take(parents + 1).copied().collect();
            let blob = facts.get(2 * parents + 1).copied().unwrap_or_default();
            return Some(LoggedChange { modes, blob, path });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_the_modes_of_all_parents_and_the_blob_of_the_commit() {
        let listed = b":100644 120000 aa bb M\0one\0\0::100644 160000 100644 aa bb cc MM\0two\0:100644 000000 aa 00 D\0three\0";
        let shown = |change: LoggedChange<'_>| {
            let parts =
                [change.modes.last().copied().unwrap_or_default(), change.blob, change.path];
            (change.modes.len(), parts.map(|part| String::from_utf8_lossy(part).into_owned()))
        };
        let found: Vec<_> = logged_changes(listed).map(shown).collect();
        let expected = [
            (2, ["120000", "bb", "one"].map(str::to_owned)),
            (3, ["100644", "cc", "two"].map(str::to_owned)),
            (2, ["000000", "00", "three"].map(str::to_owned)),
        ];
        assert_eq!(found, expected);
        assert_eq!(logged_changes(b"").count(), 0);
    }
}
