#![doc = include_str!("../README.md")]

pub mod attention;
pub mod collectives;
pub mod communication;
pub mod compare;
mod computing;
pub mod diff;
mod error;
mod fold;
mod intervals;
pub mod kernels;
mod kind;
pub mod measured;
pub mod occupancy;
pub mod passes;
mod pattern;
mod place;
mod scope;
mod select;
mod selection;
pub mod shares;
mod times;
mod unlaunched;
mod waits;

pub use error::Error;
pub use kind::PassKind;
pub use pattern::{InvalidPattern, RangePattern};
pub use place::{Gpus, MeanOf, Place, Spread};
pub use scope::{Ranges, Scope};
pub use select::{LeftOut, WarmUp};
pub use selection::{ChosenSteps, LeftOutFirst, OtherSteps, Owner, Selection};
pub use times::Times;
pub use unlaunched::Unlaunched;
pub use waits::{BlockedThread, Blocking, WaitingFor, blocked_longest};
