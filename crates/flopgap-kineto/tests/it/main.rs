//! The reader on a recorded trace, and on what is wrong with traces.

mod bad;
mod gpu;
mod recorded;
