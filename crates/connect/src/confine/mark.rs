//! How the launcher tells whether the command began.
//!
//! The first thing on the error stream is a line with a token that only we and the launcher know:
//! the command gets neither its environment variable nor, since it is another program by then, the
//! launcher's memory. So a command cannot claim that it never ran, and a launcher that died in
//! silence is not taken for a command that did.

use std::io::{self, Read as _, Write as _};

use super::LaunchError;
use crate::trouble::one_line;

/// The variable that carries the token to the launcher.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_CONFINED_TOKEN";
/// The longest first line.
pub(crate) const MARK_BYTES_MAX: usize = 128;

const NAME: &str = "windlass-confined";
const TOKEN_BYTES: usize = 16;

/// What the launcher and we know and the command does not.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

/// Whether the command began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It did; the rest of the error stream is its own.
    Began,
    /// The launcher says why it did not.
    Refused(String),
    /// The launcher became nothing, since the command's program cannot be started.
    NoProgram(String),
    /// The launcher said nothing, so it never came that far.
    Silent,
}

impl Token {
    /// Makes a token that nobody can guess.
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Takes the token that the launcher was given.
    pub fn given() -> Option<Self> {
        std::env::var(TOKEN_VARIABLE).ok().map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn line(&self, word: &str) -> String {
        format!("{NAME} {} {word}", self.0)
    }

    /// Says that the command begins now. Must come before the exec: afterwards nobody could.
    pub fn say_begins(&self) -> io::Result<()> {
        io::stderr().write_all(format!("{}\n", self.line("begins")).as_bytes())
    }

    /// Says why the command did not begin.
    pub fn say_failure(&self, error: &LaunchError) -> io::Result<()> {
        let word = match error {
            LaunchError::NoProgram { .. } => "no-program",
            LaunchError::Sandbox(_) | LaunchError::Folder { .. } => "refused",
        };
        let line = format!("{} {}\n", self.line(word), one_line(&error.to_string()));
        io::stderr().write_all(line.as_bytes())
    }

    /// Reads the launcher's word off the beginning of the error stream.
    pub fn read(&self, stderr: &mut Vec<u8>) -> Start {
        let begins = format!("{}\n", self.line("begins"));
        let began = stderr.starts_with(begins.as_bytes());
        if began {
            stderr.drain(..begins.len());
        }
        for (word, start) in [
            ("no-program", Start::NoProgram as fn(String) -> Start),
            ("refused", Start::Refused as fn(String) -> Start),
        ] {
            if let Some(rest) = stderr.strip_prefix(self.line(word).as_bytes()) {
                let text = String::from_utf8_lossy(rest);
                return start(text.lines().next().unwrap_or_default().trim().to_owned());
            }
        }
        if began { Start::Began } else { Start::Silent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Start, String) {
        let mut bytes = text.as_bytes().to_vec();
        let start = Token("t0".to_owned()).read(&mut bytes);
        (start, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn only_the_token_counts() {
        let (start, rest) = read("windlass-confined t0 begins\nits own\n");
        assert_eq!((start, rest.as_str()), (Start::Began, "its own\n"));
        assert_eq!(read("").0, Start::Silent);
        assert_eq!(read("bwrap: no\n").0, Start::Silent);
        assert_eq!(read("windlass-confined t1 begins\n").0, Start::Silent);
        assert_eq!(read("x windlass-confined t0 begins\n").0, Start::Silent);
        let refused = read("windlass-confined t0 refused why not\nerror: more\n").0;
        assert_eq!(refused, Start::Refused("why not".to_owned()));
        let no = read("windlass-confined t0 begins\nwindlass-confined t0 no-program x\n").0;
        assert_eq!(no, Start::NoProgram("x".to_owned()));
        let forged = read("windlass-confined t0 begins\nwindlass-confined t9 refused x\n").0;
        assert_eq!(forged, Start::Began);
    }

    #[test]
    fn tokens_differ_and_the_line_is_short() {
        let (one, two) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert!(one != two && one.as_str().len() == 2 * TOKEN_BYTES);
        assert!(one.line("begins").len() < MARK_BYTES_MAX);
    }
}
