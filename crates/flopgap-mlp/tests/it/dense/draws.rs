//! On a GPU: networks, batches and options drawn at random, against the 64-bit reference.
//!
//! `FLOPGAP_DRAWS=200` asks for more draws than the few of every run, `FLOPGAP_SEED=7000` for those
//! from another seed on, `FLOPGAP_SECONDS=60` begins no draw after a minute,
//! `FLOPGAP_IMPLEMENTATION=coopvec` computes all of them so, `FLOPGAP_PLAN=sm_80` with the kernels
//! of an older architecture. A failure names the seed of its draw: `FLOPGAP_SEED=SEED
//! FLOPGAP_DRAWS=1` repeats it.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use flopgap_gpu::compile::Architecture;
use flopgap_gpu::{Buffer, ComputeCapability, Context, Stream};
use flopgap_mlp::cuda::{Accumulate, Gradients, Implementation, Model, Options, Reduction, Tape};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, Rounding, relative_error};
use flopgap_mlp::{Activation, Element, MlpError, Network, Parameters, Precision};
use half::{bf16, f16};

use crate::gpu;

/// Draws of a run that asks for no others: kernels of every network are compiled.
const FEW: u64 = 6;
const WIDEST: usize = 640;
const MOST_SAMPLES: usize = 5_000;
/// Samples times parameters that the reference computes, so that it does not take long.
const WORK: usize = 10_000_000;
/// Elements before and after what a pass writes: they must stay as they are.
const MARGIN: usize = 8;
/// A GPU whose tensor cores add 16-bit sums faster.
const ADA: ComputeCapability = ComputeCapability { major: 8, minor: 9 };

/// Numbers one after the other, of a seed.
#[derive(Debug)]
struct Numbers {
    seed: u64,
    next: u64,
}

impl Numbers {
    /// Uniform in [-1, 1).
    fn number(&mut self) -> f32 {
        self.next += 1;
        uniform(self.seed, self.next)
    }

    /// Uniform below `end`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in [0, end)")]
    fn below(&mut self, end: usize) -> usize {
        (f64::midpoint(f64::from(self.number()), 1.0) * end as f64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// From 1 to `most`, every order of magnitude as often.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in [1, most]")]
    fn up_to(&mut self, most: usize) -> usize {
        let power = f64::midpoint(f64::from(self.number()), 1.0);
        ((most as f64 + 1.0).powf(power) as usize).clamp(1, most)
    }
}

/// What is computed, and how.
#[derive(Debug)]
pub(super) struct Draw {
    seed: u64,
    pub(super) network: Network,
    pub(super) precision: Precision,
    pub(super) options: Options,
    /// One after the other on the same tape.
    batches: Vec<usize>,
    /// What the tape is made for.
    most: usize,
    /// Whether the gradients by the inputs are wanted.
    dx: bool,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers { seed: seed ^ 0x005e_ed0f_d4a3, next: 0 };
        let hidden = numbers.one_of(&[1, 1, 1, 2, 2, 3, 4, 4, 7]);
        // Around the edges of tiles, or anywhere; most networks are narrow, so that more of them
        // are compiled in a time.
        let mut width = || {
            let most = numbers.one_of(&[64, 128, 256, 320, 512, WIDEST]);
            let edge = [8, 16, 24, 32, 40, 64, 72, 128, 136, 192, 256, 264, 320, 512, 520, 640];
            let anywhere = 8 * numbers.up_to(most / 8);
            let edge = numbers.one_of(&edge);
            if edge <= most && numbers.number() > 0.0 { edge } else { anywhere }
        };
        let widths: Vec<usize> =
            (0..hidden + 2).map(|_| if hidden > 4 { width().min(64) } else { width() }).collect();
        let network = Network::new(&widths)
            .unwrap()
            .with_activation(numbers.one_of(&Activation::ALL))
            .with_output_activation(numbers.one_of(&Activation::ALL));
        let precision = numbers.one_of(&[Precision::F32, Precision::F16, Precision::F16, Precision::Bf16]);
        let (forloop, coopvec, coopmat) =
            (Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat);
        let all = [Implementation::Naive, forloop, forloop, coopvec, coopvec, coopvec, coopmat, coopmat];
        let implementation = match numbers.below(12) {
            index if index < all.len() => all[index],
            _ => coopmat,
        };
        let half = precision == Precision::F16 && numbers.below(5) == 0;
        let options = Options {
            implementation,
            accumulate: if half { Accumulate::F16 } else { Accumulate::F32 },
            reduction: if numbers.below(4) == 0 { Reduction::Atomic } else { Reduction::Deterministic },
            gradients: Gradients::Overwrite,
            // Hopper has no kernels with such sums: those of another GPU, then.
            plan: half.then_some(ADA),
        };
        let batches: Vec<usize> = (0..3)
            .map(|_| match numbers.below(4) {
                0 => {
                    numbers.one_of(&[1, 15, 17, 63, 64, 65, 128, 255, 256, 257, 512, 1024, 1025, 2048, 2049])
                }
                _ => numbers.up_to(MOST_SAMPLES),
            })
            .collect();
        let largest = batches.iter().copied().max().unwrap_or(1);
        let most = if numbers.below(2) == 0 { largest } else { largest + numbers.below(3_000) };
        let dx = numbers.below(4) > 0;
        // Last, so that a seed draws the rest as it did before: networks that are padded.
        let network = if numbers.below(4) == 0 { less_even(&network, &mut numbers) } else { network };
        Draw { seed, network, precision, options, batches, most, dx }
    }

    /// Whether an activation has a kink.
    fn kinked(&self) -> bool {
        let kink = |activation| matches!(activation, Activation::Relu | Activation::LeakyRelu);
        (0..self.network.layers()).any(|layer| kink(self.network.activation(layer)))
    }
}

/// A network of about the same widths that kernels pad.
fn less_even(network: &Network, numbers: &mut Numbers) -> Network {
    let widths: Vec<usize> = network.widths().iter().map(|width| width - numbers.below(8)).collect();
    let all = numbers.below(2) == 0;
    let some: Vec<bool> = (0..network.layers()).map(|_| all || numbers.below(2) == 0).collect();
    Network::new(&widths)
        .and_then(|network| network.with_biases(&some))
        .unwrap()
        .with_activation(network.activation(0))
        .with_output_activation(network.activation(network.layers() - 1))
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Draw { seed, network, precision, options, batches, most, dx } = self;
        let Options { implementation, accumulate, reduction, plan, .. } = options;
        write!(
            f,
            "seed {seed}: {implementation} {precision} {network}, sums {accumulate:?} {reduction:?}, "
        )?;
        if let Some(plan) = plan {
            write!(f, "planned for {plan}, ")?;
        }
        write!(f, "batches {batches:?}, tape of {most}{}", if *dx { "" } else { ", no dx" })
    }
}

/// Relative errors by what they are of, as parts of what is allowed.
type Ratios = BTreeMap<&'static str, f64>;

/// The samples of a batch: a few that come over and over, so that the reference is quick. Their
/// number is odd: those of a tile differ from those at the same places of the next one.
struct Samples<T> {
    x: Vec<T>,
    dy: Vec<T>,
    outputs: Vec<f64>,
    input_gradients: Vec<f64>,
    gradients: Vec<f64>,
    /// Relative errors of outputs, gradients by inputs, gradients by parameters.
    allowed: [f64; 3],
    /// Of the gradients by the inputs of one sample, as part of what they are on average.
    allowed_of_row: f64,
    /// How many samples there are before they come again.
    count: usize,
}

impl<T: Element> Samples<T> {
    fn new(draw: &Draw, parameters: &Parameters, batch: usize, numbers: &mut Numbers) -> Self {
        let network = &draw.network;
        let most = (WORK / network.parameters()).clamp(3, 511);
        let count = if batch <= most { batch } else { most - 1 + most % 2 };
        let mut x = Vec::new();
        let no_dy = vec![0.0; network.outputs()];
        let near_kink = |row: &[f32]| {
            !reference::run(parameters, row, &no_dy, Rounding::None).unwrap().near_kinks.is_empty()
        };
        while x.len() < count * network.inputs() {
            let row: Vec<f32> = (0..network.inputs()).map(|_| T::narrow(numbers.number()).widen()).collect();
            // At a kink, one slope is as good as the other. In 16 bits there are too many such
            // samples, and what is allowed has them, too.
            if T::PRECISION != Precision::F32 || !near_kink(&row) {
                x.extend(row);
            }
        }
        // Of few bits, so that a multiple by how often a sample comes is exact.
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let dy: Vec<f32> = (0..count * network.outputs())
            .map(|_| (numbers.below(127) as f32 + 1.0) / 128.0 * numbers.one_of(&[1.0, -1.0]))
            .collect();
        let times = |row: usize| (batch - row).div_ceil(count) as f32;
        let scaled: Vec<f32> =
            dy.iter().enumerate().map(|(index, dy)| dy * times(index / network.outputs())).collect();

        let run = |dy: &[f32], rounding| reference::run(parameters, &x, dy, rounding).unwrap();
        let truth = run(&dy, Rounding::None);
        let mut allowed_of_row = 0.5;
        let Errors { outputs, input_gradients, gradients } =
            Errors::allowed(T::PRECISION, parameters, &x, &dy, &truth).unwrap();
        let mut allowed = [outputs, input_gradients, gradients];
        if T::PRECISION != Precision::F32 {
            let stored = run(&dy, Rounding::Stored(T::PRECISION));
            // The error of few numbers is more or less by chance.
            let chance = |numbers: usize| 1.0 + 4.0 / (numbers as f64).sqrt();
            allowed[0] *= chance(truth.outputs.len());
            allowed[1] *= chance(truth.input_gradients.len());
            // Those of a layer are products of few: what is stored for every sample.
            let hidden: usize = network.widths()[1..network.layers()].iter().sum();
            allowed[2] *= chance(truth.gradients.len().min(count * hidden));
            // At a kink, a gradient can be altogether another one.
            let worst = worst_row(&stored.input_gradients, &truth.input_gradients, network.inputs());
            allowed_of_row = (3.0 * worst.1).max(0.5);
            if draw.options.accumulate == Accumulate::F16 {
                allowed = allowed.map(|error| error.max(0.1));
            }
        }
        let cycle = |numbers: &[f32], width: usize| -> Vec<T> {
            let row = |row: usize| numbers[row % count * width..][..width].iter().map(|&n| T::narrow(n));
            (0..batch).flat_map(row).collect()
        };
        let wide_cycle = |numbers: &[f64], width: usize| -> Vec<f64> {
            (0..batch).flat_map(|row| &numbers[row % count * width..][..width]).copied().collect()
        };
        Samples {
            x: cycle(&x, network.inputs()),
            dy: cycle(&dy, network.outputs()),
            outputs: wide_cycle(&truth.outputs, network.outputs()),
            input_gradients: wide_cycle(&truth.input_gradients, network.inputs()),
            gradients: run(&scaled, Rounding::None).gradients,
            allowed,
            allowed_of_row,
            count,
        }
    }
}

/// An array with margins on the device, all of it not a number.
struct Guarded<T: Element> {
    buffer: Buffer<T>,
    length: usize,
}

impl<T: Element> Guarded<T> {
    fn new(stream: &Stream, length: usize) -> Result<Self, MlpError> {
        let mut guarded = Guarded { buffer: stream.zeros(length + 2 * MARGIN)?, length };
        guarded.poison(stream)?;
        Ok(guarded)
    }

    fn poison(&mut self, stream: &Stream) -> Result<(), MlpError> {
        Ok(stream.fill(&mut self.buffer, 0xff)?)
    }

    /// What is between the margins.
    fn read(&self, stream: &Stream, what: &str) -> Result<Vec<f32>, Problem> {
        let all = stream.download(&self.buffer).map_err(MlpError::from)?;
        let all: Vec<f32> = all.into_iter().map(T::widen).collect();
        let margins = all[..MARGIN].iter().chain(&all[MARGIN + self.length..]);
        if margins.into_iter().any(|number| !number.is_nan()) {
            return Err(Problem(format!("{what}: written beside the array")));
        }
        Ok(all[MARGIN..MARGIN + self.length].to_vec())
    }
}

/// What is wrong.
#[derive(Debug)]
struct Problem(String);

impl From<MlpError> for Problem {
    fn from(error: MlpError) -> Self {
        Problem(error.to_string())
    }
}

impl From<flopgap_gpu::GpuError> for Problem {
    fn from(error: flopgap_gpu::GpuError) -> Self {
        Problem(error.to_string())
    }
}

/// The arrays of a batch.
struct Arrays<T: Element> {
    x: Buffer<T>,
    dy: Buffer<T>,
    y: Guarded<T>,
    dx: Option<Buffer<T>>,
    gradients: Guarded<f32>,
}

/// What a training step leaves.
#[derive(Debug, Clone)]
struct Found {
    y: Vec<f32>,
    dx: Vec<f32>,
    gradients: Vec<f32>,
}

impl Found {
    fn bits(&self) -> [Vec<u32>; 3] {
        [&self.y, &self.dx, &self.gradients].map(|part| part.iter().map(|n| n.to_bits()).collect())
    }
}

impl<T: Element> Arrays<T> {
    fn new(stream: &Stream, draw: &Draw, samples: &Samples<T>) -> Result<Self, Problem> {
        Ok(Arrays {
            // Views that begin at 16 bytes, and at no more.
            x: stream
                .upload(&[vec![T::narrow(f32::NAN); 16 / size_of::<T>()], samples.x.clone()].concat())?,
            dy: stream.upload(&samples.dy)?,
            y: Guarded::new(stream, samples.dy.len())?,
            dx: if draw.dx { Some(stream.zeros(samples.x.len())?) } else { None },
            gradients: Guarded::new(stream, draw.network.parameters())?,
        })
    }

    fn poison(&mut self, stream: &Stream) -> Result<(), Problem> {
        self.y.poison(stream)?;
        if let Some(dx) = &mut self.dx {
            stream.fill(dx, 0xff)?;
        }
        Ok(self.gradients.poison(stream)?)
    }

    fn forward(&mut self, stream: &Stream, model: &Model<T>) -> Result<(), MlpError> {
        let end = MARGIN + self.y.length;
        let x = self.x.slice(16 / size_of::<T>()..);
        model.forward(stream, &x, &mut self.y.buffer.slice_mut(MARGIN..end))
    }

    fn train(&mut self, stream: &Stream, model: &Model<T>, tape: &mut Tape<T>) -> Result<(), MlpError> {
        let end = MARGIN + self.y.length;
        let x = self.x.slice(16 / size_of::<T>()..);
        model.forward_train(stream, &x, &mut self.y.buffer.slice_mut(MARGIN..end), tape)?;
        let y = self.y.buffer.slice(MARGIN..end);
        let end = MARGIN + self.gradients.length;
        let mut gradients = self.gradients.buffer.slice_mut(MARGIN..end);
        model.backward(
            stream,
            &x,
            &y,
            &self.dy,
            tape,
            self.dx.as_mut().map(Buffer::as_view_mut),
            &mut gradients,
        )
    }

    fn found(&self, stream: &Stream) -> Result<Found, Problem> {
        let dx = match &self.dx {
            Some(dx) => stream.download(dx)?.into_iter().map(T::widen).collect(),
            None => Vec::new(),
        };
        Ok(Found {
            y: self.y.read(stream, "outputs")?,
            dx,
            gradients: self.gradients.read(stream, "gradients")?,
        })
    }
}

/// Computes a draw in all its batches, and gives what was found of the errors allowed.
fn compute<T: Element>(context: &Context, draw: &Draw) -> Result<Option<Ratios>, Problem> {
    let stream = context.stream()?;
    let mut model = match Model::<T>::new(context, &draw.network, draw.options) {
        Ok(model) => model,
        Err(MlpError::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if draw.options.implementation != Implementation::Naive {
        for facts in model.facts()?.into_iter().filter(|facts| facts.local_bytes > 0) {
            let (name, bytes, registers) = (facts.name, facts.local_bytes, facts.registers);
            eprintln!("{draw}: {name} has {bytes} bytes of local memory, {registers} registers");
        }
    }
    let parameters = Parameters::he(&draw.network, draw.seed).rounded::<T>();
    model.upload(&stream, &parameters)?;
    let mut tape = model.tape(&stream, draw.most)?;
    let mut numbers = Numbers { seed: draw.seed, next: 1 << 40 };
    let (mut ratios, mut problems) = (Ratios::new(), Vec::new());
    for &batch in &draw.batches {
        let samples = Samples::<T>::new(draw, &parameters, batch, &mut numbers);
        let mut arrays = Arrays::new(&stream, draw, &samples)?;
        arrays.forward(&stream, &model)?;
        let inference = arrays.y.read(&stream, "outputs")?;
        arrays.poison(&stream)?;
        arrays.train(&stream, &model, &mut tape)?;
        let found = arrays.found(&stream)?;
        let of_batch = |problem: String| format!("batch {batch}: {problem}");
        if found.y.iter().map(|n| n.to_bits()).ne(inference.iter().map(|n| n.to_bits())) {
            problems.push(of_batch("outputs differ with and without a tape".to_owned()));
        }
        problems.extend(check(draw, &samples, &found, &mut ratios).into_iter().map(of_batch));
        // The same once more, in a graph: the same bits.
        arrays.poison(&stream)?;
        stream.synchronize()?;
        let graph = stream.capture(|| arrays.train(&stream, &model, &mut tape))?;
        graph.launch()?;
        let again = arrays.found(&stream)?;
        let fixed = draw.options.reduction == Reduction::Deterministic
            && draw.options.implementation != Implementation::Naive;
        if fixed && again.bits() != found.bits() {
            problems.push(of_batch("other bits in a graph".to_owned()));
        }
        let again = check(draw, &samples, &again, &mut Ratios::new()).into_iter();
        problems.extend(again.map(|problem| of_batch(format!("in a graph: {problem}"))));
    }
    if problems.is_empty() { Ok(Some(ratios)) } else { Err(Problem(problems.join("\n  "))) }
}

/// The row that is farthest off, and how far, as a part of what rows are on average.
fn worst_row(found: &[f64], expected: &[f64], width: usize) -> (usize, f64) {
    let squares = |numbers: &[f64]| numbers.iter().map(|n| n * n).sum::<f64>();
    let size = (squares(expected) / (expected.len() / width) as f64).sqrt();
    let rows = found.chunks_exact(width).zip(expected.chunks_exact(width));
    let distances = rows.map(|(found, expected)| {
        let differences: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
        let distance = squares(&differences).sqrt();
        if distance == 0.0 { 0.0 } else { distance / size }
    });
    distances.enumerate().fold(
        (0, 0.0),
        |worst, row| {
            if row.1 > worst.1 || row.1.is_nan() { row } else { worst }
        },
    )
}

/// What is wrong of what was found.
fn check<T: Element>(draw: &Draw, samples: &Samples<T>, found: &Found, ratios: &mut Ratios) -> Vec<String> {
    let Samples { outputs, input_gradients, gradients, allowed, allowed_of_row, count, .. } = samples;
    let mut problems = Vec::new();
    let network = &draw.network;
    let mut parts = vec![
        ("outputs", &found.y, outputs, allowed[0], network.outputs()),
        ("gradients by the parameters", &found.gradients, gradients, allowed[2], gradients.len()),
    ];
    if draw.dx {
        parts.push(("gradients by the inputs", &found.dx, input_gradients, allowed[1], network.inputs()));
    }
    for (what, found, expected, allowed, width) in parts {
        // A sample that is wrong altogether shows in a large batch, too.
        let wide: Vec<f64> = found.iter().copied().map(f64::from).collect();
        let (row, of_row) = worst_row(&wide, expected, width);
        let mut error = reference::relative_error(found, expected);
        if what == "gradients by the inputs" && draw.kinked() && T::PRECISION != Precision::F32 && *count > 8
        {
            // One sample may be on the other side of a kink.
            let others = |numbers: &[f64]| -> Vec<f64> {
                let rows = numbers.chunks_exact(width).enumerate();
                rows.filter(|(index, _)| index % count != row % count)
                    .flat_map(|(_, row)| row)
                    .copied()
                    .collect()
            };
            error = relative_error(&others(&wide), &others(expected));
        }
        let ratio = if error == 0.0 { 0.0 } else { error / allowed };
        let most_of_row = if what == "outputs" { 20.0 * allowed } else { *allowed_of_row };
        if ratio.is_nan() || ratio > 1.0 || of_row.is_nan() || (width < found.len() && of_row > most_of_row) {
            let layers = if what == "gradients by the parameters" {
                by_layer(network, found, expected)
            } else {
                String::new()
            };
            problems.push(format!(
                "{what}: relative error {error:.2e}, {allowed:.2e} allowed; of row {row} {of_row:.2e}{layers}"
            ));
        }
        let largest = ratios.entry(what).or_default();
        *largest = largest.max(ratio);
    }
    problems
}

/// The relative errors of weights and biases of each layer.
fn by_layer(network: &Network, found: &[f32], expected: &[f64]) -> String {
    let of = |range: Range<usize>| reference::relative_error(&found[range.clone()], &expected[range]);
    let layers = (0..network.layers()).map(|layer| {
        format!("; layer {layer}: {:.1e}, {:.1e}", of(network.weights(layer)), of(network.biases(layer)))
    });
    layers.collect()
}

pub(super) fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not understood")))
}

#[test]
fn draws_are_the_reference_within_their_precision() {
    let Some((context, _guard)) = gpu() else { return };
    let first: u64 = from_environment("FLOPGAP_SEED").unwrap_or(1);
    let draws: u64 = from_environment("FLOPGAP_DRAWS").unwrap_or(FEW);
    let only: Option<Implementation> = from_environment("FLOPGAP_IMPLEMENTATION");
    let plan: Option<Architecture> = from_environment("FLOPGAP_PLAN");
    let plan = plan.map(|plan| plan.capability);
    let many = draws > FEW;
    let seconds: u64 = from_environment("FLOPGAP_SECONDS").unwrap_or(u64::MAX);
    let (begin, next) = (Instant::now(), AtomicU64::new(first));
    let outcome = Mutex::new((0, 0, BTreeMap::<String, f64>::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + draws || begin.elapsed().as_secs() >= seconds {
                        break;
                    }
                    let mut draw = Draw::new(seed);
                    if let Some(implementation) = only {
                        draw.options.implementation = implementation;
                    }
                    draw.options.plan = plan;
                    if many {
                        eprintln!("{draw}");
                    }
                    let begin = Instant::now();
                    let result = match draw.precision {
                        Precision::F32 => compute::<f32>(&context, &draw),
                        Precision::F16 => compute::<f16>(&context, &draw),
                        Precision::Bf16 => compute::<bf16>(&context, &draw),
                    };
                    if many {
                        eprintln!("seed {seed}: {:.1} s", begin.elapsed().as_secs_f64());
                    }
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    let (computed, absent, worst, failures) = &mut *outcome;
                    match result {
                        Ok(None) => *absent += 1,
                        Ok(Some(ratios)) => {
                            *computed += 1;
                            let half = draw.options.accumulate == Accumulate::F16;
                            for (what, ratio) in ratios.into_iter().filter(|_| !half) {
                                let key =
                                    format!("{} {} {what}", draw.options.implementation, draw.precision);
                                let largest = worst.entry(key).or_default();
                                *largest = largest.max(ratio);
                            }
                        }
                        Err(Problem(problem)) => {
                            eprintln!("{draw}: {problem}");
                            failures.push(format!("{draw}: {problem}"));
                        }
                    }
                }
            });
        }
    });
    let (computed, absent, worst, failures) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    eprintln!("{computed} draws from seed {first} computed, {absent} that no kernel is there for");
    for (what, ratio) in worst {
        eprintln!("{what}: {ratio:.2} of the error allowed");
    }
    assert!(failures.is_empty(), "{} of {draws} draws:\n{}", failures.len(), failures.join("\n"));
}
