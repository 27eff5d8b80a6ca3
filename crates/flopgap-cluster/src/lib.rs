#![doc = include_str!("../README.md")]

mod shard;
pub mod slurm;

pub use shard::{Shard, ShardError};
