//! Arguments of a command that are declared only when that command is parsed or printed.

use std::ops::Deref;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// The arguments or subcommands of one command.
///
/// Declaring the options of all commands takes longer than most commands run; a process needs those of one.
#[derive(Clone, Copy, Debug)]
pub struct Lazy<T>(T);

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Declares arguments, but keeps the command's own description: what they say of themselves is for readers of the code.
fn keep_description(command: Command, declare: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let mut command = declare(command);
    if let Some(about) = about {
        command = command.about(about);
    }
    command.long_about(Resettable::from(long_about))
}

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| keep_description(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| keep_description(command, T::augment_args_for_update))
    }
}

impl<T: Subcommand> Subcommand for Lazy<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| keep_description(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| keep_description(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}
