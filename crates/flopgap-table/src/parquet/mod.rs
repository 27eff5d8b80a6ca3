//! Tables as Parquet files, and back: one file for each table, with what it was made from in its
//! metadata. `docs/FORMATS.md` has the format.

mod date;
mod digest;
mod encoding;
mod provenance;
mod read;
mod write;

pub use date::date;
pub(crate) use date::{since_1970, spelled};
pub use digest::digest;
pub(crate) use provenance::names;
pub use provenance::{FORMAT, Provenance, VERSION};
pub use read::{Stored, read};
pub use write::{Written, write};
