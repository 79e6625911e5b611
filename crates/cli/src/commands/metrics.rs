//! `windlass status --metrics`: metrics in the Prometheus text format.

use std::fmt::{Display, Write as _};
use std::path::Path;

use windlass_journal::Runs;
use windlass_kernel::{Machine, State, Timestamp};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_views::{EndedRuns, Metrics};

use crate::atomic;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::project::{DATABASE, Project};

/// The file in the state folder with what is counted of ended runs.
const FILE: &str = "ended-runs.json";
/// The maximum size of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Prints the metrics of a project.
pub fn run(project: &Project, runs: &Runs, output: &Output) -> CommandResult {
    let state = project.state()?;
    let metrics = count(runs, &state.join(FILE))?;
    let bytes = ["", "-wal"].iter().map(|end| {
        let path = state.join(format!("{DATABASE}{end}"));
        std::fs::metadata(path).map_or(0, |meta| meta.len())
    });
    output.bytes(text(&metrics, bytes.sum(), SystemClock.now()).as_bytes());
    Ok(0)
}

/// Counts the runs, of those that have ended only the ones that a file in the state folder does not have yet.
fn count(runs: &Runs, path: &Path) -> Result<Metrics, Failure> {
    let is_small =
        path.metadata().is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
    let before = if is_small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    // What cannot be read is counted anew.
    let kept: EndedRuns = serde_json::from_slice(&before).unwrap_or_default();
    let (metrics, kept) = Metrics::count(runs.store(), kept)?;
    // Where it cannot be kept, the runs are read again.
    drop(
        serde_json::to_vec(&kept)
            .map(|after| if after == before { Ok(()) } else { atomic::write(path, &after) }),
    );
    Ok(metrics)
}

/// The text of the metrics, written family by family.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.0, name }
    }
}

struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"{}\"", escape(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn text(metrics: &Metrics, journal_bytes: u64, now: Timestamp) -> String {
    let mut all = Exposition::default();
    all.family("windlass_build_info", "gauge", "The version of Windlass.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut runs = all.family("windlass_runs", "gauge", "Runs by loop, state and outcome.");
    for (kind_of, count) in &metrics.runs {
        let labels = [
            ("loop", kind_of.plan.as_str()),
            ("state", kind_of.state),
            ("outcome", kind_of.outcome),
        ];
        runs.sample(&labels, count);
    }
    all.family("windlass_runs_unreadable", "gauge", "Runs that cannot be read.")
        .sample(&[], metrics.unreadable);
    all.family("windlass_holds_waiting", "gauge", "Runs on hold.").sample(&[], metrics.waiting);
    let age = metrics.waiting_since.map_or(0, |since| (now.unix_ms() - since.unix_ms()).max(0));
    all.family("windlass_hold_oldest_age_seconds", "gauge", "Age of the oldest hold.")
        .sample(&[], seconds(age));
    let mut calls = all.family("windlass_calls", "gauge", "Tool calls by state.");
    for state in State::ALL.iter().filter(|state| state.machine() == Machine::Call) {
        let count = metrics.counts.traces.get(state).copied().unwrap_or_default();
        calls.sample(&[("state", state.as_str())], count);
    }
    for (name, kind, help, value) in [
        ("windlass_journal_entries", "gauge", "Entries in the journal.", metrics.counts.entries),
        ("windlass_journal_bytes", "gauge", "Size of the journal's files.", journal_bytes),
        (
            "windlass_invocations_total",
            "counter",
            "Agents and programs started.",
            metrics.invocations,
        ),
        ("windlass_tokens_total", "counter", "Tokens used.", metrics.tokens),
        (
            "windlass_cost_micros_total",
            "counter",
            "Cost in millionths of the currency unit.",
            metrics.cost_micros,
        ),
    ] {
        all.family(name, kind, help).sample(&[], value);
    }
    if let Some(at) = metrics.recovered_at {
        let help = "When a run was last restarted after its process died.";
        all.family("windlass_last_recovery_timestamp_seconds", "gauge", help)
            .sample(&[], seconds(at.unix_ms()));
    }
    all.0
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use windlass_store::Counts;
    use windlass_views::RunKind;

    use super::*;

    /// Reads the text format strictly: every line, every escape; returns samples by series.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        assert!(text.ends_with('\n'));
        let mut samples = BTreeMap::new();
        let mut families = BTreeSet::new();
        let mut current = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(!help.is_empty() && !help.contains('\\'));
                let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
                let (again, kind) = kind.split_once(' ').unwrap();
                assert_eq!(again, name);
                assert!(["gauge", "counter"].contains(&kind), "{kind}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                assert!(families.insert(name.to_owned()), "{name} twice");
                current = name.to_owned();
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name_end = series.find('{').unwrap_or(series.len());
            assert_eq!(&series[..name_end], current, "a sample outside of its family");
            assert!(current.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            labels(&series[name_end..]);
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0);
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} twice");
        }
        samples
    }

    fn labels(text: &str) {
        let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
            assert_eq!(text, "");
            return;
        };
        let mut chars = inner.chars();
        loop {
            let name: String = chars.by_ref().take_while(|char| *char != '=').collect();
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()));
            assert_eq!(chars.next(), Some('"'));
            loop {
                match chars.next().expect("the end of a value") {
                    '"' => break,
                    '\\' => assert!(matches!(chars.next(), Some('\\' | '"' | 'n'))),
                    char => assert!(char != '\n'),
                }
            }
            match chars.next() {
                None => return,
                Some(',') => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn everything_that_is_counted_is_one_sample() {
        let kind_of =
            |plan: &str, state, outcome| RunKind { plan: plan.to_owned(), state, outcome };
        let ts = |ms| Timestamp::from_unix_ms(ms).unwrap();
        let metrics = Metrics {
            runs: BTreeMap::from([
                (kind_of("spine", "TERMINAL", "PASS"), 3),
                (kind_of("spine", "CHECKPOINT", ""), 2),
                (kind_of("a\"b\\c\nd", "RUNNING", ""), 1),
            ]),
            waiting: 2,
            waiting_since: Some(ts(1_000)),
            unreadable: 1,
            invocations: 7,
            tokens: 8,
            cost_micros: 9,
            recovered_at: Some(ts(1_500)),
            counts: Counts {
                traces: BTreeMap::from([(State::Completed, 5)]),
                entries: 30,
                unreadable: 0,
            },
        };
        let samples = parse(&text(&metrics, 4096, ts(61_250)));
        let expected: &[(&str, f64)] = &[
            ("windlass_build_info{version=\"0.1.0\"}", 1.0),
            ("windlass_calls{state=\"AUTHORIZED\"}", 0.0),
            ("windlass_calls{state=\"COMPLETED\"}", 5.0),
            ("windlass_calls{state=\"DENIED\"}", 0.0),
            ("windlass_calls{state=\"EXECUTING\"}", 0.0),
            ("windlass_calls{state=\"FAILED\"}", 0.0),
            ("windlass_calls{state=\"PENDING\"}", 0.0),
            ("windlass_cost_micros_total", 9.0),
            ("windlass_hold_oldest_age_seconds", 60.25),
            ("windlass_holds_waiting", 2.0),
            ("windlass_invocations_total", 7.0),
            ("windlass_journal_bytes", 4096.0),
            ("windlass_journal_entries", 30.0),
            ("windlass_last_recovery_timestamp_seconds", 1.5),
            ("windlass_runs_unreadable", 1.0),
            ("windlass_runs{loop=\"a\\\"b\\\\c\\nd\",state=\"RUNNING\",outcome=\"\"}", 1.0),
            ("windlass_runs{loop=\"spine\",state=\"CHECKPOINT\",outcome=\"\"}", 2.0),
            ("windlass_runs{loop=\"spine\",state=\"TERMINAL\",outcome=\"PASS\"}", 3.0),
            ("windlass_tokens_total", 8.0),
        ];
        let expected: BTreeMap<String, f64> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(samples, expected);
    }

    #[test]
    fn an_empty_project_has_metrics_too() {
        let samples = parse(&text(&Metrics::default(), 0, Timestamp::EPOCH));
        assert_eq!(samples.get("windlass_hold_oldest_age_seconds"), Some(&0.0));
        assert_eq!(samples.keys().filter(|name| name.contains("recovery")).count(), 0);
    }
}
