//! The networks that a sweep generates.

mod mlp;
mod resnet;
mod single;
pub(crate) mod spec;

pub(crate) use mlp::mlp;
pub(crate) use resnet::resnet;
pub(crate) use single::single;
