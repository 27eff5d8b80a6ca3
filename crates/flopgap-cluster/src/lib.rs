#![doc = include_str!("../README.md")]

mod shard;

pub use shard::{Shard, ShardError};
