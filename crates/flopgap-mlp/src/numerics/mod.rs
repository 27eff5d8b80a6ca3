//! Numerics that networks, their 64-bit references and their tests share, without a GPU: random
//! numbers from a seed and an index, with the same bits on every CPU and GPU ([`uniform`]); the
//! error of results relative to a 64-bit reference ([`relative_error`]); products of 32-bit
//! matrices on one thread, computed by the crate `gemm` ([`product`]).
//!
//! ```
//! use flopgap_mlp::numerics::{Matrix, product, relative_error, uniform};
//!
//! let a: Vec<f32> = (0..6).map(|i| uniform(1, i)).collect();
//! let b: Vec<f32> = (6..12).map(|i| uniform(1, i)).collect();
//! let mut c = [0.0; 4];
//! product(&mut c, &Matrix::new(&a, 2, 3), &Matrix::new(&b, 3, 2), false);
//!
//! let term = |k: usize| f64::from(a[k]) * f64::from(b[2 * k]);
//! assert!(relative_error(&c[..1], &[term(0) + term(1) + term(2)]) < 1e-6);
//! ```

mod difference;
mod matrix;
mod random;

pub use difference::relative_error;
pub use matrix::{Matrix, product};
pub use random::uniform;
