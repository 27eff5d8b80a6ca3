//! What counting costs: time per launch, and time per row of counts, on this machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::counters::{Chip, CounterSession, CounterSource as _, Preset};
use flopgap_gpu::{Buffer, Context, Kernel, LaunchConfig, PushKernelArg as _, Stream};

/// Each figure is the median of so many runs.
const RUNS: usize = 15;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: nothing measured: {error}");
            ExitCode::SUCCESS
        }
    }
}

fn launch(
    stream: &Stream,
    kernel: &Kernel,
    x: &mut Buffer<f32>,
    count: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
    for _ in 0..count {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&mut *x).arg(&0.5_f32).arg(&0.25_f32).arg(&1_i32);
        // SAFETY: the arguments are those of `count.cu`; 32 threads stay within 32 numbers.
        unsafe { launch.launch(config) }?;
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let begin = Instant::now();
    let gpu = Context::new(0)?;
    println!("open the GPU: {:.1?}", begin.elapsed());
    let architecture = gpu.device().compute_capability.into();
    let begin = Instant::now();
    let binary = Compiler::new()?.compile("count.cu", include_str!("count.cu"), architecture, &[])?;
    println!("compile{}: {:.1?}", if binary.is_cached() { " (cached)" } else { "" }, begin.elapsed());
    let kernel = gpu.load(&binary)?.kernel("count_ffma")?;
    let stream = gpu.stream()?;
    let mut x = stream.zeros(32)?;
    let begin = Instant::now();
    let chip = Chip::of(&gpu)?;
    println!("ask the chip: {:.1?}", begin.elapsed());
    for (label, presets) in [
        ("flops", &[Preset::Flops][..]),
        ("bytes", &[Preset::Bytes]),
        ("flops+time", &[Preset::Flops, Preset::Time]),
    ] {
        let metrics: Vec<String> = presets.iter().flat_map(|preset| chip.preset(*preset)).collect();
        let begin = Instant::now();
        let mut session = CounterSession::on_chip(&gpu, &chip, &metrics)?;
        println!(
            "{label}: {} metrics, {} pass(es), session opened in {:.1?}",
            metrics.len(),
            session.passes(),
            begin.elapsed()
        );
        println!(
            "{:>9} {:>14} {:>14} {:>14} {:>16}",
            "launches", "plain us each", "launch us each", "region us all", "(decode us each)"
        );
        for count in [1, 10, 100, 1000] {
            let (mut plain, mut each, mut decode, mut region) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let begin = Instant::now();
                launch(&stream, &kernel, &mut x, count)?;
                gpu.synchronize()?;
                plain.push(begin.elapsed());
                let begin = Instant::now();
                let mut inside = Duration::ZERO;
                let rows = session.per_launch(count, &mut |_| {
                    let begin = Instant::now();
                    launch(&stream, &kernel, &mut x, count)?;
                    inside += begin.elapsed();
                    Ok(())
                })?;
                assert_eq!(rows.len(), count);
                decode.push(begin.elapsed().saturating_sub(inside));
                each.push(inside);
                let begin = Instant::now();
                session.per_region(1, &mut |regions| {
                    regions.within("all", |_| launch(&stream, &kernel, &mut x, count))
                })?;
                region.push(begin.elapsed());
            }
            let per = |times: Vec<Duration>| median(times).as_secs_f64() * 1e6 / count as f64;
            println!(
                "{count:>9} {:>14.2} {:>14.2} {:>14.1} {:>16.2}",
                per(plain),
                per(each),
                median(region).as_secs_f64() * 1e6,
                per(decode)
            );
        }
    }
    Ok(())
}
