//! What a form asks for so that its decision can be signed.

use maud::{Markup, html};

use crate::dashboard::Context;
use crate::keys::Key;

/// The fields of a form that decides: a passphrase, if the visitor's key has one.
pub(super) fn fields(context: &Context<'_>) -> Markup {
    html! {
        @if context.key() == Key::Locked {
            label { "Passphrase of your key" input type="password" name="passphrase" autocomplete="off" required; }
        }
    }
}

/// What is shown in place of forms to somebody who cannot sign; nothing if they can.
pub(super) fn missing(context: &Context<'_>) -> Option<Markup> {
    let name = &context.visitor.name;
    (context.key() == Key::Missing).then(|| html! {
        div.card.warn {
            p { strong { "You have no key yet" } ", and every decision is signed. Make one where Windlass runs:" }
            pre { "windlass people add " (quoted(name)) }
        }
    })
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    if name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_safe_to_copy_into_a_shell() {
        assert_eq!(quoted("ada"), "ada");
        assert_eq!(quoted("Ada Lovelace"), "'Ada Lovelace'");
        assert_eq!(quoted("o'neill; rm"), "'o'\\''neill; rm'");
    }
}
