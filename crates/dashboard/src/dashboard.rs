//! What all requests share, and what one request has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_kernel::{Code, Timestamp};

use crate::access::{Access, Hosts, Role, Scope, Visitor};
use crate::events::Hub;
use crate::keys::{Key, Keys};
use crate::looks::Looks;
use crate::model::UnusableProject;
use crate::once::Once;
use crate::problem::Problem;
use crate::project::Project;
use crate::spend::Ledger;

/// What all requests share.
pub struct Dashboard {
    /// The projects.
    pub projects: Arc<Projects>,
    /// Who may do what.
    pub access: Access,
    /// The names of the server.
    pub hosts: Hosts,
    /// The events.
    pub hub: Hub,
    /// What people have seen.
    pub looks: Looks,
    /// The keys of people.
    pub keys: Box<dyn Keys>,
    /// What runs have used.
    pub spend: Ledger,
    /// What is started once.
    pub once: Once,
}

/// The projects that are shown. More can be added while they are.
#[derive(Default)]
pub struct Projects(RwLock<Vec<Arc<dyn Project>>>);

impl Projects {
    /// These projects.
    #[must_use]
    pub fn new(projects: Vec<Arc<dyn Project>>) -> Self {
        Self(RwLock::new(projects))
    }

    /// All of them, in the order in which they were added.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<dyn Project>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds one.
    pub fn add(&self, project: Arc<dyn Project>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(project);
    }
}

/// The projects that the lists of one request leave out, by id, and why.
#[derive(Debug, Default)]
pub struct LeftOut(Mutex<BTreeMap<String, Problem>>);

impl LeftOut {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Problem>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request of somebody who may send it.
pub struct Context<'a> {
    /// What all share.
    pub dashboard: &'a Dashboard,
    /// The projects, as they are during the request.
    pub projects: &'a [Arc<dyn Project>],
    /// The projects that lists leave out.
    pub left_out: &'a LeftOut,
    /// The id of the newest event before the request.
    pub newest_event: &'a str,
    /// Who sends it.
    pub visitor: &'a Visitor,
    /// The named parts of the path.
    pub path: &'a BTreeMap<String, String>,
    /// The query, or the fields of a form.
    pub fields: &'a BTreeMap<String, String>,
    /// The body, if it is JSON.
    pub body: &'a Value,
}

impl Context<'_> {
    /// A named part of the path.
    ///
    /// # Errors
    /// [`Problem`] if the route has none.
    pub fn part(&self, name: &str) -> Result<&str, Problem> {
        let part = self.path.get(name).map(String::as_str);
        part.ok_or_else(|| Problem::new(Code::Internal, format!("the path has no `{name}`")))
    }

    /// A field that is not empty.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The body.
    ///
    /// # Errors
    /// [`Problem`] if it is not what the route takes.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_value(self.body.clone()).map_err(|error| {
            Problem::new(Code::RequestInvalid, format!("the body is not as described: {error}"))
        })
    }

    /// The projects that lists are about. If there are several, one that cannot be used does not take the others away.
    #[must_use]
    pub fn usable(&self) -> Vec<Arc<dyn Project>> {
        let is_usable = |project: &&Arc<dyn Project>| {
            self.projects.len() == 1
                || matches!(self.tolerate(project, project.ready()), Ok(Some(())))
        };
        self.projects.iter().filter(is_usable).map(Arc::clone).collect()
    }

    /// What was read of a project for a list. If there are several projects, one that cannot be read is left out.
    ///
    /// # Errors
    /// The problem, if there is no other project.
    pub fn tolerate<T>(
        &self,
        project: &Arc<dyn Project>,
        read: Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(problem) => {
                // Its journal may be mended or replaced at any time.
                project.reopen();
                if self.projects.len() == 1 {
                    return Err(problem);
                }
                self.left_out.lock().entry(project.id().to_owned()).or_insert(problem);
                Ok(None)
            }
        }
    }

    /// Why lists leave a project out; `None` if they do not.
    #[must_use]
    pub fn problem_of(&self, project: &str) -> Option<Problem> {
        self.left_out.lock().get(project).cloned()
    }

    /// The projects that the lists of this request have left out so far, and why.
    #[must_use]
    pub fn unusable(&self) -> Vec<UnusableProject> {
        let left_out = self.left_out.lock();
        let named = self.projects.iter().filter_map(|project| {
            let problem = left_out.get(project.id())?;
            Some(UnusableProject::of(project.as_ref(), problem))
        });
        named.collect()
    }

    /// The project that the path names.
    ///
    /// # Errors
    /// [`Problem`] if there is none.
    pub fn project(&self) -> Result<&Arc<dyn Project>, Problem> {
        let id = self.part("project")?;
        let found = self.projects.iter().find(|project| project.id() == id);
        found.ok_or_else(|| Problem::not_found(format!("there is no project `{}`", shown(id))))
    }

    /// The key with which the visitor signs.
    #[must_use]
    pub fn key(&self) -> Key {
        self.dashboard.keys.key_of(&self.visitor.name)
    }

    /// Fails unless the visitor has a role.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn require(&self, role: Role) -> Result<(), Problem> {
        has_role(self.visitor, role)
    }

    /// Fails if the visitor came for one hold only, and this is not it.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn require_scope(&self, project: &str, run: &str) -> Result<(), Problem> {
        if self.visitor.covers(project, run) {
            return Ok(());
        }
        Err(outside())
    }

    /// Fails if the visitor came for one hold only.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn require_all(&self) -> Result<(), Problem> {
        match self.visitor.scope {
            Scope::All => Ok(()),
            Scope::Hold { .. } => Err(outside()),
        }
    }
}

/// Whether somebody who came for one hold may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkUse {
    /// No.
    Refused,
    /// If the path names that hold.
    OfItsHold,
}

/// Fails unless a visitor may use a route. It is asked before the body of a request is read, so that nobody learns
/// from an answer what a request should look like that they may not send.
///
/// # Errors
/// [`Problem`].
pub fn authorize(
    visitor: &Visitor,
    role: Role,
    by_link: LinkUse,
    path: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    has_role(visitor, role)?;
    let part = |name: &str| path.get(name).map(String::as_str).unwrap_or_default();
    let is_covered = match (&visitor.scope, by_link) {
        (Scope::All, LinkUse::Refused | LinkUse::OfItsHold) => true,
        (Scope::Hold { .. }, LinkUse::Refused) => false,
        (Scope::Hold { .. }, LinkUse::OfItsHold) => visitor.covers(part("project"), part("run")),
    };
    if is_covered { Ok(()) } else { Err(outside()) }
}

fn has_role(visitor: &Visitor, role: Role) -> Result<(), Problem> {
    if visitor.role >= role {
        return Ok(());
    }
    let has = visitor.role.as_str();
    let message = format!("this needs the role {}, and yours is {has}", role.as_str());
    Err(Problem::new(Code::RequestInvalid, message)
        .status(axum::http::StatusCode::FORBIDDEN)
        .hint("ask an operator: windlass serve people add NAME --role ROLE"))
}

fn outside() -> Problem {
    Problem::new(Code::RequestInvalid, "your link is for one decision only")
        .status(axum::http::StatusCode::FORBIDDEN)
}

/// The time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    // A clock beyond the year 9999 counts as the beginning of all time: then links that are made are not valid.
    Timestamp::from_unix_ms(ms).unwrap_or(Timestamp::EPOCH)
}

/// A part of a text from outside that is shown in a message.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(80).collect()
}
