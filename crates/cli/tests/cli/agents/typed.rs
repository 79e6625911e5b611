//! The three commands that guard a session, typed into a terminal as the README and the pages of the clients say.

use crate::harness;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::agents::lab::{KEY, Kind, Lab};
use crate::agents::session::{client, configure, script, shell};

/// How long something may take to appear on the terminal.
const APPEARS: Duration = Duration::from_secs(60);
/// What the shell shows when it waits for a line.
const READY: &str = "READY>";

/// A terminal with a shell in it.
struct Terminal {
    keys: File,
    shell: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(mut shell: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let theirs = || -> Stdio {
            let file = File::options().read(true).write(true).open(&name).expect("the terminal");
            OwnedFd::from(file).into()
        };
        shell.stdin(theirs()).stdout(theirs()).stderr(theirs());
        let shell = shell.spawn().expect("a shell");
        let mut screen = File::from(ours);
        let keys = screen.try_clone().expect("a terminal");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&seen);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut chunk) {
                collected.lock().expect("the screen").extend_from_slice(&chunk[..count]);
            }
        });
        Self { keys, shell, seen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("the screen")).into_owned()
    }

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys");
    }

    /// Waits until a condition holds; it may look at what is new on the terminal since `from`.
    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&str) -> bool, from: usize) {
        let began = Instant::now();
        loop {
            let text = self.text();
            if holds(text.get(from..).unwrap_or_default()) {
                return;
            }
            assert!(began.elapsed() < APPEARS, "no {what}:\n{}", text.escape_debug());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types a line when the shell is ready for one.
    #[track_caller]
    fn line(&mut self, line: &str) -> usize {
        let from = self.text().len();
        self.type_keys(&format!("{line}\n"));
        from
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// The lines of the first block of commands after a text in a file of the repository.
fn commands(path: &str, after: &str) -> Vec<String> {
    let text = std::fs::read_to_string(harness::repository(path)).expect("the page");
    let (_, rest) = text.split_once(after).expect("the text before the commands");
    let (_, block) = rest.split_once("```sh\n").expect("commands");
    let (block, _) = block.split_once("```").expect("their end");
    block
        .lines()
        .map(|line| line.split(" #").next().unwrap_or_default().trim_end().to_owned())
        .collect()
}

/// A shell in an empty repository, with the client and Windlass on its path.
fn terminal(lab: &Lab, folder: &Path) -> Terminal {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut git = Command::new("git");
    git.args(["init", "--quiet", "--initial-branch=main"]).current_dir(folder);
    assert!(git.status().expect("git").success());
    let mut shell = Command::new("setsid");
    shell.args(["--ctty", "--wait", "bash", "--noprofile", "--norc", "-i"]);
    lab.repo.place.settle(&mut shell);
    let client = client(lab);
    shell.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let windlass = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{path}", lab.clients().join(".bin").display(), windlass.display());
    shell.env("PATH", path).env("PS1", READY).env("TERM", "xterm-256color").current_dir(folder);
    Terminal::open(shell)
}

/// Types the commands that install the hooks; returns the last one.
fn install(terminal: &mut Terminal, commands: &[String]) -> String {
    let [init, install, start] = commands else { panic!("three commands: {commands:?}") };
    terminal.wait("shell", |text| text.contains(READY), 0);
    let from = terminal.line(init);
    terminal.wait("end of init", |text| text.contains("Next:") && text.contains(READY), from);
    let from = terminal.line(install);
    terminal.wait("question", |text| text.contains("[y/N]"), from);
    let from = terminal.line("y");
    terminal.wait(
        "end of install",
        |text| text.contains("installed:") && text.contains(READY),
        from,
    );
    start.clone()
}

/// The states of the calls of a project, oldest first.
fn states(lab: &Lab, folder: &Path) -> Vec<String> {
    let mut command = lab.command(&["call", "list", "--json"]);
    command.current_dir(folder);
    let all = harness::finish(command, &[]).exit(0).json();
    let all = all.as_array().expect("a list").iter().rev();
    all.map(|call| harness::text_of(call, "current_state")).collect()
}

/// What the page of a client says.
pub fn the_page_of_the_client_is_true(kind: &'static Kind) {
    let calls =
        [shell(kind.name, "touch denied; cat ~/.ssh/id_rsa"), shell(kind.name, "touch made")];
    let Some(lab) = Lab::new(kind, &script(&calls)) else { return };
    configure(&lab);
    let folder = lab.repo.place.base().join("typed");
    let mut terminal = terminal(&lab, &folder);
    let page = format!("docs/guides/clients/{}.md", kind.name);
    let start = install(&mut terminal, &commands(&page, "## Your own session"));
    let from = terminal.line(&start);
    terminal.wait("end", |text| text.contains(READY), from);
    assert!(folder.join("made").exists() && !folder.join("denied").exists(), "{}", terminal.text());
    assert_eq!(states(&lab, &folder), ["DENIED", "COMPLETED"]);
}

/// Types the commands that stand after a text of the README, and a prompt into the client that the last one starts.
fn ask_claude(
    lab: &Lab,
    folder: &Path,
    after: &str,
    before_start: impl FnOnce(&Path),
) -> (Terminal, usize) {
    // What a person has answered when they started it for the first time.
    let known = &KEY[KEY.len() - 20..];
    let answered = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [known], "rejected": [] },
        "projects": { folder.display().to_string(): {
            "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true,
        }},
    });
    std::fs::write(lab.repo.place.home().join(".claude.json"), answered.to_string())
        .expect("a file");
    let mut terminal = terminal(lab, folder);
    // The first steps stand once, and end with the command that makes the project.
    let first = commands("README.md", "## First steps").pop().expect("a command");
    let typed: Vec<String> = std::iter::once(first).chain(commands("README.md", after)).collect();
    let start = install(&mut terminal, &typed);
    assert_eq!(start, "claude");
    before_start(folder);
    let from = terminal.line(&start);
    terminal.wait("client", |text| text.contains("Claude") && text.contains('❯'), from);
    // It reads keys only a moment after it shows where they go.
    thread::sleep(Duration::from_secs(2));
    terminal.type_keys("go on");
    thread::sleep(Duration::from_millis(500));
    terminal.type_keys("\r");
    (terminal, from)
}

/// What the README says of the core loop: from a prompt to a push, with nobody at the keyboard.
#[test]
fn the_readme_takes_a_session_through_the_core_loop() {
    let judge = |name: &str| {
        json!({ "calls": [{ "name": "=Agent", "input": {
            "description": name, "prompt": "agree", "subagent_type": name,
        }}]})
    };
    let bash = |line: &str| json!({ "calls": [{ "name": "=Bash", "input": { "command": line, "description": "d" } }] });
    let steps = json!([
        bash("touch early.txt"),
        judge("prompt-hydrator"),
        // At a terminal judges work in the background, and the client goes on when one has answered.
        { "text": "I wait." },
        judge("critic"),
        { "text": "I wait." },
        bash("cp README.md note.txt"),
        { "text": "Done." },
        judge("qa-verifier"),
        { "text": "I wait." },
        judge("framework"),
        { "text": "All is done.", "repeat": -1 },
    ]);
    let script = json!({ "conversations": crate::agents::core::judges("OK"), "otherwise": steps });
    let Some(lab) = Lab::new(&crate::agents::lab::CLAUDE, &script) else { return };
    let folder = lab.repo.place.base().join("typed");
    let bare = lab.repo.place.base().join("typed.git");
    let (terminal, from) = ask_claude(&lab, &folder, "With the core loop", |folder| {
        std::fs::write(folder.join("README.md"), "hello\n").expect("a file");
        // Whether a use is drawn for an audit depends on the session's id.
        let settings = "[core]\naudit_chance_percent = 0\n";
        std::fs::write(folder.join(".windlass/config.toml"), settings).expect("a file");
        let windlass = |words: &[&str]| {
            let mut command = lab.command(words);
            command.current_dir(folder);
            harness::finish(command, &[]).exit(0)
        };
        let shown = windlass(&["trust", "--show", "--json"]).json();
        windlass(&["trust", "--yes", &harness::text_of(&shown, "digest")]);
        let folder = folder.to_str().expect("UTF-8");
        let bare = bare.to_str().expect("UTF-8");
        lab.repo.git(&["init", "--quiet", "--bare", "--initial-branch=main", bare]);
        for words in [
            &["config", "user.name", "a"][..],
            &["config", "user.email", "a@b.example"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "all"],
            &["remote", "add", "origin", bare],
            &["push", "--quiet", "--set-upstream", "origin", "main"],
        ] {
            lab.repo.git(&[&["-C", folder][..], words].concat());
        }
    });
    let pushed = || {
        let mut show = Command::new("git");
        show.arg("--git-dir").arg(&bare).args(["show", "main:note.txt"]);
        show.output().expect("git").stdout == b"hello\n"
    };
    terminal.wait("push", |_| pushed(), from);
    assert!(!folder.join("early.txt").exists());
}

/// What the README says, with Claude Code: its shell runs in a cell, and its own prompt asks what the policy asks about.
#[test]
fn the_readme_guards_a_session() {
    let line = "git push --dry-run origin main";
    let calls = [
        shell("claude", "touch denied; cat ~/.ssh/id_rsa"),
        shell("claude", "hostname > made"),
        shell("claude", line),
    ];
    let Some(lab) = Lab::new(&crate::agents::lab::CLAUDE, &script(&calls)) else { return };
    let folder = lab.repo.place.base().join("typed");
    let (mut terminal, from) = ask_claude(&lab, &folder, "guard your own session", |_| ());
    terminal.wait("prompt", |text| text.contains("proceed?"), from);
    assert_eq!(std::fs::read_to_string(folder.join("made")).expect("the file"), "cell\n");
    assert!(!folder.join("denied").exists());
    assert_eq!(states(&lab, &folder), ["DENIED", "COMPLETED", "EXECUTING"]);
    terminal.type_keys("\r");
    terminal.wait("report", |_| states(&lab, &folder)[2] == "FAILED", from);
    let mut shown = lab.command(&["session", "show", "--json"]);
    shown.current_dir(&folder);
    let shown = harness::finish(shown, &[]).exit(0).json();
    assert_eq!(shown["calls"][2]["decided_by"], "prompt", "{shown}");
    let mut verify = lab.command(&["verify"]);
    verify.current_dir(&folder);
    harness::finish(verify, &[]).exit(0);
}
