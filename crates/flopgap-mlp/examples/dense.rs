//! Times the fully connected networks: `dense IMPLEMENTATION PRECISION [SIZE,...] [BATCH,...]`,
//! microseconds for forward, for backward, and for both, as CUDA graphs timed by events
//! (`flopgap_gpu::timing::replays`).
//!
//! `dense cpu fp32 ...` times all cores of the CPU instead, `dense cpu:4 fp32 ...` four threads, by
//! the clock.
//!
//! `dense once IMPLEMENTATION ...` queues forward, and forward for training and backward, one time
//! each and measures nothing: for a profiler.
//!
//! `dense tangents PRECISION ...` times derivatives of both passes along a direction of the inputs,
//! with `SiLU` after every layer.
//!
//! A size is one of the benchmark's or widths such as `64-328-200`. `--atomic` sums gradients by
//! atomic additions, `--accumulate-fp16` keeps sums on tensor cores in 16 bits, `--no-dx` leaves
//! out the gradients by the inputs.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::fmt::Display;
use std::num::NonZero;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use flopgap_gpu::timing::{Repetitions, replays};
use flopgap_gpu::{Buffer, Context, Stream};
use flopgap_mlp::cuda::tangent::{Along, Derivatives, Tangents};
use flopgap_mlp::cuda::{Accumulate, Implementation, Model, Options, Reduction};
use flopgap_mlp::{Activation, Cpu, Element, MlpError, Network, Parameters, Precision, Size};
use half::{bf16, f16};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dense: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A number of something; says of what, if it is none.
fn number<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| format!("{what} {text:?}: {error}").into())
}

/// A network by its name or its widths.
fn network(text: &str) -> Result<Network, Failure> {
    match text.parse::<Size>() {
        Ok(size) => Ok(size.network()),
        Err(unknown) if !text.contains('-') => Err(unknown.into()),
        Err(_) => {
            let widths =
                text.split('-').map(|width| number("width", width)).collect::<Result<Vec<usize>, _>>()?;
            Ok(Network::new(&widths)?)
        }
    }
}

/// What is asked for beside implementation, precision, networks and batches.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    options: Options,
    dx: bool,
    once: bool,
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let rest: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = arguments.iter().find(|argument| {
        argument.starts_with("--")
            && !["--atomic", "--accumulate-fp16", "--no-dx"].contains(&argument.as_str())
    }) {
        return Err(format!("no option {unknown}: there are --atomic, --accumulate-fp16, --no-dx").into());
    }
    let (once, rest) = match rest.as_slice() {
        ["once", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let (implementation, precision, rest) = match rest {
        [implementation, precision, rest @ ..] if rest.len() <= 2 => (implementation, precision, rest),
        _ => {
            return Err(
                "give [once] IMPLEMENTATION|cpu[:THREADS]|tangents PRECISION [SIZE,...] [BATCH,...]".into()
            );
        }
    };
    let sizes: Vec<(&str, Network)> = match rest.first() {
        Some(list) => {
            list.split(',').map(|name| Ok((name, network(name)?))).collect::<Result<_, Failure>>()?
        }
        None => Size::ALL.into_iter().map(|size| (size.name(), size.network())).collect(),
    };
    let batches: Vec<usize> = match rest.get(1) {
        Some(list) => list.split(',').map(|batch| number("batch", batch)).collect::<Result<_, _>>()?,
        None => vec![256, 65_536, 1 << 20],
    };
    if let Some(threads) = implementation.strip_prefix("cpu") {
        if once || *precision != "fp32" || arguments.iter().any(|argument| argument.starts_with("--")) {
            return Err("a CPU computes in fp32, and has no options".into());
        }
        let threads = threads.strip_prefix(':').map(|threads| number("threads", threads)).transpose()?;
        return on_cpu(threads, &sizes, &batches);
    }
    let accumulate = if flag("--accumulate-fp16") { Accumulate::F16 } else { Accumulate::F32 };
    let reduction = if flag("--atomic") { Reduction::Atomic } else { Reduction::Deterministic };
    let tangents = *implementation == "tangents";
    let implementation = if tangents { Implementation::Auto } else { implementation.parse()? };
    let options = Options { accumulate, reduction, ..Options::new(implementation) };
    let wanted = Wanted { options, dx: !flag("--no-dx"), once };
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("dense: nothing measured: {error}");
            return Ok(());
        }
    };
    if tangents {
        println!("{:<32} {:>9} {:>12}", "", "batch", "tangents us");
    } else if !once {
        println!(
            "{:<32} {:>9} {:>12} {:>12} {:>12} {:>9}",
            "", "batch", "forward us", "backward us", "both us", "TFLOP/s"
        );
    }
    for (name, network) in &sizes {
        for &batch in &batches {
            match precision.parse()? {
                Precision::F32 if tangents => time_tangents::<f32>(&context, name, network, batch)?,
                Precision::F16 if tangents => time_tangents::<f16>(&context, name, network, batch)?,
                Precision::Bf16 if tangents => time_tangents::<bf16>(&context, name, network, batch)?,
                Precision::F32 => time::<f32>(&context, wanted, name, network, batch)?,
                Precision::F16 => time::<f16>(&context, wanted, name, network, batch)?,
                Precision::Bf16 => time::<bf16>(&context, wanted, name, network, batch)?,
            }
        }
    }
    Ok(())
}

/// The same by the clock, in 32 bits.
fn on_cpu(
    threads: Option<NonZero<usize>>,
    sizes: &[(&str, Network)],
    batches: &[usize],
) -> Result<(), Failure> {
    println!("{:<24} {:>9} {:>26} {:>26} {:>9}", "median (best), us", "batch", "forward", "both", "GFLOP/s");
    for (size, network) in sizes {
        let parameters = Parameters::he(network, 1);
        let cpu =
            threads.map_or_else(|| Cpu::new(&parameters), |threads| Cpu::with_threads(&parameters, threads));
        for &batch in batches {
            let x: Vec<f32> =
                (0..batch * network.inputs()).map(|index| (index * 37 % 101) as f32 / 50.0 - 1.0).collect();
            let dy: Vec<f32> = x.iter().copied().cycle().take(batch * network.outputs()).collect();
            let (mut y, mut dx) = (dy.clone(), x.clone());
            let mut gradients = vec![0.0; network.parameters()];
            let mut tape = cpu.tape(batch);
            let forward = by_the_clock(|| cpu.forward(&x, &mut y))?;
            let both = by_the_clock(|| {
                cpu.forward_train(&x, &mut y, &mut tape)?;
                cpu.backward(&x, &y, &dy, &tape, Some(&mut dx), &mut gradients)
            })?;
            let products: usize = network.widths().windows(2).map(|pair| 2 * pair[0] * pair[1]).sum();
            let show = |(median, best): (f64, f64)| format!("{median:.1} ({best:.1})");
            println!(
                "{:<24} {batch:>9} {:>26} {:>26} {:>9.1}",
                format!("{size}, {} threads", cpu.threads()),
                show(forward),
                show(both),
                (3 * products * batch) as f64 / both.1 / 1e3
            );
        }
    }
    Ok(())
}

/// The median and the best of at least 5 calls and a second.
fn by_the_clock(mut pass: impl FnMut() -> Result<(), MlpError>) -> Result<(f64, f64), Failure> {
    pass()?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < 5 || (begin.elapsed().as_secs() < 1 && times.len() < 20_000) {
        let start = Instant::now();
        pass()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok((times[times.len() / 2], times[0]))
}

fn time<T: Element>(
    context: &Context,
    wanted: Wanted,
    name: &str,
    network: &Network,
    batch: usize,
) -> Result<(), Failure> {
    let stream = context.stream()?;
    let mut model = match Model::<T>::new(context, network, wanted.options) {
        Err(error @ MlpError::Unsupported { .. }) => {
            eprintln!("{name}: {error}");
            return Ok(());
        }
        model => model?,
    };
    model.upload(&stream, &Parameters::he(network, 1))?;
    let numbers: Vec<T> = (0..batch * network.inputs())
        .map(|index| T::narrow((index * 37 % 101) as f32 / 50.0 - 1.0))
        .collect();
    let x = stream.upload(&numbers)?;
    let mut y = stream.zeros::<T>(batch * network.outputs())?;
    let numbers: Vec<T> = numbers.iter().copied().cycle().take(batch * network.outputs()).collect();
    let dy = stream.upload(&numbers)?;
    let mut dx = if wanted.dx { Some(stream.zeros::<T>(x.len())?) } else { None };
    let mut gradients = stream.zeros::<f32>(network.parameters())?;
    let mut tape = model.tape(&stream, batch)?;

    if wanted.once {
        model.forward(&stream, &x, &mut y)?;
        model.forward_train(&stream, &x, &mut y, &mut tape)?;
        model.backward(
            &stream,
            &x,
            &y,
            &dy,
            &mut tape,
            dx.as_mut().map(Buffer::as_view_mut),
            &mut gradients,
        )?;
        return Ok(stream.synchronize()?);
    }
    let forward = microseconds(&stream, || model.forward(&stream, &x, &mut y))?;
    model.forward_train(&stream, &x, &mut y, &mut tape)?;
    let backward = microseconds(&stream, || {
        model.backward(&stream, &x, &y, &dy, &mut tape, dx.as_mut().map(Buffer::as_view_mut), &mut gradients)
    })?;
    let both = microseconds(&stream, || {
        model.forward_train(&stream, &x, &mut y, &mut tape)?;
        model.backward(&stream, &x, &y, &dy, &mut tape, dx.as_mut().map(Buffer::as_view_mut), &mut gradients)
    })?;
    let products: usize = network.widths().windows(2).map(|pair| 2 * pair[0] * pair[1]).sum();
    println!(
        "{:<32} {batch:>9} {forward:>12.2} {backward:>12.2} {both:>12.2} {:>9.1}",
        format!("{} {} {name}", wanted.options.implementation, T::PRECISION),
        (products * batch) as f64 / forward / 1e6
    );
    Ok(())
}

fn time_tangents<T: Element>(
    context: &Context,
    name: &str,
    network: &Network,
    batch: usize,
) -> Result<(), Failure> {
    let stream = context.stream()?;
    let network = &network.clone().with_activation(Activation::Silu).with_output_activation(Activation::Silu);
    let mut model = Model::<T>::new(context, network, Options::new(Implementation::Auto))?;
    model.upload(&stream, &Parameters::he(network, 1))?;
    let numbers = |length: usize| -> Vec<T> {
        (0..length).map(|index| T::narrow((index * 37 % 101) as f32 / 50.0 - 1.0)).collect()
    };
    let x = stream.upload(&numbers(batch * network.inputs()))?;
    let dy = stream.upload(&numbers(batch * network.outputs()))?;
    let mut y = stream.zeros::<T>(dy.len())?;
    let mut dx = stream.zeros::<T>(x.len())?;
    let mut gradients = stream.zeros::<f32>(network.parameters())?;
    let mut tangents = Tangents::new(&stream, &model, batch)?;
    let along = Along { x: x.as_view(), direction: x.as_view(), dy: dy.as_view(), dy_direction: None };
    let us = microseconds(&stream, || {
        let (y, dx) = (Some(y.as_view_mut()), Some(dx.as_view_mut()));
        let all = Derivatives { y, dx, gradients: Some(gradients.as_view_mut()) };
        tangents.queue(&stream, &model, &along, all)
    })?;
    println!("{:<32} {batch:>9} {us:>12.2}", format!("tangents {} {name}", T::PRECISION));
    Ok(())
}

/// The median time of a pass.
fn microseconds(stream: &Stream, pass: impl FnMut() -> Result<(), MlpError>) -> Result<f64, MlpError> {
    Ok(replays(stream, Repetitions { warmup: 5, measured: 20 }, pass)?.median() / 1e3)
}
