#![doc = include_str!("../README.md")]

mod answer;
mod color;
mod console;
mod device;
mod exit;
mod failure;
mod output;
mod restart;
mod shard;
mod termination;
mod value;

pub use answer::{FormatArg, OutputArgs, check_ending, file_for, json_document, write_answer};
pub use console::{Console, Verbosity, subcommand};
pub use device::{Device, gpu};
pub use exit::Exit;
pub use failure::{Failure, command, outcome, program, start};
pub use output::{Printed, captured, is_colored, note, print, print_styled, warn, warn_all};
pub use restart::Restart;
pub use shard::shard;
pub use termination::Termination;
pub use value::{percentage, time_stamp};
