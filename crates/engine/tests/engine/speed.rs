//! What the engine costs by itself; printed, not judged.
