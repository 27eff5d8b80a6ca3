//! Convolutions by cuDNN in every arithmetic: checked against 64 bits and timed; also the
//! next engines that the heuristic names.
//!
//! `cargo run --release -p flopgap-gpu --example convolutions [-- NAME]` runs those whose name
//! contains `NAME`. Each line is tab-separated.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

mod cases;
mod elements;
mod reference;

use std::process::ExitCode;

use flopgap_files::Hint as _;
use flopgap_gpu::dnn::{
    self, Arithmetic, Convolution, ConvolutionAddresses, ConvolutionPlan, Dnn, Layout, Search,
};
use flopgap_gpu::timing::{Repetitions, replays};
use flopgap_gpu::{Buffer, Context, GpuError, Stream};

use cases::{Case, cases, poolings};
use elements::{Element, Random};

/// How many engines are timed of those that the heuristic names.
const ENGINES: usize = 5;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    match run(&wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} beyond their bound or not computed");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            if let Some(hint) = error.hint() {
                println!("  hint: {hint}");
            }
            ExitCode::from(3)
        }
    }
}

/// How many cases were wrong.
fn run(wanted: &str) -> Result<usize, GpuError> {
    let gpu = Context::new(0)?;
    let (stream, dnn) = (gpu.stream()?, Dnn::new(&gpu)?);
    println!("{}, cuDNN {:?}", gpu.device().name, dnn::version()?);
    println!(
        "case\tarithmetic\tlayout\tform\tengine\trank\ttraits\tworkspace\terror\tbound\tus\tTFLOP/s\tnext us\tkernels"
    );
    let mut wrong = 0;
    for case in cases().into_iter().filter(|case| case.name.contains(wanted)) {
        for arithmetic in Arithmetic::ALL {
            for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
                // Tensor cores read channels last: the other layout is only of interest without
                // them.
                if layout == Layout::ChannelsFirst && arithmetic != Arithmetic::Fp32 {
                    continue;
                }
                let good = match arithmetic {
                    Arithmetic::Fp32 | Arithmetic::Tf32 => {
                        show::<f32>(&stream, &dnn, &case, arithmetic, layout)
                    }
                    Arithmetic::Fp16 => show::<half::f16>(&stream, &dnn, &case, arithmetic, layout),
                    Arithmetic::Bf16 => show::<half::bf16>(&stream, &dnn, &case, arithmetic, layout),
                    Arithmetic::Int8 => show::<i8>(&stream, &dnn, &case, arithmetic, layout),
                };
                match good {
                    Ok(true) => {}
                    Ok(false) => wrong += 1,
                    Err(error) => {
                        println!("{}\t{arithmetic:?}\t{layout:?}\t{error}", case.name);
                        wrong += 1;
                    }
                }
            }
        }
    }
    for (name, pooling) in poolings().into_iter().filter(|(name, _)| name.contains(wanted)) {
        let good = match pooling.arithmetic {
            Arithmetic::Fp32 | Arithmetic::Tf32 => pool::<f32>(&stream, &dnn, name, &pooling),
            Arithmetic::Fp16 => pool::<half::f16>(&stream, &dnn, name, &pooling),
            Arithmetic::Bf16 => pool::<half::bf16>(&stream, &dnn, name, &pooling),
            Arithmetic::Int8 => pool::<i8>(&stream, &dnn, name, &pooling),
        };
        match good {
            Ok(true) => {}
            Ok(false) => wrong += 1,
            Err(error) => {
                println!("{name}\t{:?}\t{error}", pooling.arithmetic);
                wrong += 1;
            }
        }
    }
    Ok(wrong)
}

/// Everything that a convolution reads and writes, on the device.
struct Arrays<T: Element> {
    x: Buffer<T>,
    w: Buffer<T>,
    bias: Buffer<T::Bias>,
    residual: Buffer<T>,
    y: Buffer<T>,
}

impl<T: Element> Arrays<T> {
    fn convolve(
        &mut self,
        stream: &Stream,
        plan: &ConvolutionPlan,
        workspace: &mut Buffer<u8>,
    ) -> Result<(), GpuError> {
        let memory = stream.submission();
        let at = ConvolutionAddresses {
            input: memory.read(&self.x)?,
            weights: memory.read(&self.w)?,
            bias: memory.read(&self.bias)?,
            residual: memory.read(&self.residual)?,
            output: memory.write(&mut self.y)?,
            workspace: memory.write(workspace)?,
        };
        // SAFETY: `show` made the arrays for this convolution, and the workspace for the plan.
        unsafe { plan.queue_at(stream, &at) }
    }
}

/// Checks and times one case; whether it is within its bound.
fn show<T: Element>(
    stream: &Stream,
    dnn: &Dnn,
    case: &Case,
    arithmetic: Arithmetic,
    layout: Layout,
) -> Result<bool, GpuError> {
    let convolution = Convolution { arithmetic, layout, ..case.convolution.clone() };
    let terms = convolution.weight_len()
        / if convolution.transposed { convolution.inputs } else { convolution.outputs };
    let mut fusion = case.fusion;
    if arithmetic == Arithmetic::Int8 && !convolution.transposed {
        // So that results reach about half of the range.
        #[expect(clippy::cast_possible_truncation, reason = "a factor")]
        let scale = (60.0 / (73.0 * 73.0 * (terms as f64).sqrt())) as f32;
        fusion.scale = scale;
    }
    let mut random = Random::new(17);
    let x: Vec<T> = T::draw(&mut random, convolution.input_len(), 1.0);
    let w: Vec<T> = T::draw(&mut random, convolution.weight_len(), 1.0 / (terms as f64 / 3.0).sqrt());
    let bias: Vec<T::Bias> = T::draw_bias(&mut random, convolution.outputs);
    let residual: Vec<T> = T::draw(&mut random, convolution.output_len()?, 1.0);
    let mut arrays = Arrays {
        x: stream.upload(&x)?,
        w: stream.upload(&w)?,
        bias: stream.upload(&bias)?,
        residual: stream.upload(&residual)?,
        y: stream.zeros(convolution.output_len()?)?,
    };
    let plan = dnn.convolution(stream, &convolution, &fusion, Search::default())?;
    let mut workspace = stream.zeros::<u8>(plan.workspace())?;
    arrays.convolve(stream, &plan, &mut workspace)?;
    let y = stream.download(&arrays.y)?;
    let host = reference::Host { x: &x, w: &w, bias: &bias, residual: &residual, y: &y };
    let (error, bound) = reference::error(&convolution, &fusion, &host);
    let time = time(stream, &plan, &mut arrays, &mut workspace)?;
    let graph = stream.capture(|| arrays.convolve(stream, &plan, &mut workspace))?;
    let kernels: Vec<String> = graph
        .kernels()?
        .iter()
        .map(|kernel| {
            let waves = kernel.waves(stream.context().device().multiprocessors);
            format!("{} {:?}x{} waves {waves:.2?}", kernel.name, kernel.grid, kernel.threads)
        })
        .collect();
    let next: Vec<String> = (1..ENGINES)
        .map(|skip| {
            let search = Search { skip, ..Search::default() };
            let plan = dnn.convolution(stream, &convolution, &fusion, search)?;
            let mut workspace = stream.zeros::<u8>(plan.workspace())?;
            let time = self::time(stream, &plan, &mut arrays, &mut workspace)?;
            Ok::<_, GpuError>(format!("{:.1} ({})", time / 1e3, plan.choice()))
        })
        .map(|shown| shown.unwrap_or_else(|_| "-".to_owned()))
        .collect();
    let choice = plan.choice();
    let flops = 2.0
        * terms as f64
        * if convolution.transposed {
            convolution.input_len() as f64
        } else {
            convolution.output_len()? as f64
        };
    println!(
        "{}\t{arithmetic:?}\t{layout:?}\t{:?}\t{choice}\t{}:{}\t{:?}\t{}\t{error:.2e}\t{bound:.0e}{}\t{:.1}\t{:.1}\t{}\t{}",
        case.name,
        choice.form,
        choice.heuristic.name(),
        choice.rank,
        choice.traits,
        choice.workspace,
        if error <= bound { "" } else { " WRONG" },
        time / 1e3,
        flops / time / 1e3,
        next.join(", "),
        kernels.join("; "),
    );
    Ok(error <= bound)
}

/// Nanoseconds on the device.
fn time<T: Element>(
    stream: &Stream,
    plan: &ConvolutionPlan,
    arrays: &mut Arrays<T>,
    workspace: &mut Buffer<u8>,
) -> Result<f64, GpuError> {
    let repetitions = Repetitions { warmup: 3, measured: 12 };
    let samples = replays(stream, repetitions, || arrays.convolve(stream, plan, workspace))?;
    Ok(samples.median())
}

/// Checks and times a pooling.
fn pool<T: Element>(
    stream: &Stream,
    dnn: &Dnn,
    name: &str,
    pooling: &dnn::Pooling,
) -> Result<bool, GpuError> {
    let mut random = Random::new(23);
    let x: Vec<T> = T::draw(&mut random, pooling.input_len(), 1.0);
    let input = stream.upload(&x)?;
    let mut output = stream.zeros::<T>(pooling.output_len())?;
    let plan = dnn.pooling(pooling)?;
    let mut queue = || {
        let memory = stream.submission();
        let (from, to) = (memory.read(&input)?, memory.write(&mut output)?);
        // SAFETY: both arrays have the sizes of the pooling.
        unsafe { plan.queue_at(stream, from, to) }
    };
    queue()?;
    let repetitions = Repetitions { warmup: 3, measured: 12 };
    let samples = replays(stream, repetitions, &mut queue)?;
    let graph = stream.capture(queue)?;
    let y = stream.download(&output)?;
    let (error, bound) = reference::pooling_error(pooling, &x, &y);
    let kernels: Vec<String> = graph.kernels()?.into_iter().map(|kernel| kernel.name).collect();
    println!(
        "{name}\t{:?}\t{:?}\tpool\t-\t-\t-\t-\t{error:.2e}\t{bound:.0e}{}\t{:.1}\t-\t-\t{}",
        pooling.arithmetic,
        pooling.layout,
        if error <= bound { "" } else { " WRONG" },
        samples.median() / 1e3,
        kernels.join("; "),
    );
    Ok(error <= bound)
}
