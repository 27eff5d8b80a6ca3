//! Integration tests.

mod bad_input;
mod bytes;
mod language;
mod models;
mod operators;
mod support;
mod written;
