//! What the pages look like: pictures of each in both colours and two sizes, and what no picture may have.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::browser::driver::{Browser, DESK, DESK_DARK, PHONE, PHONE_DARK};
use crate::browser::story::{log_in, repo};
use crate::served::{Served, project_of};
use crate::world::{answers, build, escalating, id_of, passing, sh};

/// Elements that stick out of the window, and texts that are cut off. What scrolls by itself may be wider.
const OUTSIDE: &str = "
    const wide = document.documentElement.clientWidth;
    const inside = (element) => element.closest('.scroll, pre, .skip, .away') === null;
    return [...document.querySelectorAll('body *')].filter((element) => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && inside(element) && (box.right > wide + 1 || box.left < -1);
    }).map((element) => element.outerHTML.slice(0, 200));";

/// Controls without a name, and names that are too small to hit on a phone.
const UNNAMED: &str = "
    const named = (element) => element.labels?.length > 0 || element.ariaLabel || element.textContent.trim() || element.type === 'hidden';
    return [...document.querySelectorAll('a, button, input, select, textarea, summary')]
        .filter((element) => !named(element)).map((element) => element.outerHTML.slice(0, 200));";

/// The program that finds what keeps people out of pages; nothing if it is not installed.
fn axe() -> Option<String> {
    let asked = std::env::var_os("WINDLASS_TEST_BROWSER").map(PathBuf::from);
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    let file = asked.clone().unwrap_or_else(usual).join("node_modules/axe-core/axe.min.js");
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) => {
            let reason = format!(
                "no axe-core: {}: {error}; `cargo xtask check --only browser`",
                file.display()
            );
            assert!(asked.is_none(), "{reason}");
            windlass_testkit::skipped(&reason);
            None
        }
    }
}

/// What axe-core finds serious.
const SERIOUS: &str = "
    return axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations
        .filter((one) => one.impact === 'serious' || one.impact === 'critical')
        .map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).join(' | ').slice(0, 600)}`));";

#[test]
fn pages_fit_every_window_and_have_names_for_everything() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let receivers = "[notify.desk]\ncommand = [\"true\"]\n[notify.phone]\ncommand = [\"false\"]";
    repo.place.append(".windlass/config.toml", receivers);
    repo.commit("receivers");
    let passed = id_of(&repo.run(&passing()).exit(0));
    repo.git(&["rm", "-q", "--cached", "built.txt"]);
    repo.git(&["reset", "-q", "--hard"]);
    let held = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["notify", "send"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let project = project_of(&repo.place);
    log_in(&browser, &served, &served.link);
    let pages = [
        ("inbox", "/".to_owned()),
        ("runs", "/runs".to_owned()),
        ("new", "/new".to_owned()),
        ("run-passed", format!("/runs/{project}/{passed}")),
        ("run-held", format!("/runs/{project}/{held}")),
        ("hold", format!("/holds/{project}/{held}")),
        ("transcript", format!("/runs/{project}/{held}/transcripts/build")),
        ("checkpoints", format!("/runs/{project}/{held}/checkpoints")),
        ("compare", format!("/runs/{project}/{held}/compare?from=PRE_build_v1&to=POST_build_v1")),
        ("rollback", format!("/runs/{project}/{held}/rollback?checkpoint=PRE_build_v1")),
        ("journal", "/journal".to_owned()),
        ("notifications", "/notifications".to_owned()),
        ("missing", "/nothing".to_owned()),
    ];
    look_at(&browser, &served, &pages);
}

/// The picture in the README is made here.
#[test]
fn a_run_that_waits_shows_where_it_is_and_why() {
    let Some(browser) = Browser::open() else { return };
    let repo = repo();
    let served = Served::start(&repo.place, &[]);
    log_in(&browser, &served, &served.link);
    browser.look(DESK);
    let question = "No test covers goods sold by weight. Go on without one?";
    let review =
        json!({ "answer": { "verdict": "escalate", "reason": question, "summary": "seen" } });
    let answers =
        repo.answers(&answers(&[build(&[sh("sleep 2; echo built >> built.txt")])], &[review]));
    let task = "Raise the price of everything sold by weight";
    let run = ["run", task, "--answers", &answers, "--by", "ada", "--json"];
    let id = id_of(&repo.windlass(&run).exit(4));
    browser.go(&format!("http://{}/runs/{}/{id}", served.address, project_of(&repo.place)));
    browser.until("#summary", question);
    browser.until("#graph", "waits for you");
    browser.until("#timeline", "waits, ");
    browser.picture_of(&folder().join("readme.png"), &json!(1280), &json!(860));
}

/// Where the pictures are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard")
}

/// Takes pictures of pages, and looks for what no picture may have.
pub fn look_at(browser: &Browser, served: &Served, pages: &[(&str, String)]) {
    let folder = folder();
    let axe = axe();
    let mut serious = Vec::new();
    for (name, path) in pages {
        for look in [DESK, DESK_DARK, PHONE, PHONE_DARK] {
            browser.look(look);
            browser.go(&format!("http://{}{path}", served.address));
            browser.find("main h1");
            browser.picture(&folder.join(format!("{name}-{}.png", look.name)));
            assert_eq!(browser.script(OUTSIDE), json!([]), "{name} {}", look.name);
            assert_eq!(browser.script(UNNAMED), json!([]), "{name} {}", look.name);
            if let Some(axe) = &axe {
                let found = browser.script(&format!("{axe};{SERIOUS}"));
                serious.extend(found.as_array().expect("a list").iter().map(|one| {
                    format!("{name} {}: {}", look.name, one.as_str().unwrap_or_default())
                }));
            }
        }
    }
    assert!(serious.is_empty(), "{}", serious.join("\n"));
}
