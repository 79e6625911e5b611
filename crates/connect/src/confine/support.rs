//! The sandbox features of the running Linux kernel.

use std::sync::OnceLock;

/// The sandbox features of the running Linux kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxSupport {
    /// The newest version of Landlock's interface that it has and we use; 0 is none.
    pub landlock: u8,
    /// Whether it filters system calls.
    pub seccomp: bool,
}

impl SandboxSupport {
    /// Asks the kernel, once in the life of the process.
    #[must_use]
    pub fn detect() -> Self {
        static DETECTED: OnceLock<SandboxSupport> = OnceLock::new();
        *DETECTED.get_or_init(probe)
    }

    /// Returns why no command can be confined; `None` when commands can be.
    #[must_use]
    pub const fn problem(self) -> Option<&'static str> {
        match (self.landlock, self.seccomp) {
            (0, _) => Some("the kernel has no Landlock, or it is not enabled"),
            (_, false) => Some("the kernel has no seccomp filters"),
            (1.., true) => None,
        }
    }

    /// Returns what an older kernel does not prevent; `None` when nothing is missing.
    #[must_use]
    pub const fn gap(self) -> Option<&'static str> {
        match self.landlock {
            0 => None,
            1..=2 => Some("files outside can be emptied, though not written (Linux 6.2 ends that)"),
            3..=5 => Some("processes outside can be signalled (Linux 6.12 ends that)"),
            6.. => None,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn probe() -> SandboxSupport {
    SandboxSupport { landlock: 0, seccomp: false }
}

#[cfg(target_os = "linux")]
fn probe() -> SandboxSupport {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, Scope,
    };
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = |abi| strict().handle_access(AccessFs::from_write(abi)).is_ok();
    let steps = [
        files(ABI::V1),
        files(ABI::V2),
        files(ABI::V3),
        strict().handle_access(AccessNet::from_all(ABI::V4)).is_ok(),
        files(ABI::V5),
        strict().scope(Scope::from_all(ABI::V6)).is_ok(),
    ];
    let landlock = steps.iter().zip(1..).take_while(|(has, _)| **has).last();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    SandboxSupport {
        landlock: landlock.map_or(0, |(_, step)| step),
        seccomp: status.lines().any(|line| line.starts_with("Seccomp:")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_either_is_a_problem() {
        let support = |landlock, seccomp| SandboxSupport { landlock, seccomp };
        assert!(support(0, true).problem().unwrap().contains("Landlock"));
        assert!(support(6, false).problem().unwrap().contains("seccomp"));
        assert_eq!(support(1, true).problem(), None);
        assert!(support(2, true).gap().unwrap().contains("emptied"));
        assert!(support(5, true).gap().unwrap().contains("signalled"));
        assert_eq!(support(6, true).gap(), None);
    }
}
