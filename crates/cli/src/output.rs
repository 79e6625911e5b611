//! All terminal output: data to standard output, everything else to standard error.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::AnsiColor;
use serde::Serialize;

use crate::args::Color;
use crate::failure::Failure;

/// The output settings.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Print JSON instead of text.
    pub json: bool,
    color: bool,
    note_color: bool,
    progress: bool,
    json_errors: bool,
}

/// Whether standard output was closed by its reader.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Whether a write to standard output failed for another reason than a closed pipe.
static LOST: AtomicBool = AtomicBool::new(false);

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Success.
    Good,
    /// Needs attention.
    Warn,
    /// An error.
    Bad,
    /// Secondary text.
    Faint,
    /// A heading.
    Bold,
}

impl Output {
    /// Chooses colours by the option, the terminal and `NO_COLOR`.
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
            progress: !json,
            json_errors: json,
        }
    }

    /// For a standard error that has log lines in JSON, which programs read: without the progress of runs, and with
    /// errors as JSON.
    pub const fn with_json_log(mut self) -> Self {
        self.progress = false;
        self.json_errors = true;
        self
    }

    /// Whether errors are printed as JSON, on one line.
    pub const fn has_json_errors(&self) -> bool {
        self.json_errors
    }

    /// Whether the progress of runs is printed.
    pub const fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Prints a line of data.
    pub fn line(&self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    /// Prints bytes of data unchanged.
    ///
    /// After the reader has closed the pipe, output is dropped and the command continues: its exit code
    /// reports the result of the command, not the state of the pipe.
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

    /// The exit code, at least 1 if output was lost.
    pub fn exit(&self, code: u8) -> u8 {
        if LOST.load(Ordering::Relaxed) { code.max(1) } else { code }
    }

    /// Whether standard output is closed.
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

    /// Prints a line to standard error.
    pub fn note(&self, text: &str) {
        // A failed write to standard error cannot be reported anywhere.
        drop(std::io::stderr().lock().write_all(format!("{text}\n").as_bytes()));
    }

    /// Styles text for standard error, if colour is on there.
    pub fn paint_note(&self, text: &str, style: Style) -> String {
        Self { color: self.note_color, ..*self }.paint(text, style)
    }

    /// Whether standard output is coloured.
    pub const fn is_coloured(&self) -> bool {
        self.color
    }

    /// Styles text for standard output, if colour is on there.
    pub fn paint(&self, text: &str, style: Style) -> String {
        if !self.color {
            return text.to_owned();
        }
        let ansi = match style {
            Style::Good => anstyle::Style::new().fg_color(Some(AnsiColor::Green.into())),
            Style::Warn => anstyle::Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Style::Bad => anstyle::Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
            Style::Faint => anstyle::Style::new().dimmed(),
            Style::Bold => anstyle::Style::new().bold(),
        };
        format!("{}{text}{}", ansi.render(), ansi.render_reset())
    }

    /// Prints a table with aligned columns.
    pub fn table(&self, heading: &[&str], rows: &[Vec<(String, Option<Style>)>]) {
        let mut widths: Vec<usize> = heading.iter().map(|word| word.chars().count()).collect();
        for row in rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let heading: Vec<_> =
            heading.iter().map(|word| ((*word).to_owned(), Some(Style::Bold))).collect();
        for row in std::iter::once(&heading).chain(rows) {
            let mut line = String::new();
            for (width, (text, style)) in widths.iter().zip(row) {
                let padding = " ".repeat(width - text.chars().count());
                line.push_str(&style.map_or_else(|| text.clone(), |style| self.paint(text, style)));
                line.push_str(&padding);
                line.push_str("  ");
            }
            self.line(line.trim_end());
        }
    }

    /// Returns a progress spinner that counts `things`; hidden unless standard error is a terminal.
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

/// The beginning of a text, of so many characters at most; an ellipsis tells that there is more.
pub fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let start: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// Escapes control characters, so that text from elsewhere cannot control the terminal.
pub fn sanitize(text: &str) -> String {
    windlass_text::visible(text, &['\t']).into_owned()
}

#[cfg(test)]
mod tests {
    use super::sanitize;

    #[test]
    fn text_from_elsewhere_cannot_control_how_it_is_shown() {
        assert_eq!(
            sanitize("a\u{1b}[31m\u{202e}b\u{200b}\tc é"),
            "a\\u{1b}[31m\\u{202e}b\\u{200b}\tc é"
        );
        assert_eq!(sanitize("\u{e0041}\u{2066}"), "\\u{e0041}\\u{2066}");
    }
}
