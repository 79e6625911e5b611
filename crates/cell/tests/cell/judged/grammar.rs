//! Makes shell lines: from templates of commands, frames around them and disguises of their words, and by
//! changing the lines of the vectors.

use std::path::Path;

use serde::Deserialize;

use super::pieces::Pieces;
use super::random::Random;

const VECTORS: [&str; 5] = [
    include_str!("../../../../../vectors/policy/shell_tricks.json"),
    include_str!("../../../../../vectors/policy/path_tricks.json"),
    include_str!("../../../../../vectors/policy/bypasses.json"),
    include_str!("../../../../../vectors/policy/facts.json"),
    include_str!("../../../../../vectors/policy/ordinary.json"),
];
/// How deep commands stand in commands.
const DEPTH_MAX: usize = 3;

#[derive(Deserialize)]
struct Vector {
    #[serde(default)]
    line: String,
}

/// What lines are made from.
pub struct Corpus {
    root: String,
    pieces: Pieces,
    vectors: Vec<String>,
}

impl Corpus {
    pub fn new(root: &Path) -> Self {
        let lines =
            VECTORS.iter().flat_map(|text| serde_json::from_str::<Vec<Vector>>(text).unwrap());
        Self {
            root: root.to_str().unwrap().to_owned(),
            pieces: Pieces::new(),
            vectors: lines.map(|vector| vector.line).collect(),
        }
    }

    /// A line.
    pub fn line(&self, random: &mut Random) -> String {
        let mut line =
            if random.chance(30) { self.changed_vector(random) } else { self.list(random, 0) };
        while random.chance(8) {
            line = mutate(random, &line);
        }
        line.replace("%W", &self.root)
    }

    fn changed_vector(&self, random: &mut Random) -> String {
        let mut line = random.pick(&self.vectors).clone();
        for _ in 0..=random.below(3) {
            match random.below(5) {
                0 => line = mutate(random, &line),
                1 => {
                    line = format!(
                        "{line}{}{}",
                        random.text(&self.pieces.operators),
                        self.command(random, 1)
                    )
                }
                2 => {
                    line = format!(
                        "{line}{}{}",
                        random.text(&self.pieces.operators),
                        random.pick(&self.vectors)
                    )
                }
                3 => line = self.frame(random, &line, 1),
                _ => {
                    let words: Vec<&str> = line.split(' ').collect();
                    let at = random.below(words.len());
                    let other = self.path(random);
                    let mut words: Vec<&str> = words;
                    words[at] = &other;
                    line = words.join(" ");
                }
            }
        }
        line
    }

    /// Commands joined by operators.
    fn list(&self, random: &mut Random, depth: usize) -> String {
        let mut line = String::new();
        if random.chance(15) {
            line = format!(
                "{}{}",
                self.fill(random, &self.pieces.assignments, depth),
                *random.pick(&["; ", " && ", "\n"])
            );
        }
        line.push_str(&self.framed(random, depth));
        for _ in 0..[0, 0, 0, 0, 1, 1, 2][random.below(7)] {
            line.push_str(random.text(&self.pieces.operators));
            line.push_str(&self.framed(random, depth));
        }
        line
    }

    fn framed(&self, random: &mut Random, depth: usize) -> String {
        let command = self.command(random, depth);
        if random.chance(25) { self.frame(random, &command, depth) } else { command }
    }

    /// Puts a command into a frame.
    fn frame(&self, random: &mut Random, command: &str, depth: usize) -> String {
        let frame = random.text(&self.pieces.frames).replace('@', "\u{1}");
        self.expand(random, &frame, depth).replace('\u{1}', command)
    }

    /// One simple command with its redirections.
    fn command(&self, random: &mut Random, depth: usize) -> String {
        let mut command = self.fill(random, &self.pieces.commands, depth);
        if random.chance(15) {
            command = self.with_option(random, &command);
        }
        if random.chance(6) {
            command = format!("{} {command}", self.fill(random, &self.pieces.assignments, depth));
        }
        if random.chance(18) {
            let redirect = self.fill(random, &self.pieces.redirects, depth);
            command = if redirect.contains('\n') || random.chance(85) {
                format!("{command} {redirect}")
            } else {
                format!("{redirect} {command}")
            };
        }
        command
    }

    /// A command with one more option, of a kind that its program may have.
    fn with_option(&self, random: &mut Random, command: &str) -> String {
        let Some((name, rest)) = command.split_once(' ') else { return command.to_owned() };
        let long = self.pieces.options.get(name);
        // The options of git's subcommands stand behind them.
        let (name, rest) = match rest.split_once(' ') {
            Some((command, rest)) if name == "git" && random.chance(80) => {
                (format!("git {command}"), rest)
            }
            Some(_) | None => (name.to_owned(), rest),
        };
        let option = match long {
            Some(options) if random.chance(50) => {
                let option = random.pick(options);
                let plain = option.trim_end_matches('=');
                let cut = plain.len().min(3 + random.below(plain.len()));
                let short = if random.chance(30) { &plain[..cut] } else { plain };
                match (option.ends_with('='), random.chance(70)) {
                    (true, true) => format!("--{short}={}", self.value(random)),
                    (true, false) => format!("--{short} {}", self.value(random)),
                    (false, _) => format!("--{short}"),
                }
            }
            Some(_) | None => {
                let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0";
                let mut option = String::from("-");
                for _ in 0..=random.below(3) {
                    option.push(char::from(*random.pick(letters)));
                }
                match random.below(4) {
                    0 => option.push_str(&self.value(random)),
                    1 => option = format!("{option} {}", self.value(random)),
                    _ => {}
                }
                option
            }
        };
        if random.chance(80) {
            format!("{name} {option} {rest}")
        } else {
            format!("{name} {rest} {option}")
        }
    }

    fn value(&self, random: &mut Random) -> String {
        match random.below(4) {
            0 => random.text(&self.pieces.words).to_owned(),
            1 => random.text(&self.pieces.folders).to_owned(),
            2 => "frob".to_owned(),
            _ => self.path(random),
        }
    }

    fn fill(&self, random: &mut Random, templates: &[String], depth: usize) -> String {
        let template = random.text(templates);
        self.expand(random, template, depth)
    }

    /// Fills the holes of a template.
    fn expand(&self, random: &mut Random, template: &str, depth: usize) -> String {
        let mut text = String::new();
        let mut chars = template.chars();
        while let Some(char) = chars.next() {
            if char != '%' {
                text.push(char);
                continue;
            }
            match chars.next() {
                Some('p') => text.push_str(&self.path(random)),
                Some('r') => {
                    let plain = random.text(&self.pieces.plain);
                    text.push_str(plain);
                }
                Some('d') => {
                    let folder = random.text(&self.pieces.folders);
                    let plain = random.chance(60);
                    text.push_str(&if plain {
                        folder.to_owned()
                    } else {
                        disguise(random, folder)
                    });
                }
                Some('g') => text.push_str(random.text(&self.pieces.patterns)),
                Some('w') => text.push_str(random.text(&self.pieces.words)),
                Some('v') => text.push_str(random.text(&self.pieces.names)),
                Some('n') => text.push_str(&random.below(4).to_string()),
                Some('c') if depth < DEPTH_MAX => text.push_str(&self.command(random, depth + 1)),
                Some('c') => text.push_str("frob x"),
                Some('q') if depth < DEPTH_MAX => {
                    let line = self.list(random, depth + 2);
                    text.push_str(&quoted(random, &line));
                }
                Some('q') => text.push_str("'frob x'"),
                Some(other) => text.extend(['%', other]),
                None => text.push('%'),
            }
        }
        text
    }

    /// A path, often a protected one in disguise.
    fn path(&self, random: &mut Random) -> String {
        let guarded = random.chance(45);
        let list = if guarded { &self.pieces.protected } else { &self.pieces.plain };
        let path = random.text(list);
        if random.chance(40) { path.to_owned() } else { disguise(random, path) }
    }
}

fn quoted(random: &mut Random, line: &str) -> String {
    if random.chance(70) {
        format!("'{}'", line.replace('\'', "'\\''"))
    } else {
        format!("\"{}\"", line.replace('"', "\\\""))
    }
}

/// Another spelling of a path.
fn disguise(random: &mut Random, path: &str) -> String {
    let middle = (1 + random.below(path.len().max(2) - 1)).min(path.len());
    let (start, end) = path.split_at_checked(middle).unwrap_or((path, ""));
    match random.below(22) {
        0 => format!("./{path}"),
        1 => format!("src/../{path}"),
        2 => format!("\"{path}\""),
        3 => format!("'{path}'"),
        4 => format!("{start}''{end}"),
        5 => format!("{start}\\{end}"),
        6 => format!("$PWD/{path}"),
        7 => format!("~+/{path}"),
        8 => format!("{start}*"),
        9 => format!("{}?{}", start.get(..start.len() - 1).unwrap_or_default(), end),
        10 => {
            format!("[{}]{}", path.get(..1).unwrap_or_default(), path.get(1..).unwrap_or_default())
        }
        11 => format!("{{{path},notes.txt}}"),
        12 => format!("$'{}'", path.replace('.', "\\x2e")),
        13 => format!("$(echo {path})"),
        14 => format!("{start}\"{end}\""),
        15 => "$v".to_owned(),
        16 => "\"$v\"".to_owned(),
        17 => format!("${{v:-{path}}}"),
        18 => format!("%W/{path}"),
        19 => format!("link-src/../{path}"),
        20 => format!("{path}/"),
        _ => format!("src/up/{path}"),
    }
}

/// A line with a small change.
fn mutate(random: &mut Random, line: &str) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    let at = random.below(chars.len() + 1);
    let end = (at + 1 + random.below(4)).min(chars.len());
    match random.below(4) {
        0 if at < end => {
            chars.drain(at..end);
        }
        1 if at < end => {
            let copy: Vec<char> = chars[at..end].to_vec();
            let to = random.below(chars.len() + 1);
            chars.splice(to..to, copy);
        }
        2 if at + 1 < chars.len() => chars.swap(at, at + 1),
        _ => {
            let piece = random.pick(&[
                "'", "\"", "\\", "$", "`", ";", "&", "|", "(", ")", "{", "}", "<", ">", "\n", " ",
                "#", "*", "?", "[", "]", "~", "!", "=", "-", "--", "$(", "${", "<<<", ">&", "&>",
                "\t", "..", "/", ",", "%", "+", ":",
            ]);
            chars.splice(at..at, piece.chars());
        }
    }
    chars.into_iter().collect()
}
