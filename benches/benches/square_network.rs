//! How long the square network takes on a GPU as CUDA graphs, by events. Without a GPU it is left
//! out, with the reason.

#![expect(clippy::print_stderr, reason = "a bench says what it leaves out")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use flopgap_gpu::{Context, Event, GpuError, Graph};
use hyper_profile::square::cuda::Engine;
use hyper_profile::square::{Shape, SquareError};

/// A narrow, a medium and a wide network.
const ON_GPU: [[u64; 3]; 3] = [[2, 128, 16], [10, 1024, 128], [32, 2048, 256]];

fn shape([n, d, m]: [u64; 3]) -> Shape {
    Shape::new(n, d, m).expect("sizes are at least 1")
}

fn on_gpu(criterion: &mut Criterion) {
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => return eprintln!("square_network/gpu: left out: {error}"),
    };
    let engine = match Engine::new(&context) {
        Ok(engine) => engine,
        Err(error) => return eprintln!("square_network/gpu: left out: {error}"),
    };
    for sizes in ON_GPU {
        if let Err(error) = graphs(criterion, &engine, shape(sizes)) {
            eprintln!("square_network/gpu {sizes:?}: left out: {error}");
        }
    }
}

fn graphs(criterion: &mut Criterion, engine: &Engine, shape: Shape) -> Result<(), SquareError> {
    let mut network = engine.network(shape)?;
    network.initialize(1)?;
    // What is loaded at first use must be loaded before the capture.
    network.forward()?;
    network.backward()?;
    let stream = engine.stream();
    let forward = stream.capture(|| network.forward())?;
    let both = stream.capture(|| network.forward().and_then(|()| network.backward()))?;
    let mut group = criterion.benchmark_group(format!("square_network/gpu {shape}"));
    for (name, graph) in [("forward", &forward), ("both", &both)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|launches| {
                time(engine, graph, launches).unwrap_or_else(|error| panic!("{error}"))
            });
        });
    }
    group.finish();
    Ok(())
}

/// What so many launches of a graph take on the GPU, one after the other.
fn time(engine: &Engine, graph: &Graph, launches: u64) -> Result<Duration, GpuError> {
    graph.launch()?;
    let start = Event::new(engine.context())?;
    start.record(engine.stream())?;
    (0..launches).try_for_each(|_| graph.launch())?;
    Ok(Duration::from_nanos(engine.stream().event()?.nanoseconds_since(&start)?))
}

criterion_group!(benches, on_gpu);
criterion_main!(benches);
