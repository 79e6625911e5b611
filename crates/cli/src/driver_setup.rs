//! Builds the driver loop's part of the engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_driver::DriverConfig;
use windlass_driver::executor::{DRIVER_BUILTINS, Driver, DriverSettings};
use windlass_kernel::run::plan::Plan;
use windlass_loops::LoopFile;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store::Store;

use crate::config::Config;
use crate::failure::Failure;
use crate::project::Project;

/// Builds the driver, if the project has a loop that needs it.
pub fn driver(
    project: &Project,
    config: &Config,
    files: &BTreeMap<String, Vec<u8>>,
    loops: &BTreeMap<String, LoopFile>,
    store: &Arc<dyn Store>,
) -> Result<Option<Arc<Driver>>, Failure> {
    let tables: BTreeMap<String, Vec<u8>> = files
        .iter()
        .filter_map(|(path, bytes)| Some((path.strip_prefix("loops/")?.to_owned(), bytes.clone())))
        .filter(|(path, _)| path.starts_with("driver/"))
        .collect();
    if tables.is_empty() && !loops.values().any(|file| is_driven(&file.plan)) {
        return Ok(None);
    }
    let tables = DriverConfig::load(&tables)?;
    let all = || tables.models().values().map(|model| model.primary.clone()).collect();
    let available = config.driver.available.clone().unwrap_or_else(all);
    let root = project.real_root()?;
    let settings = DriverSettings {
        available,
        project_id: config.driver.project(root),
        session_id: SystemClock.new_id().to_string(),
        memory: project.state()?.join("memory"),
        edits: project.state()?.join("edits"),
        processes: Some(PathBuf::from("/proc")),
        store: Arc::clone(store),
        config: tables,
    };
    Ok(Some(Arc::new(Driver::new(settings))))
}

/// Whether a loop uses the driver's builtins.
fn is_driven(plan: &Plan) -> bool {
    plan.builtins().any(|name| DRIVER_BUILTINS.contains(&name))
}
