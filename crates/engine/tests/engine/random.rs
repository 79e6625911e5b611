//! Random plans, random outcomes, random crashes: a run always ends or waits, and passes only when all
//! of it was done.
