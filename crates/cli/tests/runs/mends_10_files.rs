//! Attributes of git that change bytes: a rollback brings files back byte for byte, or the run is refused.

use crate::world::{Repo, answers, build, id_of, review, sh};

/// A repository with attributes and a file, committed.
fn with_file(attributes: &str, bytes: &[u8]) -> Repo {
    let repo = Repo::new();
    repo.write(".gitattributes", attributes);
    repo.write("k.txt", bytes);
    repo.commit("attributes");
    // What git would write itself is not what the person wrote.
    repo.write("k.txt", bytes);
    repo.git(&["update-index", "-q", "--refresh"]);
    repo
}

#[test]
fn mend_10_files_with_attributes_come_back_byte_for_byte() {
    let cases: [(&str, &[u8]); 5] = [
        ("*.txt text eol=crlf\n", b"a\r\nb\r\n"),
        ("*.txt text eol=crlf\n", b"a\r\nb\n"),
        ("*.txt text\n", b"a\r\nb\r\n"),
        ("*.txt ident\n", b"$Id$ and $Id: abc$\n"),
        ("*.txt -text export-ignore\n", b"a\r\n\0b\n"),
    ];
    for (attributes, bytes) in cases {
        for line in ["rm k.txt", "printf 'z' > k.txt"] {
            let repo = with_file(attributes, bytes);
            let built = answers(&[build(&[sh(line)])], &[review("rejected")]);
            let id = id_of(&repo.run(&built).exit(3));
            assert_ne!(std::fs::read(repo.root().join("k.txt")).unwrap_or_default(), bytes);
            repo.windlass(&["close", &id, "--restore"]).exit(0);
            let back = std::fs::read(repo.root().join("k.txt")).unwrap();
            assert_eq!(back, bytes, "{attributes} {line}");
        }
    }
}

#[test]
fn mend_10_an_encoding_is_refused_and_wedges_no_run() {
    let encoding = "k.txt working-tree-encoding=UTF-16\n";
    // Before the run.
    let repo = Repo::new();
    repo.write(".gitattributes", encoding);
    repo.write("k.txt", b"\xff\xfea\0b\0");
    repo.commit("attributes");
    let built = answers(&[build(&[sh("rm k.txt")])], &[review("rejected")]);
    let refused = repo.run(&built).exit(1);
    assert_eq!(refused.error()["code"], "GIT_FILTER_REFUSED", "{refused}");
    assert_eq!(repo.traces(), 0);
    // In the middle of it.
    let repo = Repo::new();
    repo.write(".gitattributes", encoding);
    repo.commit("attributes");
    let built = answers(&[build(&[sh("echo a > k.txt")])], &[review("approved")]);
    let refused = repo.run(&built);
    assert_eq!(refused.error()["code"], "GIT_FILTER_REFUSED", "{refused}");
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = runs[0]["run_id"].as_str().unwrap();
    repo.windlass(&["cancel", id, "--by", "ada", "--reason", "it cannot go on"]).exit(0);
    assert_eq!(repo.stands(id)["reason"], "cancelled");
}
