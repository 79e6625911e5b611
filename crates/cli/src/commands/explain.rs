//! `windlass explain`: prints the page of an error code.

use serde_json::json;
use windlass_kernel::Code;

use crate::exit_code::exit_of;
use crate::failure::{CommandResult, Failure, hint_of};
use crate::output::Output;

/// The pages, by the names of their codes.
const PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

/// Prints the page of a code, or lists all codes.
pub fn run(code: Option<&str>, output: &Output) -> CommandResult {
    let Some(text) = code else {
        return list(output);
    };
    let name = text.trim().trim_start_matches('[').trim_end_matches(']').to_ascii_uppercase();
    let found = Code::named(&name).zip(PAGES.iter().find(|(code, _)| *code == name));
    let Some((code, (_, page))) = found else {
        let shown: String = text.chars().take(60).collect();
        let message = format!("`{}` is not an error code", shown.escape_debug());
        return Err(Failure::new(Code::RequestInvalid, message).hint(
            "an error ends with its code, such as [RUN_NOT_FOUND]; `windlass explain` lists all",
        ));
    };
    if output.json {
        output.value(&json!({
            "code": code, "exit_code": exit_of(code), "hint": hint_of(code), "page": page,
        }))?;
    } else {
        output.bytes(page.as_bytes());
    }
    Ok(0)
}

/// Lists the codes, each with the first sentence of its page.
fn list(output: &Output) -> CommandResult {
    let summary = |page: &'static str| first_sentence(page);
    if output.json {
        let codes: Vec<_> = PAGES
            .iter()
            .map(|(code, page)| json!({ "code": code, "summary": summary(page) }))
            .collect();
        output.value(&codes)?;
        return Ok(0);
    }
    let rows: Vec<_> = PAGES
        .iter()
        .map(|(code, page)| vec![((*code).to_owned(), None), (summary(page), None)])
        .collect();
    output.table(&["CODE", "MEANING"], &rows);
    Ok(0)
}

/// The first sentence below the title of a page; it may go over several lines.
fn first_sentence(page: &str) -> String {
    let paragraph: Vec<&str> =
        page.lines().skip(2).take_while(|line| !line.trim().is_empty()).collect();
    let paragraph = paragraph.join(" ");
    // A dot within a name, such as that of a file, ends no sentence.
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    paragraph.get(..end).unwrap_or_default().to_owned()
}
