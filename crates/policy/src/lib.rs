//! windlass-policy
