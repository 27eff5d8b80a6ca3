#![doc = include_str!("../README.md")]

mod absent;
mod answer;
mod color;
mod console;
mod device;
mod exit;
mod failure;
mod output;
mod restart;
#[cfg(feature = "runs")]
mod shard;
#[cfg(feature = "runs")]
mod termination;
mod value;

pub use absent::{Absent, built_without};
pub use answer::{OutputArgs, check_ending, file_for, json_document, write_answer};
pub use console::{Console, Verbosity, subcommand};
pub use device::{Device, device_number, gpu};
pub use exit::Exit;
pub use failure::{Failure, command, outcome, program, start};
pub use output::{Printed, captured, is_colored, note, print, print_styled, warn, warn_all};
pub use restart::Restart;
#[cfg(feature = "runs")]
pub use shard::shard;
#[cfg(feature = "runs")]
pub use termination::Termination;
pub use value::percentage;
#[cfg(feature = "runs")]
pub use value::time_stamp;
