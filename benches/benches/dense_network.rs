//! How long the fully connected networks take: on the CPU by the clock, on a GPU as CUDA graphs by
//! events. Without a GPU that half is left out, with the reason.

#![expect(clippy::print_stderr, reason = "a bench says what it leaves out")]

use std::cell::LazyCell;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flopgap_gpu::{Context, Event, Graph, Stream};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::{Cpu, MlpError, Parameters, Size};
use half::f16;

const CPU_BATCHES: [usize; 2] = [256, 16_384];
const GPU_BATCHES: [usize; 2] = [256, 65_536];

/// Inputs, or gradients by the outputs.
fn numbers(length: usize) -> Vec<f32> {
    (0..length).map(|index| (index * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

fn on_cpu(criterion: &mut Criterion) {
    for size in Size::ALL {
        let network = size.network();
        let cpu = Cpu::new(&Parameters::he(&network, 1));
        for batch in CPU_BATCHES {
            let (x, dy) = (numbers(batch * network.inputs()), numbers(batch * network.outputs()));
            let (mut y, mut dx) = (dy.clone(), x.clone());
            let mut gradients = vec![0.0; network.parameters()];
            let mut tape = cpu.tape(batch);
            let mut group = criterion.benchmark_group(format!("dense_network/cpu {size} batch={batch}"));
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function("forward", |bencher| bencher.iter(|| cpu.forward(&x, &mut y)));
            group.bench_function("both", |bencher| {
                bencher.iter(|| {
                    cpu.forward_train(&x, &mut y, &mut tape)?;
                    cpu.backward(&x, &y, &dy, &tape, Some(&mut dx), &mut gradients)
                });
            });
            group.finish();
        }
    }
}

fn on_gpu(criterion: &mut Criterion) {
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => return eprintln!("dense_network/gpu: left out: {error}"),
    };
    for implementation in Implementation::ALL {
        for size in Size::ALL {
            for batch in GPU_BATCHES {
                let name = format!("dense_network/gpu {implementation} fp16 {size} batch={batch}");
                // Compiled when the first of the two is run: a filter may leave both out.
                let graphs = LazyCell::new(|| {
                    Graphs::new(&context, implementation, size, batch)
                        .unwrap_or_else(|error| panic!("{implementation} {size} batch={batch}: {error}"))
                });
                let mut group = criterion.benchmark_group(name);
                group.throughput(Throughput::Elements(batch as u64));
                group.bench_function("forward", |bencher| {
                    bencher.iter_custom(|launches| time(&graphs.stream, &graphs.forward, launches));
                });
                group.bench_function("both", |bencher| {
                    bencher.iter_custom(|launches| time(&graphs.stream, &graphs.both, launches));
                });
                group.finish();
            }
        }
    }
}

/// Half precision: the forward pass, and both passes. A graph owns the arrays that it works on.
struct Graphs {
    stream: Stream,
    forward: Graph,
    both: Graph,
}

impl Graphs {
    fn new(
        context: &Context,
        implementation: Implementation,
        size: Size,
        batch: usize,
    ) -> Result<Self, MlpError> {
        let network = size.network();
        let stream = context.stream()?;
        let mut model = Model::<f16>::new(context, &network, Options::new(implementation))?;
        model.upload(&stream, &Parameters::he(&network, 1))?;
        let half = |numbers: Vec<f32>| numbers.into_iter().map(f16::from_f32).collect::<Vec<_>>();
        let x = stream.upload(&half(numbers(batch * network.inputs())))?;
        let dy = stream.upload(&half(numbers(batch * network.outputs())))?;
        let mut y = stream.zeros::<f16>(dy.len())?;
        let mut dx = stream.zeros::<f16>(x.len())?;
        let mut gradients = stream.zeros::<f32>(network.parameters())?;
        let mut tape = model.tape(&stream, batch)?;
        let mut both = || {
            model.forward_train(&stream, &x, &mut y, &mut tape)?;
            model.backward(&stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients)
        };
        // What is loaded at first use must be loaded before the capture.
        both()?;
        stream.synchronize()?;
        let both = stream.capture(both)?;
        model.forward(&stream, &x, &mut y)?;
        stream.synchronize()?;
        let forward = stream.capture(|| model.forward(&stream, &x, &mut y))?;
        Ok(Graphs { stream, forward, both })
    }
}

/// What so many launches of a graph take on the GPU, one after the other.
fn time(stream: &Stream, graph: &Graph, launches: u64) -> Duration {
    let run = || {
        graph.launch()?;
        let start = Event::new(stream.context())?;
        start.record(stream)?;
        (0..launches).try_for_each(|_| graph.launch())?;
        stream.event()?.nanoseconds_since(&start)
    };
    Duration::from_nanos(run().unwrap_or_else(|error| panic!("{error}")))
}

criterion_group!(benches, on_cpu, on_gpu);
criterion_main!(benches);
