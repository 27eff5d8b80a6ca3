//! The vocabulary that kernels are composed of (`*.cuh`), and the part of it that depends on a
//! network.

pub(super) mod ptx;
