//! Integration tests.

mod probe;
