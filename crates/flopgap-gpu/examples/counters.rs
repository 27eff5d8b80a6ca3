//! Counts the floating-point instructions of kernels whose counts are known, and of a matrix
//! product.
//!
//! ```text
//! counters              count, and check the known ones
//! counters --plain      only launch, so that `ncu` can count the same launches
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::process::ExitCode;

use flopgap_files::Hint;
use flopgap_gpu::blas::{Blas, Gemm};
use flopgap_gpu::compile::{CompileError, Compiler};
use flopgap_gpu::counters::{Chip, CounterError, CounterSession, Preset, Regions};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, GpuError, Kernel, Stream};

/// Blocks, threads of a block, and instructions of each thread, for each of the three kernels.
const SHAPES: [(u32, u32, i32); 3] = [(132, 256, 1000), (7, 96, 33), (1, 1, 1)];
const KERNELS: [&str; 3] = ["count_fadd", "count_fmul", "count_ffma"];
/// Rows, columns and inner size of the matrix products.
const PRODUCTS: [(usize, usize, usize); 3] = [(1024, 128, 1024), (128, 16, 128), (2048, 64, 2048)];

fn main() -> ExitCode {
    let plain = std::env::args().any(|argument| argument == "--plain");
    match run(plain) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("counters: error: {error}");
            let of_counters = error.downcast_ref::<CounterError>().and_then(Hint::hint);
            let of_gpu = error.downcast_ref::<GpuError>().and_then(Hint::hint);
            let of_compiler = error.downcast_ref::<CompileError>().and_then(Hint::hint);
            if let Some(hint) = of_counters.or(of_gpu).or(of_compiler) {
                eprintln!("  hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Everything that is launched, made before counting begins.
struct Launches {
    stream: Stream,
    kernels: Vec<(&'static str, Kernel)>,
    numbers: Buffer<f32>,
    blas: Blas,
    matrices: [Buffer<f32>; 3],
}

impl Launches {
    fn new(gpu: &Context) -> Result<Self, Box<dyn Error>> {
        let compiler = Compiler::new()?;
        let architecture = gpu.device().compute_capability.into();
        let module =
            gpu.load(&compiler.compile("count.cu", include_str!("count.cu"), architecture, &[])?)?;
        let kernels = KERNELS
            .into_iter()
            .map(|name| Ok((name, module.kernel(name)?)))
            .collect::<Result<_, GpuError>>()?;
        let stream = gpu.stream()?;
        let blas = Blas::new(&stream)?;
        let ones = |len: usize| stream.upload(&vec![1.0_f32; len]);
        Ok(Launches {
            numbers: ones(132 * 256)?,
            matrices: [ones(2048 * 2048)?, ones(2048 * 128)?, ones(2048 * 128)?],
            stream: stream.clone(),
            kernels,
            blas,
        })
    }

    fn launch(&mut self, regions: &mut dyn Regions) -> Result<(), CounterError> {
        for (name, kernel) in &self.kernels {
            regions.within(name, |_| {
                for (blocks, threads, steps) in SHAPES {
                    let launch = Launch::new(blocks, threads);
                    let arguments =
                        Arguments::default().write(&mut self.numbers).f32(0.5).f32(0.25).i32(steps);
                    // SAFETY: the arguments are those of `count.cu`; no thread reaches beyond the
                    // numbers.
                    unsafe { launch.queue(&self.stream, kernel, arguments) }?;
                }
                Ok::<_, CounterError>(())
            })?;
        }
        let [a, b, c] = &mut self.matrices;
        regions.within("sgemm", |_| {
            for (m, n, k) in PRODUCTS {
                self.blas.sgemm(&Gemm::new(m, n, k), a, b, c)?;
            }
            Ok(())
        })
    }
}

/// Ignores the regions.
struct Nowhere;

impl Regions for Nowhere {
    fn enter(&mut self, _name: &str) -> Result<(), CounterError> {
        Ok(())
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        Ok(())
    }
}

fn run(plain: bool) -> Result<bool, Box<dyn Error>> {
    let gpu = Context::new(0)?;
    let mut launches = Launches::new(&gpu)?;
    if plain {
        launches.launch(&mut Nowhere)?;
        gpu.synchronize()?;
        return Ok(true);
    }
    let chip = Chip::new(&gpu)?;
    let mut session = CounterSession::on_chip(&gpu, &chip, &chip.preset(Preset::Flops))?;
    println!("{}, {}, {} pass(es)", gpu.device().name, chip.name(), session.passes());
    let rows = session.per_launch(100, &mut |regions| Ok(launches.launch(regions)?))?;
    println!("{:>12} {:>12} {:>12}  {:<16} {:<14} kernel", "fadd", "fmul", "ffma", "grid", "block");
    for row in &rows {
        let [x, y, z] = row.launch.grid;
        let [bx, by, bz] = row.launch.block;
        for count in &row.counts {
            print!("{count:>12} ");
        }
        println!(
            " {:<16} {:<14} {}",
            format!("({x}, {y}, {z})"),
            format!("({bx}, {by}, {bz})"),
            row.launch.symbol
        );
    }
    // The known ones: every thread executes `steps` instructions of the kernel's kind, and none of
    // the others.
    let expected = KERNELS.iter().enumerate().flat_map(|(kind, name)| {
        SHAPES.into_iter().map(move |(blocks, threads, steps)| {
            let mut counts = vec![0; KERNELS.len()];
            counts[kind] = u64::from(blocks) * u64::from(threads) * u64::from(steps.unsigned_abs());
            (*name, counts)
        })
    });
    let mut exact = true;
    for (row, (name, counts)) in rows.iter().zip(expected) {
        if &*row.launch.symbol != name || row.counts != counts {
            exact = false;
            println!("expected {name} {counts:?}, counted {} {:?}", row.launch.symbol, row.counts);
        }
    }
    println!("{}", if exact { "the known counts are exact" } else { "the known counts are WRONG" });
    Ok(exact)
}
