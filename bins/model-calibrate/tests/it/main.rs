//! Integration tests.

mod probe;
mod sweep;
