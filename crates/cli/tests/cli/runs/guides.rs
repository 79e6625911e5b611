//! The examples of guides, typed as they stand there.

use crate::world::Repo;

/// The lines of the shell blocks of a guide, in order.
fn lines(guide: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/");
    let text = std::fs::read_to_string(format!("{path}{guide}")).unwrap();
    let mut lines = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        match line {
            "```sh" => is_shell = true,
            "```" => is_shell = false,
            line if is_shell => lines.push(line.to_owned()),
            _ => {}
        }
    }
    lines
}

/// Types a guide into one shell. A line ends with exit code 0, or with what its comment says.
#[track_caller]
fn typed(guide: &str) {
    let repo = Repo::new();
    let lines = lines(guide);
    assert!(lines.len() > 5, "{guide} has examples");
    let mut script = String::from("export GIT_PAGER=cat\n");
    for (at, line) in lines.iter().enumerate() {
        let expected = match line.split_once("   # ").map(|(_, comment)| comment) {
            Some(comment) if comment.starts_with("exit code ") => {
                comment["exit code ".len()..].to_owned()
            }
            Some("killed") => "137".to_owned(),
            Some(_) | None => "0".to_owned(),
        };
        script += &format!(
            "{line}\nended=$?; [ $ended = {expected} ] || {{ echo \"line {at} ended with $ended\"; exit 99; }}\n"
        );
    }
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]);
    repo.place.settle(&mut command);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.display()));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{guide}: {}\n{}", text(&output.stdout), text(&output.stderr));
    repo.is_whole();
}

#[test]
fn the_guide_to_approvals_is_true() {
    typed("approvals.md");
}

#[test]
fn the_guide_to_mcp_is_true() {
    typed("mcp.md");
}

#[test]
fn the_guide_to_policy_is_true() {
    typed("policy.md");
}
