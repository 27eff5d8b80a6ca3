//! How long the square network takes: on the CPU by the clock, on a GPU as CUDA graphs by events.
//! Without a GPU that half is left out, with the reason.

#![expect(clippy::print_stderr, reason = "a bench says what it leaves out")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use flopgap_gpu::{Context, Event, GpuError};
use hyper_profile::square::cuda::{Engine, Network, Options, Work};
use hyper_profile::square::{Backend as _, Cpu, Shape, SquareError};

/// A narrow, a medium and a wide network.
const ON_GPU: [[u64; 3]; 3] = [[2, 128, 16], [10, 1024, 128], [32, 2048, 256]];

fn shape([n, d, m]: [u64; 3]) -> Shape {
    Shape::new(n, d, m).expect("sizes are at least 1")
}

fn on_cpu(criterion: &mut Criterion) {
    let mut network = Cpu::new(shape([2, 256, 64]));
    network.initialize(1).expect("a new network");
    let mut group = criterion.benchmark_group("square_network/cpu n=2 d=256 m=64");
    group.bench_function("forward", |bencher| bencher.iter(|| network.forward()));
    group.bench_function("backward", |bencher| bencher.iter(|| network.backward()));
    group.finish();
}

fn on_gpu(criterion: &mut Criterion) {
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => return eprintln!("square_network/gpu: left out: {error}"),
    };
    let engine = match Engine::new(&context, Options::default()) {
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
    let mut group = criterion.benchmark_group(format!("square_network/gpu {shape}"));
    for (name, work) in [("forward", Work::Forward), ("both", Work::Both)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|launches| {
                time(engine, &mut network, work, launches).unwrap_or_else(|error| panic!("{error}"))
            });
        });
    }
    group.finish();
    Ok(())
}

/// What so many launches of a graph take on the GPU, one after the other.
fn time(
    engine: &Engine,
    network: &mut Network<'_>,
    work: Work,
    launches: u64,
) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
    let mut graph = network.record(work, 1)?;
    graph.launch()?;
    let start = Event::new(engine.context())?;
    start.record(engine.stream())?;
    (0..launches).try_for_each(|_| graph.launch().map(drop))?;
    let nanoseconds: Result<u64, GpuError> = engine.stream().event()?.nanoseconds_since(&start);
    Ok(Duration::from_nanos(nanoseconds?))
}

criterion_group!(benches, on_cpu, on_gpu);
criterion_main!(benches);
