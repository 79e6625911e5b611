//! The doers with real tools, programs and repositories.
