//! Core dumps: none of a process that holds secrets, and none of a command in a cell.

use rustix::io::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit with which the kernel makes no dump at all. With 0 a machine whose dumps are piped to a program would still
/// start it.
const NONE: u64 = 1;

/// Lets this process leave no core dump: it would lie in the working directory or with the machine's crash reports, with
/// all secrets that the process has read. What it starts has the same limit, and may raise it.
///
/// # Errors
/// The kernel refuses.
pub fn leave_no_core_dump() -> Result<()> {
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: Some(at_most(maximum)), maximum })
}

/// The same for good, also for all that this process starts.
pub(crate) fn never_leave_a_core_dump() -> Result<()> {
    let most = Some(at_most(getrlimit(Resource::Core).maximum));
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most })
}

/// The limit where a lower one may be given already, which only the administrator can raise.
fn at_most(maximum: Option<u64>) -> u64 {
    maximum.map_or(NONE, |maximum| maximum.min(NONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_administrator_is_not_raised() {
        assert_eq!([None, Some(0), Some(1), Some(9)].map(at_most), [1, 0, 1, 1]);
    }
}
