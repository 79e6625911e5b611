//! The system calls that a confined command may not make.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::Network;

/// Always refused: they read other processes, change mounts, reach into the kernel, or (`io_uring`)
/// make other calls past this filter.
const REFUSED: [i64; 32] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
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
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// The `ioctl` requests that inject input into a terminal.
const INPUT_INJECTION: [u64; 2] = [0x5412, 0x541c];

/// Marks the x32 variant of a system call on x86-64.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;
/// `ptrace`, `process_vm_readv`, `process_vm_writev` and `sendmmsg` have numbers of their own in x32.
#[cfg(target_arch = "x86_64")]
const X32_OWN: [i64; 4] = [521, 539, 540, 538];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Makes the filter.
pub(super) fn program(network: Network) -> Result<BpfProgram, BackendError> {
    let mut rules: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let injection =
        INPUT_INJECTION.into_iter().map(|request| argument_rule(1, SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, injection.collect::<Result<_, _>>()?);
    if network == Network::Closed {
        // Unix sockets are allowed for socket pairs and servers of the command itself, but not
        // `connect`: a daemon that listens (a container engine, a bus) would do anything for its
        // caller, the network included.
        let unix = u64::from(libc::AF_UNIX.unsigned_abs());
        rules.insert(libc::SYS_socket, vec![argument_rule(0, SeccompCmpOp::Ne, unix)?]);
        rules.insert(libc::SYS_connect, Vec::new());
        // Refused only with an address: a connected pair is written to without one.
        let addressed = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![addressed])?]);
        rules.insert(libc::SYS_sendmmsg, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    add_x32(&mut rules);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
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
fn add_x32(rules: &mut Rules) {
    let second: Rules = rules.iter().map(|(call, rules)| (call | X32_BIT, rules.clone())).collect();
    rules.extend(second);
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
        let (closed, open) = (program(Network::Closed).unwrap(), program(Network::Open).unwrap());
        assert!(closed.len() > open.len() && open.len() > REFUSED.len());
    }
}
