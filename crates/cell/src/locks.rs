//! What holds a command besides its root: no capabilities, Landlock, a filter of system calls, limits.

use std::error::Error;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::core_dumps::never_leave_a_core_dump;
use crate::filter;
use crate::spec::{Access, Cell, CellLimits, Level, Mount};

/// The newest rights that are requested; an older kernel grants those it has.
const RIGHTS: ABI = ABI::V6;
/// Devices that a command may write to without namespaces.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// Confines this thread and its future children by Landlock and seccomp.
pub(crate) fn confine(cell: &Cell) -> Result<(), String> {
    rustix::thread::set_no_new_privs(true).map_err(|error| refused("no_new_privs", &error))?;
    let status = ruleset(cell)?.restrict_self().map_err(|error| refused("Landlock", &error))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("the kernel has no Landlock, or it is not enabled".to_owned());
    }
    for program in filter::programs(cell.level).map_err(|error| refused("seccomp", &error))? {
        seccompiler::apply_filter(&program).map_err(|error| refused("seccomp", &error))?;
    }
    Ok(())
}

fn ruleset(cell: &Cell) -> Result<RulesetCreated, String> {
    let landlock = |error: landlock::RulesetError| refused("Landlock", &error);
    let writing = AccessFs::from_write(RIGHTS);
    let mut rules = Ruleset::default().handle_access(writing).map_err(landlock)?;
    if cell.level == Level::Landlock {
        rules = rules.handle_access(AccessNet::from_all(RIGHTS)).map_err(landlock)?;
    }
    rules = rules.scope(Scope::from_all(RIGHTS)).map_err(landlock)?;
    let mut rules = rules.create().map_err(landlock)?;
    for path in writable(cell) {
        let folder = PathFd::new(&path).map_err(|error| {
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            format!("the writable folder `{}` cannot be opened: {reason}", path.display())
        })?;
        let rights = if path.is_dir() { writing } else { AccessFs::from_file(RIGHTS) & writing };
        rules = add(rules, folder, rights)?;
    }
    for path in DEVICES.iter().map(Path::new).filter(|_| cell.level == Level::Landlock) {
        // A path that does not exist needs no right.
        let Ok(file) = PathFd::new(path) else { continue };
        let rights = if path.is_dir() { writing } else { AccessFs::WriteFile.into() };
        rules = add(rules, file, rights)?;
    }
    Ok(rules)
}

fn add(
    rules: RulesetCreated,
    file: PathFd,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    rules.add_rule(PathBeneath::new(file, rights)).map_err(|error| refused("Landlock", &error))
}

/// The paths that the command may write to.
fn writable(cell: &Cell) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = cell
        .mounts
        .iter()
        .filter_map(|mount| match mount {
            Mount::Bind { path, access: Access::Write }
            | Mount::BindAt { path, access: Access::Write, .. }
            | Mount::Memory { path, .. }
            | Mount::Overlay { path, .. } => Some(path.clone()),
            Mount::Bind { .. } | Mount::BindAt { .. } | Mount::Mask { .. } | Mount::Link { .. } => {
                None
            }
        })
        .collect();
    if cell.level == Level::Full {
        paths.push("/dev".into());
    }
    paths
}

/// Takes every capability away for ever, from root too.
pub(crate) fn drop_capabilities() -> Result<(), String> {
    let sets = rustix::thread::capabilities(None).map_err(|error| refused("the kernel", &error))?;
    let none = CapabilitySet::empty();
    let bounded = |capability: CapabilitySet| {
        rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
    };
    let is_bare = sets == CapabilitySets { effective: none, permitted: none, inheritable: none };
    // `bwrap` has taken them already. The secure bits, which cannot be set without them, would add nothing:
    // what is not in the bounding set can never be gained.
    if is_bare && !CapabilitySet::all().iter().any(bounded) {
        return Ok(());
    }
    let drop = || -> rustix::io::Result<()> {
        rustix::thread::clear_ambient_capability_set()?;
        for capability in CapabilitySet::all().iter() {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                // The kernel is older than the capability.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
        rustix::thread::set_capabilities_secure_bits(
            CapabilitiesSecureBits::NO_ROOT
                | CapabilitiesSecureBits::NO_ROOT_LOCKED
                | CapabilitiesSecureBits::NO_SETUID_FIXUP
                | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
                | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
                | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
                | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
        )?;
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
    };
    drop().map_err(|error| refused("the kernel", &error))
}

/// The kernel from which on the highest process number is a setting of the PID namespace. Before, writing it
/// would change the whole machine.
const OWN_NUMBERS: (u32, u32) = (6, 14);
/// Numbers that the kernel gives only once.
const RESERVED_NUMBERS: u64 = 301;

/// Limits the processes of this PID namespace by their numbers: the kernel does not apply the limit of
/// processes to root, and a watcher is too slow for a command that does nothing but fork.
pub(crate) fn limit_numbers(limits: &CellLimits) {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let mut parts = release.split(|character: char| !character.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let is_own = part().zip(part()).is_some_and(|version| version >= OWN_NUMBERS);
    if is_own && limits.processes > 0 {
        let most = limits.processes.saturating_add(RESERVED_NUMBERS);
        // Where it cannot be written the watcher remains.
        let _ = std::fs::write("/proc/sys/kernel/pid_max", most.to_string());
    }
}

/// Sets the limits that the kernel enforces by itself.
pub(crate) fn limit(limits: &CellLimits) -> Result<(), String> {
    let processes = [(Resource::Nproc, limits.processes)];
    let others = [(Resource::Fsize, limits.file_bytes), (Resource::Nofile, limits.open_files)];
    for (resource, most) in processes.into_iter().chain(others).filter(|(_, most)| *most > 0) {
        let has = rustix::process::getrlimit(resource);
        let most = has.maximum.map_or(most, |maximum| most.min(maximum));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| refused("setting a limit", &error))?;
    }
    never_leave_a_core_dump().map_err(|error| refused("setting a limit", &error))
}

fn refused(what: &str, error: &dyn Error) -> String {
    let mut text = format!("{what} refuses: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
