//! Integration tests.

mod public;
mod tables;
