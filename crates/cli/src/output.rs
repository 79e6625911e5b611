//! The only place that talks to the terminal: data to standard output, the rest to standard error.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::args::Color;
use crate::failure::Failure;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// JSON instead of text.
    pub json: bool,
    color: bool,
    note_color: bool,
}

/// Whether nobody reads standard output any more.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Whether standard output could not be written although somebody may be reading.
static LOST: AtomicBool = AtomicBool::new(false);

/// What a word means, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// All is well.
    Good,
    /// Someone must look.
    Warn,
    /// Something is wrong.
    Bad,
    /// Of less interest.
    Faint,
    /// A heading.
    Bold,
}

impl Output {
    /// Decides how to print.
    pub fn new(json: bool, color: Color) -> Self {
        let wanted = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Self {
            json,
            color: !json && wanted(std::io::stdout().is_terminal()),
            note_color: !json && wanted(std::io::stderr().is_terminal()),
        }
    }

    /// Prints a line of data.
    pub fn line(&self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    /// Prints bytes of data as they are.
    ///
    /// When nobody reads them any more the rest is dropped and the command goes on: its exit code
    /// says what became of the call, not of the pipe.
    pub fn bytes(&self, bytes: &[u8]) {
        if CLOSED.load(Ordering::Relaxed) {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            CLOSED.store(true, Ordering::Relaxed);
            if error.kind() != std::io::ErrorKind::BrokenPipe {
                LOST.store(true, Ordering::Relaxed);
                self.note(&format!("error: standard output cannot be written: {error}"));
            }
        }
    }

    /// The exit code of a command whose data may have been lost.
    pub fn exit(&self, code: u8) -> u8 {
        if LOST.load(Ordering::Relaxed) { code.max(1) } else { code }
    }

    /// Whether nobody reads the data any more.
    pub fn is_closed(&self) -> bool {
        CLOSED.load(Ordering::Relaxed)
    }

    /// Prints a value as JSON on one line.
    pub fn value(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::of(windlass_kernel::Code::Internal, &error))?;
        self.line(&text);
        Ok(())
    }

    /// Says something to the person, beside the data.
    pub fn note(&self, text: &str) {
        // Where even this cannot be written there is nobody left to tell.
        drop(std::io::stderr().lock().write_all(format!("{text}\n").as_bytes()));
    }

    /// Colours a word of a note, if colours are wanted there.
    pub fn paint_note(&self, text: &str, ink: Ink) -> String {
        Self { color: self.note_color, ..*self }.paint(text, ink)
    }

    /// Whether data is coloured.
    pub const fn is_coloured(&self) -> bool {
        self.color
    }

    /// Colours a word, if colours are wanted.
    pub fn paint(&self, text: &str, ink: Ink) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = match ink {
            Ink::Good => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Ink::Warn => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Ink::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
            Ink::Faint => Style::new().dimmed(),
            Ink::Bold => Style::new().bold(),
        };
        format!("{}{text}{}", style.render(), style.render_reset())
    }

    /// Prints rows under a heading, in columns as wide as their contents.
    pub fn table(&self, heading: &[&str], rows: &[Vec<(String, Option<Ink>)>]) {
        let mut widths: Vec<usize> = heading.iter().map(|word| word.chars().count()).collect();
        for row in rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let heading: Vec<_> =
            heading.iter().map(|word| ((*word).to_owned(), Some(Ink::Bold))).collect();
        for row in std::iter::once(&heading).chain(rows) {
            let mut line = String::new();
            for (width, (text, ink)) in widths.iter().zip(row) {
                let padding = " ".repeat(width - text.chars().count());
                line.push_str(&ink.map_or_else(|| text.clone(), |ink| self.paint(text, ink)));
                line.push_str(&padding);
                line.push_str("  ");
            }
            self.line(line.trim_end());
        }
    }

    /// A progress bar that counts `things`, on a terminal only.
    pub fn progress(&self, message: &'static str, things: &str) -> indicatif::ProgressBar {
        if self.json || !std::io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let bar = indicatif::ProgressBar::new_spinner().with_message(message);
        let template =
            format!("{{spinner}} {{msg}}: {{human_pos}} {things}, {{per_sec}}, {{elapsed}}");
        if let Ok(style) = indicatif::ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar
    }
}

/// Shows text from elsewhere without letting it command the terminal.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() && char != '\t' {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}
