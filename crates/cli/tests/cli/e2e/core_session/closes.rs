//! What a close takes care of, and what is left behind.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Core, criticised, git, hydrated, reflected, told, verified};
use crate::harness::{Outcome, finish};

/// Takes a session from its prompt to its Stop; returns what is told then.
fn work(core: &Core) -> String {
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("new.txt", "new\n");
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    core.stop().exit(0).text().to_owned()
}

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn commits_are_signed_as_the_users_settings_want() {
    let core = Core::new();
    let (signer, evil) = (core.place.home().join("signer"), core.place.home().join("evil"));
    program(
        &signer,
        "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED D\\n' >&2\n\
         printf -- '-----BEGIN PGP SIGNATURE-----\\n\\n%s\\n-----END PGP SIGNATURE-----\\n' \"$3\"\n",
    );
    let mark = core.place.home().join("mark");
    program(&evil, &format!("#!/bin/sh\ntouch {}\nexit 1\n", mark.display()));
    for name in ["gpg.program", "gpg.openpgp.program"] {
        git(&core.place, &["config", name, evil.to_str().unwrap()]);
    }
    git(&core.place, &["config", "user.signingKey", "EVIL"]);
    // Others push meanwhile, so that the commit is made twice.
    let other = core.place.home().join("other");
    git(&core.place, &["clone", "-q", core.bare().to_str().unwrap(), other.to_str().unwrap()]);
    let folder = other.to_str().unwrap();
    git(&core.place, &["-C", folder, "commit", "-q", "--allow-empty", "-m", "theirs"]);
    git(&core.place, &["-C", folder, "push", "-q"]);
    let settings = format!(
        "[user]\nname = a\nemail = a@b.example\nsigningkey = MINE\n[commit]\ngpgsign = true\n[gpg]\nprogram = {}\n",
        signer.display()
    );
    std::fs::write(core.place.home().join(".gitconfig"), settings).unwrap();
    assert_eq!(work(&core), "");
    let commit = git(&core.place, &["cat-file", "commit", "origin/main"]);
    assert!(commit.text().contains("gpgsig -----BEGIN PGP SIGNATURE-----"), "{commit}");
    assert!(commit.text().contains("MINE") && commit.text().contains("Add a file"), "{commit}");
    assert!(!mark.exists(), "a program of the repository ran");
}

#[test]
fn a_commit_that_cannot_be_signed_is_not_made() {
    let core = Core::new();
    let settings = "[user]\nname = a\nemail = a@b.example\n[commit]\ngpgsign = true\n[gpg]\nprogram = /usr/bin/false\n";
    std::fs::write(core.place.home().join(".gitconfig"), settings).unwrap();
    let said = work(&core);
    assert!(said.contains("commit failed") && said.contains("commit.gpgSign"), "{said}");
    std::fs::write(
        core.place.home().join(".gitconfig"),
        "[user]\nname = a\nemail = a@b.example\n[commit]\ngpgsign = true\n[gpg]\nformat = ssh\n",
    )
    .unwrap();
    let closed = core.place.run(&["session", "close", core.id]).exit(1);
    assert!(closed.text().contains("user.signingKey"), "{closed}");
    let head = git(&core.place, &["log", "-1", "--format=%s"]);
    assert_eq!(head.text().trim(), "old");
}

#[test]
fn a_submodule_with_changes_is_named() {
    let core = Core::new();
    let inner = core.place.home().join("inner");
    git(&core.place, &["init", "-q", "-b", "main", inner.to_str().unwrap()]);
    std::fs::write(inner.join("a"), "a\n").unwrap();
    let folder = inner.to_str().unwrap();
    git(&core.place, &["-C", folder, "add", "-A"]);
    git(&core.place, &["-C", folder, "commit", "-qm", "a"]);
    git(
        &core.place,
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", folder, "sub"],
    );
    git(&core.place, &["commit", "-qm", "sub"]);
    git(&core.place, &["push", "-q"]);
    std::fs::write(core.place.work().join("sub/a"), "b\n").unwrap();
    let said = work(&core);
    assert!(said.contains("check failed") && said.contains("submodule `sub`"), "{said}");
    git(&core.place, &["-C", "sub", "checkout", "-q", "a"]);
    core.place.run(&["session", "close", core.id]).exit(0);
}

/// The context of a prompt whose session has its temporary files here.
fn context(folder: &Path) -> Option<PathBuf> {
    let mut found = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let path = found.next();
    assert!(found.next().is_none());
    path
}

#[test]
fn contexts_are_removed_when_they_are_not_needed_any_more() {
    let core = Core::new();
    let folder = core.place.home().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    let prompt = |text: &str| -> Outcome {
        let event = json!({
            "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "UserPromptSubmit", "prompt": text,
            "transcript_path": "/nowhere/t",
        });
        let mut command = core.place.command(&["hook", "--client", "claude"]);
        command.env("TMPDIR", &folder);
        finish(command, event.to_string().as_bytes()).exit(0)
    };
    // It is needed until the plan stands: the critic may send it back.
    assert!(told(&prompt("add a file")).contains("windlass-hydrate-"));
    core.judge_says("h1", "prompt-hydrator", "no plan").exit(0);
    core.judge_says("h2", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    core.judge_says("c1", "critic", &criticised("REVISE")).exit(0);
    assert!(context(&folder).is_some());
    core.judge_says("h3", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    core.judge_says("c2", "critic", &criticised("PROCEED")).exit(0);
    assert_eq!(context(&folder), None);
    // Nor is it when no critic is asked, when another prompt comes, and when the session ends.
    prompt("what is it?");
    core.judge_says("h4", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    assert_eq!(context(&folder), None);
    prompt("one more");
    let first = context(&folder);
    prompt("and another");
    assert!(context(&folder).is_some() && context(&folder) != first);
    prompt("/help");
    assert_eq!(context(&folder), None);
    prompt("the last");
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert_eq!(context(&folder), None);
}

#[test]
fn a_person_who_closes_is_told_what_a_person_can_do() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    let refused = core.place.run(&["session", "close", core.id]).fails_with(2, "REQUEST_INVALID");
    assert!(refused.stderr.contains("the work is not verified"), "{refused}");
    assert!(refused.stderr.contains("`qa-verifier`"), "{refused}");
    assert!(!refused.stderr.contains("Agent tool"), "{refused}");
}

#[test]
fn trends_leave_odd_files_out_and_name_them() {
    let core = Core::new();
    assert_eq!(work(&core), "");
    let folder = core.place.home().join(".local/share/windlass/sessions/insights");
    std::fs::write(folder.join("odd.json"), "{}").unwrap();
    std::fs::create_dir(folder.join("folder.json")).unwrap();
    let large = std::fs::File::create(folder.join("large.json")).unwrap();
    large.set_len(1 << 30).unwrap();
    let trends = core.place.run(&["session", "trends", "--json"]).exit(0);
    assert_eq!(trends.json()["total"]["sessions"], 1, "{trends}");
    for name in ["odd.json", "folder.json", "large.json"] {
        assert!(trends.stderr.contains(name), "{name}: {trends}");
    }
}

#[test]
fn a_push_that_is_not_proven_is_no_close() {
    // The remote takes the push and forgets it.
    let core = Core::new();
    let hook = core.bare().join("hooks/post-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    program(&hook, "#!/bin/sh\nread old new ref\ngit update-ref \"$ref\" \"$old\"\n");
    let told = work(&core);
    assert!(told.contains("proof failed") && told.contains("not at our commit"), "{told}");
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    let status = core.place.run(&["status"]).exit(0);
    assert!(status.stderr.contains("close failed at proof"), "{status}");
    // Something is left that is not committed.
    let core = Core::new();
    let hook = core.bare().join("hooks/post-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let left = core.place.work().join("left.txt");
    program(&hook, &format!("#!/bin/sh\necho left > '{}'\n", left.display()));
    let told = work(&core);
    assert!(told.contains("proof failed") && told.contains("left.txt"), "{told}");
    std::fs::remove_file(&hook).unwrap();
    std::fs::remove_file(&left).unwrap();
    let closed = core.place.run(&["session", "close", core.id, "--json"]).exit(0).json();
    let proof = closed["steps"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&proof["step"], &proof["detail"]),
        (&json!("proof"), &json!("up to date with origin/main")),
        "{closed}"
    );
}

/// Sends a Stop while there is a `bd` on the `PATH` that does this to `sync`; returns what is told, and what `bd` was asked.
fn stop_with_bd(core: &Core, sync: &str) -> (String, String) {
    let folder = core.place.base().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let item = r#"{"id":"bd-7","title":"t","status":"open","priority":2,"description":"d"}"#;
    let text = format!(
        "#!/bin/sh\nprintf '<%s>' \"$1\" >> \"$0.log\"\ncase \"$1\" in\nsync) {sync} ;;\nlist) echo '[]' ;;\n\
         create) echo '{item}' ;;\n*) echo '[{item}]' ;;\nesac\n"
    );
    program(&folder.join("bd"), &text);
    let mut hook = core.place.command(&["hook", "--client", "claude"]);
    let path = std::env::var("PATH").unwrap();
    hook.env("PATH", format!("{}:{path}", folder.display()));
    let event = json!({
        "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "Stop", "stop_hook_active": false,
        "transcript_path": "/nowhere/t",
    });
    let told = finish(hook, event.to_string().as_bytes()).exit(0).text().to_owned();
    let log = folder.join("bd.log");
    let asked = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    (told, asked)
}

#[test]
fn a_close_synchronises_bd_before_it_pushes() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("new.txt", "new\n");
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    std::fs::create_dir(core.place.work().join(".beads")).unwrap();
    let tip = || git(&core.place, &["ls-remote", "origin", "main"]).text().to_owned();
    let before = tip();
    let (told, asked) = stop_with_bd(&core, "echo no network >&2; exit 1");
    assert!(told.contains("sync failed") && told.contains("no network"), "{told}");
    // The work, the reflection and what was learned are told before.
    assert!(asked.contains("<create>") && asked.ends_with("<sync>"), "{asked}");
    assert_eq!(tip(), before, "nothing is pushed");
    let (told, asked) = stop_with_bd(&core, "echo synced");
    assert_eq!(told, "");
    // The item is closed when the work is pushed, and nothing is told twice.
    assert_eq!(asked.matches("<sync>").count(), 1, "{asked}");
    assert!(asked.contains("<sync><close>") && !asked.contains("<create>"), "{asked}");
    assert_ne!(tip(), before);
}
