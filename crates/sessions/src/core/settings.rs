//! How strict the core loop of a session is.

/// The settings of the core loop in sessions. Those that the loop file has come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSettings {
    /// After so many uses of tools an audit is due.
    pub audit_every: u32,
    /// The chance of each use of a tool to make an audit due, in percent.
    pub audit_chance_percent: u32,
    /// What the chance is drawn from, together with the session and the number of the use.
    pub audit_seed: String,
    /// How often a plan may be revised before a person decides.
    pub revisions_max: u32,
    /// After so many equal refusals in a row a person is asked.
    pub refusals_max: u32,
    /// How often an agent is not let stop after one prompt.
    pub stops_max: u32,
    /// Whether verified work is committed and pushed when the agent stops.
    pub close: bool,
}

impl Default for CoreSettings {
    fn default() -> Self {
        Self {
            audit_every: 7,
            audit_chance_percent: 5,
            audit_seed: String::new(),
            revisions_max: 2,
            refusals_max: 5,
            stops_max: 4,
            close: true,
        }
    }
}
