//! Integration tests of the workspace as a whole.

mod architecture;
mod comments;
mod dependencies;
#[cfg(unix)]
mod documents;
mod errors;
#[cfg(unix)]
mod installer;
mod language;
mod publishing;
mod workflows;
