//! The system calls that a confined command may not make.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::spec::Level;

/// Always refused: they read other processes, change mounts, reach into the kernel, or (`io_uring`)
/// make other calls past this filter.
const REFUSED: [i64; 47] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
];

/// Refused for other processes: their first argument must be 0, which is the caller.
const ON_ITSELF: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// Calls that set the mode of a file, and which of their arguments it is.
const MODE_SETTERS: [(i64, u8); 4] = [
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
];
/// Those that only this machine has.
#[cfg(target_arch = "x86_64")]
const OLD_MODE_SETTERS: [(i64, u8); 3] =
    [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MODE_SETTERS: [(i64, u8); 0] = [];
/// Calls that create a file with a mode if their flags say so: flags and mode are the arguments.
#[cfg(target_arch = "x86_64")]
const CREATORS: [(i64, u8, u8); 2] = [(libc::SYS_openat, 2, 3), (libc::SYS_open, 1, 2)];
#[cfg(not(target_arch = "x86_64"))]
const CREATORS: [(i64, u8, u8); 1] = [(libc::SYS_openat, 2, 3)];
/// The bit of `O_TMPFILE` that no other flag has.
const UNNAMED: u64 = 0o20_000_000;

/// The `ioctl` requests that inject input into a terminal.
const INPUT_INJECTION: [u64; 2] = [0x5412, 0x541c];

/// Flags of `clone` and `unshare` that make a new namespace.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    // `CLONE_NEWTIME`, only for `unshare`; for `clone` these bits are the exit signal.
    0x80,
];

/// Address families that stay inside the network namespace. Others, such as `AF_VSOCK`, ignore it.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Marks the x32 variant of a system call on x86-64.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;
/// `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev` and `sendmmsg` have numbers of their own
/// in x32.
#[cfg(target_arch = "x86_64")]
const X32_OWN: [i64; 5] = [521, 528, 539, 540, 538];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Makes the filters, in the order in which they are applied.
pub(crate) fn programs(level: Level) -> Result<Vec<BpfProgram>, BackendError> {
    let mut rules: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let injection =
        INPUT_INJECTION.into_iter().map(|request| argument_rule(1, SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, injection.collect::<Result<_, _>>()?);
    for call in ON_ITSELF {
        rules.insert(call, vec![argument_rule(0, SeccompCmpOp::Ne, 0)?]);
    }
    // `setpriority` of one process, the caller.
    rules.insert(
        libc::SYS_setpriority,
        vec![argument_rule(0, SeccompCmpOp::Ne, 0)?, argument_rule(1, SeccompCmpOp::Ne, 0)?],
    );
    // The same for its priority at the disk, where 1 stands for one process.
    rules.insert(
        libc::SYS_ioprio_set,
        vec![argument_rule(0, SeccompCmpOp::Ne, 1)?, argument_rule(1, SeccompCmpOp::Ne, 0)?],
    );
    let keep_capabilities = u64::from(libc::PR_SET_KEEPCAPS.unsigned_abs());
    rules.insert(libc::SYS_prctl, vec![argument_rule(0, SeccompCmpOp::Eq, keep_capabilities)?]);
    add_mode_rules(&mut rules)?;
    let flag_rules = |flags: &[i32]| -> Result<Vec<SeccompRule>, BackendError> {
        let bits = flags.iter().map(|flag| u64::from(flag.unsigned_abs()));
        bits.map(|bit| argument_rule(0, SeccompCmpOp::MaskedEq(bit), bit)).collect()
    };
    let (for_unshare, for_clone) =
        (&NAMESPACES[..], NAMESPACES.split_last().map_or(&[][..], |(_, most)| most));
    rules.insert(libc::SYS_unshare, flag_rules(for_unshare)?);
    rules.insert(libc::SYS_clone, flag_rules(for_clone)?);
    match level {
        Level::Full => {
            let others = FAMILIES.into_iter().map(|family| {
                let family = u64::from(family.unsigned_abs());
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
            });
            let other = SeccompRule::new(others.collect::<Result<_, _>>()?)?;
            rules.insert(libc::SYS_socket, vec![other]);
        }
        Level::Landlock => {
            // Unix sockets are allowed for socket pairs and servers of the command itself, but not
            // `connect`: a daemon that listens (a container engine, a bus) would do anything for its
            // caller, the network included.
            let unix = u64::from(libc::AF_UNIX.unsigned_abs());
            let other = argument_rule(0, SeccompCmpOp::Ne, unix)?;
            rules.insert(libc::SYS_socket, [vec![other], datagram_rules()?].concat());
            // Also one of a pair sends to whatever address `sendmsg` gets, which no filter sees.
            rules.insert(libc::SYS_socketpair, datagram_rules()?);
            rules.insert(libc::SYS_connect, Vec::new());
            // Refused only with an address: a connected pair is written to without one.
            let addressed = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
            rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![addressed])?]);
            rules.insert(libc::SYS_sendmmsg, Vec::new());
        }
    }
    #[cfg(target_arch = "x86_64")]
    add_x32(&mut rules);
    // Their flags and modes cannot be seen by a filter; without them programs fall back to `clone` and
    // `openat`.
    let unseen = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    let mut unseen = BTreeMap::from(unseen);
    #[cfg(target_arch = "x86_64")]
    add_x32_numbers(&mut unseen);
    // An error of 0 is success: the limit stays, and whoever wanted no dumps gets none.
    let ignored = program(core_rules()?, 0)?;
    Ok(vec![program(rules, libc::EPERM)?, program(unseen, libc::ENOSYS)?, ignored])
}

/// Unix sockets that send without a connection; the kernel takes raw ones for such.
fn datagram_rules() -> Result<Vec<SeccompRule>, BackendError> {
    /// The bits of the kind; above them are flags.
    const KIND: u64 = 0xf;
    let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW].into_iter();
    let kinds = kinds.map(|kind| u64::from(kind.unsigned_abs()));
    kinds.map(|kind| argument_rule(1, SeccompCmpOp::MaskedEq(KIND), kind)).collect()
}

/// Refuses files that give whoever starts them the rights of their owner: those in a workspace can be
/// started outside too. (Files that give the rights of a group cannot be told from shared folders.)
fn add_mode_rules(rules: &mut Rules) -> Result<(), BackendError> {
    let owner = u64::from(libc::S_ISUID);
    let set = |argument: u8, bit: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit)
    };
    for (call, mode) in MODE_SETTERS.into_iter().chain(OLD_MODE_SETTERS) {
        rules.insert(call, vec![SeccompRule::new(vec![set(mode, owner)?])?]);
    }
    for (call, flags, mode) in CREATORS {
        let creates = [u64::from(libc::O_CREAT.unsigned_abs()), UNNAMED].into_iter();
        let creates =
            creates.map(|bit| SeccompRule::new(vec![set(flags, bit)?, set(mode, owner)?]));
        rules.insert(call, creates.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// Changes of the limit of core dumps, by the caller for itself.
fn core_rules() -> Result<Rules, BackendError> {
    let core = u64::from(libc::RLIMIT_CORE);
    let equal = |argument: u8, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    let given = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let mut rules = Rules::from([
        (libc::SYS_setrlimit, vec![SeccompRule::new(vec![equal(0, core)?])?]),
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![equal(0, 0)?, equal(1, core)?, given])?]),
    ]);
    #[cfg(target_arch = "x86_64")]
    add_x32_numbers(&mut rules);
    Ok(rules)
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// A rule about one argument of 32 bits.
fn argument_rule(
    argument: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?;
    SeccompRule::new(vec![condition])
}

#[cfg(target_arch = "x86_64")]
fn add_x32_numbers(rules: &mut Rules) {
    let second: Rules = rules.iter().map(|(call, rules)| (call | X32_BIT, rules.clone())).collect();
    rules.extend(second);
}

#[cfg(target_arch = "x86_64")]
fn add_x32(rules: &mut Rules) {
    add_x32_numbers(rules);
    rules.extend(X32_OWN.map(|call| (call | X32_BIT, Vec::new())));
    // `ioctl` has one too.
    if let Some(ioctl) = rules.get(&libc::SYS_ioctl).cloned() {
        rules.insert(514 | X32_BIT, ioctl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_filters_compile() {
        for level in [Level::Full, Level::Landlock] {
            let programs = programs(level).unwrap();
            assert!(programs.iter().all(|program| !program.is_empty()));
        }
    }
}
