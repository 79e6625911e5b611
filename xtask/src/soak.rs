//! `cargo xtask soak`: the random tests, over and over, with fresh seeds and ever more cases.
//!
//! A test reads how much to do from `WINDLASS_SOAK` (see `windlass_testkit::soak`) or, if it is a
//! property test, from the variables of proptest. `check` runs the same tests with fixed numbers.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{cargo, clients, packages, tools};

/// The variable in which proptest looks for a seed.
pub const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Proptest's own numbers of cases and of rejected inputs, for a scale of 1.
const PROPERTY_LIMITS: [(&str, u64); 3] = [
    ("PROPTEST_CASES", 256),
    ("PROPTEST_MAX_GLOBAL_REJECTS", 1024),
    ("PROPTEST_MAX_LOCAL_REJECTS", 65_536),
];

/// A group of random tests.
pub struct Group {
    /// Its name on the command line.
    pub name: &'static str,
    /// What its tests do.
    pub purpose: &'static str,
    /// Nextest's filtersets that select them; their union.
    filters: &'static [&'static str],
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group {
        name: "properties",
        purpose: "property tests, random plans and runs among them",
        filters: &[
            "package(windlass-kernel)",
            "package(windlass-governance)",
            "package(windlass-loops)",
            "package(windlass-policy)",
            "package(windlass-formats)",
            "package(windlass-driver)",
            "package(windlass-workspace)",
            "package(windlass-seal)",
            "package(windlass-engine) & test(/^random::/)",
        ],
    },
    Group {
        name: "kills",
        purpose: "the real binary killed at random moments and raced against itself",
        filters: &[
            "package(windlass) & test(/^kill::(outside::|race::|rewind::.*moves_files|.*random_moments)/)",
            "package(windlass) & test(/^runs::workspaces::.*killed/)",
            "package(windlass-workspace) & test(/^snapshot::kill::/)",
        ],
    },
    Group {
        name: "agents",
        purpose: "Windlass and the real clients of agents killed at random moments",
        filters: &[
            "package(windlass) & test(/^agents::.*killed_/)",
            "package(windlass) & test(/^runners::kills::/)",
        ],
    },
    Group {
        name: "rollbacks",
        purpose: "the real binary killed at random moments of rollbacks, and rollbacks of random phases",
        filters: &[
            "package(windlass) & test(/^runs::checkpoints::.*killed/)",
            "package(windlass-engine) & test(/^checkpoints::(random|crash)::/)",
        ],
    },
    Group {
        name: "attacks",
        purpose: "a thousand attempts to get out of cells of each kind, others to leave something behind them",
        filters: &[
            "package(windlass-cell) & test(/^attacks::/)",
            "package(windlass) & test(/^attacks::/)",
            "package(windlass) & test(/^e2e::left_behind::/)",
            "package(windlass) & test(/^dashboard::security::/)",
            "package(windlass-broker) & test(/^(hostile|plain|tunnel)::/)",
        ],
    },
    Group {
        name: "judging",
        purpose: "random shell lines: what policy allows runs in the real bash, and its effects are compared",
        filters: &["package(windlass-cell) & test(/^judged::/)"],
    },
    Group {
        name: "api",
        purpose: "the API against its description: random requests by Schemathesis",
        filters: &["package(windlass) & test(/^dashboard::described::/)"],
    },
    Group {
        name: "histories",
        purpose: "random histories, given to the stores in memory and on disk",
        filters: &["package(windlass-store-sqlite) & test(history)"],
    },
    Group {
        name: "damage",
        purpose: "random bits flipped in the database and its write-ahead log",
        filters: &["package(windlass-store-sqlite) & test(flipped)"],
    },
];

/// The arguments of `soak`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// When to stop: no pass begins after so many minutes.
    minutes: Option<u64>,
    /// The pass to repeat, with its scale.
    seed: Option<u64>,
    scale: Option<u64>,
    /// The group or, if there is none of this name, a part of the names of tests.
    name: Option<&'a str>,
}

impl<'a> Options<'a> {
    /// Parses the arguments; `None` if they are not understood.
    pub fn parse(arguments: &[&'a str]) -> Option<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--minutes" => options.minutes = Some(rest.next()?.parse().ok()?),
                "--seed" => options.seed = Some(rest.next()?.parse().ok()?),
                "--scale" => options.scale = Some(rest.next()?.parse().ok()?),
                name if !name.starts_with('-') && options.name.is_none() => {
                    options.name = Some(name);
                }
                _ => return None,
            }
        }
        Some(options)
    }

    fn filters(&self) -> Vec<String> {
        if let Some(group) = GROUPS.iter().find(|group| Some(group.name) == self.name) {
            return group.filters.iter().map(ToString::to_string).collect();
        }
        let narrow = |filter: &&str| match self.name {
            Some(name) => format!("({filter}) & test({name})"),
            None => (*filter).to_owned(),
        };
        GROUPS.iter().flat_map(|group| group.filters).map(narrow).collect()
    }
}

/// Runs pass after pass until a test fails or the time is over. The scale of each pass is its number,
/// so the tests do ever more at a time.
///
/// # Errors
/// If a test fails: the error says how to repeat the pass.
pub fn run(root: &Path, options: &Options<'_>) -> Result<()> {
    ensure!(
        tools::has_nextest(),
        "missing: cargo-nextest (`cargo install --locked cargo-nextest`)"
    );
    if matches!(options.name, None | Some("agents")) {
        clients::install(root)?;
    }
    let schemathesis = match options.name {
        None | Some("api") => Some(packages::schemathesis()?),
        Some(_) => None,
    };
    let schemathesis = schemathesis.as_deref();
    if let Some(seed) = options.seed {
        return pass(root, options, schemathesis, seed, options.scale.unwrap_or(1));
    }
    let start = Instant::now();
    let over = || options.minutes.is_some_and(|minutes| start.elapsed() >= minutes_of(minutes));
    for scale in options.scale.unwrap_or(1).. {
        pass(root, options, schemathesis, fresh_seed(), scale)?;
        if over() {
            println!("no test failed in {:.0} minutes", start.elapsed().as_secs_f64() / 60.0);
            return Ok(());
        }
    }
    bail!("the scale has no larger value")
}

const fn minutes_of(minutes: u64) -> Duration {
    Duration::from_secs(minutes.saturating_mul(60))
}

fn pass(
    root: &Path,
    options: &Options<'_>,
    schemathesis: Option<&Path>,
    seed: u64,
    scale: u64,
) -> Result<()> {
    println!("==> soak: seed {seed}, scale {scale}");
    let arguments = ["nextest", "run", "--workspace", "--profile", "soak"];
    let mut command = cargo::checked(root, &arguments);
    for filter in options.filters() {
        command.args(["-E", &filter]);
    }
    command.env("WINDLASS_SOAK", format!("{scale}:{seed}"));
    command.env(PROPERTY_SEED, seed.to_string());
    if let Some(program) = schemathesis {
        command.env("WINDLASS_TEST_SCHEMATHESIS", program);
    }
    for (variable, limit) in PROPERTY_LIMITS {
        command.env(variable, (limit.saturating_mul(scale)).min(u32::MAX.into()).to_string());
    }
    let name = options.name.map(|name| format!(" {name}")).unwrap_or_default();
    cargo::run(&mut command).with_context(|| {
        format!("to repeat it: `cargo xtask soak --seed {seed} --scale {scale}{name}`")
    })
}

/// A seed that has not been used before, most likely.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let all = ["--minutes", "5", "--seed", "7", "--scale", "3", "kills"];
        let options =
            Options { minutes: Some(5), seed: Some(7), scale: Some(3), name: Some("kills") };
        assert_eq!(Options::parse(&all), Some(options));
        assert_eq!(Options::parse(&[]), Some(Options::default()));
        for wrong in [&["--minutes"][..], &["--minutes", "x"], &["--fast"], &["one", "two"]] {
            assert_eq!(Options::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_is_a_group_or_a_part_of_names() {
        let filters = |name| Options { name, ..Options::default() }.filters();
        let all: usize = GROUPS.iter().map(|group| group.filters.len()).sum();
        assert_eq!(filters(None).len(), all);
        assert_eq!(filters(Some("histories")), ["package(windlass-store-sqlite) & test(history)"]);
        let part = filters(Some("race"));
        assert_eq!(part.len(), all);
        assert_eq!(part.first().unwrap(), "(package(windlass-kernel)) & test(race)");
    }

    #[test]
    fn every_package_exists() {
        let metadata = cargo::metadata(&crate::root(), &["--no-deps"]).unwrap();
        let packages: Vec<&str> = cargo::array(&metadata, "packages")
            .map(|package| cargo::text(package, "name"))
            .collect();
        for filter in GROUPS.iter().flat_map(|group| group.filters) {
            let package = filter.strip_prefix("package(").unwrap().split(')').next().unwrap();
            assert!(packages.contains(&package), "{filter}");
        }
    }
}
