#![doc = include_str!("../README.md")]

mod activation;
mod attention;
mod checked;
mod class;
mod error;
pub mod operator;
mod overhead;
mod pass;
mod plausibility;
mod precision;
mod square;
pub mod torch;
mod work;

pub use activation::Activation;
pub use attention::{Attention, AttentionMask};
pub use class::ClassFlops;
pub use error::FlopError;
pub use overhead::{Decomposition, OverheadFactors};
pub use pass::Pass;
pub use plausibility::{Bounded, Exactness, LikelyCause, Plausibility};
pub use precision::Precision;
pub use square::SquareMlp;
pub use work::{ElementType, Work};
