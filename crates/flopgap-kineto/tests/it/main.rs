//! The reader on a recorded trace and on invalid ones.

mod averages;
mod bad;
mod bombs;
mod corpus;
mod gpu;
mod host;
mod others;
mod ranks;
mod recorded;
mod threads;
