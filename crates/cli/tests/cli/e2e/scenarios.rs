//! One way to meet each public code by the binary alone.

use std::time::{Duration, Instant};

use windlass_kernel::Code;

use crate::e2e::damage::during_a_call;
use crate::harness::{Outcome, Place, finish, text_of};
use crate::states::copy;

const VOICE: [&str; 4] = ["--by", "ada", "--reason", "a test"];
const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// The codes that the binary cannot be brought to show, and why.
pub const NOT_HERE: &[(Code, &str)] = &[
    (Code::Internal, "it stands for a fault of ours; a scenario for it would be one"),
    (Code::LedgerCorrupt, "no command reads the ledger; the tests of `formats` meet it"),
    (Code::BlobMissing, IN_BLOBS),
    (Code::BlobCorrupt, IN_BLOBS),
    (Code::ImportInvalid, IN_RUNS),
    (Code::ChangeUnreviewed, IN_RUNS),
    (Code::PinnedUnavailable, IN_RUNS),
    (Code::CheckpointUnavailable, IN_RUNS),
    (Code::WorkspaceChanged, IN_RUNS),
    (Code::SnapshotCorrupt, IN_RUNS),
    (Code::SnapshotFailed, "git has to fail for it; the tests of `connect` meet it"),
    (Code::Interrupted, "a signal has to be sent; the tests of `runs` send it"),
    (Code::LimitProcesses, IN_THE_CELL),
    (Code::LimitMemory, IN_THE_CELL),
    (Code::LimitFileSize, IN_THE_CELL),
    (Code::LimitOpenFiles, IN_THE_CELL),
    (Code::ProtectedPathChanged, IN_SANDBOX),
    (Code::GitDamaged, IN_SANDBOX),
    (Code::GitConflict, IN_WORKSPACE),
    (Code::GitFilterRefused, IN_WORKSPACE),
    (Code::GitUnrecordable, IN_WORKSPACE),
    (Code::HelperMissing, IN_WORKSPACE),
    (Code::NetworkRefused, IN_THE_BROKER),
    (Code::NetworkUnreachable, IN_THE_BROKER),
    (Code::DriverModelUnavailable, IN_A_RUN),
    (Code::DriverCapabilityExceeded, IN_A_RUN),
    (Code::DriverSandboxInconsistent, IN_A_RUN),
    (Code::DriverSaveRefused, IN_A_RUN),
    (Code::DriverMemoryConflict, IN_A_RUN),
];

const IN_BLOBS: &str = "a missing content is left out of bundles, a damaged one is the bundle's fault; \
    the tests of `blobs` meet it";
const IN_RUNS: &str =
    "it takes a run with checkpoints; `crates/cli/tests/cli/runs/checkpoints.rs` meets it";
const IN_THE_CELL: &str = "it takes a command that uses much; the tests of `cell` meet it";
const IN_SANDBOX: &str = "the call fails with it, not the command; `sandbox.rs` meets it";
const IN_WORKSPACE: &str =
    "it takes a special repository or machine; the tests of `workspace` meet it";
const IN_THE_BROKER: &str =
    "a command gets it as the answer of the proxy; the tests of `broker` meet it";
const IN_A_RUN: &str = "a run of the driver loop ends with it as its reason, not with an error; \
    `crates/engine/tests/driver` meets it";

/// A way to meet a code.
pub type Scenario = fn() -> Outcome;

fn tampered(sql: &str) -> Outcome {
    let place = Place::with_project();
    place.completed();
    place.tamper().execute_batch(sql).unwrap();
    place.run(&["verify"])
}

fn call(place: &Place, tool: &str, args: &str) -> Outcome {
    place.run(&["call", "run", tool, "--args", args, "--new-key"])
}

fn server(tool: &str, args: &str) -> Outcome {
    call(&Place::with_server(), tool, args)
}

/// A call of the tool `lab/do`, which is declared like this.
fn lab(declared: &str) -> Outcome {
    let place = Place::with_project();
    place.append(".windlass/tools.toml", declared);
    let policy = include_str!("../server_policy.toml").replace("count", "lab");
    let policy = policy.replace("lab/add", "lab/do");
    place.write(".windlass/policy/lab.toml", &policy);
    call(&place, "lab/do", "{}")
}

fn args(text: &str) -> Outcome {
    call(&Place::with_project(), "shell/read", text)
}

/// Waits until a call is under way, and returns its trace.
pub fn under_way(place: &Place) -> String {
    let started = Instant::now();
    loop {
        if let Some(id) = place.ids().first()
            && place.run(&["trace", "show", id]).text().starts_with("EXECUTING")
        {
            return id.clone();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no call is under way");
    }
}

/// A call that is under way in a process of its own, while something else is done.
fn meanwhile(act: fn(&Place, &str) -> Option<Outcome>) -> Outcome {
    let place = Place::with_server();
    let slow = ["call", "run", "count/slow", "--args", r#"{"ms":1500}"#, "--new-key"];
    let child = place.command(&slow).spawn().unwrap();
    let id = under_way(&place);
    let outcome = act(&place, &id);
    let slow =
        Outcome::of("windlass call run count/slow".into(), child.wait_with_output().unwrap());
    outcome.unwrap_or(slow)
}

/// How each code is met.
pub const SCENARIOS: &[(Code, Scenario)] = &[
    (Code::TelemetryUnavailable, || {
        let place = crate::e2e::observe::place();
        crate::e2e::observe::held(&place);
        let words = ["telemetry", "push"];
        place.run_with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", &words)
    }),
    (Code::StateInvalidTransition, || {
        tampered("UPDATE entries SET from_state = 'PENDING' WHERE id % 16777216 = 3")
    }),
    (Code::MissingToolCallId, || {
        tampered("UPDATE entries SET tool_call_id = NULL WHERE id % 16777216 = 3")
    }),
    (Code::StateSequenceGap, || tampered("DELETE FROM entries WHERE id % 16777216 = 2")),
    (Code::StateChecksumMismatch, || {
        let place = Place::with_project();
        let id = place.completed();
        place.tamper().execute_batch("UPDATE entries SET ts = ts + 1").unwrap();
        place.run(&["call", "show", &id])
    }),
    (Code::StateRecoveryFailed, || {
        let place = Place::with_server();
        let id = place.interrupted("count/add", "{}");
        place.replace(".windlass/tools.toml", "[server.count.tool.add]", "[server.count.tool.sum]");
        place.replace(".windlass/policy/count.toml", "count/add", "count/sum");
        place.run(&[&["call", "settle", "--not-run", &id][..], &VOICE].concat())
    }),
    (Code::StateLockAcquireFailed, || meanwhile(|place, id| Some(place.run(&["recover", id])))),
    (Code::StateConcurrentExecution, || {
        // A live holder is never robbed, so its fence is raised behind everyone's back. Whoever asks
        // for the lease files the trace: then there is a row to raise it in.
        meanwhile(|place, id| {
            place.run(&["recover", id]);
            let raise = "UPDATE traces SET fence = fence + 1";
            assert_eq!(place.tamper().execute(raise, []).unwrap(), 1);
            None
        })
    }),
    (Code::ToolUnclassifiedDenied, || call(&Place::with_project(), "no/tool", "{}")),
    (Code::ToolClassDeclarationMismatch, || {
        Place::with_project().shell("shell/read", "ls", &["--class", "write", "--new-key"])
    }),
    (Code::ToolClassMismatch, || {
        let place = Place::with_server();
        place.append(".windlass/tools.toml", "[server.count.tool.liar]\nclass = \"read\"\n");
        call(&place, "count/liar", "{}")
    }),
    (Code::ToolDefinitionChanged, || {
        let place = Place::with_project();
        place.write("server.sh", crate::e2e::mcp_client::SERVER);
        place.run(&["mcp", "wrap", "--name", "lab", "--", "bash", "server.sh"]).exit(0);
        place.run(&["mcp", "wrap", "--name", "lab", "--", "bash", "other.sh"])
    }),
    (Code::IdempotencyKeyRequired, || Place::with_project().shell("shell/run", "ls", &[])),
    (Code::IdempotencyConflict, || {
        let place = Place::with_project();
        place.shell("shell/run", "ls", &["--key", "k"]).exit(0);
        place.shell("shell/run", "pwd", &["--key", "k"])
    }),
    (Code::DocSizeExceeded, || Place::new().feed(&["canon"], &vec![b' '; 11 << 20])),
    (Code::PolicyDenied, || Place::with_project().shell("shell/read", "frobnicate", &[])),
    (Code::PolicyInvalid, || {
        let place = Place::with_project();
        place.write(".windlass/policy/mine.toml", "[[rule]]\n");
        place.run(&["policy", "check"])
    }),
    (Code::GovernanceInvalid, || {
        let place = Place::with_project();
        place.append(".windlass/policy/governance/universal.toml", "colour = 1");
        place.run(&["policy", "check"])
    }),
    (Code::DriverConfigInvalid, || {
        let place = Place::with_project();
        place.append(".windlass/loops/driver/models.toml", "colour = 1");
        place.run(&["run", "greetings", "--loop", "driver"])
    }),
    (Code::PathOutsideWorkspace, || {
        Place::with_project().shell("shell/run", "echo x > /etc/x", &["--new-key"])
    }),
    (Code::SecretInRequest, || {
        let place = Place::with_project();
        let with = "connector = \"command\"\nenv = [\"SERVICE_TOKEN\"]";
        place.replace(".windlass/tools.toml", "connector = \"command\"", with);
        let line = ["call", "run", "shell/read", "--args", r#"{"line":"echo hunter22"}"#];
        place.run_with("SERVICE_TOKEN", "hunter22", &line)
    }),
    (Code::SecretUnknown, || {
        let args = r#"{"line":"ls","more":{"secret":"NONE"}}"#;
        Place::with_project().run(&["call", "run", "shell/read", "--args", args])
    }),
    (Code::SecretUndeclared, || {
        let place = Place::with_project();
        place.settings("[secrets]\nSERVICE = { env = \"HOME\" }\n");
        let args = r#"{"line":"ls","more":{"secret":"SERVICE"}}"#;
        place.run(&["call", "run", "shell/read", "--args", args])
    }),
    (Code::SecretUnavailable, || {
        let place = Place::with_project();
        place.settings("[secrets]\nSERVICE = { env = \"NOT_SET\" }\n");
        let with = "[server.shell.tool.read]\nsecrets = [\"SERVICE\"]";
        place.replace(".windlass/tools.toml", "[server.shell.tool.read]", with);
        let args = r#"{"line":"ls","more":{"secret":"SERVICE"}}"#;
        place.run(&["call", "run", "shell/read", "--args", args])
    }),
    (Code::DeniedByPerson, || {
        let place = Place::with_project();
        let id = place.held();
        place.run(&[&["call", "deny", &id][..], &VOICE].concat()).exit(0);
        place.run(&["recover", &id])
    }),
    (Code::CallOnHold, || Place::with_project().shell("shell/read", "env", &[])),
    (Code::DecisionAlreadyMade, || {
        let place = Place::with_project();
        let id = place.completed();
        place.run(&[&["call", "approve", &id][..], &VOICE].concat())
    }),
    (Code::ToolTimeout, || {
        let tool = "class = \"write\"\nargv = [\"sleep\", \"20\"]\ntimeout_ms = 300\n";
        lab(&format!("[server.lab]\nconnector = \"command\"\n[server.lab.tool.do]\n{tool}"))
    }),
    (Code::ToolOutputTooLarge, || server("count/huge", r#"{"bytes":100000}"#)),
    (Code::ToolServerUnavailable, || server("broken/get", "{}")),
    (Code::ToolProtocolError, || {
        let server =
            "connector = \"mcp-stdio\"\ncommand = [\"sh\", \"-c\", \"echo garbage; cat\"]\n";
        lab(&format!("[server.lab]\n{server}[server.lab.tool.do]\nclass = \"read\"\n"))
    }),
    (Code::ToolFailed, || server("count/fail", "{}")),
    (Code::SandboxUnavailable, || {
        let place = Place::with_project();
        place.settings("[sandbox]\nwritable = [\"/missing\"]\n");
        place.shell("shell/read", "ls", &[])
    }),
    (Code::ToolOutcomeUnknown, || {
        let place = Place::with_server();
        let id = place.interrupted("count/add", "{}");
        place.run(&[&["call", "settle", "--failed", &id][..], &VOICE].concat()).exit(0);
        place.run(&["recover", &id])
    }),
    (Code::GrantTooWide, || {
        Place::with_project().run(&["grant", "add", "*", "--reason", "all of it"])
    }),
    (Code::GrantNotFound, || {
        let place = Place::with_project();
        let id = place.completed();
        place.run(&["grant", "show", &id])
    }),
    (Code::GrantEnded, || {
        let place = Place::with_project();
        let words =
            ["grant", "add", "shell/run", "--command", "git push *", "--reason", "x", "--json"];
        let id = text_of(&place.run(&words).exit(0).json(), "trace_id");
        let revoke = ["grant", "revoke", &id, "--reason", "enough"];
        place.run(&revoke).exit(0);
        place.run(&revoke)
    }),
    (Code::PersonUnknown, || {
        let place = Place::with_project();
        let id = place.held();
        place.run(&["people", "add", "ann"]).exit(0);
        place.run(&["people", "revoke", "Ann"]).exit(0);
        place.run(&["call", "approve", &id, "--by=ann", "--reason", "x"])
    }),
    (Code::PersonLocked, || {
        let place = Place::with_project();
        let id = place.held();
        place.write("right", "one\n");
        place.write("wrong", "two\n");
        place.run(&["people", "add", "ann", "--passphrase-file", "right"]).exit(0);
        let words = ["call", "approve", &id, "--by=ann", "--reason", "x", "--passphrase-file"];
        place.run(&[&words[..], &["wrong"]].concat())
    }),
    (Code::ToolCompensated, || {
        let place = Place::with_server();
        let id = place.interrupted("count/undoable", "{}");
        place.run(&["recover", &id])
    }),
    (Code::JsonInvalid, || args("{")),
    (Code::JsonDuplicateKey, || args(r#"{"a":1,"a":2}"#)),
    (Code::JsonNumberUnsafe, || args(r#"{"a":9007199254740993}"#)),
    (Code::RequestInvalid, || args("[]")),
    (Code::IdInvalid, || Place::with_project().run(&["call", "show", "../../etc/passwd"])),
    (Code::TraceNotFound, || Place::with_project().run(&["call", "show", UNKNOWN])),
    (Code::ProjectMissing, || Place::new().run(&["verify"])),
    (Code::ProjectExists, || Place::with_project().run(&["init"])),
    (Code::ProjectMoved, || {
        let place = Place::with_project();
        std::fs::rename(place.work(), place.base().join("moved")).unwrap();
        std::fs::create_dir(place.work()).unwrap();
        place.run(&["-C", "../moved", "verify"])
    }),
    (Code::ProjectCopied, || {
        let place = Place::with_project();
        copy(&place.work(), &place.base().join("copy"));
        place.run(&["-C", "../copy", "verify"])
    }),
    (Code::ProjectUntrusted, || {
        let place = Place::with_project();
        place.write_untrusted(".windlass/agents/mine.md", "---\nname: mine\n---\nWork.\n");
        place.shell("shell/read", "ls", &[])
    }),
    (Code::StateMissing, || {
        let place = Place::with_project();
        std::fs::remove_dir_all(place.state()).unwrap();
        place.run(&["verify"])
    }),
    (Code::StateUnsafe, || {
        let place = Place::with_project();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o770);
        std::fs::set_permissions(place.state(), mode).unwrap();
        place.run(&["verify"])
    }),
    (Code::StateDamaged, || {
        let place = Place::with_project();
        place.write_state("project.json", "{}");
        place.run(&["verify"])
    }),
    (Code::ConfigInvalid, || {
        let place = Place::with_project();
        place.write(".windlass/config.toml", "colour = 1\n");
        place.run(&["verify"])
    }),
    (Code::StoreUnavailable, || {
        let place = Place::with_project();
        std::fs::remove_file(place.database()).unwrap();
        place.run(&["verify"])
    }),
    (Code::StoreReadOnly, || Place::new().run(&["init", "-C", "/sys"])),
    (Code::StoreFull, full),
    (Code::StoreTooNew, || {
        let place = Place::with_project();
        place.tamper().execute_batch("PRAGMA user_version = 99").unwrap();
        place.run(&["verify"])
    }),
    (Code::StoreCorrupt, || {
        let place = Place::with_project();
        std::fs::write(place.database(), "a text file, not a journal\n".repeat(50)).unwrap();
        place.run(&["verify"])
    }),
    (Code::StoreTruncated, || {
        let place = Place::with_project();
        place.completed();
        std::fs::remove_file(place.state().join("windlass.db-wal")).unwrap();
        place.run(&["verify"])
    }),
    (Code::StoreDisplaced, || {
        let place = Place::with_project();
        during_a_call(&place, |place| {
            std::fs::remove_dir_all(place.state().join("windlass.db.locks")).unwrap();
        })
    }),
    (Code::FileUnreadable, || Place::new().run(&["verify", "--file", "missing"])),
];

/// A journal on a disk without any room left.
fn full() -> Outcome {
    let place = Place::with_project();
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!(
        "mkdir ../disk; mount -t tmpfs -o size=1m,mode=700 tmpfs ../disk \
         && cp -r ~/.local/state/windlass/. ../disk/ && export WINDLASS_STATE=$(realpath ../disk) \
         && {windlass} call run no/tool >&2; \
         (head -c 2M /dev/zero > ../disk/ballast 2>/dev/null; {windlass} call run no/tool)"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    place.settle(&mut command);
    finish(command, &[])
}
