//! The same tests over every backend. What needs a library or a GPU that is not there is skipped, and says so.
//!
//! `FLOPGAP_REQUIRE=nvrtc,gpu` turns the skips of those into failures.

#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod agreement;
mod graphs;
mod kernels;
mod rules;

use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flopgap_gpu::Context;
use flopgap_mlp::cuda::{Engine, Options, Products};
use flopgap_mlp::{Backend, Cpu, Shape};

fn required(what: &str) -> bool {
    std::env::var("FLOPGAP_REQUIRE").is_ok_and(|list| list.split(',').any(|entry| entry == what))
}

/// Skips, or fails if `what` is required.
fn skip<T>(what: &str, reason: &dyn std::fmt::Display) -> Option<T> {
    assert!(!required(what), "{what} is required: {reason}");
    eprintln!("skipped, no {what}: {reason}");
    None
}

/// The first GPU made ready, for one test at a time: the tests measure memory against each other otherwise.
fn engine(products: Products) -> Option<(Engine, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { products, ..Options::default() };
    match Context::new(0).map_err(Into::into).and_then(|context| Engine::new(&context, options)) {
        Ok(engine) => Some((engine, guard)),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            skip("gpu", &error)
        }
    }
}

fn shape(layers: u64, width: u64, samples: u64) -> Shape {
    Shape::new(layers, width, samples).unwrap()
}

/// Calls `check` with a network of each shape on every backend of this machine.
fn on_every_backend(shapes: &[Shape], check: impl Fn(&str, &mut dyn Backend)) {
    for &shape in shapes {
        for threads in [1, 3] {
            let mut network = Cpu::with_threads(shape, NonZero::new(threads).unwrap());
            check(&format!("CPU, {threads} threads, {shape}"), &mut network);
        }
    }
    for products in [Products::Cublas, Products::Fused] {
        let Some((engine, _guard)) = engine(products) else { return };
        for &shape in shapes {
            let mut network = engine.network(shape).unwrap();
            check(&format!("CUDA, {products:?}, {shape}"), &mut network);
        }
    }
}

/// Sizes around the edges of tiles, vectors and blocks, and degenerate ones.
fn edge_shapes() -> Vec<Shape> {
    [
        (1, 1, 1),
        (1, 1, 7),
        (3, 1, 2),
        (1, 2, 3),
        (2, 3, 1),
        (4, 4, 4),
        (3, 17, 5),
        (2, 32, 64),
        (2, 64, 64),
        (2, 65, 33),
        (4, 63, 31),
        (2, 128, 16),
        (3, 100, 40),
        (2, 132, 4),
        (1, 96, 129),
        (6, 33, 7),
        (2, 256, 64),
        (3, 260, 36),
        (2, 130, 130),
    ]
    .map(|(layers, width, samples)| shape(layers, width, samples))
    .to_vec()
}
