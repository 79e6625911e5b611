//! Pictures of the pages that show what is there: calls, entries, sessions, policy, grants, backlog, spend.

use serde_json::json;

use crate::browser::driver::{Browser, PHONE};
use crate::browser::looks::look_at;
use crate::browser::story::{log_in, repo};
use crate::guarded::session;
use crate::served::{Served, project_of};
use crate::world::{Repo, escalating, id_of, passing};

const BACKLOG: &str = "# What is to be done

### P0
- [x] **Write it down** — DoD: it is written — Owner: ada
- [ ] **Raise the price of everything that is sold by weight** — DoD: it is higher — Owner: bob — Context: src/price.txt

### P1
- [ ] **Lower it again** — DoD: it is lower — Owner: bob — Context: depends on Raise the price of everything that is sold by weight
- [ ] **Ask for rain** — DoD: it rains — Owner: ada — Context: blocked by the weather
- [ ] **Dream** — DoD: it was a good one — Owner: ada
";

/// A repository in which a lot has happened.
fn busy() -> (Repo, String) {
    let repo = repo();
    repo.write("BACKLOG.md", BACKLOG);
    repo.commit("a backlog");
    let run = id_of(&repo.run(&passing()).exit(0));
    repo.git(&["rm", "-q", "--cached", "built.txt"]);
    repo.git(&["reset", "-q", "--hard"]);
    drop(repo.run(&escalating()).exit(4));
    session(&repo, "3b1f5a52-7c3e-4f0e-9d6c-2f4c1b8a9e10");
    repo.place.completed();
    repo.place.held();
    for line in ["sudo ls", "git push --force origin main", "cat .env"] {
        drop(repo.place.shell("shell/run", line, &["--new-key"]));
    }
    let words =
        ["--times", "3", "--for", "7d", "--by", "ada", "--reason", "the notes of this week"];
    repo.windlass(&[&["grant", "add", "shell/run", "--path", "CLAUDE.md"][..], &words].concat())
        .exit(0);
    repo.windlass(
        &[&["grant", "add", "shell/run", "--command", "git push origin *"][..], &words].concat(),
    )
    .exit(0);
    repo.place.shell("shell/run", "echo x > CLAUDE.md", &["--new-key"]).exit(0);
    (repo, run)
}

#[test]
fn calls_like_one_that_waits_are_granted_in_two_steps() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let args = "{\"line\":\"git push origin main\"}";
    let line = ["call", "run", "shell/run", "--key", "push-1", "--args", args, "--json"];
    let call = repo.windlass(&line).exit(4).json()["trace_id"].as_str().expect("its id").to_owned();
    let served = Served::start(&repo.place, &[]);
    log_in(&browser, &served, &served.link);
    browser.go(&format!("http://{}/calls/{}/{call}", served.address, project_of(&repo.place)));
    browser.click("a[href^='/grants?']");
    browser.until("main", "Give a grant");
    let filled = browser.script(
        "return ['tool', 'command'].map((name) => document.querySelector(`form.card [name=${name}]`).value);",
    );
    assert_eq!(filled, json!(["shell/run", "git push origin main"]));
    browser.enter("form.card input[name=reason]", "the release");
    browser.click("form.card button.primary");
    browser.until("#grants", "git push origin main");
    repo.windlass(&["grant", "list"]).exit(0).says("git push origin main");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}

#[test]
fn pages_of_what_is_there_fit_every_window() {
    let Some(browser) = Browser::open() else { return };
    let (repo, run) = busy();
    let served = Served::start(&repo.place, &[]);
    let project = project_of(&repo.place);
    log_in(&browser, &served, &served.link);
    let sessions = repo.windlass(&["session", "list", "--json"]).exit(0).json();
    let session = sessions[0]["run_id"].as_str().expect("a session").to_owned();
    let grants = repo.windlass(&["grant", "list", "--json"]).exit(0).json();
    let used = grants.as_array().expect("grants").iter().find(|grant| grant["used"] == 1);
    let grant = used.expect("a used one")["trace_id"].as_str().expect("its id").to_owned();
    let explain =
        "/policy/explain?tool=shell%2Frun&args=%7B%22line%22%3A%22make+test+%26%26+git+push%22%7D";
    let pages = [
        ("sessions", "/sessions".to_owned()),
        ("session", format!("/sessions/{project}/{session}")),
        ("calls", "/calls".to_owned()),
        ("calls-none", "/calls?tool=nothing".to_owned()),
        ("entries", format!("/runs/{project}/{run}/entries")),
        ("entry", format!("/runs/{project}/{run}/entries/1")),
        ("policy", "/policy".to_owned()),
        ("explain", explain.to_owned()),
        ("grants", "/grants".to_owned()),
        ("grant", format!("/grants/{project}/{grant}")),
        ("backlog", "/backlog".to_owned()),
        ("spend", "/spend?days=7".to_owned()),
    ];
    look_at(&browser, &served, &pages);
    // On a phone the rarer pages unfold, and all of the sheet can be reached.
    browser.look(PHONE);
    browser.go(&format!("http://{}/", served.address));
    browser.click("nav summary");
    let outside = browser.script(
        "return [...document.querySelectorAll('.sheet a')].filter((link) => {
            const box = link.getBoundingClientRect();
            return box.width === 0 || box.left < 0 || box.right > innerWidth || box.bottom > innerHeight;
        }).map((link) => link.textContent);",
    );
    assert_eq!(outside, json!([]));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    browser.picture(&folder.join("menu-phone-light.png"));
    browser.click(".sheet a[href='/spend']");
    browser.until("main h1", "Spend");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}
