//! The launcher's report of whether the command started.
//!
//! The report is the first line on the error stream, with a token that only we and the launcher know:
//! the command gets neither its environment variable nor, since it is another program by then, the
//! launcher's memory. So a command cannot claim that it never ran, and a launcher that died without a
//! report is not taken for a command that did.

use std::io::{self, Read as _, Write as _};

use super::LaunchError;
use crate::call_failure::one_line;

/// The variable that carries the token to the launcher.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_CONFINED_TOKEN";
/// The longest report.
pub(crate) const REPORT_BYTES_MAX: usize = 128;

const NAME: &str = "windlass-confined";
const TOKEN_BYTES: usize = 16;

/// A secret shared by the launcher and the process that started it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

/// Whether the command started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LaunchReport {
    /// It did; the rest of the error stream is its own.
    Started,
    /// The launcher could not confine it, for this reason.
    Refused(String),
    /// Its program cannot be started, for this reason.
    NoProgram(String),
    /// There is no report, so the launcher failed early.
    Missing,
}

impl Token {
    /// Makes a random token.
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Reads the token from the launcher's environment.
    pub fn from_env() -> Option<Self> {
        std::env::var(TOKEN_VARIABLE).ok().map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn line(&self, word: &str) -> String {
        format!("{NAME} {} {word}", self.0)
    }

    /// Reports that the command starts now. Must come before the exec, which replaces this program.
    pub fn report_start(&self) -> io::Result<()> {
        io::stderr().write_all(format!("{}\n", self.line("begins")).as_bytes())
    }

    /// Reports why the command did not start.
    pub fn report_failure(&self, error: &LaunchError) -> io::Result<()> {
        let word = match error {
            LaunchError::NoProgram { .. } => "no-program",
            LaunchError::Sandbox(_) | LaunchError::Folder { .. } => "refused",
        };
        let line = format!("{} {}\n", self.line(word), one_line(&error.to_string()));
        io::stderr().write_all(line.as_bytes())
    }

    /// Removes the report from the beginning of the error stream and returns it.
    pub fn take_report(&self, stderr: &mut Vec<u8>) -> LaunchReport {
        let begins = format!("{}\n", self.line("begins"));
        let began = stderr.starts_with(begins.as_bytes());
        if began {
            stderr.drain(..begins.len());
        }
        for (word, start) in [
            ("no-program", LaunchReport::NoProgram as fn(String) -> LaunchReport),
            ("refused", LaunchReport::Refused as fn(String) -> LaunchReport),
        ] {
            if let Some(rest) = stderr.strip_prefix(self.line(word).as_bytes()) {
                let text = String::from_utf8_lossy(rest);
                return start(text.lines().next().unwrap_or_default().trim().to_owned());
            }
        }
        if began { LaunchReport::Started } else { LaunchReport::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (LaunchReport, String) {
        let mut bytes = text.as_bytes().to_vec();
        let start = Token("t0".to_owned()).take_report(&mut bytes);
        (start, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn only_a_line_with_the_token_is_a_report() {
        let (start, rest) = read("windlass-confined t0 begins\nits own\n");
        assert_eq!((start, rest.as_str()), (LaunchReport::Started, "its own\n"));
        assert_eq!(read("").0, LaunchReport::Missing);
        assert_eq!(read("bwrap: no\n").0, LaunchReport::Missing);
        assert_eq!(read("windlass-confined t1 begins\n").0, LaunchReport::Missing);
        assert_eq!(read("x windlass-confined t0 begins\n").0, LaunchReport::Missing);
        let refused = read("windlass-confined t0 refused why not\nerror: more\n").0;
        assert_eq!(refused, LaunchReport::Refused("why not".to_owned()));
        let no = read("windlass-confined t0 begins\nwindlass-confined t0 no-program x\n").0;
        assert_eq!(no, LaunchReport::NoProgram("x".to_owned()));
        let forged = read("windlass-confined t0 begins\nwindlass-confined t9 refused x\n").0;
        assert_eq!(forged, LaunchReport::Started);
    }

    #[test]
    fn tokens_differ_and_the_line_is_short() {
        let (one, two) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert!(one != two && one.as_str().len() == 2 * TOKEN_BYTES);
        assert!(one.line("begins").len() < REPORT_BYTES_MAX);
    }
}
