//! Times the network on this machine: `time [--cpu] [N D M]...`, microseconds for forward and for
//! forward and backward.
//!
//! On a GPU, CUDA graphs are timed by events; each figure is the median of the launches of a graph,
//! divided by the repetitions in it. Weights and input are the same in every repetition, so what
//! fits the second-level cache stays there.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flopgap_flops::{Pass, SquareMlp};
use flopgap_gpu::{Context, Event};
use flopgap_square::cuda::{Engine, Options, Products, Work};
use flopgap_square::{Backend as _, Cpu, Shape};

type Failure = Box<dyn Error + Send + Sync>;

/// Launches of a graph that are timed, after a few that warm up.
const LAUNCHES: usize = 50;
/// Networks one after the other in a graph.
const REPETITIONS: usize = 5;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("time: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<(), Failure> {
    let on_cpu = arguments.first().is_some_and(|first| first == "--cpu");
    if on_cpu {
        arguments.remove(0);
    }
    let mut sizes: Vec<u64> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![2, 128, 16, 10, 1024, 128, 32, 2048, 256];
    }
    if !sizes.len().is_multiple_of(3) {
        return Err("give N, D and M for each network".into());
    }
    let shapes: Vec<Shape> =
        sizes.chunks(3).map(|s| Shape::new(s[0], s[1], s[2])).collect::<Result<_, _>>()?;
    println!("{:<10} {:<22} {:>14} {:>14} {:>9}", "", "network", "forward us", "both us", "TFLOP/s");
    if on_cpu {
        return shapes.into_iter().try_for_each(time_cpu);
    }
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("time: nothing measured: {error}");
            return Ok(());
        }
    };
    for products in [Products::Cublas, Products::Fused, Products::Fastest] {
        let engine = Engine::new(&context, Options { products, ..Options::default() })?;
        for &shape in &shapes {
            let mut network = engine.network(shape)?;
            network.initialize(1)?;
            let forward = microseconds(&engine, &mut network, Work::Forward)?;
            let both = microseconds(&engine, &mut network, Work::Both)?;
            line(&format!("{products:?}"), shape, forward, both)?;
        }
    }
    Ok(())
}

fn line(name: &str, shape: Shape, forward: f64, both: f64) -> Result<(), Failure> {
    let model = SquareMlp::from(shape);
    let flops = model.theory(Pass::Forward)?.gemm + model.theory(Pass::Backward)?.gemm;
    let rate = flops as f64 / both / 1e6;
    println!("{name:<10} {:<22} {forward:>14.2} {both:>14.2} {rate:>9.2}", shape.to_string());
    Ok(())
}

/// The median over launches of a graph, for one network.
fn microseconds(
    engine: &Engine,
    network: &mut flopgap_square::cuda::Network<'_>,
    work: Work,
) -> Result<f64, Failure> {
    let stream = engine.stream();
    let mut graph = network.record(work, REPETITIONS)?;
    let mut events = Vec::new();
    for _ in 0..LAUNCHES + 5 {
        let start = Event::new(engine.context())?;
        start.record(stream)?;
        graph.launch()?;
        events.push((start, stream.event()?));
    }
    let times: Result<Vec<u64>, _> =
        events.iter().skip(5).map(|(start, end)| end.nanoseconds_since(start)).collect();
    let mut times = times?;
    times.sort_unstable();
    Ok(times[times.len() / 2] as f64 / 1e3 / REPETITIONS as f64)
}

fn time_cpu(shape: Shape) -> Result<(), Failure> {
    let mut network = Cpu::new(shape);
    network.initialize(1)?;
    let mut best = [Duration::MAX; 2];
    for _ in 0..5 {
        let start = Instant::now();
        network.forward()?;
        best[0] = best[0].min(start.elapsed());
        network.backward()?;
        best[1] = best[1].min(start.elapsed());
    }
    let [forward, both] = best.map(|time| time.as_secs_f64() * 1e6);
    line("CPU", shape, forward, both)
}
