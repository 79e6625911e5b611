//! windlass-connect
