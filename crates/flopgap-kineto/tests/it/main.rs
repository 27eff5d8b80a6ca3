//! The reader on a recorded trace and on invalid ones.

mod bad;
mod gpu;
mod recorded;
