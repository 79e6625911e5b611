//! A temporary place to run the real binary in, and what came of a run.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::states::{bind, copy, private, state_of, trust};
use crate::templates::template;

/// The folder of people among the states.
const PEOPLE: &str = ".people";

/// What one run of the binary printed and how it ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line, for people.
    pub line: String,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
}

impl Outcome {
    pub fn of(line: String, output: Output) -> Self {
        Self {
            line,
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).expect("standard error is text"),
            code: output.status.code(),
        }
    }

    /// Requires an exit code.
    #[track_caller]
    pub fn exit(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Requires a part of standard output.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.text().contains(part), "no `{part}` in standard output\n{self}");
        self
    }

    /// Requires a part of standard error.
    #[track_caller]
    pub fn warns(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "no `{part}` in standard error\n{self}");
        self
    }

    /// Requires that nothing went to standard error.
    #[track_caller]
    pub fn quiet(self) -> Self {
        assert_eq!(self.stderr, "", "{self}");
        self
    }

    /// Requires an error with this code on standard error, and no data.
    #[track_caller]
    pub fn fails_with(self, exit: i32, code: &str) -> Self {
        let outcome = self.exit(exit);
        assert!(outcome.stdout.is_empty(), "{outcome}");
        assert!(outcome.stderr.starts_with("error: "), "{outcome}");
        outcome.warns(&format!("[{code}]"))
    }

    /// Standard output as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("standard output is text")
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The error that was printed as JSON.
    #[track_caller]
    pub fn error(&self) -> Value {
        let last = self.stderr.lines().last().unwrap_or_default();
        let value: Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}\n{self}"));
        value["error"].clone()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or("killed".to_owned(), |code| format!("exit {code}"));
        let stdout = String::from_utf8_lossy(&self.stdout);
        write!(formatter, "$ {}\n[{code}]\n", self.line)?;
        for (name, text) in [("stdout", stdout.as_ref()), ("stderr", &self.stderr)] {
            for line in text.lines() {
                writeln!(formatter, "{}", format!("{name} | {line}").trim_end())?;
            }
        }
        Ok(())
    }
}

/// A temporary folder with a home of its own.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty place.
    pub fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["home", "work"] {
            std::fs::create_dir(place.base().join(folder)).expect("a folder");
        }
        place
    }

    /// A place with a fresh project in it.
    pub fn with_project() -> Self {
        Self::copy_of("project", || {
            let place = Self::new();
            place.run(&["init"]).exit(0);
            place
        })
    }

    /// A copy of a place with a project in it, which is made once.
    pub fn copy_of(name: &str, make: impl FnOnce() -> Self) -> Self {
        let made = template(name, |folder| {
            let place = make();
            copy(&place.work(), &folder.join("work"));
            copy(&place.state_root(), &folder.join("states"));
        });
        let place = Self::new();
        copy(&made.join("work"), &place.work());
        place.take_state(&made.join("states"));
        place
    }

    /// Takes over the state of another place's project, whose files were copied here.
    pub fn take_state(&self, state_root: &Path) {
        copy(state_root, &self.state_root());
        private(&self.state_root());
        private(&self.state());
        bind(&self.work(), &self.state());
    }

    /// A place with a project that knows the counting server, and may use all of it.
    pub fn with_server() -> Self {
        let place = Self::with_project();
        place.add_server();
        place
    }

    /// Lets the project know the counting server and use all of it.
    pub fn add_server(&self) {
        let server = windlass_testkit::example_binary("counting_server");
        let tools = include_str!("server.toml")
            .replace("{SERVER}", &server.display().to_string())
            .replace("{LOG}", &self.log().display().to_string());
        self.append(".windlass/tools.toml", &tools);
        self.write(".windlass/policy/count.toml", include_str!("server_policy.toml"));
    }

    /// The temporary folder itself.
    pub fn base(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that commands run in.
    pub fn work(&self) -> PathBuf {
        self.base().join("work")
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    /// The folder of all states.
    pub fn state_root(&self) -> PathBuf {
        self.home().join(".local/state/windlass")
    }

    /// The state folder of the project.
    #[track_caller]
    pub fn state(&self) -> PathBuf {
        state_of(&self.work(), &self.state_root()).expect("the project has a state")
    }

    /// The journal.
    #[track_caller]
    pub fn database(&self) -> PathBuf {
        self.state().join("windlass.db")
    }

    /// Trusts the configuration as it is, as the user would have done.
    pub fn trust(&self) {
        if let Some(state) = state_of(&self.work(), &self.state_root()) {
            trust(&self.work(), &state);
        }
    }

    /// Writes a file in the state folder.
    #[track_caller]
    pub fn write_state(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.state().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }

    /// Writes the user's own settings.
    pub fn settings(&self, text: &str) {
        let path = self.home().join(".config/windlass/config.toml");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// The counting server's record of what it executed.
    pub fn log(&self) -> PathBuf {
        self.base().join("executed")
    }

    /// How often the counting server executed something.
    pub fn executed(&self) -> usize {
        std::fs::read_to_string(self.log()).map_or(0, |text| text.lines().count())
    }

    /// Writes a file in the work folder. The user trusts a changed configuration.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write_untrusted(name, bytes);
        if name.starts_with(".windlass/") {
            self.trust();
        }
        path
    }

    /// Writes a file in the work folder, and nothing else.
    pub fn write_untrusted(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Reads a file in the work folder.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).expect("a file")
    }

    /// Adds to a file in the work folder.
    pub fn append(&self, path: &str, text: &str) {
        let old = self.read(path);
        self.write(path, format!("{old}\n{text}"));
    }

    /// Replaces a part of a file in the work folder.
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let old = self.read(path);
        assert!(old.contains(from), "no `{from}` in {path}");
        self.write(path, old.replacen(from, to, 1));
    }

    /// The binary with arguments, in the work folder, with an environment of its own.
    /// The people whom it names are added first.
    pub fn command(&self, args: &[&str]) -> Command {
        self.add_people(args);
        self.command_alone(args)
    }

    fn command_alone(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args);
        self.settle(&mut command);
        command
    }

    /// Adds the people whom a command line names; who is the first in a place is copied.
    fn add_people(&self, args: &[&str]) {
        let people = self.state_root().join(PEOPLE);
        let first = args.windows(2).find(|words| words[0] == "--by").map(|words| words[1]);
        if let Some(name) = first
            && self.state_root().is_dir()
            && !people.exists()
            && (1..=20).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase())
        {
            let made = template(&format!("person-{name}"), |folder| {
                let place = Self::with_project();
                finish(place.command_alone(&["people", "add", name]), &[]).exit(0);
                copy(&place.state_root().join(PEOPLE), folder);
            });
            copy(&made, &people);
            private(&people);
        }
        windlass_testkit::add_people(args, &self.state_root(), |args| self.command_alone(args));
    }

    /// Gives any command this place's folder and environment.
    pub fn settle(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Adds a person whose key has a passphrase, and returns the options for a decision of that person.
    pub fn protect<'a>(&self, name: &'a str) -> [&'a str; 4] {
        std::fs::write(self.base().join("passphrase"), "a phrase\n").expect("a file");
        let file = ["--passphrase-file", "../passphrase"];
        self.run(&[&["people", "add", name][..], &file].concat()).exit(0);
        ["--by", name, file[0], file[1]]
    }

    /// Runs the binary.
    pub fn run(&self, args: &[&str]) -> Outcome {
        finish(self.command(args), &[])
    }

    /// Runs the binary with bytes on its standard input.
    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Outcome {
        finish(self.command(args), stdin)
    }

    /// Runs the binary with one environment variable more.
    pub fn run_with(&self, name: &str, value: &str, args: &[&str]) -> Outcome {
        let mut command = self.command(args);
        command.env(name, value);
        finish(command, &[])
    }

    /// Makes a call of a shell tool.
    pub fn shell(&self, tool: &str, line: &str, more: &[&str]) -> Outcome {
        let args = serde_json::json!({ "line": line }).to_string();
        self.run(&[&["call", "run", tool, "--args", &args], more].concat())
    }

    /// Makes a call that is allowed and completes, and returns its trace.
    pub fn completed(&self) -> String {
        let outcome = self.shell("shell/read", "echo one", &["--json"]).exit(0);
        text_of(&outcome.json(), "trace_id")
    }

    /// Makes a call that waits for a person, and returns its trace.
    pub fn held(&self) -> String {
        let outcome = self.shell("shell/read", "env", &["--json"]).exit(4);
        text_of(&outcome.json(), "trace_id")
    }

    /// Makes a call whose process dies after the tool ran, and returns its trace.
    pub fn interrupted(&self, tool: &str, args: &str) -> String {
        let before = self.ids();
        let line = ["call", "run", tool, "--args", args, "--new-key"];
        // Meanwhile nothing else may be taken up, or the process would die in that.
        let tools = self.read(".windlass/tools.toml");
        let patient = tools.lines().map(|line| match line.starts_with("on_uncertain") {
            true => "on_uncertain = \"hold\"\n".to_owned(),
            false => format!("{line}\n"),
        });
        self.write(".windlass/tools.toml", patient.collect::<String>());
        let outcome = self.run_with("WINDLASS_CRASH_AT", "dispatch.after", &line);
        self.write(".windlass/tools.toml", tools);
        assert_eq!(outcome.code, None, "{outcome}");
        let new: Vec<String> = self.ids().into_iter().filter(|id| !before.contains(id)).collect();
        assert_eq!(new.len(), 1, "{new:?}");
        new[0].clone()
    }

    /// The traces there are, newest first.
    pub fn ids(&self) -> Vec<String> {
        let list = self.run(&["trace", "list", "--json", "--limit", "1000"]).exit(0).json();
        list.as_array().expect("a list").iter().map(|row| text_of(row, "trace_id")).collect()
    }

    /// Opens the journal's file behind the binary's back, with nothing that would stop a change.
    pub fn tamper(&self) -> rusqlite::Connection {
        let database = rusqlite::Connection::open(self.database()).expect("a database");
        windlass_testkit::tamper(&database).expect("no triggers");
        database
    }

    /// Changes rows of the journal behind the binary's back, and says how many.
    pub fn meddle(&self, sql: &str, values: impl rusqlite::Params) -> u64 {
        let database = self.tamper();
        let before = database.total_changes();
        database.execute(sql, values).expect("a change");
        database.total_changes() - before
    }

    /// Whether any file of the project or its state holds these bytes.
    pub fn stores(&self, secret: &str) -> bool {
        [self.work().join(".windlass"), self.state()].iter().any(|folder| {
            std::fs::read_dir(folder).expect("a folder").any(|entry| {
                let path = entry.expect("an entry").path();
                path.is_file()
                    && std::fs::read(path)
                        .expect("a file")
                        .windows(secret.len())
                        .any(|window| window == secret.as_bytes())
            })
        })
    }
}

/// Runs a command to its end.
pub fn finish(mut command: Command, stdin: &[u8]) -> Outcome {
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let line = format!("windlass {}", words.collect::<Vec<_>>().join(" "));
    if !stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().expect("a process");
    let output = std::thread::scope(|scope| {
        if let Some(mut pipe) = child.stdin.take() {
            // The process may well stop reading before all is written.
            scope.spawn(move || drop(pipe.write_all(stdin)));
        }
        child.wait_with_output().expect("an output")
    });
    Outcome::of(line, output)
}

/// A text in a JSON object.
#[track_caller]
pub fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no text `{name}` in {value}")).to_owned()
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A JSON file of the repository.
pub fn vectors(path: &str) -> Value {
    let bytes = std::fs::read(repository("vectors").join(path)).expect("vectors");
    serde_json::from_slice(&bytes).expect("vectors are JSON")
}
