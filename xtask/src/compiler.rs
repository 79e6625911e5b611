//! The compiler of the check: one pass over each of our crates runs the lints, builds it and renders its documentation.
//!
//! Cargo runs xtask in place of rustc for the crates of the workspace, and xtask runs clippy's driver, which is rustc with
//! lints, then rustdoc with what the compiler was told. So all dependencies are compiled once, and not a second and third
//! time for `cargo clippy` and `cargo doc`, which build nothing that can be run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use crate::cargo;

/// Set for a cargo whose compiler we are: the folder of the documentation.
const DOCUMENTATION: &str = "WINDLASS_CHECK_DOCUMENTATION";
/// What clippy's driver takes for the arguments of `cargo clippy -- -D warnings`.
const LINTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Makes us the compiler of this cargo command.
///
/// Every command of the check is told so, or cargo would build our crates anew. Without clippy's driver it is left as it is;
/// the stage `tools` says that clippy is missing.
pub fn use_in(command: &mut Command, root: &Path) {
    let Ok(xtask) = std::env::current_exe() else { return };
    if driver(&cargo::program()).is_file() {
        command
            .env("RUSTC_WORKSPACE_WRAPPER", xtask)
            .env("CLIPPY_ARGS", LINTS)
            .env(DOCUMENTATION, root.join("target").join("doc"));
    }
}

/// Clippy's driver and rustdoc lie beside cargo and rustc.
fn driver(beside: &OsStr) -> PathBuf {
    Path::new(beside).with_file_name("clippy-driver")
}

/// Does the compiler's work if cargo has started us as one.
pub fn stand_in() -> Option<ExitCode> {
    let documentation = PathBuf::from(std::env::var_os(DOCUMENTATION)?);
    let mut arguments = std::env::args_os().skip(1);
    let rustc = arguments.next()?;
    if Path::new(&rustc).file_stem() != Some(OsStr::new("rustc")) {
        return None;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let compiled = run(Command::new(driver(&rustc)).arg(&rustc).args(&arguments));
    if compiled != Some(0) {
        return Some(code(compiled));
    }
    let Some(documented) = documented(&arguments) else { return Some(ExitCode::SUCCESS) };
    let mut rustdoc = Command::new(Path::new(&rustc).with_file_name("rustdoc"));
    rustdoc.args(documented).args(["--document-private-items", "-D", "warnings", "-o"]);
    Some(code(run(rustdoc.arg(documentation))))
}

/// The exit code of a program; none if it could not be run or was killed.
fn run(command: &mut Command) -> Option<i32> {
    match command.status() {
        Ok(status) => ExitStatus::code(&status),
        Err(error) => {
            eprintln!("error: run {}: {error}", command.get_program().display());
            None
        }
    }
}

fn code(code: Option<i32>) -> ExitCode {
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The arguments of rustdoc for a crate that was compiled with these; none for tests, build scripts and what cargo asks the
/// compiler itself.
fn documented(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut kept = Vec::new();
    let mut has_source = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str()?;
        match text {
            "--test" | "-" => return None,
            "--crate-name" | "--crate-type" | "--cfg" | "--check-cfg" | "-L" | "--extern" => {
                let value = arguments.next()?;
                let ours = !(text == "--crate-name" && value == "build_script_build");
                kept.extend(ours.then(|| [argument.clone(), value.clone()])?);
            }
            "-C" | "--out-dir" | "--cap-lints" | "-A" | "-W" | "-D" | "-F" => {
                arguments.next()?;
            }
            source if source.ends_with(".rs") => {
                has_source = true;
                kept.push(argument.clone());
            }
            told if ["--edition=", "--error-format=", "--json=", "--diagnostic-width="]
                .iter()
                .any(|start| told.starts_with(start)) =>
            {
                kept.push(argument.clone());
            }
            _ => {}
        }
    }
    has_source.then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documented_as(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let kept = documented(&arguments)?;
        Some(kept.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn a_crate_is_documented_as_it_was_compiled() {
        assert_eq!(
            documented_as(
                "--crate-name a --edition=2024 a/src/lib.rs --error-format=json --json=artifacts --crate-type lib \
                 --emit=dep-info,metadata,link -C opt-level=1 --warn=missing_docs --deny=clippy::panic --cfg feature=\"x\" \
                 --check-cfg cfg(test) -C metadata=12 --out-dir /t/deps -L dependency=/t/deps --extern b=/t/deps/libb.rmeta"
            )
            .as_deref(),
            Some(
                "--crate-name a --edition=2024 a/src/lib.rs --error-format=json --json=artifacts --crate-type lib \
                 --cfg feature=\"x\" --check-cfg cfg(test) -L dependency=/t/deps --extern b=/t/deps/libb.rmeta"
            )
        );
    }

    #[test]
    fn tests_build_scripts_and_questions_to_the_compiler_are_not_documented() {
        for line in [
            "--crate-name a --edition=2024 a/src/lib.rs --test -L dependency=/t",
            "--crate-name build_script_build --edition=2024 a/build.rs --crate-type bin",
            "- --crate-name ___ --print=file-names --crate-type bin",
            "-vV",
        ] {
            assert_eq!(documented_as(line), None, "{line}");
        }
    }
}
