//! Single operators of networks: convolution, pooling, normalization, softmax, embedding,
//! element-wise functions, reductions.
//!
//! Counting is that of the whole crate: an addition, multiplication, division, comparison or call
//! of a transcendental function is 1, a fused multiply-add 2, a reduction of `n` values `n`. Bytes
//! are compulsory: each operand read once, each result written once.
//!
//! | operator | FLOPs | source |
//! |---|---|---|
//! | convolution | `2 N Co P (Ci / g) K`, `P` output positions, `K` window elements | the definition in Dumoulin and Visin, "A guide to convolution arithmetic for deep learning" (2016); `conv_flop_count` of `torch.utils.flop_counter` |
//! | transposed convolution | `2 N Ci P (Co / g) K`, `P` input positions | the same: the convolution whose gradient it is |
//! | pooling | `N C P K`: a reduction of `K` values for each output | ONNX `MaxPool`, `AveragePool` |
//! | batch norm, inference | 2 per element: a scale and a shift by channel | Ioffe and Szegedy (2015), algorithm 2 |
//! | layer, group, instance norm | 7 per element | [`NormKind::MeanAndVariance`] |
//! | RMS norm | 4 per element | [`NormKind::RootMeanSquare`] |
//! | softmax | 5 per element: maximum, subtract, exp, sum, divide | [`softmax`] |
//! | embedding, gather | 0: rows are copied | ONNX `Gather` |
//! | embedding bag | 1 per element picked, by function and weights more | [`EmbeddingBag`] |
//! | grid sample | by coordinate and by value | [`GridSample`] |
//! | recurrent layer | `2 g H (I + H)` a token and direction for `g` gates, and the gates' element-wise work | ONNX `LSTM`, `GRU`, `RNN` |
//!
//! Windows that reach into the padding are counted whole, as dense kernels compute them and as
//! profilers count them.

mod convolution;
mod lookup;
mod pointwise;
mod recurrent;

pub use convolution::{Convolution, Pooling, window_positions};
pub use lookup::{Bag, EmbeddingBag, GridSample, Interpolation};
pub use pointwise::{NormKind, copy, elementwise, gather, normalization, reduction, softmax};
pub use recurrent::{Cell, Recurrent};
