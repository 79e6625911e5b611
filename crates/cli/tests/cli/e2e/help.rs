//! Help, versions, completions, and the mistakes of the command line.

use crate::e2e::snapshot::check;
use crate::harness::Place;

const COMMANDS: &[&str] = &[
    "init",
    "trust",
    "state",
    "state list",
    "state move",
    "state remove",
    "run",
    "resume",
    "status",
    "queue",
    "queue list",
    "queue show",
    "queue approve",
    "queue reject",
    "queue answer",
    "queue revoke",
    "stop",
    "cancel",
    "backlog",
    "backlog list",
    "backlog next",
    "backlog run",
    "loop",
    "loop list",
    "loop show",
    "loop check",
    "workflow",
    "workflow list",
    "workflow show",
    "workflow check",
    "close",
    "export",
    "demo",
    "call",
    "call run",
    "call show",
    "call list",
    "call approve",
    "call settle",
    "call deny",
    "install",
    "uninstall",
    "mcp",
    "mcp serve",
    "mcp wrap",
    "mcp trust",
    "work",
    "work list",
    "work show",
    "work create",
    "work update",
    "work close",
    "work link",
    "work sync",
    "memory",
    "memory search",
    "memory add",
    "trace",
    "trace list",
    "trace show",
    "trace log",
    "recover",
    "verify",
    "bundle",
    "bundle restore",
    "anchor",
    "people",
    "people list",
    "people add",
    "people revoke",
    "keys",
    "keys show",
    "keys list",
    "keys rotate",
    "policy",
    "policy check",
    "policy explain",
    "policy test",
    "policy hash",
    "canon",
    "doctor",
    "completions",
    "watch",
    "telemetry",
    "telemetry push",
    "notify",
    "notify send",
    "notify list",
    "notify test",
    "notify again",
];

#[test]
fn the_help_of_the_whole_teaches_the_first_steps() {
    let place = Place::new();
    let long = place.run(&["--help"]).exit(0).quiet();
    let short = place.run(&["-h"]).exit(0).quiet();
    check("help", &place, &[long, short]);
}

#[test]
fn every_command_has_help() {
    let place = Place::new();
    let outcomes: Vec<_> = COMMANDS
        .iter()
        .map(|command| {
            let words: Vec<&str> = command.split(' ').chain(["-h"]).collect();
            place.run(&words).exit(0).quiet()
        })
        .collect();
    check("help_of_commands", &place, &outcomes);
}

#[test]
fn the_help_names_every_command() {
    let place = Place::new();
    for (parent, child) in COMMANDS.iter().map(|command| match command.split_once(' ') {
        Some((parent, child)) => (vec![parent, "--help"], child),
        None => (vec!["--help"], *command),
    }) {
        place.run(&parent).exit(0).says(&format!("  {child} "));
    }
}

#[test]
fn without_arguments_it_shows_the_help_as_a_mistake() {
    let place = Place::new();
    let outcome = place.run(&[]).exit(2);
    assert_eq!(outcome.text(), "");
    outcome.warns("Usage: windlass").warns("First steps:");
    for parent in ["call", "mcp", "trace", "policy", "queue", "backlog", "loop", "workflow", "keys"]
    {
        place.run(&[parent]).exit(2).warns("Usage: windlass");
    }
}

#[test]
fn the_version_is_one_line() {
    let place = Place::new();
    for flag in ["--version", "-V"] {
        let outcome = place.run(&[flag]).exit(0).quiet();
        assert_eq!(outcome.text(), format!("windlass {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn mistakes_of_the_command_line_are_explained() {
    let place = Place::new();
    let lines: &[&[&str]] = &[
        &["frobnicate"],
        &["call", "rum"],
        &["verify", "--fiel", "x"],
        &["call", "run"],
        &["call", "run", "shell/read", "--class", "mild"],
        &["call", "run", "shell/run", "--key", "a", "--new-key"],
        &["call", "list", "--limit", "many"],
        &["call", "approve", "01890a5d-ac96-774b-bcce-b302099a8057", "--reason", "fine"],
        &["verify", "--all", "--file", "x"],
        &["completions", "csh"],
        &["--color", "sometimes", "verify"],
    ];
    let outcomes: Vec<_> = lines.iter().map(|line| place.run(line).exit(2)).collect();
    for outcome in &outcomes {
        assert_eq!(outcome.text(), "", "{outcome}");
    }
    check("mistakes", &place, &outcomes);
}

#[test]
fn mistakes_are_json_where_json_is_asked_for() {
    let place = Place::new();
    let outcome = place.run(&["--json", "call", "approve", "x", "--by", "y"]).exit(2);
    assert_eq!(outcome.text(), "");
    let error = outcome.error();
    assert_eq!(error["code"], "REQUEST_INVALID");
    assert!(error["message"].as_str().unwrap().contains("--reason <TEXT>"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--help"), "{error}");
}

#[test]
fn a_completion_script_comes_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let outcome = place.run(&["completions", shell]).exit(0).quiet();
        outcome.says("windlass").says("recover");
    }
}
