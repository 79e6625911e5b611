//! windlass
fn main() {}
