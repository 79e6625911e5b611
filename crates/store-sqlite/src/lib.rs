//! windlass-store-sqlite
