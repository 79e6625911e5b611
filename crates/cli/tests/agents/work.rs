//! A run in which nothing goes wrong.

use serde_json::json;

use crate::lab::{KEY, Kind, Lab, call, script, shell};

pub fn a_run_goes_to_a_commit(kind: &'static Kind) {
    let write = json!({ "path": "hello.txt", "content": "hello\n" });
    let steps = vec![call("fs_write", write.clone()), shell("cat hello.txt")];
    let Some(lab) = Lab::new(kind, &script(steps)) else { return };
    let before = lab.repo.commits();
    lab.run().exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.git(&["show", "HEAD:hello.txt"]), "hello");
    let expected = [
        ("fs/read", json!({ "path": "README.md" })),
        ("fs/write", write),
        ("shell/run", json!({ "line": "cat hello.txt" })),
    ]
    .map(|(tool, args)| (tool.to_owned(), args, "COMPLETED".to_owned()));
    assert_eq!(lab.calls(), expected);
    let requests = lab.model.requests();
    assert!(requests.iter().all(|request| request.credentials));
    assert!(!lab.repo.place.stores(KEY), "the credential is stored");
}
