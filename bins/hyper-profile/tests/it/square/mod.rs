//! The counted network on a GPU. A test whose library or GPU is missing is skipped and says so;
//! `FLOPGAP_REQUIRE=nvrtc,gpu` turns those skips into failures.

mod agreement;
mod counted;
mod reference;
mod rules;

use std::ops::Deref;
use std::sync::MutexGuard;

use flopgap_files::Hint as _;
use flopgap_gpu::Context;
use hyper_profile::square::Shape;
use hyper_profile::square::cuda::{Engine, Network};

/// A GPU made ready, for one test at a time.
struct Turn {
    // Dropped first: it waits for the whole GPU, which would break the recording of a graph by the
    // next test.
    engine: Engine,
    _guard: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// The first GPU, for one test at a time: otherwise one test's memory counts against another's.
fn gpu() -> Option<(Context, MutexGuard<'static, ()>)> {
    flopgap_testing::turn("gpu", || Context::new(0))
}

/// The first GPU made ready.
fn engine() -> Option<Turn> {
    let (context, guard) = gpu()?;
    match Engine::new(&context) {
        Ok(engine) => Some(Turn { engine, _guard: guard }),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            flopgap_testing::none("gpu", error)
        }
    }
}

fn shape(layers: u64, width: u64, samples: u64) -> Shape {
    Shape::new(layers, width, samples).unwrap()
}

/// Calls `check` with a network of each shape.
fn on_networks(shapes: &[Shape], check: impl Fn(&str, &mut Network<'_>)) {
    let Some(engine) = engine() else { return };
    for &shape in shapes {
        let mut network = engine.network(shape).unwrap();
        check(&shape.to_string(), &mut network);
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
        (3, 384, 20),
        // Odd numbers of layers, one column, and many more columns than rows.
        (5, 128, 17),
        (7, 256, 16),
        (4, 255, 15),
        (3, 129, 1),
        (1, 200, 300),
        (2, 30, 2_000),
        (1, 20, 2_200),
    ]
    .map(|(layers, width, samples)| shape(layers, width, samples))
    .to_vec()
}
