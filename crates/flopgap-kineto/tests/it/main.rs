//! The reader on a recorded trace and on invalid ones.

mod bad;
mod bombs;
mod corpus;
mod gpu;
mod host;
mod recorded;
