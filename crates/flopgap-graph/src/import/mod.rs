//! Models from files.

mod assembly;
mod complex;
mod einsum;
mod sizes;
mod table;

pub(crate) use assembly::{Assembly, Meaning, Place, Stored};
pub(crate) use einsum::einsum;
pub(crate) use sizes::{
    Window, attention, batch_norm, channel_norm, convolution, count, elementwise, embedding_bag, gather,
    grid_sample, linear, matmul, norm, pooling, reduce, same_padding, softmax,
};
pub(crate) use table::{is_among, pointwise, reduction};
