//! Starts a program on what looks to it like another machine: `forbid WHAT PROGRAM [ARGUMENT…]`, where WHAT is
//! `unshare` (only `bwrap` can make namespaces), `namespaces` (nobody can) or `landlock` (an older kernel).

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn apply(rules: Rules, error: i32) {
    let arch = std::env::consts::ARCH.try_into().expect("a known processor");
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter");
    let program: seccompiler::BpfProgram = filter.try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("a kernel with seccomp");
}

/// Calls of `clone` that make a user namespace.
fn makes_user_namespace() -> SeccompRule {
    let bit = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let masked = SeccompCmpOp::MaskedEq(bit);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, masked, bit);
    SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule")
}

fn main() {
    let mut words = std::env::args_os().skip(1);
    let what = words.next().and_then(|word| word.into_string().ok()).unwrap_or_default();
    let program = words.next().expect("a program");
    match what.as_str() {
        "unshare" => apply(Rules::from([(libc::SYS_unshare, Vec::new())]), libc::EPERM),
        "namespaces" => {
            let clone = (libc::SYS_clone, vec![makes_user_namespace()]);
            apply(Rules::from([(libc::SYS_unshare, Vec::new()), clone]), libc::EPERM);
            apply(Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS);
        }
        "landlock" => {
            let call = libc::SYS_landlock_create_ruleset;
            apply(Rules::from([(call, Vec::new())]), libc::ENOSYS);
        }
        _ => panic!("there is no `{what}`"),
    }
    let error = std::process::Command::new(program).args(words).exec();
    panic!("{error}");
}
