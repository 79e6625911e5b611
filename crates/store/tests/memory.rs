//! The store in memory keeps the contract.

use windlass_store::conformance::memory::MemoryHarness;

windlass_store::conformance_tests!(MemoryHarness::default());
