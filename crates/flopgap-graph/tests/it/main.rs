//! Integration tests.

mod bad_input;
mod bytes;
mod executed;
mod flow;
mod language;
mod models;
mod operators;
mod support;
mod written;
