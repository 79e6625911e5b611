//! How the hooks of the real clients fail: `windlass doctor --agents` finds what docs/guards.md says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{repository, text_of};
use crate::lab::{Kind, Lab};

/// What stands in the page for a case that is not tried with a client.
const NOT_TRIED: &str = "–";
/// The row of the page with the levels.
const LEVEL: &str = "**level**";

/// The column of a client in the page: its version, its level, and the result of each case.
#[derive(Debug, PartialEq)]
struct Column {
    version: String,
    level: String,
    results: BTreeMap<String, String>,
}

fn column_of_page(client: &str) -> Column {
    let page = std::fs::read_to_string(repository("docs/guards.md")).expect("the page");
    let mut rows = page.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").map(str::to_owned).collect::<Vec<_>>())
    });
    let heading = rows.find(|cells| cells[0] == "what fails").expect("the table");
    let is_ours = |title: &String| title.split(' ').next() == Some(client);
    let at = heading.iter().position(is_ours).expect("a column of the client");
    let version = heading[at].split_once(' ').expect("a version").1.to_owned();
    let mut column = Column { version, level: String::new(), results: BTreeMap::new() };
    for cells in rows {
        if cells[0] == LEVEL {
            column.level = cells[at].trim_matches('*').to_owned();
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
        level: text_of(report, "level"),
        results: results.collect(),
    }
}

pub fn fail_as_the_page_says(kind: &'static Kind) {
    // The command has a model of its own.
    let Some(lab) = Lab::new(kind, &json!([])) else { return };
    let outcome = lab.windlass(&["doctor", "--agents", kind.name, "--json"]);
    let reports = outcome.json();
    let [report] = &reports.as_array().expect("reports")[..] else { panic!("one report") };
    assert_eq!(report["problem"], Value::Null, "{outcome}");
    assert_eq!(
        column_of_report(report),
        column_of_page(kind.name),
        "`cargo xtask guards` writes the page anew\n{outcome}"
    );
    assert_eq!(outcome.code, Some(i32::from(report["level"] == "open")), "{outcome}");
}
