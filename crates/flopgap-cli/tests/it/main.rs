//! Integration tests of the workspace as a whole.

mod architecture;
mod errors;
mod language;
