//! What all pages have, and small parts of them.

use maud::{DOCTYPE, Markup, html};
use windlass_kernel::Timestamp;

use crate::access::{Role, Scope, Visitor};
use crate::dashboard::now;
use crate::model::RunState;
use crate::problem::Problem;

/// A page.
pub(super) struct Page<'a> {
    /// The title.
    pub title: &'a str,
    /// Which part of the menu it belongs to.
    pub at: &'a str,
    /// Who looks at it.
    pub visitor: Option<&'a Visitor>,
    /// The id of the newest event before it was made, if it is kept up to date.
    pub live_after: Option<&'a str>,
    /// The content.
    pub body: Markup,
}

impl Page<'_> {
    /// The page as a text.
    pub(super) fn render(self) -> String {
        let Page { title, at, visitor, live_after, body } = self;
        let everything = visitor.filter(|visitor| visitor.scope == Scope::All);
        let html = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · Windlass" }
                    link rel="stylesheet" href="/assets/style.css";
                    link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                    link rel="apple-touch-icon" href="/assets/icon-192.png";
                    link rel="manifest" href="/assets/manifest.webmanifest";
                    script type="module" src="/assets/live.js" {}
                    script type="module" src="/assets/comment.js" {}
                }
                body data-live=[live_after.filter(|_| everything.is_some())] {
                    a.skip href="#main" { "Skip to the content" }
                    header.top {
                        a.brand href="/" { img src="/assets/icon.svg" alt="" width="24" height="24"; "Windlass" }
                        @if let Some(visitor) = everything {
                            nav aria-label="Main" {
                                (menu("/", "Inbox", at == "inbox"))
                                (menu("/runs", "Runs", at == "runs"))
                                @if visitor.role >= Role::Operator { (menu("/new", "New run", at == "new")) }
                                (more(at))
                            }
                        }
                        @if let Some(visitor) = visitor {
                            form.who method="post" action="/leave" {
                                span { (visitor.name) " · " (visitor.role.as_str()) }
                                button.quiet type="submit" { "Log out" }
                            }
                        }
                    }
                    p #connection .banner role="status" hidden {
                        "The server does not answer. Trying again…"
                    }
                    main #main tabindex="-1" { (body) }
                }
            }
        }
        .into_string();
        visible(&html)
    }
}

/// A page in which nothing changes the direction or hides parts of what is shown: names and outputs are of anybody.
fn visible(html: &str) -> String {
    windlass_text::visible(html, &['\n', '\t']).into_owned()
}

/// The pages that are needed more rarely: address, name, part of the menu.
const MORE: &[(&str, &str, &str)] = &[
    ("/sessions", "Sessions", "sessions"),
    ("/calls", "Calls", "calls"),
    ("/spend", "Spend", "spend"),
    ("/policy", "Policy", "policy"),
    ("/grants", "Grants", "grants"),
    ("/backlog", "Backlog", "backlog"),
    ("/notifications", "Notifications", "notifications"),
    ("/journal", "Journal", "journal"),
];

/// The rarer pages, which unfold. The button has the name of the page if it is one of them.
fn more(at: &str) -> Markup {
    let here = MORE.iter().find(|(_, _, part)| *part == at);
    html! {
        details.more {
            summary class=[here.is_some().then_some("here")] { (here.map_or("More", |(_, name, _)| name)) }
            div.sheet { @for (href, name, part) in MORE { (menu(href, name, *part == at)) } }
        }
    }
}

fn menu(href: &str, name: &str, is_here: bool) -> Markup {
    html! { a href=(href) aria-current=[is_here.then_some("page")] { (name) } }
}

/// What the page of a problem shows of the request that failed.
#[derive(Default)]
pub(super) struct Refused<'a> {
    /// Where to go from here.
    pub back: Option<String>,
    /// What was typed in, with its names, so that it is not lost.
    pub written: Vec<(&'a str, &'a str)>,
}

/// The page of a problem.
pub(super) fn problem(
    problem: &Problem,
    visitor: Option<&Visitor>,
    refused: &Refused<'_>,
) -> String {
    let title = problem.status.canonical_reason().unwrap_or("Error");
    let body = html! {
        h1 { (title) }
        section.card.bad {
            p { (problem.message) }
            @if let Some(hint) = &problem.hint { p { strong { "What to do: " } (hint) } }
            p.faint { code { (problem.code) } " · " code { "windlass explain " (problem.code) } " tells more" }
        }
        @if !refused.written.is_empty() {
            section.card {
                h2 { "What you had written" }
                dl.facts { @for (name, text) in &refused.written { dt { (name) } dd { span.plain { (text) } } } }
            }
        }
        @if let Some(back) = &refused.back { p { a.button href=(back) { "Back" } } }
    };
    Page { title, at: "", visitor, live_after: None, body }.render()
}

/// A state, in colour and in words.
pub(super) fn badge(state: RunState) -> Markup {
    html! { span class=(format!("badge state-{}", state.as_str())) { (state.word()) } }
}

/// A time, with how long ago it was.
pub(super) fn time(at: Option<Timestamp>) -> Markup {
    html! {
        @match at {
            Some(at) => time datetime=(at) title=(at) { (distance(at)) },
            None => span.faint { "–" },
        }
    }
}

/// How far a time is from now, in words.
fn distance(at: Timestamp) -> String {
    let ms = now().unix_ms().saturating_sub(at.unix_ms());
    match (ms, words(ms.unsigned_abs())) {
        (0.., words) => format!("{words} ago"),
        (_, words) => format!("in {words}"),
    }
}

/// A duration, in words.
pub(super) fn words(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A text as one part of a path.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The address of a run.
pub(super) fn run_address(project: &str, run: &str) -> String {
    format!("/runs/{}/{}", encode(project), encode(run))
}

/// The address of a hold.
pub(super) fn hold_address(project: &str, run: &str) -> String {
    format!("/holds/{}/{}", encode(project), encode(run))
}

/// A form with one button.
pub(super) fn button(action: &str, name: &str, class: &str) -> Markup {
    html! { form method="post" action=(action) { button type="submit" class=(class) { (name) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_words() {
        let told = [0, 999, 1_000, 119_000, 120_000, 7_200_000, 200_000_000].map(words);
        assert_eq!(told, ["0 ms", "999 ms", "1 s", "119 s", "2 min", "2 h", "2 days"]);
    }

    #[test]
    fn nothing_turns_around_or_hides_what_is_shown() {
        assert_eq!(
            visible("a\u{202e}b\u{2066}\u{200b}\r\n\tc é"),
            "a\\u{202e}b\\u{2066}\\u{200b}\\u{d}\n\tc é"
        );
    }

    #[test]
    fn a_text_is_one_part_of_a_path() {
        assert_eq!(encode("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
    }
}
