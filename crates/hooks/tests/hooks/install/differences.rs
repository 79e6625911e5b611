//! Differences as people read them.

use windlass_hooks::diff;

#[test]
fn a_difference_is_shown_with_its_surroundings() {
    assert_eq!(diff(b"a\n", b"a\n"), "");
    assert_eq!(diff(b"", b"a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
    assert_eq!(diff(b"a\n", b""), "@@ -1,1 +0,0 @@\n-a\n");
    let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
    let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\nx\n15\n16\n";
    let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
        @@ -12,5 +12,6 @@\n 12\n 13\n 14\n+x\n 15\n-16\n\\ No newline at end of file\n+16\n";
    assert_eq!(diff(old.as_bytes(), new.as_bytes()), expected);
}

#[test]
fn changes_that_are_near_are_shown_together() {
    let old = "a\n1\n2\n3\n4\n5\n6\nb\n";
    let new = "A\n1\n2\n3\n4\n5\n6\nB\n";
    let expected = "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n";
    assert_eq!(diff(old.as_bytes(), new.as_bytes()), expected);
}

#[test]
fn very_different_texts_are_shown_as_a_whole() {
    let old: String = (0..3000).map(|line| format!("{line}\n")).collect();
    let new: String = (0..3000).map(|line| format!("{line} \n")).collect();
    let shown = diff(old.as_bytes(), new.as_bytes());
    assert_eq!(shown.lines().count(), 6001);
}
