//! JSON as traces have it, read once: a window of the file, and a cursor over what is in it.
//!
//! A trace is a few keys and a list of up to tens of millions of events. Each event is parsed where
//! it lies in the window; of what no answer needs only the end is looked for.

mod cursor;
mod decimal;
mod scalar;
mod window;

pub(crate) use cursor::{Cursor, Raw, Stop};
pub(crate) use scalar::Scalar;
pub(crate) use window::{Fault, Window};
