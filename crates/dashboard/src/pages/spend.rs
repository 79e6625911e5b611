//! What runs have used: by day, run, agent and model, as plots and as tables.

use maud::{Markup, html};

use super::chart::{self, Column};
use super::layout::{run_address, time};
use super::parts::{dollars, grouped, project_choice, rendered, unusable};
use super::{Answer, PageRoute, page};
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::spend::{self, Amount, Spend, SpendRow, WINDOWS};

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[page("/spend", show)];

/// What is plotted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Cost,
    Tokens,
    Calls,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Cost, Self::Tokens, Self::Calls];

    const fn word(self) -> &'static str {
        match self {
            Self::Cost => "Cost",
            Self::Tokens => "Tokens",
            Self::Calls => "Calls",
        }
    }

    const fn of(self, amount: &Amount) -> u64 {
        match self {
            Self::Cost => amount.cost_micros,
            Self::Tokens => amount.tokens,
            Self::Calls => amount.calls,
        }
    }

    fn words(self, amount: &Amount) -> String {
        match self {
            Self::Cost => dollars(amount.cost_micros),
            Self::Tokens | Self::Calls => grouped(self.of(amount)),
        }
    }
}

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    let days = spend::window(context)?;
    let found = spend::report(context)?;
    let body = html! {
        h1 { "Spend" }
        (unusable(context))
        form.filters method="get" action="/spend" {
            label { "Window"
                select name="days" {
                    @for one in WINDOWS {
                        option value=(one) selected[one == days] { @if one == 1 { "today" } @else { "the last " (one) " days" } }
                    }
                }
            }
            (project_choice(context, true))
            button type="submit" { "Show" }
        }
        section #spend data-part {
            (remarks(&found))
            div.figures {
                @for measure in Measure::ALL {
                    div.card.figure { span.faint { (measure.word()) } strong { (measure.words(&found.total)) } }
                }
                div.card.figure { span.faint { "Agents and programs started" } strong { (grouped(found.total.invocations)) } }
            }
            div.columns { @for measure in Measure::ALL { (plot(measure, &found.days)) } }
            details {
                summary { "By day, in numbers" }
                (table("Day", &found.days, true, &|row| html! { (row.name) }))
            }
            h2 { "By run" }
            (table("Run", &found.runs, true, &|row| match &row.project {
                Some(project) => html! { a href=(run_address(project, &row.name)) { code { (row.name) } } },
                None => html! { (row.name) },
            }))
            h2 { "By agent" }
            (table("Agent or program", &found.agents, false, &named))
            h2 { "By model" }
            (table("Model", &found.models, false, &named))
            p.faint { "Counted " (time(found.counted_at)) ". Days are those of UTC. Tokens and cost are what agents report; guarded sessions report none, and their calls are counted." }
        }
    };
    Ok(rendered(context, "Spend", "spend", true, body))
}

fn named(row: &SpendRow) -> Markup {
    html! { @if row.name.is_empty() { span.faint { "not recorded" } } @else { (row.name) } }
}

/// What the numbers lack.
fn remarks(found: &Spend) -> Markup {
    html! {
        @if found.counted_at.is_none() { p.card.warn role="status" data-again { "Runs are still being counted; the numbers below are not all. Load this page again in a moment." } }
        @for words in &found.left_out { p.card.warn { (words) "." } }
        @if found.unaccounted { p.faint { "Some agents did not report all that they used." } }
    }
}

fn plot(measure: Measure, days: &[SpendRow]) -> Markup {
    let columns: Vec<Column> = days
        .iter()
        .map(|day| Column {
            name: day.name.clone(),
            value: measure.of(&day.amount),
            words: measure.words(&day.amount),
        })
        .collect();
    chart::columns(measure.word(), &columns)
}

/// A table with bars.
fn table(
    what: &str,
    rows: &[SpendRow],
    has_calls: bool,
    name: &dyn Fn(&SpendRow) -> Markup,
) -> Markup {
    let measures = Measure::ALL.into_iter().filter(|one| has_calls || *one != Measure::Calls);
    let measures: Vec<Measure> = measures.collect();
    let most = |measure: Measure| rows.iter().map(|row| measure.of(&row.amount)).max().unwrap_or(0);
    html! {
        @if rows.is_empty() { p.faint { "Nothing was used." } }
        @else {
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { (what) } @for measure in &measures { th { (measure.word()) } } } }
                tbody { @for row in rows {
                    tr {
                        td { strong { (name(row)) } }
                        @for measure in &measures {
                            td.number data-label=(measure.word()) { span { (measure.words(&row.amount)) } (chart::bar(measure.of(&row.amount), most(*measure))) }
                        }
                    }
                } }
            } }
        }
    }
}
