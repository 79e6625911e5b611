//! The default supervisor: a policy set, the workspace and the secrets of the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_connect::{Access, Confinement, FileRule, FileRules, FilesLeftOut, Limits, Target};
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::grant::Terms;
use windlass_kernel::{Code, Digest, RiskLevel};
use windlass_policy::Workspace as _;
use windlass_policy::{
    Connector, GrantRefusal, Judgement, PolicySet, Question, Server, Tool, Verdict,
};
use windlass_redact::{Finding, Redactor};

use crate::secrets::{FilledArgs, NamedSecrets, names_one};
use crate::supervisor::{Examination, Preparation, Refusal, Ruling, Supervisor};
use crate::workspace::FileWorkspace;

/// Judges requests by a policy set and prepares calls by its tool registry.
#[derive(Debug)]
pub struct PolicySupervisor {
    set: PolicySet,
    workspace: FileWorkspace,
    environment: BTreeMap<String, String>,
    secrets: NamedSecrets,
    redactor: Arc<Redactor>,
    confined: bool,
    /// The rules about files, which commands are held against when they have ended.
    file_rules: Arc<FileRules>,
}

impl PolicySupervisor {
    /// Creates a supervisor; of `environment`, only the variables that the tool registry names are stored.
    #[must_use]
    pub fn new(
        set: PolicySet,
        workspace: FileWorkspace,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let environment = named_variables(&set, environment);
        let redactor = Arc::new(Redactor::new(environment.clone()));
        let secrets = NamedSecrets::default();
        let file_rules = file_rules_of(&set);
        Self { set, workspace, environment, secrets, redactor, confined: true, file_rules }
    }

    /// Sets the secrets that calls may name.
    #[must_use]
    pub fn with_secrets(mut self, secrets: NamedSecrets) -> Self {
        self.redactor =
            Arc::new(Redactor::new(self.environment.clone().into_iter().chain(secrets.redacted())));
        self.secrets = secrets;
        self
    }

    /// The redactor of all secrets that this supervisor knows.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor)
    }

    /// The refusal of a request that names a secret which its tool does not get.
    fn refused_secret(&self, request: &ActionRequest) -> Option<Refusal> {
        let proposal = &request.proposal;
        if !names_one(&proposal.args) {
            return None;
        }
        let (_, tool) = self.set.registry().find(&proposal.tool_server, &proposal.tool_name)?;
        self.secrets.fill(&proposal.args, tool).err()
    }

    /// Judges calls that clients make themselves.
    #[must_use]
    pub fn for_clients(mut self) -> Self {
        self.set = self.set.for_clients();
        self
    }

    /// Confines nothing, for tests.
    #[must_use]
    pub fn unconfined(mut self) -> Self {
        self.confined = false;
        self
    }

    /// The confinement of the commands of a tool, whose `/tmp` those of one `scope` share; `None` if they have none.
    #[must_use]
    pub fn confinement_of(&self, server: &str, tool: &str, scope: &str) -> Option<Confinement> {
        let (server, tool) = self.set.registry().find(server, tool)?;
        self.confinement(server, tool, Some(scope.to_owned()))
    }

    /// The confinement of a tool's command.
    fn confinement(
        &self,
        server: &Server,
        tool: &Tool,
        scope: Option<String>,
    ) -> Option<Confinement> {
        if server.connector != Connector::Command || !tool.sandbox {
            return None;
        }
        let (access, hosts) = (access(tool.class), tool.network.clone());
        let workspace = self.workspace.root().to_owned();
        let file_rules = Arc::clone(&self.file_rules);
        let has_secrets = !server.env.is_empty() || !tool.secrets.is_empty();
        self.confined.then(|| Confinement {
            hosts,
            scope,
            file_rules,
            has_secrets,
            ..Confinement::new(workspace, access)
        })
    }

    /// The confinement of an MCP server, which may write if one of its tools does.
    fn server_confinement(&self, server: &Server) -> Option<Confinement> {
        let Connector::McpStdio { sandbox: true, network, .. } = &server.connector else {
            return None;
        };
        let class = server.tools.values().map(|tool| tool.class).max().unwrap_or(RiskLevel::Read);
        let workspace = self.workspace.root().to_owned();
        self.confined.then(|| Confinement {
            hosts: network.clone(),
            is_server: true,
            has_secrets: !server.env.is_empty()
                || server.tools.values().any(|tool| !tool.secrets.is_empty()),
            file_rules: Arc::clone(&self.file_rules),
            ..Confinement::new(workspace, access(class))
        })
    }

    /// The policy set.
    #[must_use]
    pub const fn set(&self) -> &PolicySet {
        &self.set
    }

    /// The judgement of a question, without the rest of what decides on a call.
    #[must_use]
    pub fn judgement(&self, question: &Question) -> Judgement {
        self.set.judge(question, &self.workspace)
    }

    /// The target of a server's calls; the arguments of a command are added for each call.
    ///
    /// # Errors
    /// [`Refusal`] if an environment variable that the tool registry names is not set.
    pub fn target(&self, server: &Server) -> Result<Target, Refusal> {
        let cwd: PathBuf = self.workspace.root().to_owned();
        let mut env = BTreeMap::new();
        for name in &server.env {
            env.insert(name.clone(), self.variable(name)?);
        }
        Ok(match &server.connector {
            Connector::McpStdio { command, .. } => Target::McpStdio {
                server: server.name.clone(),
                command: command.clone(),
                env,
                cwd,
                confinement: self.server_confinement(server),
            },
            Connector::McpHttp { url, bearer_env } => Target::McpHttp {
                server: server.name.clone(),
                url: url.clone(),
                bearer: bearer_env.as_ref().map(|name| self.variable(name)).transpose()?,
            },
            Connector::Command => Target::Command { argv: Vec::new(), stdin: None, env, cwd },
            Connector::Files => Target::Files { root: cwd, left_out: FilesLeftOut::nothing() },
            Connector::Person => Target::Person,
            Connector::Client => Target::Client,
            Connector::Agent => Target::Agent,
        })
    }

    fn variable(&self, name: &str) -> Result<String, Refusal> {
        self.environment.get(name).cloned().ok_or_else(|| Refusal {
            code: Code::ConfigInvalid,
            reason: format!(
                "the environment variable {name}, which the tool registry names, is not set"
            ),
        })
    }

    /// The secret that the request contains, if it contains one.
    fn secret_in(&self, request: &ActionRequest) -> Option<Finding<'_>> {
        let resources = request.resources.iter().flat_map(|one| [&one.kind, &one.id]);
        let names = [&request.idempotency_key, &request.agent, &request.phase];
        let mut texts = resources.chain(names.into_iter().flatten()).chain([&request.intent]);
        let in_args = self.redactor.find(&request.proposal.args);
        in_args.or_else(|| texts.find_map(|text| self.redactor.find_text(text)))
    }

    fn question(request: &ActionRequest) -> Question {
        Question {
            server: request.proposal.tool_server.clone(),
            tool: request.proposal.tool_name.clone(),
            declared_class: Some(request.risk_level),
            args: request.proposal.args.clone(),
            has_key: request.idempotency_key.is_some(),
            phase: request.phase.clone(),
            agent: request.agent.clone(),
        }
    }
}

/// The variables of the environment that the tool registry names. Their values are secrets.
fn named_variables(
    set: &PolicySet,
    environment: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    let mut named = std::collections::BTreeSet::new();
    for server in set.registry().servers() {
        named.extend(server.env.iter().cloned());
        if let Connector::McpHttp { bearer_env: Some(name), .. } = &server.connector {
            named.insert(name.clone());
        }
    }
    environment.into_iter().filter(|(name, _)| named.contains(name)).collect()
}

/// The rules of a set about files that are written.
#[must_use]
pub fn file_rules_of(set: &PolicySet) -> Arc<FileRules> {
    let rules = set.rules_of_written_files().map(|(rule, paths, except)| FileRule {
        id: rule.id().to_owned(),
        reason: rule.reason().to_owned(),
        paths: paths.to_vec(),
        except: except.to_vec(),
    });
    Arc::new(FileRules::new(rules.collect()))
}

/// The redactor of all secrets that calls of this set can get.
#[must_use]
pub fn redactor_of(
    set: &PolicySet,
    environment: impl IntoIterator<Item = (String, String)>,
    secrets: &NamedSecrets,
) -> Redactor {
    Redactor::new(named_variables(set, environment).into_iter().chain(secrets.redacted()))
}

/// What tools of a class may do to the workspace.
const fn access(class: RiskLevel) -> Access {
    if class.writes() { Access::Write } else { Access::Read }
}

impl Supervisor for PolicySupervisor {
    fn policy_hash(&self) -> Digest {
        self.set.hash()
    }

    fn judge(&self, request: &ActionRequest) -> Ruling {
        let deny = |code, reason| Ruling {
            verdict: Verdict::Deny,
            code: Some(code),
            reason,
            rules: Vec::new(),
        };
        if let Some(found) = self.secret_in(request) {
            let what = match found {
                Finding::Value(name) => format!("the value of {name}"),
                Finding::Shape(name) => format!("what looks like a secret ({name})"),
            };
            let reason = format!(
                "the request contains {what}, which would be stored; name it as \
                 {{\"secret\": \"NAME\"}}, or let the tool registry pass it by `env`"
            );
            return deny(Code::SecretInRequest, reason);
        }
        if let Some(Refusal { code, reason }) = self.refused_secret(request) {
            return deny(code, reason);
        }
        let judgement = self.set.judge(&Self::question(request), &self.workspace);
        Ruling {
            verdict: judgement.verdict,
            code: judgement.code,
            reason: judgement.reason,
            rules: judgement.rules.into_iter().map(|hit| hit.id).collect(),
        }
    }

    fn examine(&self, request: &ActionRequest) -> Examination {
        let judgement = self.set.judge(&Self::question(request), &self.workspace);
        // A word that is the name of a file may be what runs, whatever the program takes it for.
        let words = judgement.commands.iter().flat_map(|command| command.split_whitespace());
        let words = words.map(|word| word.trim_matches(['\'', '"']));
        // So may be what stands behind an option.
        let words =
            words.flat_map(|word| [Some(word), word.split_once('=').map(|(_, value)| value)]);
        let words = words.flatten().map(str::to_owned);
        let named: Vec<String> = judgement.paths.iter().cloned().chain(words).collect();
        Examination {
            files: self.workspace.named_files(&named),
            commands: judgement.commands,
            findings: judgement.findings,
            folder: self.workspace.root().display().to_string(),
            rules: judgement.rules,
        }
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        let proposal = &request.proposal;
        let found = self.set.registry().find(&proposal.tool_server, &proposal.tool_name);
        let Some((server, tool)) = found else {
            return Err(Refusal {
                code: Code::ToolUnclassifiedDenied,
                reason: format!(
                    "the tool registry has no tool {}/{}",
                    proposal.tool_server, proposal.tool_name
                ),
            });
        };
        let args = self.secrets.fill(&proposal.args, tool)?;
        let filled = args.as_ref().map_or(&proposal.args, FilledArgs::expose);
        let mut target = self.target(server)?;
        if let Target::Files { left_out, .. } = &mut target {
            let question = Self::question(request);
            let unreadable = self.set.unreadable(&question, self.workspace.folds_case());
            *left_out = FilesLeftOut::new(move |path| unreadable.contains(path));
        }
        if let Target::Command { argv, stdin, .. } = &mut target {
            let line = tool.command_line(filled).map_err(|error| Refusal {
                code: Code::RequestInvalid,
                reason: error.to_string(),
            })?;
            *argv = line.argv;
            *stdin = line.stdin;
        }
        // Only calls of a run have a phase.
        let scope = request.phase.as_ref().map(|_| request.plan_id.to_string());
        Ok(Preparation {
            target,
            tool: tool.remote_name.clone(),
            class: tool.class,
            limits: Limits {
                timeout: Duration::from_millis(tool.timeout_ms),
                output_bytes_max: usize::try_from(tool.output_bytes_max).unwrap_or(usize::MAX),
            },
            on_uncertain: tool.on_uncertain(server, request.idempotency_key.as_deref()),
            retries_max: tool.retries_max,
            confinement: self.confinement(server, tool, scope).map(|confinement| Confinement {
                named: self.judgement(&Self::question(request)).written,
                ..confinement
            }),
            no_match_is_an_answer: tool.no_match_is_an_answer(filled),
            args,
            until: None,
        })
    }

    fn covers(&self, request: &ActionRequest, terms: &Terms) -> bool {
        let question = Self::question(request);
        let judgement = self.set.judge(&question, &self.workspace);
        // Secrets are denied although no rule says so.
        self.judge(request).verdict == Verdict::Ask
            && windlass_policy::covers(terms, &question, &judgement)
    }

    fn check_grant(&self, terms: &Terms) -> Result<(), Refusal> {
        let refusal = |error: GrantRefusal| Refusal { code: error.code, reason: error.reason };
        self.set.check_grant(terms).map_err(refusal)
    }

    fn redact(&self, value: &mut Value) {
        self.redactor.redact(value);
    }
}
