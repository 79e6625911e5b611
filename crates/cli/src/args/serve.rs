//! Arguments of `serve`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use windlass_dashboard::Role;

/// Further help.
pub const SERVE_HELP: &str = "The first line of standard output is a link that logs you in; it can be used once. \
    Further ones are made by `windlass serve link`.\n\nExamples:\n  windlass serve\n  windlass serve --all --work\n  \
    windlass serve people add ada --role approver\n  windlass serve --listen 0.0.0.0:7878 --certificate cert.pem \
    --private-key key.pem --host desk.example:7878";

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Serve {
    /// What to do besides serving.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// The address.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    pub listen: String,
    /// Show all projects of this account, instead of the one here.
    #[arg(long)]
    pub all: bool,
    /// Also take up runs that became ready: answered ones, and those that waited for an agent.
    #[arg(long)]
    pub work: bool,
    /// Another name by which browsers reach the server, with the port if it is not the usual one; may be repeated.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub host: Vec<String>,
    /// The certificate chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS: something in front of the server must encrypt.
    #[arg(long)]
    pub without_tls: bool,
}

/// Subcommands of `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Make a link that logs somebody in once.
    Link {
        /// Whom [default: you].
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// How long it can be used.
        #[arg(long, value_name = "MINUTES", default_value_t = 10)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=10_080))]
        minutes: u32,
        /// Only for what this run waits for now.
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
    },
    /// List, add and remove the people who may use the dashboard.
    #[command(subcommand)]
    People(ServePeople),
}

/// Subcommands of `serve people`.
#[derive(Debug, Subcommand)]
pub enum ServePeople {
    /// List the people and their roles.
    List,
    /// Add somebody; prints the token, which is shown once.
    Add {
        /// The name, by which decisions are signed (see `windlass people`).
        #[arg(value_name = "NAME")]
        name: String,
        /// What the person may do.
        #[arg(long, value_name = "ROLE")]
        role: RoleName,
    },
    /// Remove somebody: token, logins and links end at once.
    Remove {
        /// The name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Look.
    Viewer,
    /// Also decide about holds and answer questions.
    Approver,
    /// Also start, stop and cancel runs.
    Operator,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Approver => Self::Approver,
            RoleName::Operator => Self::Operator,
        }
    }
}
