//! What Windlass writes into a project for people: the files of runs and checkpoints.

use std::path::{Component, PathBuf};
use std::sync::Arc;

use windlass_store::Store;
use windlass_views::Files;

use crate::client_file;
use crate::config::Config;
use crate::project::Project;

impl Project {
    /// The folder of run files.
    pub fn artifacts(&self, config: &Config) -> PathBuf {
        match &config.artifacts_root {
            Some(root) => self.root.join(root),
            None => self.folder.join("artifacts"),
        }
    }

    /// What Windlass itself writes into the project while runs go on.
    pub fn views(&self, config: &Config) -> Vec<PathBuf> {
        let artifacts = self.artifacts(config);
        let mut views = if artifacts == self.folder.join("artifacts") {
            vec![artifacts]
        } else {
            // The project may have files of its own there.
            windlass_views::written_below(&artifacts)
        };
        views.push(self.folder.join("checkpoints"));
        // Workspaces are known by their real paths.
        let real = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let resolved = |view: PathBuf| match view.strip_prefix(&self.root) {
            Ok(below) => real.join(below),
            Err(_) => view,
        };
        views.into_iter().map(resolved).collect()
    }

    /// The writer of run and checkpoint files. It follows no links: only those of a person, outside of the project, are
    /// resolved here.
    pub fn run_files(&self, store: &Arc<dyn Store>, config: &Config) -> Files {
        let real = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let place = |path: PathBuf| match path.strip_prefix(&self.root) {
            Ok(below) if below.components().all(|part| matches!(part, Component::Normal(_))) => {
                real.join(below)
            }
            _ => client_file::real_path(&path).unwrap_or(path),
        };
        let files = Files::new(Arc::clone(store), place(self.artifacts(config)));
        files.with_checkpoints(place(self.folder.join("checkpoints")))
    }
}
