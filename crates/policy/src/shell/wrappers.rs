//! Commands that run the command behind their options, and those options.

/// The options of a wrapper. One that is not listed, or is shortened, may take the next word as its value: then it is not known
/// where the command begins.
pub(super) struct Options {
    /// Letters of short options that take a value.
    short: &'static str,
    /// Letters of short options that take none, or only one in the same word.
    flags: &'static str,
    /// Long options that take a value, in the next word or behind `=`.
    long: &'static [&'static str],
    /// Long options that take none, or only one behind `=`.
    long_flags: &'static [&'static str],
    /// How many words come before the command.
    pub operands: usize,
}

const NO_OPTIONS: Options =
    Options { short: "", flags: "", long: &[], long_flags: &["--help", "--version"], operands: 0 };

/// The options of a command that runs another one; `None` if it is none.
pub(super) fn wrapper(name: &str) -> Option<Options> {
    Some(match name {
        "sudo" => Options {
            short: "ugUhpCrtTDR",
            flags: "AbEeHiKklnPSsVv",
            long: &["--user", "--group", "--host", "--prompt", "--chdir"],
            ..NO_OPTIONS
        },
        "doas" => Options { short: "uC", flags: "Lns", ..NO_OPTIONS },
        "env" => Options {
            short: "uCSa",
            flags: "i0v",
            long: &["--unset", "--chdir", "--split-string", "--argv0"],
            long_flags: &[
                "--ignore-environment",
                "--null",
                "--debug",
                "--block-signal",
                "--default-signal",
                "--ignore-signal",
                "--list-signal-handling",
                "--help",
                "--version",
            ],
            ..NO_OPTIONS
        },
        "nohup" | "builtin" | "busybox" | "toybox" => NO_OPTIONS,
        "chronic" => Options { flags: "ve", ..NO_OPTIONS },
        "setsid" => {
            Options { flags: "cfw", long_flags: &["--ctty", "--fork", "--wait"], ..NO_OPTIONS }
        }
        "command" => Options { flags: "pvV", ..NO_OPTIONS },
        "time" => Options {
            short: "fo",
            flags: "apqvV",
            long: &["--format", "--output"],
            long_flags: &["--append", "--portability", "--quiet", "--verbose", "--version"],
            ..NO_OPTIONS
        },
        "exec" => Options { short: "a", flags: "cl", ..NO_OPTIONS },
        "nice" => {
            Options { short: "n", flags: "0123456789", long: &["--adjustment"], ..NO_OPTIONS }
        }
        "ionice" => Options {
            short: "cnpPu",
            flags: "t",
            long: &["--class", "--classdata"],
            long_flags: &["--ignore"],
            ..NO_OPTIONS
        },
        "stdbuf" => {
            Options { short: "ioe", long: &["--input", "--output", "--error"], ..NO_OPTIONS }
        }
        "timeout" => Options {
            short: "ks",
            flags: "fpv",
            long: &["--kill-after", "--signal"],
            long_flags: &["--foreground", "--preserve-status", "--verbose"],
            operands: 1,
        },
        "xargs" => Options {
            short: "aEIdLnPs",
            flags: "0rtpxoile",
            long: &[
                "--arg-file",
                "--delimiter",
                "--max-args",
                "--max-procs",
                "--max-chars",
                "--process-slot-var",
            ],
            long_flags: &[
                "--null",
                "--no-run-if-empty",
                "--verbose",
                "--interactive",
                "--exit",
                "--open-tty",
                "--show-limits",
                "--replace",
                "--max-lines",
                "--eof",
            ],
            ..NO_OPTIONS
        },
        "chroot" | "flock" | "taskset" | "chrt" => {
            Options { short: "cEwu", operands: 1, ..NO_OPTIONS }
        }
        "strace" | "ltrace" => Options { short: "eopsuaEISUX", ..NO_OPTIONS },
        "unshare" | "nsenter" | "watch" | "parallel" | "systemd-run" | "pkexec" | "runuser" => {
            Options { short: "nujIt", ..NO_OPTIONS }
        }
        _ => return None,
    })
}

impl Options {
    /// How many of the next words an option takes; `None` if it is not known.
    pub fn taken(&self, text: &str) -> Option<usize> {
        if text.starts_with("--") {
            let (name, has_value) =
                text.split_once('=').map_or((text, false), |(name, _)| (name, true));
            if self.long.contains(&name) {
                return Some(usize::from(!has_value));
            }
            return self.long_flags.contains(&name).then_some(0);
        }
        // The value of a short option is the next word if its letter is the last one.
        let letters: Vec<char> = text.chars().skip(1).collect();
        for (at, letter) in letters.iter().enumerate() {
            if self.short.contains(*letter) {
                return Some(usize::from(at + 1 == letters.len()));
            }
            if !self.flags.contains(*letter) {
                return None;
            }
            // What follows in the word is the value of these.
            if self.flags.ends_with("ile") && "ile".contains(*letter) {
                return Some(0);
            }
        }
        Some(0)
    }
}
