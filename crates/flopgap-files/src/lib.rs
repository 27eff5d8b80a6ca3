#![doc = include_str!("../README.md")]

mod hint;
#[cfg(feature = "run")]
pub mod run;
mod threads;
#[cfg(feature = "unpack")]
pub mod unpack;
#[cfg(feature = "write")]
mod write;

pub use hint::{Chain, ErrorKind, Hint, InFile, Text, chain, present, sources};
pub use threads::each_on_all_cores;
#[cfg(feature = "write")]
pub use write::{
    Action, WriteError, create_folder, lock_file, remove_leftovers, write_atomic, write_atomic_at,
    write_atomic_unsynced, write_atomic_with, write_new,
};
