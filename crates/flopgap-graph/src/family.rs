//! The networks that a sweep makes by itself.

mod mlp;
mod resnet;
mod single;
pub(crate) mod spec;

pub(crate) use mlp::mlp;
pub(crate) use resnet::resnet;
pub(crate) use single::single;
