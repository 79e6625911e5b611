//! The server killed at moments that nobody chose, two servers at once, a full disk, and who cannot reach it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use windlass_testkit::{Random, eventually, soak};

use crate::harness::Place;
use crate::served::{Served, own_token, person, project_of};
use crate::world::{Repo, escalating, id_of, trace_of};

/// A program, a person and another program, none of which changes a file.
const LOOP: &str = r#"---
id: asked
title: Asked
type: loop
category: test
version: "1"
on_restart: resume
phases:
  - id: work
    doer: { command: [sh, -c, "echo '{\"summary\":\"worked\"}'"] }
  - id: approve
    needs: [work]
    doer: { person: "Is it good?" }
  - id: after
    needs: [approve]
    doer: { command: [sh, -c, "echo '{\"summary\":\"after\"}'"] }
---
"#;

/// A reason that only requests over HTTP give.
const BY_HTTP: &str = "decided over HTTP";

/// Sends a request to a server that may die; `None` if it did not answer in full.
fn ask(address: &str, token: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// A run that waits for a person: its name and its trace.
fn waiting(repo: &Repo) -> (String, String) {
    let outcome = repo.windlass(&["run", "x", "--loop", "asked", "--json", "--by", "ada"]).exit(4);
    (id_of(&outcome), trace_of(&outcome))
}

fn shown(repo: &Repo, id: &str) -> Value {
    repo.stands(id)["hold"]["shown"].clone()
}

/// How many events of a kind a run has, and whether one of them was asked for over HTTP.
fn events_of(repo: &Repo, trace: &str, kind: &str) -> (usize, bool) {
    let events = repo.events(trace);
    let found: Vec<&Value> = events.iter().filter(|event| event["kind"] == kind).collect();
    (found.len(), found.iter().any(|event| event.to_string().contains(BY_HTTP)))
}

/// How many runs have a task.
fn with_task(repo: &Repo, task: &str) -> usize {
    let all = repo.windlass(&["status", "--json"]).exit(0).text().to_owned();
    all.matches(&format!("\"{task}\"")).count()
}

#[test]
fn a_server_killed_at_any_moment_loses_and_doubles_nothing() {
    let seed = soak::seed(0x5eed_0020);
    let mut random = Random::new(seed);
    let repo = Repo::with_loop("asked", LOOP);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let project = project_of(&repo.place);
    let mut ended: Option<(String, String)> = None;
    let mut answered = 0;
    let rounds = soak::rounds(4);
    for round in 0..rounds {
        let story = format!("seed {seed}, round {round}");
        let runs: Vec<(String, String)> = (0..3).map(|_| waiting(&repo)).collect();
        let digests: BTreeMap<String, Value> =
            runs.iter().map(|(id, _)| (id.clone(), shown(&repo, id))).collect();
        let rollbacks_before =
            ended.as_ref().map(|(_, trace)| events_of(&repo, trace, "rolled_back").0);
        let served = Served::start(&repo.place, &[]);
        let (token, address) = (own_token(&repo.place), served.address.clone());
        let base = format!("/api/v1/projects/{project}");
        let task = format!("task-of-{round}");
        let pid = Pid::from_raw(i32::try_from(served.pid()).unwrap()).unwrap();
        let signal = if random.below(2) == 0 { Signal::TERM } else { Signal::KILL };
        // Not to wait for anything: the moment is the test.
        let moment = Duration::from_millis(random.below(400));
        // Unless nothing at all was answered: then the last server lives until a decision is.
        let is_patient = answered == 0 && round + 1 == rounds;
        let answers = AtomicUsize::new(0);
        let (decided, started, rolled_back) = std::thread::scope(|scope| {
            let deciding: Vec<_> = runs
                .iter()
                .map(|(id, _)| {
                    let (address, token, base, digests) = (&address, &token, &base, &digests);
                    let answers = &answers;
                    scope.spawn(move || {
                        let body = json!({ "shown": digests[id], "reason": BY_HTTP });
                        let approve = format!("{base}/holds/{id}/approve");
                        let decided = ask(address, token, &approve, &body);
                        if matches!(decided, Some((200, _))) {
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                        ask(address, token, &format!("{base}/runs/{id}/resume"), &Value::Null);
                        matches!(decided, Some((200, _)))
                    })
                })
                .collect();
            let starting = scope.spawn(|| {
                let body = json!({ "task": task, "loop": "asked" });
                matches!(ask(&address, &token, &format!("{base}/runs"), &body), Some((200, _)))
            });
            let rolling = scope.spawn(|| {
                let (id, _) = ended.as_ref()?;
                let body = json!({ "checkpoint": "POST_work_v1", "reason": BY_HTTP });
                let path = format!("{base}/runs/{id}/rollback");
                Some(matches!(ask(&address, &token, &path, &body), Some((200, _))))
            });
            std::thread::sleep(moment);
            if is_patient {
                eventually("a decision is answered", || answers.load(Ordering::Relaxed) > 0);
            }
            kill_process(pid, signal).unwrap();
            let decided: Vec<bool> = deciding.into_iter().map(|one| one.join().unwrap()).collect();
            (decided, starting.join().unwrap(), rolling.join().unwrap().unwrap_or(false))
        });
        let exit = served.wait();
        assert_eq!(exit, (signal == Signal::TERM).then_some(0), "{story}");
        // What was begun goes on by itself; then everything that is left is done by hand.
        for ((id, trace), was_answered) in runs.iter().zip(decided) {
            eventually(&format!("{story}: {id} passes"), || {
                if repo.stands(id)["outcome"] == "PASS" {
                    return true;
                }
                let voice = ["--by", "bob", "--reason", "by hand"];
                repo.windlass(&[&["queue", "approve", id][..], &voice].concat());
                repo.windlass(&["resume", id]);
                false
            });
            let (votes, by_http) = events_of(&repo, trace, "voted");
            assert_eq!(votes, 1, "{story}: {id}");
            assert!(by_http || !was_answered, "{story}: the decision on {id} is lost");
            answered += usize::from(was_answered);
        }
        eventually(&format!("{story}: what was started is recorded"), || {
            with_task(&repo, &task) >= usize::from(started)
        });
        assert!(with_task(&repo, &task) <= 1, "{story}: started twice");
        if let (Some((_, trace)), Some(before)) = (&ended, rollbacks_before) {
            let after = events_of(&repo, trace, "rolled_back").0;
            assert!(after - before <= 1, "{story}: rolled back twice");
            assert!(after > before || !rolled_back, "{story}: the rollback is lost");
        }
        // A run that was rolled back waits; the next round takes another one.
        ended = runs.last().cloned();
    }
    repo.is_whole();
    assert!(answered > 0 || soak::rounds(1) == 0, "seed {seed}: no decision was answered in time");
}

#[test]
fn two_servers_of_one_project_decide_once() {
    let repo = Repo::with_loop("asked", LOOP);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let (one, other) = (Served::start(&repo.place, &[]), Served::start(&repo.place, &[]));
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    for _ in 0..3 {
        let (id, trace) = waiting(&repo);
        let body = json!({ "shown": shown(&repo, &id), "reason": BY_HTTP });
        let path = format!("/api/v1/projects/{project}/holds/{id}/approve");
        let statuses = std::thread::scope(|scope| {
            let asking = [&one, &other, &one, &other]
                .map(|served| scope.spawn(|| ask(&served.address, &token, &path, &body).unwrap()));
            asking.map(|asking| asking.join().unwrap())
        });
        let accepted = statuses.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(accepted, 1, "{statuses:?}");
        let refused = statuses.iter().filter(|(status, _)| *status != 200);
        for (status, problem) in refused {
            assert_eq!(*status, 409, "{problem}");
            assert_eq!(problem["code"], "HOLD_ALREADY_RESOLVED", "{problem}");
        }
        assert_eq!(events_of(&repo, &trace, "voted"), (1, true));
        // Both see it.
        for served in [&one, &other] {
            let run = format!("/api/v1/projects/{project}/runs/{id}");
            let seen = served.call(&token, "GET", &run, &Value::Null).status(200).json();
            assert_eq!(seen["state"], "answered");
        }
    }
    repo.is_whole();
}

#[test]
fn two_who_approve_at_the_same_moment_both_count() {
    let pair = LOOP.replace("good?\"", "good?\", approvals: 2");
    let repo = Repo::with_loop("asked", &pair);
    // One of several has a protected key; here both.
    let phrase = repo.place.base().join("phrase");
    std::fs::write(&phrase, "a long phrase\n").unwrap();
    let people = ["bob", "dan"].map(|name| {
        let add = ["people", "add", name, "--passphrase-file", phrase.to_str().unwrap()];
        repo.windlass(&add).exit(0);
        person(&repo.place, name, "approver")
    });
    let (served, project) = (Served::start(&repo.place, &[]), project_of(&repo.place));
    for _ in 0..3 {
        let (id, trace) = waiting(&repo);
        let body = json!({
            "shown": shown(&repo, &id), "reason": BY_HTTP, "passphrase": "a long phrase"
        });
        let path = format!("/api/v1/projects/{project}/holds/{id}/approve");
        let answers = std::thread::scope(|scope| {
            let asking = people
                .each_ref()
                .map(|token| scope.spawn(|| ask(&served.address, token, &path, &body).unwrap()));
            asking.map(|asking| asking.join().unwrap())
        });
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
        assert_eq!(events_of(&repo, &trace, "voted"), (2, true));
        assert_eq!(repo.stands(&id)["hold"]["resolution"], "APPROVED");
    }
    repo.is_whole();
}

/// Starts a server whose state is on a small disk, and a shell beside it that does what it is told.
fn on_small_disk(place: &Place) -> Option<(Served, std::process::ChildStdin)> {
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!(
        "set -u; mkdir ../disk; mount -t tmpfs -o size=3m,mode=700 tmpfs ../disk || exit 77
         cp -r ~/.local/state/windlass/. ../disk/; export WINDLASS_STATE=$(realpath ../disk)
         {windlass} serve --listen 127.0.0.1:0 --json 2> ../server.log &
         server=$!
         while read -r word; do
           case $word in
             fill) head -c 9M /dev/zero > ../disk/ballast 2>/dev/null; touch ../filled ;;
             free) rm ../disk/ballast; touch ../freed ;;
             verify) {windlass} verify > ../verified 2>&1; touch ../done ;;
           esac
         done
         kill $server; wait $server"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    place.settle(&mut command);
    command.stdin(Stdio::piped());
    let probe =
        Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        windlass_testkit::skipped("no namespaces here, and so no small disk");
        return None;
    }
    let mut served = Served::of(command);
    let told = served.told();
    Some((served, told))
}

#[test]
fn a_full_disk_is_told_with_a_code_and_the_server_goes_on_after() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    let base = repo.place.base().to_owned();
    let Some((served, mut told)) = on_small_disk(&repo.place) else { return };
    let mut tell = |word: &str, file: &str| {
        writeln!(told, "{word}").unwrap();
        eventually(file, || base.join(file).exists());
    };
    let cookie = served.enter(&served.link);
    let project = project_of(&repo.place);
    let hold = format!("/holds/{project}/{id}");
    let page = served.browse(&cookie, "GET", &hold, "").status(200).body;
    let shown = page.split("name=\"shown\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("reason=seen&shown={shown}");
    tell("fill", "filled");
    let approve = format!("{hold}/approve");
    let refused = served.browse(&cookie, "POST", &approve, &form);
    assert!(refused.body.contains("STORE_FULL"), "{refused:?}");
    assert!(refused.status >= 400 && !refused.body.contains("INTERNAL"), "{refused:?}");
    for path in ["/", "/runs", &hold, "/journal", "/notifications"] {
        let reply = served.browse(&cookie, "GET", path, "");
        assert!(!reply.body.contains("INTERNAL"), "{path}: {reply:?}");
        assert!(reply.status == 200 || reply.body.contains("STORE_"), "{path}: {reply:?}");
    }
    // What is refused has not happened, and the cause is told.
    let run = format!("/runs/{project}/{id}");
    for path in [format!("{run}/stop"), "/leave".to_owned()] {
        let refused = served.browse(&cookie, "POST", &path, "reason=enough");
        assert!(refused.status >= 400, "{path}: {refused:?}");
        assert!(refused.body.contains("FILE_UNWRITABLE"), "{path}: {refused:?}");
        assert!(refused.body.contains("No space left"), "{path}: {refused:?}");
    }
    tell("free", "freed");
    let page = served.browse(&cookie, "GET", &run, "").status(200).body;
    assert!(!page.contains("stop switch") && !page.contains("clear-stop"), "{page}");
    served.browse(&cookie, "POST", &approve, &form).status(303);
    tell("verify", "done");
    let verified = std::fs::read_to_string(base.join("verified")).unwrap();
    assert!(verified.contains("intact"), "{verified}");
    let log = std::fs::read_to_string(base.join("server.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    // The shell ends the server when it is told nothing more.
    drop(told);
    served.wait();
}

#[test]
fn a_program_in_a_cell_cannot_reach_the_server() {
    let reach = r#"---
id: reach
title: Reach
type: loop
category: test
version: "1"
on_restart: resume
phases:
  - id: reach
    doer: { command: [bash, reach.sh] }
---
"#;
    let repo = Repo::with_loop("reach", reach);
    let served = Served::start(&repo.place, &[]);
    // From outside it is there.
    let mut line = String::new();
    let mut stream = served.connect();
    write!(stream, "GET / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", served.address)
        .unwrap();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 "), "{line}");
    let port = served.address.rsplit(':').next().unwrap();
    repo.write(
        "reach.sh",
        format!(
            "if (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; then echo reached > found; else echo not > found; fi\n\
             test -e \"$HOME/.local/state/windlass\" && echo state >> found\necho '{{}}'\n"
        ),
    );
    repo.commit("a script");
    repo.windlass(&["run", "x", "--loop", "reach", "--json"]).exit(0);
    assert_eq!(repo.read("found"), "not\n");
}
