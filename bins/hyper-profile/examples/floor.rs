//! What the default grid costs on a GPU without counters: the floor below `hyper-profile new`.
//!
//! Each network is made and runs setup, forward and backward as launches on a stream, as it does
//! under counters; then forward and backward once more as one CUDA graph. Prints the sums over all
//! configurations. Then counts the networks of 8 layers and prints how much of that time the
//! launches take while they are counted, and how much CUPTI takes before and after them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flopgap_gpu::counters::{Chip, CounterSession, Preset};
use flopgap_gpu::{Context, Event};
use flopgap_phases::sweep::Grid;
use hyper_profile::square::Shape;
use hyper_profile::square::cuda::Engine;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let context = Context::new(0)?;
    let engine = Engine::new(&context)?;
    let opened = start.elapsed();
    let (begin, end) = (Event::new(&context)?, Event::new(&context)?);
    let (mut made, mut ran, mut graph_ns, mut configs) = (Duration::ZERO, Duration::ZERO, 0, 0);
    for config in Grid::standard().configs() {
        let start = Instant::now();
        let mut network = engine.network(Shape::new(config.n, config.d, config.m)?)?;
        network.synchronize()?;
        made += start.elapsed();

        let start = Instant::now();
        network.initialize(0)?;
        network.forward()?;
        network.backward()?;
        network.synchronize()?;
        ran += start.elapsed();

        let graph = engine.stream().capture(|| network.forward().and_then(|()| network.backward()))?;
        graph.upload()?;
        begin.record(engine.stream())?;
        graph.launch()?;
        end.record(engine.stream())?;
        graph_ns += end.nanoseconds_since(&begin)?;
        configs += 1;
    }
    println!("{}, {configs} configurations", context.device().name);
    println!("open the GPU and compile          {:>8.3} s", opened.as_secs_f64());
    println!("make networks                     {:>8.3} s", made.as_secs_f64());
    println!("setup, forward, backward, waiting {:>8.3} s", ran.as_secs_f64());
    println!(
        "forward and backward as a graph   {:>8.3} s on the GPU",
        Duration::from_nanos(graph_ns).as_secs_f64()
    );
    counted(&engine)
}

/// The layers of the networks that are counted.
const LAYERS: u64 = 8;

fn counted(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let metrics = Chip::new(engine.context())?.preset(Preset::Flops);
    let mut session = CounterSession::new(engine.context(), &metrics)?;
    // As many as hyper-profile expects.
    let expected = usize::try_from(8 * LAYERS + 1)?;
    let (mut all, mut work, mut launches, mut configs) = (Duration::ZERO, Duration::ZERO, 0, 0);
    for config in Grid::standard().configs().filter(|config| config.n == LAYERS) {
        let mut network = engine.network(Shape::new(config.n, config.d, config.m)?)?;
        network.synchronize()?;
        let start = Instant::now();
        let rows = session.per_launch(expected, &mut |_| {
            let start = Instant::now();
            network.initialize(0)?;
            network.forward()?;
            network.backward()?;
            network.synchronize()?;
            work += start.elapsed();
            Ok(())
        })?;
        all += start.elapsed();
        launches += rows.len();
        configs += 1;
    }
    println!("counted: {configs} networks of {LAYERS} layers, {launches} launches");
    println!("launches while they are counted   {:>8.3} s", work.as_secs_f64());
    println!("CUPTI before and after them       {:>8.3} s", all.saturating_sub(work).as_secs_f64());
    Ok(())
}
