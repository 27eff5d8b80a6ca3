//! What counting costs: time per launch, and time per row of counts, on this machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::counters::{Chip, CounterSession, Preset};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, Kernel, Stream};

type Failure = Box<dyn Error + Send + Sync>;

/// Each figure is the mean of so many measurements: an even number, since every second one of CUPTI
/// is slow.
const RUNS: u32 = 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: nothing measured: {error}");
            ExitCode::SUCCESS
        }
    }
}

fn launch(stream: &Stream, kernel: &Kernel, x: &mut Buffer<f32>, count: usize) -> Result<(), Failure> {
    for _ in 0..count {
        let arguments = Arguments::default().write(x).f32(0.5).f32(0.25).i32(1);
        // SAFETY: the arguments are those of `count.cu`; 32 threads stay within 32 numbers.
        unsafe { Launch::new(1, 32).queue(stream, kernel, arguments) }?;
    }
    Ok(())
}

/// The mean time of `RUNS` calls after two that warm up, in microseconds.
fn microseconds(mut measured: impl FnMut() -> Result<Duration, Failure>) -> Result<f64, Failure> {
    measured()?;
    measured()?;
    let mut sum = Duration::ZERO;
    for _ in 0..RUNS {
        sum += measured()?;
    }
    Ok(sum.as_secs_f64() * 1e6 / f64::from(RUNS))
}

fn run() -> Result<(), Failure> {
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
    let chip = Chip::new(&gpu)?;
    println!("ask the chip: {:.1?}", begin.elapsed());
    let sets = [
        ("flops", &[Preset::Flops][..]),
        ("bytes", &[Preset::Bytes]),
        ("flops + time", &[Preset::Flops, Preset::Time]),
    ];
    for (label, presets) in sets {
        let metrics: Vec<String> = presets.iter().flat_map(|preset| chip.preset(*preset)).collect();
        let begin = Instant::now();
        let mut session = CounterSession::on_chip(&gpu, &chip, &metrics)?;
        let opened = begin.elapsed();
        println!(
            "{label}: {} metrics, {} pass(es), session opened in {opened:.1?}",
            metrics.len(),
            session.passes()
        );
        println!("launches  us a launch: plain  counted, work  counted, all   us: one region of all");
        for count in [1, 10, 64, 250] {
            let plain = microseconds(|| {
                let begin = Instant::now();
                launch(&stream, &kernel, &mut x, count)?;
                gpu.synchronize()?;
                Ok(begin.elapsed())
            })?;
            let mut inside = Duration::ZERO;
            let counted = microseconds(|| {
                let begin = Instant::now();
                let rows = session.per_launch(count, &mut |_| {
                    let begin = Instant::now();
                    launch(&stream, &kernel, &mut x, count)?;
                    inside += begin.elapsed();
                    Ok(())
                })?;
                assert_eq!(rows.len(), count);
                Ok(begin.elapsed())
            })?;
            let work = inside.as_secs_f64() * 1e6 / f64::from(RUNS + 2);
            let region = microseconds(|| {
                let begin = Instant::now();
                session.per_region(1, &mut |regions| {
                    regions.within("all", |_| launch(&stream, &kernel, &mut x, count))
                })?;
                Ok(begin.elapsed())
            })?;
            let each = |total: f64| total / count as f64;
            println!(
                "{count:>8} {:>19.1} {:>14.1} {:>13.1} {region:>21.0}",
                each(plain),
                each(work),
                each(counted)
            );
        }
    }
    Ok(())
}
