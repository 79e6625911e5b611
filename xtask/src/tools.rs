//! The programs that `check` needs: found, installed where that is possible, or named.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cargo;

/// A program that `check` needs.
struct Tool {
    name: &'static str,
    /// A command that succeeds if the program is there.
    probe: &'static [&'static str],
    /// The Debian packages that contain it.
    packages: &'static [&'static str],
    /// How to install it.
    hint: &'static str,
}

const TOOLS: [Tool; 11] = [
    Tool {
        name: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        packages: &[],
        hint: "rustup component add rustfmt",
    },
    Tool {
        name: "clippy",
        probe: &["cargo", "clippy", "--version"],
        packages: &[],
        hint: "rustup component add clippy",
    },
    Tool {
        name: "a C compiler",
        probe: &["cc", "--version"],
        packages: &["gcc", "libc6-dev", "pkg-config"],
        hint: "apt-get install gcc libc6-dev pkg-config",
    },
    Tool {
        name: "make",
        probe: &["make", "--version"],
        packages: &["make"],
        hint: "apt-get install make",
    },
    Tool {
        name: "perl",
        probe: &["perl", "--version"],
        packages: &["perl"],
        hint: "apt-get install perl",
    },
    Tool {
        name: "python3",
        probe: &["/usr/bin/python3", "-m", "venv", "--help"],
        packages: &["python3", "python3-venv"],
        hint: "apt-get install python3 python3-venv",
    },
    Tool {
        name: "node",
        probe: &["node", "--version"],
        packages: &["nodejs"],
        hint: "apt-get install nodejs",
    },
    Tool {
        name: "npm",
        probe: &["npm", "--version"],
        packages: &["npm"],
        hint: "apt-get install npm",
    },
    Tool {
        name: "git",
        probe: &["git", "--version"],
        packages: &["git"],
        hint: "apt-get install git",
    },
    Tool {
        name: "ssh-agent",
        probe: &["ssh", "-V"],
        packages: &["openssh-client"],
        hint: "apt-get install openssh-client",
    },
    Tool {
        name: "bwrap",
        probe: &["/usr/bin/bwrap", "--version"],
        packages: &["bubblewrap"],
        hint: "apt-get install bubblewrap",
    },
];

/// What the stage `browser` needs.
const BROWSER: [Tool; 2] = [
    Tool {
        name: "chromium",
        probe: &["chromium", "--version"],
        packages: &["chromium"],
        hint: "apt-get install chromium",
    },
    Tool {
        name: "chromedriver",
        probe: &["chromedriver", "--version"],
        packages: &["chromium-driver"],
        hint: "apt-get install chromium-driver",
    },
];

/// Installs missing Debian packages if this is root on Debian, and fails if a tool is still missing.
///
/// # Errors
/// If a tool is missing.
pub fn require(_: &Path) -> Result<()> {
    require_these(&TOOLS)
}

/// The same for the browser.
///
/// # Errors
/// If it is missing.
pub fn require_browser() -> Result<()> {
    require_these(&BROWSER)
}

fn require_these(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !succeeds(tool.probe)).collect();
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    if !packages.is_empty() && is_root() && succeeds(&["apt-get", "--version"]) {
        println!("installing {}", packages.join(" "));
        install(&packages)?;
    }
    match complaint(missing.into_iter().filter(|tool| !succeeds(tool.probe))) {
        Some(line) => bail!(line),
        None => Ok(()),
    }
}

/// Whether cargo-nextest is installed.
pub fn has_nextest() -> bool {
    succeeds(&["cargo", "nextest", "--version"])
}

fn complaint<'a>(missing: impl Iterator<Item = &'a Tool>) -> Option<String> {
    let missing: Vec<String> =
        missing.map(|tool| format!("{} (`{}`)", tool.name, tool.hint)).collect();
    (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")))
}

fn install(packages: &[&str]) -> Result<()> {
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends"]]
    {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        if arguments.contains(&"install") {
            command.args(packages);
        }
        // A failure is not the end: tools that are still missing are reported by name.
        let status = command.status().context("run `apt-get`")?;
        if !status.success() {
            println!("`apt-get {}` failed ({status})", arguments.join(" "));
        }
    }
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether a command can be started and succeeds; its output is discarded.
fn succeeds(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let program = if *program == "cargo" { cargo::program() } else { program.into() };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_on_one_line() {
        assert_eq!(complaint([].into_iter()), None);
        let line = complaint(TOOLS.iter()).unwrap();
        assert!(line.starts_with("missing: rustfmt (`rustup component add rustfmt`), clippy"));
        assert!(line.contains("git (`apt-get install git`)"));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn a_missing_command_does_not_succeed() {
        assert!(succeeds(&["cargo", "--version"]));
        assert!(!succeeds(&["cargo", "no-such-subcommand-at-all"]));
        assert!(!succeeds(&["no-such-program-at-all"]));
        assert!(!succeeds(&[]));
    }
}
