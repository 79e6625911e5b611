//! Hooks are added to the files of clients and taken out again, and nothing else changes.

mod bytes;
mod differences;
mod plans;
mod plugins;
mod properties;
mod refusals;
mod removals;
mod states;
mod trust;

use windlass_hooks::{Binary, Client, Content, Scope, install, plan};

const BINARY: &str = "/opt/windlass";

/// What is written for a client.
fn content(client: Client, binary: &str) -> Content {
    let files = plan(client, Scope::User, &Binary::new(binary).unwrap());
    let [file] = <[_; 1]>::try_from(files).unwrap();
    file.content
}

fn claude() -> Content {
    content(Client::Claude, BINARY)
}

/// A text with a client's hooks.
fn installed(content: &Content, before: &str) -> String {
    String::from_utf8(install(content, Some(before.as_bytes())).unwrap()).unwrap()
}
