//! The start of a command in a cell, beside `bwrap` with the same mounts, and through the whole gateway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use windlass_cell::{
    Access, Cell, CellLimits, Confined, Excess, Layout, Level, Maker, Mount, Network, Program,
    WorkspaceView,
};
use windlass_connect::{Confinement, Connectors, Limits, Sandbox, SandboxSettings, Target};
use windlass_kernel::Digest;
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::grant::Terms;
use windlass_policy::{OnUncertain, Verdict};
use windlass_runtime::{
    Examination, Gateway, Preparation, Refusal, Ruling, Settings, Supervisor, SystemClock,
};
use windlass_store_sqlite::SqliteStore;

use crate::calls::{self, Kind};
use crate::median;

const LIMITS: Limits = Limits { timeout: Duration::from_secs(60), output_bytes_max: 1 << 16 };

/// Runs `true` in a cell, whatever is asked.
struct RunTrue {
    workspace: PathBuf,
}

impl Supervisor for RunTrue {
    fn policy_hash(&self) -> Digest {
        Digest::GENESIS
    }

    fn judge(&self, _: &ActionRequest) -> Ruling {
        let reason = "rule `bench` allows it".to_owned();
        Ruling { verdict: Verdict::Allow, code: None, reason, rules: vec!["bench".to_owned()] }
    }

    fn examine(&self, _: &ActionRequest) -> Examination {
        Examination::default()
    }

    fn covers(&self, _: &ActionRequest, _: &Terms) -> bool {
        false
    }

    fn check_grant(&self, _: &Terms) -> Result<(), Refusal> {
        Ok(())
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        let argv = vec!["true".to_owned()];
        let (env, cwd) = (std::collections::BTreeMap::new(), self.workspace.clone());
        Ok(Preparation {
            target: Target::Command { argv, stdin: None, env, cwd },
            tool: request.proposal.tool_name.clone(),
            class: request.risk_level,
            limits: LIMITS,
            confinement: Some(Confinement::writing(&self.workspace, "bench")),
            args: None,
            no_match_is_an_answer: false,
            until: None,
            on_uncertain: OnUncertain::Retry,
            retries_max: 3,
        })
    }

    fn redact(&self, _: &mut Value) {}
}

/// Prints what a start costs, in medians of `rounds` starts of each kind in turn.
pub fn measure(folder: &Path, rounds: u32) -> Result<()> {
    let folder = folder.canonicalize()?;
    let (workspace, private) = (folder.join("workspace"), folder.join("private"));
    for folder in [&workspace, &private] {
        std::fs::create_dir_all(folder)?;
    }
    let variables = std::env::vars().collect();
    let layout = Layout { variables, ..Layout::default() };
    let view = WorkspaceView {
        folder: &workspace,
        access: Access::Write,
        git: None,
        git_changes: None,
        hidden: &[],
        fixed: &BTreeSet::new(),
    };
    let mut mounts = layout.mounts();
    mounts.extend(view.mounts());
    let cell = Cell {
        level: Level::Full,
        maker: Maker::Own,
        mounts,
        network: Network::Closed,
        limits: CellLimits::default(),
    };
    let launcher = std::env::current_exe()?;
    let settings = SandboxSettings {
        bwrap: None,
        level: Level::Full,
        launcher: launcher.clone(),
        layout,
        limits: CellLimits::default(),
        folder: private,
        private_hosts: Vec::new(),
    };
    let gateway = Gateway::new(
        Arc::new(SqliteStore::open(
            &folder.join("cell.db"),
            windlass_store_sqlite::Settings::default(),
        )?),
        Arc::new(RunTrue { workspace: workspace.clone() }),
        Arc::new(Connectors::new().with_sandbox(Sandbox::new(settings))),
        Arc::new(SystemClock),
        Settings::default(),
        ".",
    );
    let bwrap = PathBuf::from("/usr/bin/bwrap");
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        let [plain, ours, theirs, whole] = &mut times;
        plain.push(timed(|| run(&workspace, None))?);
        ours.push(timed(|| run(&workspace, Some(Confined { launcher: &launcher, cell: &cell })))?);
        if bwrap.exists() {
            theirs.push(timed(|| run_bwrap(&bwrap, &cell, &workspace))?);
        }
        whole.push(timed(|| calls::call(&gateway, Kind::Write, format!("cell-{round}")))?);
    }
    let [plain, ours, theirs, whole] = times.map(|times| median(times.into_iter()));
    println!("start of `true`, in milliseconds");
    println!("  without a cell        {plain:6.2}");
    println!("  in a cell             {ours:6.2}");
    if bwrap.exists() {
        println!("  bwrap, same mounts    {theirs:6.2}  ({:.2} of it)", ours / theirs);
    } else {
        println!("  bwrap                 not installed");
    }
    println!("  through the gateway   {whole:6.2}");
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}

fn run(workspace: &Path, confined: Option<Confined<'_>>) -> Result<()> {
    let finished = windlass_cell::run(&Program {
        argv: vec!["true".as_ref()],
        stdin: None,
        env: Vec::new(),
        cwd: workspace,
        limits: LIMITS,
        confined,
        excess: Excess::End,
        on_signal: windlass_cell::OnSignal::Continue,
    })?;
    ensure!(finished.status.is_some_and(|status| status.success()), "`true` failed");
    Ok(())
}

/// The same root by `bwrap`; its caches are read-only, as they are in this cell.
fn run_bwrap(bwrap: &Path, cell: &Cell, workspace: &Path) -> Result<()> {
    let mut command = Command::new(bwrap);
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    for mount in &cell.mounts {
        match mount {
            Mount::Bind { path, access } => {
                command.arg(bind(*access)).arg(path).arg(path);
            }
            Mount::BindAt { from, path, access } => {
                command.arg(bind(*access)).arg(from).arg(path);
            }
            Mount::Mask { path } => {
                command.args(["--ro-bind", "/dev/null"]).arg(path);
            }
            Mount::Memory { path, .. } => {
                command.arg("--tmpfs").arg(path);
            }
            Mount::Overlay { path, .. } => {
                command.arg("--ro-bind").arg(path).arg(path);
            }
            Mount::Link { path, target } => {
                command.arg("--symlink").arg(target).arg(path);
            }
        }
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--chdir"]).arg(workspace).arg("true");
    let status = command.stdin(Stdio::null()).status().context("bwrap")?;
    ensure!(status.success(), "bwrap failed");
    Ok(())
}

const fn bind(access: Access) -> &'static str {
    match access {
        Access::Read => "--ro-bind",
        Access::Write => "--bind",
    }
}
