//! Integration tests of the workspace as a whole.

mod architecture;
mod comments;
mod errors;
mod language;
