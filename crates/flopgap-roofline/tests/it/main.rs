//! Tests of the crate from outside. What needs a library or a GPU that is not there is skipped, and
//! says so.
//!
//! `FLOPGAP_REQUIRE=nvrtc,gpu` turns the skips of those into failures.

mod machines;
mod predictor;
mod probe;
mod public;
mod pytorch;
mod sample;
mod synthetic;
mod tables;
