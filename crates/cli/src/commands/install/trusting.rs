//! The second half of installing into Codex: it is told to trust the hooks that were written.

use std::path::Path;

use windlass_hooks::{Content, InstallState, Scope, state, trust_file};
use windlass_kernel::Code;

use crate::client_file::{ClientFile, folder_of};
use crate::commands::install::codex::{self, Codex};
use crate::commands::install::place::Place;
use crate::commands::install::{Change, add};
use crate::failure::Failure;
use crate::installed::Installation;
use crate::output::Output;

/// What to do where there is no Codex.
const PROGRAM_HINT: &str = "put `codex` on your PATH, or set `command` below `[agents.codex]` of your settings; then run \
    the command again";

/// Trust of Codex in our hooks.
pub struct Trusting<'a> {
    place: &'a Place,
    /// The file that has the hooks.
    file: &'a Path,
    /// How many there are.
    count: usize,
    /// The project's folder, if the hooks are a project's.
    project: Option<String>,
    /// The program, or what is missing.
    codex: Result<Codex, String>,
    /// Whether the trust is in the record.
    added: bool,
}

impl<'a> Trusting<'a> {
    /// Finds the program of Codex.
    pub fn find(place: &'a Place, file: &'a Path, content: &Content) -> Result<Self, Failure> {
        let count = match state(content, None) {
            InstallState::Missing { events } => events.len(),
            InstallState::Installed
            | InstallState::Changed { .. }
            | InstallState::Disabled { .. } => 0,
        };
        let project = match place.scope {
            Scope::Project => Some(place.root_text()?),
            Scope::User => None,
        };
        let (codex, project) = (Codex::find()?, project.map(str::to_owned));
        Ok(Self { place, file, count, project, codex, added: false })
    }

    /// Says what will be trusted, which is shown before it is known.
    pub fn announce(&self, output: &Output) {
        if self.codex.is_err() || self.added {
            return;
        }
        let which = match &self.project {
            Some(project) => format!("this project (`{project}`) and these hooks"),
            None => "these hooks".to_owned(),
        };
        output.note(&format!("Codex is then told, in its config.toml, to trust {which}."));
    }

    /// Asks Codex for what must be trusted, and adds it to the record. Nothing if that was done, or cannot be.
    pub fn add(
        &mut self,
        record: &mut Installation,
        old: Option<&Installation>,
    ) -> Result<Option<Change>, Failure> {
        let Some(codex) = self.codex.as_ref().ok().filter(|_| !self.added) else {
            return Ok(None);
        };
        let trust = codex.trust(self.codex_place())?;
        let file = trust_file(trust.clone());
        let path = folder_of(file.root, &self.place.root)?.join(file.path);
        let change = add(record, old, ClientFile::read(&path, None)?, &file.content, Some(trust))?;
        self.added = true;
        Ok(Some(change))
    }

    /// Keeps the record of trust where Codex is not there to be asked. Hooks that change would be skipped from then on.
    pub fn keep(
        &mut self,
        record: &mut Installation,
        old: Option<&Installation>,
        hooks: &Change,
    ) -> Result<(), Failure> {
        let trusted = old.and_then(Installation::trust);
        let (Err(why), Some(trusted)) = (&self.codex, trusted) else { return Ok(()) };
        if !hooks.is_none() {
            let message = format!("Codex would skip the new hooks, and cannot be asked: {why}");
            return Err(Failure::new(Code::AgentUnguarded, message).hint(PROGRAM_HINT));
        }
        record.files.push(trusted.clone());
        self.added = true;
        Ok(())
    }

    /// Fails unless Codex says that it trusts the hooks.
    pub fn require(&self) -> Result<(), Failure> {
        match &self.codex {
            Ok(codex) => codex.require_trust(self.codex_place()),
            // The hooks are written all the same, for when Codex is there.
            Err(_) => Ok(()),
        }
    }

    /// Fails if Codex could not be told to trust the hooks.
    pub fn require_program(&self) -> Result<(), Failure> {
        let Some(why) = self.codex.as_ref().err().filter(|_| !self.added) else { return Ok(()) };
        let message = format!(
            "the hooks are written, but Codex SKIPS them without a word until it is told to trust them: {why}"
        );
        Err(Failure::new(Code::AgentUnguarded, message).hint(PROGRAM_HINT))
    }

    fn codex_place(&self) -> codex::Place<'_> {
        codex::Place {
            root: &self.place.root,
            project: self.project.as_deref(),
            file: self.file,
            count: self.count,
        }
    }
}
