//! Arguments of `notify`.

use clap::Subcommand;

/// Further help.
pub const NOTIFY_HELP: &str = "Receivers are tables of `.windlass/config.toml`:\n\n  [notify.phone]\n  url = \
    \"https://ntfy.example/windlass\"\n  secret = \"PHONE_KEY\"   # one of your secrets; it signs each request\n  on = \
    [\"hold_opened\", \"run_ended\"]\n\nRuns start the sending themselves, and `windlass serve` sends all the time.";

/// Subcommands of `notify`.
#[derive(Debug, Subcommand)]
pub enum Notify {
    /// Send what is due, and say what became of it.
    Send {
        /// Stay as long as something is due within ten minutes, unless another process of the project does.
        #[arg(long)]
        wait: bool,
        /// Look at this trace, too: a run that has ended, or a trace that failed verification.
        #[arg(long, value_name = "ID", hide = true)]
        trace: Vec<String>,
    },
    /// List the receivers, and the newest notifications with their deliveries.
    List {
        /// How many notifications.
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Send a test message to a receiver.
    Test {
        /// The receiver.
        #[arg(value_name = "NAME")]
        name: String,
        /// Who tries it out [default: you].
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Send a notification once more that was delivered or given up.
    Again {
        /// The notification.
        #[arg(value_name = "ID")]
        id: String,
        /// Who asks for it [default: you].
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}
