//! Addresses of the dashboard in messages.

use std::path::PathBuf;

use windlass_dashboard::{Access, Scope};
use windlass_kernel::notification::{Created, Kind};
use windlass_kernel::{Digest, Timestamp};
use windlass_notify::Links;
use windlass_runtime::{Clock as _, SystemClock};

/// How long the link of a hold can be used that does not expire.
const LINK_MS: i64 = 7 * 86_400_000;

/// The addresses of one project, if it is known where the dashboard is.
pub struct DashboardLinks {
    /// The address of the dashboard.
    pub address: Option<String>,
    /// The folder of the people who may use it.
    pub folder: PathBuf,
    /// The id of the project.
    pub project: String,
}

impl Links for DashboardLinks {
    fn address(&self, created: &Created) -> Option<String> {
        let (base, project) = (self.address.as_deref()?.trim_end_matches('/'), &self.project);
        let message = &created.message;
        let path = match (message.kind, &message.run, created.about.trace) {
            (Kind::RunEnded, Some(run), _) => format!("/runs/{project}/{run}"),
            (_, Some(run), _) => format!("/holds/{project}/{run}"),
            (Kind::HoldOpened, None, Some(call)) => format!("/calls/{project}/{call}"),
            (Kind::ChainBroken, _, _) => "/journal".to_owned(),
            (_, None, _) => "/".to_owned(),
        };
        Some(format!("{base}{path}"))
    }

    /// INVARIANT: the link is in the message only. The journal and the list of links have nothing that could be used.
    fn link(
        &self,
        person: &str,
        run: &str,
        shown: Digest,
        expires_at: Option<Timestamp>,
    ) -> Option<String> {
        let base = self.address.as_deref()?.trim_end_matches('/');
        let now = SystemClock.now();
        let left = |at: Timestamp| at.unix_ms().saturating_sub(now.unix_ms());
        let valid_ms = expires_at.map_or(LINK_MS, left).clamp(0, LINK_MS);
        let scope = Scope::Hold { project: self.project.clone(), run: run.to_owned(), shown };
        // Without a link the message is sent all the same: somebody waits.
        let access = Access::open(&self.folder).ok()?;
        let link = access.link(person, scope, now, valid_ms).ok()?;
        Some(format!("{base}/enter/{}", link.text()))
    }
}
