//! Transformers, piece by piece: what each operation of a block costs forward and backward.
//!
//! Every function returns [`Work`](crate::Work): FLOPs and compulsory bytes of that operation run
//! as a kernel of its own. Element-wise costs, per element:
//!
//! | operation | forward | backward |
//! |---|---|---|
//! | softmax | 5: maximum, subtract, exp, sum, divide | 4: multiply and sum, subtract, multiply |
//! | layer norm | 7: mean, subtract, square and sum, scale, gain, shift | 13 |
//! | RMS norm | 4: square and sum, scale, gain | 9 |
//! | scale of the scores | 1 | 1 |
//! | rotary embedding | 3: two products and a sum | 3 |
//! | residual sum | 1 | 1: the two gradients meet |
//! | gate | 1 | 2 |
//! | activation | [`ActivationCosts`](crate::ActivationCosts) | derivative plus 1 |
//!
//! Work that is per row (a division by the width, an inverse square root) is not counted.

mod attention;
mod block;
mod linear;
mod model;
mod norm;
mod optimizer;

pub use attention::{Attention, AttentionMask};
pub use block::{Block, BlockMlp, Operation, OperationWork, WorkList};
pub use linear::Linear;
pub use model::Transformer;
pub use norm::Norm;
pub use optimizer::Optimizer;
