//! The hook of a client's session, killed at every append of every event: nothing is allowed that is not on record,
//! nothing is permitted twice, and the session goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use windlass_store::fault;
use windlass_testkit::soak;

use crate::harness::{Outcome, Place, finish, text_of};

/// A generous bound on how often one command can pass a point.
const PASSES_MAX: u32 = 20;
/// No agent tries more often.
const TRIES_MAX: u32 = 5;
/// The points at which something becomes durable, or does not; each is passed as often as the others.
const APPENDS: [&str; 3] = ["append.before", "append.inside", "append.after"];
/// Passed when a process indexes what it wrote.
const INDEX: &str = "index.inside";

/// What a client does about a hook that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// It refuses what it asked about, and goes on.
    Refuses,
    /// It sends the same event again.
    Repeats,
}

/// Where one command of a session is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kill {
    /// The number of the command, from 1.
    command: u32,
    point: &'static str,
    count: u32,
}

/// A session ended before its time: the command that was to be killed was not, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spared {
    /// The command does not pass the point so often.
    Command,
    /// The session has fewer commands.
    Session,
}

/// What the agent of a session does.
type Story = fn(&mut Session<'_>) -> Result<(), Spared>;

/// One session of a client.
struct Session<'a> {
    place: &'a Place,
    client: &'static str,
    id: String,
    behaviour: Client,
    kill: Option<Kill>,
    commands: u32,
    uses: u32,
    killed: bool,
    /// How many calls were made with these arguments, because the hook allowed it.
    made: BTreeMap<String, usize>,
    /// What was done, for when it fails.
    history: Vec<String>,
}

/// How an event was answered in the end.
enum Answered {
    /// The hook let the client go on.
    Yes,
    /// It refused.
    No,
    /// It died, and the client does not ask again.
    Died,
}

impl Session<'_> {
    fn story(&self) -> String {
        let Self { client, id, behaviour, kill, .. } = self;
        format!("{client} {id} {behaviour:?} {kill:?}:\n{}", self.history.join("\n"))
    }

    /// Runs one command, which dies if it is the one to be killed.
    fn command(&mut self, words: &[&str], stdin: &[u8]) -> Result<Outcome, Spared> {
        let mut command = self.place.command(words);
        self.commands += 1;
        let kill = self.kill.filter(|kill| kill.command == self.commands);
        if let Some(Kill { point, count, .. }) = kill {
            command.env(fault::VARIABLE, format!("{point}:{count}"));
        }
        let outcome = finish(command, stdin);
        self.history.push(format!("{}\n{outcome}", String::from_utf8_lossy(stdin)));
        assert!(kill.is_some() || outcome.code.is_some(), "{}", self.story());
        if kill.is_some() {
            if outcome.code.is_some() {
                return Err(Spared::Command);
            }
            self.killed = true;
            // Whatever it had on record, nobody was told.
            assert!(outcome.stdout.is_empty(), "{}", self.story());
        }
        Ok(outcome)
    }

    /// Sends an event, as often as the client does.
    fn send(&mut self, name: &str, more: &Value) -> Result<Answered, Spared> {
        let mut event = json!({
            "cwd": self.place.work(), "hook_event_name": name, "session_id": self.id,
            "permission_mode": "default",
        });
        let own = match self.client {
            "codex" => json!({ "model": "m", "turn_id": "1" }),
            _ => json!({ "transcript_path": "/nowhere/t" }),
        };
        for fields in [&own, more] {
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        let (words, event) = (["hook", "--client", self.client], event.to_string());
        let mut outcome = self.command(&words, event.as_bytes())?;
        if outcome.code.is_none() && self.behaviour == Client::Repeats {
            outcome = self.command(&words, event.as_bytes())?;
        }
        Ok(match outcome.code {
            Some(0) => Answered::Yes,
            Some(2) => Answered::No,
            None => Answered::Died,
            Some(_) => panic!("{}", self.story()),
        })
    }

    /// Sends an event that nothing is asked with.
    fn tell(&mut self, name: &str, more: &Value) -> Result<(), Spared> {
        match self.send(name, more)? {
            Answered::Yes | Answered::Died => Ok(()),
            Answered::No => panic!("{}", self.story()),
        }
    }

    /// The person enters a prompt, until the client takes it.
    fn prompt(&mut self, text: &str) -> Result<(), Spared> {
        for _ in 0..TRIES_MAX {
            if let Answered::Yes = self.send("UserPromptSubmit", &json!({ "prompt": text }))? {
                return Ok(());
            }
        }
        panic!("no prompt is taken: {}", self.story())
    }

    /// Asks to use a tool; makes the use and reports it if that is allowed. `calls` are the arguments of the calls that
    /// it stands for.
    fn try_use(&mut self, tool: &str, input: &Value, calls: &[&str]) -> Result<Answered, Spared> {
        self.uses += 1;
        let id = format!("{}-use-{}", self.id, self.uses);
        let mut fields = json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id });
        let answered = self.send("PreToolUse", &fields)?;
        if let Answered::Yes = answered {
            for call in calls {
                *self.made.entry((*call).to_owned()).or_default() += 1;
            }
            fields["tool_response"] = json!({ "stdout": "done", "stderr": "" });
            self.tell("PostToolUse", &fields)?;
        }
        Ok(answered)
    }

    /// The agent tries until it may; a person approves what is asked.
    fn use_tool(&mut self, tool: &str, input: &Value, calls: &[&str]) -> Result<(), Spared> {
        for _ in 0..TRIES_MAX {
            match self.try_use(tool, input, calls)? {
                Answered::Yes => return Ok(()),
                Answered::Died => {}
                Answered::No => self.approve()?,
            }
        }
        panic!("the agent may never use it: {}", self.story())
    }

    /// A person approves whatever waits, and looks whether it does no longer if the command died.
    fn approve(&mut self) -> Result<(), Spared> {
        for _ in 0..TRIES_MAX {
            let shown = self.place.run(&["session", "show", &self.id, "--json"]).exit(0).json();
            let calls = shown["calls"].as_array().unwrap();
            let Some(held) = calls.iter().find(|call| call["state"] == "PENDING") else {
                return Ok(());
            };
            let id = &text_of(held, "trace_id");
            let words = ["call", "approve", id, "--by", "ada", "--reason", "looked at it"];
            let approved = self.command(&words, &[])?;
            assert!(matches!(approved.code, None | Some(0)), "{}", self.story());
        }
        panic!("it waits for ever: {}", self.story())
    }

    /// Compares what the journal has with what was done.
    fn check(&self, runs_before: usize) {
        let story = self.story();
        let runs = runs(self.place);
        assert_eq!(runs, runs_before + 1, "one session is one run: {story}");
        let shown = self.place.run(&["session", "show", &self.id, "--json"]).exit(0).json();
        let notes = shown["notes"].as_array().unwrap();
        let notes_of = |kind: &str| notes.iter().filter(|one| one["note"]["note"] == kind).count();
        assert_eq!(notes_of("unguarded"), 0, "{shown}: {story}");
        assert!(notes_of("prompt") >= 1, "{shown}: {story}");
        let all = shown["calls"].as_array().unwrap();
        let in_state = |call: &str, states: &[&str]| {
            let is_in = |one: &&Value| states.iter().any(|state| one["state"] == *state);
            all.iter().filter(|one| one["args"].to_string().contains(call)).filter(is_in).count()
        };
        for (call, made) in &self.made {
            let given = in_state(call, &["EXECUTING", "COMPLETED"]);
            let reported = in_state(call, &["COMPLETED"]);
            // One may have been given by a hook that died before it could say so.
            let most = made + usize::from(self.killed);
            assert!((*made..=most).contains(&given), "{call}: {given} given: {shown}: {story}");
            let unreported = usize::from(self.killed && self.behaviour == Client::Refuses);
            let reports = made - unreported..=*made;
            assert!(reports.contains(&reported), "{call}: {reported} reported: {shown}: {story}");
        }
        assert_eq!(in_state("", &["PENDING", "AUTHORIZED"]), 0, "{shown}: {story}");
        // No id of the client was given twice what it asked for once.
        let given = all.iter().filter(|one| one["state"] != "DENIED");
        let mut permitted: BTreeMap<String, usize> = BTreeMap::new();
        for call in given {
            let log = self.place.run(&["trace", "log", &text_of(call, "trace_id"), "--artifacts"]);
            let log = log.exit(0).text().to_owned();
            let id = log.split(&format!("\"{}-use-", self.id)).nth(1).unwrap();
            let id = id.split('"').next().unwrap();
            *permitted.entry(format!("{id} {}", call["args"])).or_default() += 1;
        }
        assert!(permitted.values().all(|count| *count == 1), "{permitted:?}: {story}");
        let died_at_end = self.killed && self.behaviour == Client::Refuses;
        assert!(shown["state"] == "ended" || died_at_end, "{shown}: {story}");
    }
}

fn runs(place: &Place) -> usize {
    let all = place.run(&["session", "list", "--json", "--limit", "9999"]).exit(0).json();
    all.as_array().unwrap().len()
}

/// A session of Claude Code: something is allowed, something is denied, something is asked about.
fn asks(session: &mut Session<'_>) -> Result<(), Spared> {
    session.tell("SessionStart", &json!({ "source": "startup" }))?;
    session.prompt("go on")?;
    session.use_tool("Bash", &json!({ "command": "git status" }), &["git status"])?;
    let secret = json!({ "command": "cat ~/.ssh/id_rsa" });
    match session.try_use("Bash", &secret, &[])? {
        Answered::No | Answered::Died => {}
        Answered::Yes => panic!("{}", session.story()),
    }
    session.use_tool("Bash", &json!({ "command": "env" }), &["env"])?;
    session.tell("SessionEnd", &json!({ "reason": "other" }))
}

/// A session of Codex: one use stands for several calls.
fn patches(session: &mut Session<'_>) -> Result<(), Spared> {
    session.tell("SessionStart", &json!({ "source": "startup" }))?;
    session.prompt("go on")?;
    let patch = "*** Begin Patch\n*** Add File: one.txt\n+1\n*** Add File: two.txt\n+2\n\
                 *** Add File: three.txt\n+3\n*** End Patch\n";
    let names = ["one.txt", "two.txt", "three.txt"];
    session.use_tool("apply_patch", &json!({ "command": patch }), &names)?;
    session.tell("SessionEnd", &json!({ "reason": "other" }))
}

/// Plays a session, killed where it is to be, and checks it; tells how many commands it has.
fn play(
    place: &Place,
    (client, story): (&'static str, Story),
    behaviour: Client,
    kill: Option<Kill>,
) -> Result<u32, Spared> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let id = format!("s-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let runs_before = runs(place);
    let (made, history) = (BTreeMap::new(), Vec::new());
    let mut session = Session {
        place,
        client,
        id,
        behaviour,
        kill,
        commands: 0,
        uses: 0,
        killed: false,
        made,
        history,
    };
    story(&mut session)?;
    if kill.is_some() && !session.killed {
        return Err(Spared::Session);
    }
    session.check(runs_before);
    Ok(session.commands)
}

/// The ways to be killed at one place, of which a check tries another one each time and a soak tries all.
fn ways(alike: &[&'static str]) -> Vec<(&'static str, Client)> {
    let both = [Client::Refuses, Client::Repeats].into_iter();
    both.flat_map(|client| alike.iter().map(move |point| (*point, client))).collect()
}

/// Kills a session at every place of every command; tells how often.
fn sweep(session: (&'static str, Story)) {
    let commands = play(&Place::with_project(), session, Client::Repeats, None).unwrap();
    let chosen: Vec<u32> = soak::points(6).take_while(|point| *point <= 6).collect();
    let groups = (1..=commands).flat_map(|number| [(number, &APPENDS[..]), (number, &[INDEX][..])]);
    let (groups, count) = (Mutex::new(groups), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let place = Place::with_project();
                while let Some((command, alike)) = { groups.lock().unwrap().next() } {
                    count.fetch_add(
                        kill_at(&place, session, (command, alike), &chosen),
                        Ordering::Relaxed,
                    );
                }
                place.run(&["verify"]).exit(0);
            });
        }
    });
    let count = count.into_inner();
    println!("{}: {commands} commands, {count} kills", session.0);
    assert!(count > commands, "{count}");
}

/// Kills one command each time it passes points that are passed alike, until it is no longer killed.
fn kill_at(
    place: &Place,
    session: (&'static str, Story),
    (command, alike): (u32, &[&'static str]),
    chosen: &[u32],
) -> u32 {
    let (ways, mut kills) = (ways(alike), 0);
    for count in 1..PASSES_MAX {
        let numbers =
            chosen.iter().map(|number| usize::try_from(number + command + count).unwrap());
        let numbers: BTreeSet<usize> = numbers.map(|number| number % ways.len()).collect();
        for number in numbers {
            let (point, client) = ways[number];
            match play(place, session, client, Some(Kill { command, point, count })) {
                Ok(_) => kills += 1,
                Err(Spared::Command) => return kills,
                Err(Spared::Session) => panic!("command {command} is not reached"),
            }
        }
    }
    panic!("{alike:?} are passed without end")
}

#[test]
fn a_session_survives_every_kill_of_its_hook() {
    sweep(("claude", asks));
}

#[test]
fn a_use_of_many_calls_survives_every_kill_of_its_hook() {
    sweep(("codex", patches));
}
