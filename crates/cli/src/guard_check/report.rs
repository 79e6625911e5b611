//! What was measured, for people and programs.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_hooks::Client;

use super::cases::Case;
use crate::failure::Failure;
use crate::output::{Output, Style, sanitize};

/// What became of a tool that the agent used while the guard failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran and is on record, as it should without a failure.
    Works,
    /// It did not run.
    Stops,
    /// It ran, and Windlass finds and tells that afterwards.
    Noticed,
    /// It ran, and nothing tells.
    Runs,
}

impl Verdict {
    /// Its word in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Stops => "stops",
            Self::Noticed => "noticed",
            Self::Runs => "RUNS",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Works | Self::Stops => Style::Good,
            Self::Noticed => Style::Warn,
            Self::Runs => Style::Bad,
        }
    }
}

/// How far a client's hooks can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Every failure stops the tool.
    Closed,
    /// Every failure stops the tool or is noticed.
    Watched,
    /// Some failure lets the tool run, and nothing tells.
    Open,
}

impl Level {
    /// The level of what was measured.
    pub fn of(measured: &[Measured]) -> Self {
        let has = |verdict| measured.iter().any(|one| one.verdict == verdict);
        if has(Verdict::Runs) {
            Self::Open
        } else if has(Verdict::Noticed) {
            Self::Watched
        } else {
            Self::Closed
        }
    }

    /// Its word in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Watched => "watched",
            Self::Open => "open",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Closed => Style::Good,
            Self::Watched => Style::Warn,
            Self::Open => Style::Bad,
        }
    }
}

/// One case that was tried.
pub struct Measured {
    /// The case.
    pub case: &'static Case,
    /// What became of the tool.
    pub verdict: Verdict,
    /// What the model or the user was told.
    pub detail: String,
    /// How long it took.
    pub took: Duration,
}

/// What was measured of a client, or why nothing was.
pub struct Report {
    /// The client.
    pub client: Client,
    /// Its version; empty if it is not installed.
    pub version: String,
    /// The cases.
    pub measured: Result<Vec<Measured>, String>,
    /// Whether all cases were tried that the client has.
    pub is_whole: bool,
}

impl Report {
    /// The level; none if not everything was measured.
    pub fn level(&self) -> Option<Level> {
        self.measured.as_deref().ok().filter(|_| self.is_whole).map(Level::of)
    }

    fn value(&self) -> Value {
        let cases = self.measured.as_deref().unwrap_or_default().iter().map(|one| {
            json!({
                "case": one.case.name,
                "what": one.case.what,
                "result": one.verdict.as_str(),
                "told": one.detail,
                "remedy": (one.verdict == Verdict::Runs).then_some(one.case.remedy),
                "seconds": one.took.as_secs_f64(),
            })
        });
        json!({
            "client": self.client.as_str(),
            "version": self.version,
            "level": self.level().map(Level::as_str),
            "problem": self.measured.as_ref().err(),
            "cases": cases.collect::<Vec<_>>(),
        })
    }
}

/// Prints what was measured.
pub fn print(reports: &[Report], output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.value(&reports.iter().map(Report::value).collect::<Vec<_>>());
    }
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            output.line("");
        }
        print_one(report, output);
    }
    Ok(())
}

fn print_one(report: &Report, output: &Output) {
    let name = report.client.as_str();
    let measured = match &report.measured {
        Ok(measured) => measured,
        Err(problem) => return output.line(&format!("{name}: {}", sanitize(problem))),
    };
    let word = match report.level() {
        Some(level) => output.paint(level.as_str(), level.style()),
        None => "only the chosen cases were tried".to_owned(),
    };
    output.line(&format!("{name} {}: {word}", sanitize(&report.version)));
    let rows: Vec<_> = measured
        .iter()
        .map(|one| {
            vec![
                (one.verdict.as_str().to_owned(), Some(one.verdict.style())),
                (one.case.name.to_owned(), None),
                (one.case.what.to_owned(), None),
            ]
        })
        .collect();
    output.table(&["RESULT", "CASE", "WHAT IS DONE"], &rows);
    for one in measured.iter().filter(|one| one.verdict == Verdict::Runs) {
        output.line(&format!("{}: {}", one.case.name, one.case.remedy));
    }
}
