//! The second of two readings of a shell line: its syntax tree.
//!
//! It finds commands everywhere: in substitutions, conditions, functions and here-documents.
//!
//! The grammar is C code. INVARIANT: it is given printable ASCII, tabs and newlines, nothing else.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Point, Tree};

use super::lexer::read_word;
use super::redirect::is_descriptor;
use super::word::Word;
use super::{Access, Reading, Redirect};

/// The deepest tree that is traversed.
const DEPTH_MAX: usize = 2000;
/// The most bytes of words that are read from one tree.
const BYTES_READ_MAX: usize = 4 * super::LINE_BYTES_MAX;
/// How often the parser may report progress on one line.
const STEPS_MAX: usize = 20_000;

/// Reads a whole line, or several.
pub(super) fn read(line: &str) -> Reading {
    let mut reading = Reading::default();
    let mut parser = Parser::new();
    let language = tree_sitter_bash::LANGUAGE.into();
    let tree = match parser.set_language(&language) {
        Ok(()) => parse(&mut parser, line),
        Err(_) => None,
    };
    let Some(tree) = tree else {
        reading.broken = true;
        reading.finding("the line cannot be parsed");
        return reading;
    };
    // The nodes above the present one are kept here: the tree would search a parent from the root each time.
    let mut above: Vec<Node<'_>> = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if above.len() > DEPTH_MAX {
            reading.broken = true;
            reading.finding("the line is nested too deeply");
            break;
        }
        let kind = node.kind();
        visit(node, kind, above.last().copied(), line, &mut reading);
        // The line in a substitution is read on its own, as the lexer's.
        let is_substitution = matches!(kind, "command_substitution" | "process_substitution");
        if is_substitution {
            substitution(node, line, &mut reading);
        } else if cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return reading;
            }
            above.pop();
        }
    }
    reading
}

/// The line as the grammar gets it: a capital letter in place of every byte that is not printable
/// ASCII, tab or newline.
///
/// The grammar's scanner reads past its tables at some characters. To bash, whatever is replaced
/// here is only a part of a word; words are taken from the line itself, by their offsets.
/// Different characters mostly become different letters, so that a here-document ends where it should.
fn plain(line: &str) -> Vec<u8> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n');
    line.bytes().map(|byte| if is_plain(byte) { byte } else { b'A' + byte % 26 }).collect()
}

/// Parses within a budget of steps: some broken lines would keep the parser busy for minutes.
fn parse(parser: &mut Parser, line: &str) -> Option<Tree> {
    let plain = plain(line);
    let mut steps = 0_usize;
    let mut budget = |_: &ParseState| {
        steps += 1;
        if steps > STEPS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut budget);
    let mut text = |at: usize, _: Point| plain.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut text, None, Some(options))
}

fn visit(node: Node<'_>, kind: &str, parent: Option<Node<'_>>, line: &str, reading: &mut Reading) {
    if node.is_error() || node.is_missing() {
        reading.broken = true;
        reading.finding("syntax that is not understood");
        return;
    }
    match kind {
        "command" => command(node, parent, line, reading),
        "declaration_command" | "unset_command" => {
            if !text(node, line).starts_with("export") {
                reading.finding("a declaration of variables");
            }
            words_of(node, line, reading);
        }
        "variable_assignment" => {
            let exported = parent.is_some_and(|parent| parent.kind() == "declaration_command");
            if let (false, Some(name)) = (exported, node.child_by_field_name("name")) {
                reading.set(text(name, line));
            }
        }
        "for_statement" => {
            if let Some(name) = node.child_by_field_name("variable") {
                reading.set(text(name, line));
            }
        }
        "simple_expansion" | "expansion" => reading.expansions += 1,
        "test_command" => test(node, line, reading),
        "file_redirect" => redirect(node, line, reading),
        "function_definition" => function(node, line, reading),
        kind => {
            if let Some(what) = finding(kind) {
                reading.finding(what);
            }
        }
    }
}

/// The finding for a kind of node.
fn finding(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "array" | "subscript" => "an array",
        "c_style_for_statement" => "the compound command `for`",
        "case_statement" => "the compound command `case`",
        "process_substitution" => "a process substitution",
        "brace_expression" => "a brace expansion",
        "ansi_c_string" => "a `$'…'` string",
        "translated_string" => "a translated string",
        "extglob_pattern" => "an extended pattern",
        "herestring_redirect" => return None,
        _ => return None,
    })
}

fn text<'a>(node: Node<'_>, line: &'a str) -> &'a str {
    line.get(node.byte_range()).unwrap_or_default()
}

fn word(node: Node<'_>, line: &str, reading: &mut Reading) -> Word {
    // Nested words are read once for each level: the total is limited.
    reading.bytes_read = reading.bytes_read.saturating_add(node.byte_range().len());
    if reading.bytes_read > BYTES_READ_MAX {
        reading.broken = true;
        reading.finding("the line is nested too deeply");
        return Word::unknown();
    }
    read_word(text(node, line), reading)
}

fn command(node: Node<'_>, parent: Option<Node<'_>>, line: &str, reading: &mut Reading) {
    let mut words = Vec::new();
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        match child.kind() {
            "variable_assignment" | "herestring_redirect" | "comment" => {}
            "file_redirect" => words.extend(further_targets(child, line, reading)),
            _ => words.push(word(child, line, reading)),
        }
    }
    // Redirections around the command can hold words of it: `echo > file word`.
    if let Some(parent) = parent.filter(|parent| parent.kind() == "redirected_statement") {
        let mut cursor = parent.walk();
        for child in parent.children(&mut cursor) {
            match child.kind() {
                "file_redirect" => words.extend(further_targets(child, line, reading)),
                "heredoc_redirect" => heredoc(child, line, reading, &mut words),
                _ => {}
            }
        }
    }
    if !words.is_empty() {
        reading.commands.push(words);
    }
}

/// Words of the command after the delimiter of a here-document.
fn heredoc(node: Node<'_>, line: &str, reading: &mut Reading, words: &mut Vec<Word>) {
    let mut cursor = node.walk();
    for child in node.children_by_field_name("argument", &mut cursor) {
        words.push(word(child, line, reading));
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor).filter(|child| child.kind() == "file_redirect") {
        words.extend(further_targets(child, line, reading));
    }
}

fn words_of(node: Node<'_>, line: &str, reading: &mut Reading) {
    let mut words = Vec::new();
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        words.push(word(child, line, reading));
    }
    reading.commands.push(words);
}

/// A function that calls itself is a fork bomb as soon as it does so in a pipeline.
fn function(node: Node<'_>, line: &str, reading: &mut Reading) {
    reading.finding("a function definition or an array");
    let name = node.child_by_field_name("name").map(|name| text(name, line));
    let mut waiting: Vec<Node<'_>> = node.child_by_field_name("body").into_iter().collect();
    while let Some(inner) = waiting.pop() {
        if inner.kind() == "command_name" && Some(text(inner, line)) == name {
            reading.recursive = true;
        }
        let mut cursor = inner.walk();
        waiting.extend(inner.children(&mut cursor));
    }
}

/// Treats `[ … ]` as a command.
fn test(node: Node<'_>, line: &str, reading: &mut Reading) {
    let inner = super::lexer::read(text(node, line));
    reading.commands.extend(inner.commands);
    reading.nested.extend(inner.nested);
    for found in inner.findings {
        reading.finding(&found);
    }
}

/// Takes the line in a substitution.
fn substitution(node: Node<'_>, line: &str, reading: &mut Reading) {
    let whole = text(node, line);
    let inner = match whole.strip_prefix('`') {
        // The lexer knows what a backslash means in backticks.
        Some(_) => return drop(read_word(whole, reading)),
        None => whole.get(2..).and_then(|inner| inner.strip_suffix(')')),
    };
    match inner {
        Some(inner) => reading.nested.push(inner.to_owned()),
        None => reading.finding("a command substitution"),
    }
}

fn targets<'a>(node: Node<'a>) -> Vec<Node<'a>> {
    let mut cursor = node.walk();
    node.children_by_field_name("destination", &mut cursor).collect()
}

fn further_targets(node: Node<'_>, line: &str, reading: &mut Reading) -> Vec<Word> {
    targets(node).into_iter().skip(1).map(|target| word(target, line, reading)).collect()
}

fn redirect(node: Node<'_>, line: &str, reading: &mut Reading) {
    let mut cursor = node.walk();
    let operator = node
        .children(&mut cursor)
        .map(|child| child.kind())
        .find(|kind| kind.contains(['<', '>']))
        .unwrap_or(">");
    let Some(target) = targets(node).first().map(|target| word(*target, line, reading)) else {
        return;
    };
    if operator.ends_with('-') || operator.ends_with('&') && is_descriptor(&target) {
        return;
    }
    let access = if operator.starts_with('<') { Access::Read } else { Access::Write };
    reading.redirects.push(Redirect { target, access });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(line: &str) -> Vec<String> {
        let reading = read(line);
        let words = reading.commands.iter().map(|words| super::super::word::join(words));
        let mut commands: Vec<String> = words.chain(reading.nested).collect();
        commands.sort();
        commands
    }

    #[test]
    fn commands_are_found_wherever_they_stand() {
        for line in [
            "x $(rm a)",
            "x `rm a`",
            "x <(rm a)",
            "x \"${y:-$(rm a)}\"",
            "for i in 1 2; do rm a; done",
            "case x in x) rm a;; esac",
            "f() { rm a; }",
            "x <<E\n$(rm a)\nE\n",
            "if x; then rm a; fi",
            "[[ $(rm a) == b ]]",
            "a=$(rm a)",
            "coproc rm a",
        ] {
            assert!(commands(line).iter().any(|found| found.ends_with("rm a")), "{line}");
        }
    }

    #[test]
    fn redirections_do_not_swallow_words() {
        assert_eq!(commands("echo > out a b"), ["echo a b"]);
        let reading = read("cat < in >> out 2>&1 2>/dev/null");
        let targets: Vec<(&str, Access)> =
            reading.redirects.iter().map(|r| (r.target.text.as_str(), r.access)).collect();
        assert_eq!(targets.len(), 3);
        assert!(targets.contains(&("in", Access::Read)));
        assert!(targets.contains(&("out", Access::Write)));
    }
}
