//! A supervisor that says what it was told to say, over a real registry.

#![expect(clippy::panic, reason = "a test cannot go on without its registry")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use windlass_connect::{Limits, Target};
use windlass_kernel::artifact::{ActionRequest, NamedFile};
use windlass_kernel::grant::Terms;
use windlass_kernel::{Code, Digest};
use windlass_policy::{GrantRefusal, PolicySet, Verdict};
use windlass_runtime::{Examination, Preparation, Refusal, Ruling, Supervisor};

/// The registry of the tools in [`super::ToolWorld`].
pub const TOOLS: &str = r#"
[server.world]
connector = "mcp-stdio"
command = ["world"]
honours_keys = true
env = ["WORLD_TOKEN"]
[server.world.tool]
add = { class = "write", retries_max = 50 }
ask = { class = "write", retries_max = 50 }
deny = { class = "write", retries_max = 50 }
fail = { class = "write", retries_max = 50 }
look = { class = "read", retries_max = 50 }
find = { class = "read", retries_max = 50 }
cancel = { class = "write", retries_max = 50 }
burn = { class = "write", on_uncertain = "hold" }
ask_burn = { class = "write", on_uncertain = "hold" }
tire = { class = "write", retries_max = 1 }
[server.world.tool.post]
class = "write"
retries_max = 50
on_uncertain = { action = "probe", tool = "find", args = { key = "$key", args = "$args" }, found = "/found", result = "/result" }
[server.world.tool.book]
class = "write"
retries_max = 50
on_uncertain = { action = "compensate", tool = "cancel", args = { key = "$key" } }
"#;

/// The value of `WORLD_TOKEN`, which must never be stored.
pub const SECRET: &str = "hunter22hunter22";

const RULES: &str = r#"
[[rule]]
id = "world"
verdict = "allow"
reason = "the world is open"
tool = "world/{add,fail,look,find,cancel,burn,tire,post,book}"
matches = [{ tool = "world/add" }]
[[rule]]
id = "careful"
verdict = "ask"
reason = "a person must look at this"
tool = "world/ask*"
matches = [{ tool = "world/ask" }]
[[rule]]
id = "never"
verdict = "deny"
reason = "nobody may do this"
tool = "world/deny"
matches = [{ tool = "world/deny" }]
"#;

/// The world's registry with rules that say the same as [`TestSupervisor::default`].
///
/// # Panics
/// When they cannot be loaded.
#[must_use]
pub fn test_set() -> &'static PolicySet {
    static SET: OnceLock<PolicySet> = OnceLock::new();
    SET.get_or_init(|| {
        let files = BTreeMap::from([
            ("tools.toml".to_owned(), TOOLS.as_bytes().to_vec()),
            ("policy/world.toml".to_owned(), RULES.as_bytes().to_vec()),
        ]);
        PolicySet::load(&files).unwrap_or_else(|error| panic!("the world's policy: {error}"))
    })
}

/// Judges by tool, as scripted; knows the tools of [`TOOLS`].
#[derive(Debug)]
pub struct TestSupervisor {
    verdicts: Mutex<BTreeMap<String, Verdict>>,
    gone: Mutex<BTreeSet<String>>,
    files: Mutex<Vec<NamedFile>>,
    timeout: Duration,
}

impl Default for TestSupervisor {
    fn default() -> Self {
        let verdicts = BTreeMap::from([
            ("ask".to_owned(), Verdict::Ask),
            ("ask_burn".to_owned(), Verdict::Ask),
            ("deny".to_owned(), Verdict::Deny),
        ]);
        Self {
            verdicts: Mutex::new(verdicts),
            gone: Mutex::default(),
            files: Mutex::default(),
            timeout: Duration::ZERO,
        }
    }
}

impl TestSupervisor {
    fn verdicts(&self) -> MutexGuard<'_, BTreeMap<String, Verdict>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it says to calls of a tool.
    #[must_use]
    pub fn verdict(&self, tool: &str) -> Verdict {
        self.verdicts().get(tool).copied().unwrap_or(Verdict::Allow)
    }

    /// Says something else from now on.
    pub fn say(&self, tool: &str, verdict: Verdict) {
        self.verdicts().insert(tool.to_owned(), verdict);
    }

    /// Takes a tool out of the registry.
    pub fn forget(&self, tool: &str) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
    }

    /// Says from now on that every call names one file, and what is in it.
    pub fn name_file(&self, path: &str, content: &str) {
        let file = NamedFile { digest: Digest::of(content.as_bytes()), path: path.to_owned() };
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = vec![file];
    }

    /// Gives its tools a time-out, which is also how long a caller waits for another one's call.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Supervisor for TestSupervisor {
    fn policy_hash(&self) -> Digest {
        test_set().hash()
    }

    fn judge(&self, request: &ActionRequest) -> Ruling {
        let verdict = self.verdict(&request.proposal.tool_name);
        Ruling {
            verdict,
            code: (verdict == Verdict::Deny).then_some(Code::PolicyDenied),
            reason: format!("scripted to {}", verdict.as_str()),
            rules: vec!["script".to_owned()],
        }
    }

    fn examine(&self, _: &ActionRequest) -> Examination {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Examination { files, ..Examination::default() }
    }

    fn covers(&self, request: &ActionRequest, terms: &Terms) -> bool {
        let tool = request.proposal.tool_name.as_str();
        self.verdict(tool) == Verdict::Ask
            && [format!("world/{tool}"), "world/*".to_owned()].contains(&terms.tool)
    }

    fn check_grant(&self, terms: &Terms) -> Result<(), Refusal> {
        let refusal = |error: GrantRefusal| Refusal { code: error.code, reason: error.reason };
        test_set().check_grant(terms).map_err(refusal)
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        let proposal = &request.proposal;
        let registry = test_set().registry();
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let found = registry.find(&proposal.tool_server, &proposal.tool_name);
        let Some((server, tool)) = found.filter(|_| !gone.contains(&proposal.tool_name)) else {
            let reason = "there is no such tool".to_owned();
            return Err(Refusal { code: Code::ToolUnclassifiedDenied, reason });
        };
        Ok(Preparation {
            target: Target::McpHttp {
                server: server.name.clone(),
                url: String::new(),
                bearer: None,
            },
            tool: tool.remote_name.clone(),
            class: tool.class,
            limits: Limits { timeout: self.timeout, output_bytes_max: 1024 },
            on_uncertain: tool.on_uncertain(server, request.idempotency_key.as_deref()),
            retries_max: tool.retries_max,
            confinement: None,
            args: None,
            no_match_is_an_answer: false,
            until: None,
        })
    }

    // The shipped one also knows what tokens look like, which takes longer than a whole scenario.
    fn redact(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => *text = text.replace(SECRET, "[redacted:WORLD_TOKEN]"),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.redact(value)),
        }
    }
}
