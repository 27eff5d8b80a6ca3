#![doc = include_str!("../README.md")]

mod activation;
mod attention;
mod checked;
mod class;
mod error;
mod mlp;
pub mod operator;
mod overhead;
mod pass;
mod plausibility;
mod precision;
mod ratio;
mod square;
mod work;

pub use activation::{Activation, ActivationCost, ActivationCosts, Convention, LossGradient};
pub use attention::{Attention, AttentionMask};
pub use class::ClassFlops;
pub use error::FlopError;
pub use mlp::{LayerFlops, LayerWork, Mlp, MlpWork};
pub use overhead::{Decomposition, EXACT_F64_TOTAL, OverheadFactors, Overheads};
pub use pass::Pass;
pub use plausibility::{Bounded, Exactness, LikelyCause, Plausibility, QUESTIONABLE_GEMM_FACTOR};
pub use precision::Precision;
pub use ratio::Ratio;
pub use square::SquareMlp;
pub use work::{ElementType, Work};
