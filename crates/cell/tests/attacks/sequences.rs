//! Attempts that need more than one cell.
