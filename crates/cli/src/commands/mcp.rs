//! `windlass mcp`.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_connect::Connectors;
use windlass_kernel::{Code, Digest, RiskLevel};
use windlass_policy::{PolicySet, Question, Server, Tool, Verdict};
use windlass_runtime::{FileWorkspace, PolicySupervisor};

use crate::args::{Mcp, McpServe, McpTrust, McpWrap, Serving};
use crate::commands::{confirm, recover};
use crate::failure::{CommandResult, Failure};
use crate::input::unreadable;
use crate::mcp::{
    Closing, DESCRIBE_LIMITS, Host, Offered, Pin, Pins, WrapRequest, is_name, registered, request,
    serve,
};
use crate::output::{Output, sanitize};
use crate::part::Part;
use crate::project::Project;
use crate::user_config::UserConfig;

/// Runs a subcommand of `mcp`.
pub fn run(project: &Project, command: &Mcp, output: &Output) -> CommandResult {
    match command {
        Mcp::Serve(options) => serve_registered(project, options, output),
        Mcp::Wrap(options) => wrap(project, options, output),
        Mcp::Trust(options) => trust(project, options, output),
    }
}

/// What both kinds of servers need.
struct Parts {
    files: BTreeMap<String, Vec<u8>>,
    user: UserConfig,
    connectors: Arc<Connectors>,
    signal: PipeReader,
}

impl Parts {
    fn open(project: &Project) -> Result<Self, Failure> {
        let files = project.files()?;
        project.require_trust(&files)?;
        let user = UserConfig::load()?;
        user.apply()?;
        // Before anything is started: a signal finishes calls instead of breaking them off.
        let signal = windlass_cell::signal_pipe().map_err(|error| {
            Failure::new(Code::Internal, format!("signals cannot be handled: {error}"))
        })?;
        let connectors = Arc::new(user.connectors_without_signals(project)?);
        Ok(Self { files, user, connectors, signal })
    }

    /// Serves tools, whose calls go through a gateway with this supervisor.
    fn serve(
        self,
        project: &Project,
        supervisor: PolicySupervisor,
        offered: Vec<Offered>,
        options: &Serving,
        instructions: &str,
        output: &Output,
    ) -> CommandResult {
        let Self { files, connectors, signal, .. } = self;
        let config = Project::config(&files)?;
        let gateway = project.gateway_of(&config, supervisor, connectors)?;
        recover::at_start(&gateway, output);
        let closing = Arc::new(Closing::default());
        let wait = Duration::from_secs(options.wait);
        let host = Arc::new(Host::new(gateway, offered, wait, Arc::clone(&closing)));
        let http = options.http.as_deref().map(|address| (address, options.token_file.as_deref()));
        serve(host, instructions.to_owned(), http, signal, &closing, output)
    }
}

fn serve_registered(project: &Project, options: &McpServe, output: &Output) -> CommandResult {
    let parts = Parts::open(project)?;
    let supervisor = project.supervisor(Part::Whole, &parts.files)?;
    let offered = registered(&supervisor, &parts.connectors, &options.tools, output)?;
    let instructions = "Every call of these tools is judged by a policy and recorded. A call that is denied says \
        why; one that needs a person waits until somebody has decided.";
    parts.serve(project, supervisor, offered, &options.serving, instructions, output)
}

fn wrap(project: &Project, options: &McpWrap, output: &Output) -> CommandResult {
    let WrapRequest { name, pin, values } = request(options)?;
    let parts = Parts::open(project)?;
    let pins = Pins::of(project.state()?);
    let accepted = pins.accepted(&name)?;
    if let Some(old) = &accepted
        && !old.is_started_like(&pin)
    {
        pins.propose(&name, &Pin { tools: old.tools.clone(), ..pin })?;
        let message = format!("`{name}` is not started as you accepted it, so it was not started");
        return Err(Failure::new(Code::ToolDefinitionChanged, message)
            .hint(format!("`windlass mcp trust {name}` shows the difference and accepts it")));
    }
    // Until its tools are known, it gets the cell of a server that writes.
    let placeholder = Tool::wrapped("unknown", "unknown", RiskLevel::Write);
    let mut bare = pin.server(&name, &parts.user);
    bare.tools.insert(placeholder.name.clone(), placeholder);
    let supervisor = |server: Server| {
        project.supervisor_with(
            Part::Whole,
            &parts.files,
            &parts.user,
            vec![server],
            values.clone(),
        )
    };
    let target = supervisor(bare.clone())?.target(&bare);
    let target = target.map_err(|refusal| Failure::new(refusal.code, refusal.reason))?;
    let described = parts.connectors.describe(&target, DESCRIBE_LIMITS).map_err(|error| {
        Failure::new(error.code, format!("cannot wrap `{name}`: {}", error.message))
    })?;
    let found = pin.with_tools(&described.tools);
    let usable = accept(&pins, &name, accepted, found, output)?;
    let server = usable.server(&name, &parts.user);
    let offered = usable.offered(&server.name);
    let supervisor = supervisor(server)?;
    note_missing_rules(project, supervisor.set(), &offered, output)?;
    let instructions = "Every call of these tools is judged by a policy and recorded before it is passed on. A call \
        that is denied says why; one that needs a person waits until somebody has decided.";
    parts.serve(project, supervisor, offered, &options.serving, instructions, output)
}

/// The server with the tools that are as the user accepted them. The first time, that is all of them.
fn accept(
    pins: &Pins,
    name: &str,
    accepted: Option<Pin>,
    found: Pin,
    output: &Output,
) -> Result<Pin, Failure> {
    let Some(old) = accepted else {
        pins.accept(name, &found)?;
        let count = found.tools.len();
        output.note(&format!("`{name}` has {count} tools, which are recorded as they are now"));
        return Ok(found);
    };
    let (same, changed): (BTreeMap<_, _>, BTreeMap<_, _>) = found
        .tools
        .clone()
        .into_iter()
        .partition(|(tool, definition)| old.tools.get(tool) == Some(definition));
    if changed.is_empty() {
        pins.forget_waiting(name)?;
    } else {
        pins.propose(name, &found)?;
        let names: Vec<&str> = changed.keys().map(String::as_str).collect();
        output.note(&format!(
            "not offered, because `{name}` describes them differently than when you accepted them: {}",
            sanitize(&names.join(", "))
        ));
        output.note(&format!("`windlass mcp trust {name}` shows the difference and accepts it"));
    }
    Ok(Pin { tools: same, ..found })
}

/// Says that all calls will be denied, if the policy has no rule for these tools.
fn note_missing_rules(
    project: &Project,
    set: &PolicySet,
    offered: &[Offered],
    output: &Output,
) -> Result<(), Failure> {
    let Some(server) = offered.first().map(|one| one.server.clone()) else { return Ok(()) };
    let files =
        FileWorkspace::new(&project.root).map_err(|error| unreadable(&project.root, &error))?;
    let is_ruled = |one: &Offered| {
        let question = Question {
            server: one.server.clone(),
            tool: one.tool.clone(),
            declared_class: None,
            args: json!({}),
            has_key: true,
            phase: None,
            agent: None,
        };
        let judgement = set.judge(&question, &files);
        judgement.verdict != Verdict::Deny || !judgement.rules.is_empty()
    };
    if !offered.iter().any(is_ruled) {
        output.note(&format!(
            "no rule allows calls of its tools, so they are denied: add rules with `tool = \"{server}/*\"` to \
             `.windlass/policy`"
        ));
    }
    Ok(())
}

fn trust(project: &Project, options: &McpTrust, output: &Output) -> CommandResult {
    let name = &options.name;
    let unknown = || {
        let message = format!("no server was wrapped as `{}`", name.escape_debug());
        Failure::new(Code::RequestInvalid, message)
            .hint("`windlass mcp wrap` says the name when it starts")
    };
    if !is_name(name) {
        return Err(unknown());
    }
    let pins = Pins::of(project.state()?);
    let old = pins.accepted(name)?.ok_or_else(unknown)?;
    let Some(new) = pins.waiting(name)? else {
        if output.json {
            output.value(&json!({ "accepted": true, "differences": [] }))?;
        } else {
            output.line(&format!("`{name}` is as you accepted it"));
        }
        return Ok(0);
    };
    let (digest, differences) = (new.digest(), old.differences(&new));
    if let Some(given) = &options.yes {
        let given: Digest = given
            .parse()
            .map_err(|error| Failure::new(Code::RequestInvalid, format!("`--yes`: {error}")))?;
        if given != digest {
            let message = format!("what waits has the digest {digest}, not the given one");
            return Err(Failure::new(Code::ToolDefinitionChanged, message)
                .hint(format!("look again with `windlass mcp trust {name} --show`")));
        }
    }
    if output.json {
        let accepted = options.yes.is_some();
        output.value(
            &json!({ "accepted": accepted, "digest": digest, "differences": differences }),
        )?;
    } else {
        for line in &differences {
            output.line(&sanitize(line));
        }
        output.line(&format!("digest {digest}"));
    }
    if options.show {
        return Ok(0);
    }
    let way = format!("--yes {digest}");
    if options.yes.is_none() && !confirm("Accept this server?", &way, output)? {
        output.note("not accepted");
        return Ok(1);
    }
    pins.accept(name, &new)?;
    if !output.json {
        output.line(&format!("accepted `{name}`"));
    }
    Ok(0)
}
