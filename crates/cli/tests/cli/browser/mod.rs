//! The dashboard in a real browser.

mod driver;
mod looks;
mod looks_observed;
mod story;
