//! One task going through a loop: what it follows, what was recorded of it, what comes next.

pub mod plan;
