//! Searching the files of a workspace, beside ripgrep.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use windlass_files::{FileTool, Files};

use crate::median;

const FILES: usize = 20_000;
const FILES_PER_FOLDER: usize = 50;
/// Every hundredth file has the word that is searched for.
const MATCH_EVERY: usize = 100;

/// Writes the files: sources of about 2 KiB.
fn generate(root: &Path) -> Result<()> {
    std::fs::create_dir(root)?;
    std::fs::write(root.join(".gitignore"), "*.log\n/target/\n")?;
    for number in 0..FILES {
        let group = number / FILES_PER_FOLDER;
        let folder = root.join(format!("crate{}/module{group}", group % 20));
        if number % FILES_PER_FOLDER == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        let mut text = String::new();
        for line in 0..60 {
            text.push_str(&format!("    let value_{line} = compute({number}, {line});\n"));
        }
        if number % MATCH_EVERY == 0 {
            text.push_str("// the needle lies here\n");
        }
        std::fs::write(folder.join(format!("file{number}.rs")), text)?;
    }
    Ok(())
}

/// Prints the median times of a search by Windlass and by ripgrep, in turns.
pub fn measure(folder: &Path, rounds: usize) -> Result<()> {
    let root = folder.join("files");
    generate(&root)?;
    let files = Files::new(&root, Vec::new())?;
    println!("searching {FILES} files, median of {rounds}");
    for (name, pattern) in [("a word", "needle"), ("an expression", r"needle \w+ here$")] {
        let (mut ours, mut ripgrep) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let started = Instant::now();
            let args = json!({ "pattern": pattern, "limit": 1_000 });
            let result = files.perform(FileTool::Search, &args, None, 1024 * 1024)?;
            ours.push(started.elapsed().as_secs_f64() * 1e3);
            let matches = result.get("matches").and_then(Value::as_u64);
            ensure!(matches == u64::try_from(FILES / MATCH_EVERY).ok(), "{result}");
            let started = Instant::now();
            let searched = Command::new("rg")
                .args(["--line-number", "--hidden", "--glob", "!.git", pattern])
                .current_dir(&root)
                .stdout(Stdio::null())
                .status();
            match searched {
                Ok(status) => {
                    ensure!(status.success(), "rg: {status}");
                    ripgrep.push(started.elapsed().as_secs_f64() * 1e3);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let ours = median(ours.into_iter());
        if ripgrep.is_empty() {
            println!("  {name:<14} {ours:7.1} ms; ripgrep is not installed");
        } else {
            let ripgrep = median(ripgrep.into_iter());
            println!(
                "  {name:<14} {ours:7.1} ms; ripgrep {ripgrep:7.1} ms, {:.2} of it",
                ours / ripgrep
            );
        }
    }
    std::fs::remove_dir_all(&root)?;
    Ok(())
}
