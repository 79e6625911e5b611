//! Notifications: told once, signed, retried, journaled, and never in the way of a run.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::dashboard::receiver::{Asked, KEY, Receiver, settings, told};
use crate::harness::Outcome;
use crate::world::{Repo, escalating, id_of, passing, trace_of};

/// The newest notifications, as they stand.
fn listed(repo: &Repo) -> Vec<Value> {
    let listed = repo.windlass(&["notify", "list", "--json"]).exit(0).json();
    listed["notifications"].as_array().unwrap().clone()
}

fn send(repo: &Repo, ahead_ms: i64) -> Value {
    let args = ["notify", "send", "--json"];
    repo.place.run_with("WINDLASS_TEST_CLOCK", &ahead_ms.to_string(), &args).exit(0).json()
}

fn test(repo: &Repo) -> Outcome {
    repo.windlass(&["notify", "test", "phone", "--json"])
}

/// Verifies a signature as the documentation says.
#[track_caller]
fn is_signed(asked: &Asked) {
    let guide = crate::harness::repository("docs/guides/notifications.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let snippet = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let program = format!(
        "{snippet}\nimport sys, json\nkey, header, body = json.load(sys.stdin)\n\
         assert verified(key, header, body.encode()), 'not verified'\n\
         assert not verified(key + 'x', header, body.encode())\n\
         assert not verified(key, header, body.encode() + b' ')\n"
    );
    let mut command = std::process::Command::new("python3");
    let started = command.args(["-c", &program]).stdin(Stdio::piped()).spawn();
    let Ok(mut python) = started else {
        return windlass_testkit::skipped("there is no python3, which verifies signatures");
    };
    let given = json!([KEY, asked.header("windlass-signature"), asked.body]);
    serde_json::to_writer(python.stdin.take().unwrap(), &given).unwrap();
    assert!(python.wait().unwrap().success(), "{asked:?}");
}

#[test]
fn a_hold_and_an_end_are_told_once_signed_and_journaled() {
    let receiver = Receiver::new();
    let repo = told(&receiver, "");
    let id = id_of(&repo.run(&escalating()).exit(4));
    eventually("the hold is told", || receiver.asked().len() == 1);
    let asked = receiver.asked().remove(0);
    is_signed(&asked);
    let body = asked.json();
    assert_eq!((&body["kind"], &body["run"]), (&json!("hold_opened"), &json!(id)));
    assert_eq!((&body["version"], &body["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(body["link"], Value::Null, "nobody is named who may decide by it");
    assert_eq!(asked.header("windlass-notification"), body["id"].as_str().unwrap());
    assert!(asked.head.starts_with("POST /in HTTP/1.1"), "{asked:?}");
    repo.approve(&id).exit(0);
    eventually("the end is told", || receiver.asked().len() == 2);
    assert_eq!(receiver.asked()[1].json()["kind"], "run_ended");
    eventually("both are settled", || listed(&repo).iter().all(|one| one["state"] == "delivered"));
    let all = listed(&repo);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|one| one["status"] == 200 && one["attempts"] == 1), "{all:?}");
    assert_eq!(send(&repo, 0)["delivered"], 0);
    assert_eq!(receiver.asked().len(), 2);
    assert!(!repo.place.stores(KEY), "the key is stored");
    repo.is_whole();
}

#[test]
fn a_failure_is_retried_later_under_the_same_id() {
    let receiver = Receiver::new();
    let repo = told(&receiver, "");
    receiver.answers(&["500 Oh", "429 Slow\r\nretry-after: 120"]);
    let one = test(&repo).exit(1).json();
    assert_eq!((&one["state"], &one["failure"]["status"]), (&json!("due"), &json!(500)));
    assert_eq!(send(&repo, 0)["failed"], 0, "it is not due");
    assert_eq!(send(&repo, 11_000)["failed"], 1);
    assert_eq!(send(&repo, 100_000)["failed"], 0, "the receiver asked for two minutes");
    assert_eq!(send(&repo, 140_000)["delivered"], 1);
    let ids: Vec<String> =
        receiver.asked().iter().map(|asked| asked.header("windlass-notification")).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| Some(id.as_str()) == one["id"].as_str()), "{ids:?}");
    receiver.asked().iter().for_each(is_signed);
    let kinds: Vec<Value> =
        repo.events(&ids[0]).iter().map(|event| event["kind"].clone()).collect();
    let expected =
        ["created", "attempted", "failed", "attempted", "failed", "attempted", "delivered"];
    assert_eq!(kinds, expected);
    repo.is_whole();
}

#[test]
fn what_will_not_be_accepted_is_given_up_and_redirects_are_not_followed() {
    let (receiver, other) = (Receiver::new(), Receiver::new());
    let repo = told(&receiver, "");
    let redirect = format!("307 Away\r\nlocation: http://{}/", other.address);
    receiver.answers(&["404 No", &redirect]);
    for status in [404, 307] {
        let one = test(&repo).exit(1).json();
        let found = (&one["state"], &one["failure"]["status"]);
        assert_eq!(found, (&json!("given_up"), &json!(status)), "{one}");
    }
    assert_eq!((receiver.asked().len(), other.asked().len()), (2, 0));
    let id = listed(&repo)[0]["id"].as_str().unwrap().to_owned();
    repo.windlass(&["notify", "again", &id]).exit(0).says("delivered");
    repo.windlass(&["notify", "again", &id]).exit(0);
    repo.windlass(&["notify", "test", "nobody"]).fails_with(2, "REQUEST_INVALID");
}

#[test]
fn a_receiver_that_is_down_is_tried_again() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let repo = Repo::new();
    let url = format!("url = \"http://{address}/\"\nsecret = \"KEY\"");
    settings(&repo, &format!("[notify.phone]\n{url}"));
    let one = test(&repo).exit(1).json();
    assert_eq!(one["state"], "due");
    assert!(one["failure"]["reason"].as_str().unwrap().contains("cannot be reached"), "{one}");
    // The secret is gone: that is told, too.
    repo.place.settings("");
    assert_eq!(send(&repo, 11_000)["failed"], 1);
    let reason = listed(&repo)[0]["failure"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("no secret `KEY`"), "{reason}");
}

#[test]
fn a_killed_sender_is_made_up_for_under_the_same_id() {
    for (point, told_before) in [("dispatch.before", 0), ("dispatch.after", 1)] {
        let receiver = Receiver::new();
        let repo = told(&receiver, "");
        let args = ["notify", "test", "phone"];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", point, &args);
        assert_eq!(killed.code, None, "{killed}");
        assert_eq!(receiver.asked().len(), told_before, "{point}");
        assert_eq!(listed(&repo)[0]["state"], "attempting");
        assert_eq!(send(&repo, 0)["delivered"], 1);
        let asked = receiver.asked();
        assert_eq!(asked.len(), told_before + 1);
        let id = asked[told_before].header("windlass-notification");
        assert!(asked.iter().all(|one| one.header("windlass-notification") == id), "{asked:?}");
        let kinds: Vec<Value> =
            repo.events(&id).iter().map(|event| event["kind"].clone()).collect();
        assert_eq!(kinds, ["created", "attempted", "attempted", "delivered"]);
        repo.is_whole();
    }
}

#[test]
fn many_senders_at_once_tell_everything_once() {
    let receiver = Receiver::new();
    let repo = Repo::new();
    for _ in 0..3 {
        repo.run(&passing()).exit(0);
    }
    let url = format!("url = \"http://{}/\"\nsecret = \"KEY\"", receiver.address);
    settings(&repo, &format!("[notify.phone]\n{url}\n[notify.desk]\n{url}"));
    let senders: Vec<_> = (0..4)
        .map(|_| repo.place.command(&["notify", "send", "--json"]).spawn().unwrap())
        .collect();
    for sender in senders {
        assert!(sender.wait_with_output().unwrap().status.success());
    }
    // Whoever came too late leaves the rest to whoever is at it; nothing is left.
    assert_eq!(send(&repo, 0), json!({ "delivered": 0, "failed": 0, "given_up": 0, "next": null }));
    let mut ids: Vec<String> =
        receiver.asked().iter().map(|asked| asked.header("windlass-notification")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), receiver.asked().len()), (6, 6));
    repo.is_whole();
}

/// Trusts the settings at this moment; those of the harness are trusted since long ago.
fn trust_now(repo: &Repo) {
    let shown = repo.windlass(&["trust", "--show", "--json"]).exit(0).json();
    let digest = shown["digest"].as_str().unwrap();
    repo.windlass(&["trust", "--json", "--yes", digest]).exit(0);
}

#[test]
fn a_new_receiver_is_told_what_happens_from_then_on() {
    let receiver = Receiver::new();
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    repo.run_with(&escalating(), &["--worktree"]).exit(4);
    let url = format!("url = \"http://{}/\"\nsecret = \"KEY\"", receiver.address);
    settings(&repo, &format!("[notify.phone]\n{url}"));
    trust_now(&repo);
    // It ends before any sender has seen the receiver, and is told all the same.
    let ended = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
    eventually("the end is told", || receiver.kinds() == ["run_ended"]);
    assert_eq!(receiver.asked()[0].json()["run"], ended.as_str());
    // A second receiver comes; it is seen, and what happened before is not told to it.
    let other = Receiver::new();
    let url = format!("url = \"http://{}/\"\nsecret = \"KEY\"", other.address);
    settings(&repo, &format!("[notify.desk]\n{url}"));
    trust_now(&repo);
    eventually("nothing is due", || send(&repo, 0)["delivered"] == 0);
    assert_eq!((receiver.asked().len(), other.asked().len()), (1, 0));
    let next = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
    // Settings that are trusted anew do not move the moment since when it is told.
    trust_now(&repo);
    eventually("both are told", || receiver.asked().len() == 2 && other.asked().len() == 1);
    assert_eq!(other.asked()[0].json()["run"], next.as_str());
    eventually("all is settled", || listed(&repo).iter().all(|one| one["state"] == "delivered"));
    assert_eq!(listed(&repo).len(), 3, "{:?}", listed(&repo));
    repo.is_whole();
}

#[test]
fn a_receiver_that_hangs_does_not_hold_up_a_run() {
    let receiver = Receiver::new();
    receiver.hang(true);
    let repo = told(&receiver, "");
    // It comes back although nobody has answered.
    repo.run(&passing()).exit(0);
    eventually("the end is being told", || receiver.asked().len() == 1);
    assert_eq!(listed(&repo)[0]["state"], "attempting");
    // A second run, too.
    repo.run(&passing()).exit(0);
    receiver.hang(false);
    eventually("both are told", || {
        let all = listed(&repo);
        all.len() == 2 && all.iter().all(|one| one["state"] == "delivered")
    });
    repo.is_whole();
}

/// How many processes are at work that send notifications of a project.
fn senders(repo: &Repo) -> usize {
    let root = repo.root().display().to_string();
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    let sends = |line: &String| line.contains(&root) && line.contains("\0notify\0send\0");
    lines.into_iter().filter(sends).count()
}

/// Whether a process is at work that sends notifications of a project.
fn is_sending(repo: &Repo) -> bool {
    senders(repo) > 0
}

#[test]
fn while_a_receiver_fails_one_process_waits_for_all() {
    const HOLDS: usize = 4;
    let receiver = Receiver::new();
    let repo = told(&receiver, "");
    receiver.answers(&["503 Not now\r\nretry-after: 20"; HOLDS]);
    for _ in 0..HOLDS {
        repo.run_with(&escalating(), &["--worktree"]).exit(4);
    }
    eventually("all were tried, and one process waits", || {
        receiver.asked().len() == HOLDS && senders(&repo) == 1
    });
    // It waits for those of the others, too, and then it ends.
    eventually("all are told", || {
        let all = listed(&repo);
        all.len() == HOLDS && all.iter().all(|one| one["state"] == "delivered")
    });
    eventually("nobody waits any more", || senders(&repo) == 0);
    let ids: std::collections::BTreeSet<String> =
        receiver.asked().iter().map(|asked| asked.header("windlass-notification")).collect();
    assert_eq!((ids.len(), receiver.asked().len()), (HOLDS, 2 * HOLDS));
    repo.is_whole();
}

#[test]
fn a_run_starts_a_sender_only_if_somebody_is_to_be_told() {
    let receiver = Receiver::new();
    receiver.hang(true);
    for (repo, expected) in [(Repo::new(), false), (told(&receiver, ""), true)] {
        let mut run = repo.place.command(&["run", "x", "--answers", &repo.answers(&passing())]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut is_seen = false;
        while run.try_wait().unwrap().is_none() {
            is_seen |= is_sending(&repo);
        }
        assert!(run.wait().unwrap().success());
        if expected {
            // Nobody answers it yet.
            eventually("the end is being told", || !receiver.asked().is_empty());
            assert!(is_sending(&repo));
        } else {
            assert!(!is_seen && !is_sending(&repo), "a sender was started for nobody");
        }
    }
    receiver.hang(false);
    // More than once if this took longer than a request may take.
    let kinds = receiver.kinds();
    assert!(kinds.iter().all(|kind| kind == "run_ended"), "{kinds:?}");
}

#[test]
fn a_damaged_journal_is_told_by_verification() {
    let receiver = Receiver::new();
    let repo = told(&receiver, "on = [\"chain_broken\"]");
    let trace = trace_of(&repo.run(&passing()).exit(0));
    let change = "UPDATE entries SET ts = ts + 1 WHERE id = (SELECT max(id) FROM entries \
                  WHERE lower(hex(trace_id)) = ?1)";
    assert_eq!(repo.place.meddle(change, [trace.replace('-', "")]), 1);
    repo.windlass(&["verify"]).exit(5);
    eventually("it is told", || receiver.kinds() == ["chain_broken"]);
    let text = receiver.asked()[0].json()["text"].as_str().unwrap().to_owned();
    assert!(text.contains(&trace), "{text}");
    repo.windlass(&["verify"]).exit(5);
    assert_eq!(send(&repo, 0)["delivered"], 0, "once is enough");
}

#[test]
fn a_hold_that_expires_soon_is_told_once_more() {
    let receiver = Receiver::new();
    let repo = told(&receiver, "on = [\"hold_expiring\"]");
    let id = id_of(&repo.run(&escalating()).exit(4));
    assert_eq!(send(&repo, 0)["delivered"], 0);
    let hold = repo.stands(&id)["hold"].clone();
    let expires: windlass_kernel::Timestamp =
        hold["expires_at"].as_str().unwrap_or_else(|| panic!("{hold}")).parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let left = expires.unix_ms() - i64::try_from(now.as_millis()).unwrap();
    assert_eq!(send(&repo, left - 3_600_000)["delivered"], 0, "an hour before");
    assert_eq!(send(&repo, left - 600_000)["delivered"], 1, "ten minutes before");
    assert_eq!(send(&repo, left - 500_000)["delivered"], 0);
    assert_eq!(receiver.kinds(), ["hold_expiring"]);
}

#[test]
fn a_command_is_told_without_a_shell() {
    let repo = Repo::new();
    let base = repo.place.base().to_owned();
    let script = "cat > \"$2/told.json\"\necho \"$WINDLASS_KIND $WINDLASS_SECRET $1\" > \"$2/told.txt\"\n\
                  pwd > \"$2/where.txt\"\n";
    std::fs::write(base.join("tell.sh"), script).unwrap();
    let command = json!(["sh", base.join("tell.sh"), "$HOME; true", base]);
    settings(&repo, &format!("[notify.desk]\ncommand = {command}\nsecret = \"KEY\""));
    repo.windlass(&["notify", "test", "desk"]).exit(0);
    let read = |name: &str| std::fs::read_to_string(base.join(name)).unwrap();
    assert_eq!(read("told.txt"), format!("test {KEY} $HOME; true\n"));
    let told: Value = serde_json::from_str(&read("told.json")).unwrap();
    assert_eq!(told["receiver"], "desk");
    // Where agents write, nothing is looked for.
    assert_eq!(read("where.txt").trim(), repo.place.state().display().to_string());
    // Nothing is started for a repository that the user does not trust.
    repo.place.write_untrusted(".windlass/config.toml", "[notify.desk]\ncommand = [\"true\"]\n");
    repo.windlass(&["notify", "test", "desk"]).fails_with(3, "PROJECT_UNTRUSTED");
    repo.windlass(&["trust"]).says("notifications to true");
}

#[test]
fn a_limit_is_told_once_to_each_as_it_wants() {
    let (phone, desk) = (Receiver::new(), Receiver::new());
    let budget = "budget: { attempts: 5, tokens: 100000, wall_minutes: 30, changed_lines: 500 }";
    let repo = Repo::with_spine(budget, "budget: { tokens: 110 }");
    let table = |name: &str, receiver: &Receiver, on: &str| {
        format!(
            "[notify.{name}]\nurl = \"http://{}/\"\nsecret = \"KEY\"\non = {on}\n",
            receiver.address
        )
    };
    let both = "[\"limit_reached\", \"hold_opened\"]";
    settings(&repo, &(table("phone", &phone, both) + &table("desk", &desk, "[\"hold_opened\"]")));
    repo.run(&passing()).exit(4);
    eventually("both are told", || !phone.asked().is_empty() && !desk.asked().is_empty());
    eventually("both are settled", || listed(&repo).iter().all(|one| one["state"] == "delivered"));
    assert_eq!(
        (phone.kinds(), desk.kinds()),
        (vec!["limit_reached".to_owned()], vec!["hold_opened".to_owned()])
    );
}

#[test]
fn the_recipes_of_the_guide_are_true() {
    let guide = crate::harness::repository("docs/guides/notifications.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```toml\n").skip(1).map(|part| part.split("```").next().unwrap());
    let recipes: Vec<&str> = blocks.filter(|block| block.contains("\"sh\", \"-c\"")).collect();
    assert_eq!(recipes.len(), 4, "{recipes:?}");
    let repo = Repo::new();
    settings(&repo, &recipes.concat());
    let key = repo.place.base().join("key").display().to_string();
    let secrets = ["NTFY_TOPIC", "SLACK_WEBHOOK", "TELEGRAM_TOKEN"];
    let secrets = secrets.map(|name| format!("{name} = {{ file = \"{key}\" }}\n"));
    repo.place.settings(&format!("[secrets]\n{}", secrets.concat()));
    // Programs that say what they were given, in the place of the real ones.
    let folder = repo.place.base().join("fake");
    std::fs::create_dir(&folder).unwrap();
    for name in ["curl", "sendmail"] {
        let told = repo.place.base().join("told").display().to_string();
        let script = format!("#!/bin/sh\n{{ printf '<%s>' \"$@\"; cat; }} >> {told}\n");
        std::fs::write(folder.join(name), script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.join(name), mode).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for (name, says) in [
        (
            "ntfy",
            format!(
                "<--data-raw><ada tries out this receiver. Nothing has happened.><https://ntfy.sh/{KEY}>"
            ),
        ),
        ("slack", "\"text\": \"a test of notifications ".to_owned()),
        ("telegram", format!("<https://api.telegram.org/bot{KEY}/sendMessage>")),
        ("mail", "Subject: a test of notifications\n\nada tries out".to_owned()),
    ] {
        let jq = std::process::Command::new("jq").arg("--version").output();
        if name == "slack" && jq.is_err() {
            windlass_testkit::skipped("there is no jq, which the recipe for Slack needs");
            continue;
        }
        let args = ["notify", "test", name, "--by", "ada"];
        let outcome = repo.place.run_with("PATH", &path, &args);
        let told = std::fs::read_to_string(repo.place.base().join("told")).unwrap_or_default();
        assert!(told.contains(&says), "{name}: {told}");
        outcome.exit(0);
    }
}
