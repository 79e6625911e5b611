//! The suite that says whether a store keeps the contract.
