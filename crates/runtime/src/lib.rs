//! windlass-runtime
