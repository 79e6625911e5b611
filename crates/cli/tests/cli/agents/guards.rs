//! How the hooks of the real clients fail: `windlass doctor --agents` finds what docs/guards.md says.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_testkit::soak;

use crate::agents::lab::{Kind, Lab};
use crate::harness::{repository, text_of};

/// Set if all cases must be tried.
const ALL: &str = "WINDLASS_TEST_ALL_GUARD_CASES";
/// The cases that are always tried.
const ALWAYS: [&str; 2] = ["works", "denied"];
/// How many of the others a check tries with each client.
const OTHERS: usize = 3;
/// What stands in the page for a case that is not tried with a client.
const NOT_TRIED: &str = "–";
/// How the table of the page begins.
const HEADING: &str = "| what fails |";
/// The row of the page with the levels.
const LEVEL: &str = "**level**";

/// The column of a client in the page: its version, its level, and the result of each case.
#[derive(Debug, PartialEq)]
struct Column {
    version: String,
    /// Only if all cases were tried.
    level: Option<String>,
    results: BTreeMap<String, String>,
}

fn column_of_page(client: &str) -> Column {
    let page = std::fs::read_to_string(repository("docs/guards.md")).expect("the page");
    // The page has other tables, too.
    let table = page.lines().skip_while(|line| !line.starts_with(HEADING));
    let mut rows = table.map_while(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").map(str::to_owned).collect::<Vec<_>>())
    });
    let heading = rows.next().expect("the table");
    let is_ours = |title: &String| title.split(' ').next() == Some(client);
    let at = heading.iter().position(is_ours).expect("a column of the client");
    let version = heading[at].split_once(' ').expect("a version").1.to_owned();
    let mut column = Column { version, level: None, results: BTreeMap::new() };
    for cells in rows {
        if cells[0] == LEVEL {
            column.level = Some(cells[at].trim_matches('*').to_owned());
        } else if let Some((name, _)) = cells[0].strip_prefix('`').and_then(|it| it.split_once('`'))
            && cells[at] != NOT_TRIED
        {
            column.results.insert(name.to_owned(), cells[at].clone());
        }
    }
    column
}

fn column_of_report(report: &Value) -> Column {
    let cases = report["cases"].as_array().expect("cases");
    let results = cases.iter().map(|case| (text_of(case, "case"), text_of(case, "result")));
    Column {
        version: text_of(report, "version"),
        level: report["level"].as_str().map(str::to_owned),
        results: results.collect(),
    }
}

/// The cases that are tried: in a check some, and others in the next one; in a soak, or if the page was measured with
/// other clients or other hooks, all.
fn chosen(page: &Column, kind: &Kind) -> Vec<String> {
    let all: Vec<String> = page.results.keys().cloned().collect();
    if std::env::var_os(ALL).is_some() {
        return all;
    }
    let (always, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|name| ALWAYS.contains(&name.as_str()));
    [always, soak::chosen(&others, OTHERS, 5 * kind.number())].concat()
}

pub fn fail_as_the_page_says(kind: &'static Kind) {
    // The command has a model of its own.
    let Some(lab) = Lab::new(kind, &json!([])) else { return };
    let mut page = column_of_page(kind.name);
    let chosen = chosen(&page, kind);
    let mut line = vec!["doctor", "--agents", kind.name, "--json"];
    line.extend(chosen.iter().flat_map(|name| ["--case", name]));
    let outcome = lab.windlass(&line);
    let reports = outcome.json();
    let [report] = &reports.as_array().expect("reports")[..] else { panic!("one report") };
    assert_eq!(report["problem"], Value::Null, "{outcome}");
    if chosen.len() < page.results.len() {
        page.results.retain(|name, _| chosen.contains(name));
        page.level = None;
    }
    assert_eq!(
        column_of_report(report),
        page,
        "`cargo xtask guards` writes the page anew\n{outcome}"
    );
    let runs = page.results.values().any(|result| result == "RUNS");
    assert_eq!(outcome.code, Some(i32::from(runs)), "{outcome}");
}
