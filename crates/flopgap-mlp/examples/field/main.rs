//! Learns a picture as a function of the coordinates: `field [--cpu] [--epochs N] [--implementation
//! NAME] [--output FOLDER]`.
//!
//! Coordinates are encoded as sines and cosines, a network of three hidden layers makes a color of
//! them, and `AdamW` brings the mean squared error down; on a GPU in half precision with one CUDA
//! graph for an epoch, with `--cpu` in 32 bits on all cores. Prints the loss and the speed, and
//! writes the target beside what was learned (`field.png`), the loss (`field_loss.svg`) and the
//! parameters (`field.safetensors`).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod gpu;
mod scene;

use std::error::Error;
use std::f64::consts::PI;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use flopgap_mlp::cuda::Implementation;
use flopgap_mlp::{Activation, AdamWSettings, Cpu, Network, Parameters, Precision, cpu};
use flopgap_report::chart::{Color, Line, LineChart};
use flopgap_report::surface::AxisLabel;

use scene::{FEATURES, Pixels, SIDE};

type Failure = Box<dyn Error + Send + Sync>;

/// Outputs that count; the network has 8.
const COLORS: usize = 3;
/// Pixels of a step: a quarter of the picture.
const BATCH: usize = 16_384;

struct Options {
    cpu: bool,
    epochs: usize,
    implementation: Implementation,
    output: PathBuf,
}

/// What came out.
struct Trained {
    /// `pixels x 8`.
    outputs: Vec<f32>,
    parameters: Parameters,
    curve: Curve,
    seconds: f64,
    /// On what.
    place: String,
}

/// The loss at some epochs.
struct Curve {
    every: usize,
    steps: usize,
    /// Steps so far, and the mean loss of the epoch that ended there.
    points: Vec<(usize, f64)>,
}

impl Curve {
    fn new(epochs: usize, steps: usize) -> Self {
        Curve { every: epochs.div_ceil(20), steps, points: Vec::new() }
    }

    fn is_due(&self, epoch: usize) -> bool {
        epoch == 0 || (epoch + 1).is_multiple_of(self.every)
    }

    fn add(&mut self, epoch: usize, loss: f64) {
        self.points.push(((epoch + 1) * self.steps, loss));
        println!("step {:>6}  loss {loss:.3e}  {:.2} dB", (epoch + 1) * self.steps, decibels(loss));
    }
}

/// The ratio of peak to noise.
fn decibels(loss: f64) -> f64 {
    -10.0 * loss.log10()
}

fn settings(loss_scale: f64) -> AdamWSettings {
    AdamWSettings { weight_decay: 0.0, betas: (0.9, 0.99), loss_scale, ..AdamWSettings::default() }
}

/// From 0.01 to nearly 0 along a cosine.
fn schedule(epoch: usize, epochs: usize) -> f64 {
    0.005 * (1.0 + (PI * epoch as f64 / epochs as f64).cos()) + 1e-5
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("field: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, Failure> {
    let mut options =
        Options { cpu: false, epochs: 0, implementation: Implementation::Auto, output: PathBuf::from(".") };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--cpu" => options.cpu = true,
            "--epochs" => {
                options.epochs = value()?.parse().map_err(|error| format!("--epochs: {error}"))?;
            }
            "--implementation" => options.implementation = value()?.parse()?,
            "--output" => options.output = value()?.into(),
            _ => {
                return Err(format!(
                    "{argument}: [--cpu] [--epochs N] [--implementation NAME] [--output FOLDER]"
                )
                .into());
            }
        }
    }
    if options.epochs == 0 {
        options.epochs = if options.cpu { 60 } else { 1_000 };
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), Failure> {
    let network = Network::new(&[FEATURES, 64, 64, 64, 8])?.with_output_activation(Activation::Sigmoid);
    let parameters = Parameters::he(&network, 1);
    let pixels = Pixels::mixed();
    println!("{network}, {} parameters, {SIDE} x {SIDE} pixels, {BATCH} a step", network.parameters());
    let trained = if options.cpu {
        on_cpu(&parameters, &pixels, options.epochs)?
    } else {
        gpu::train(&parameters, &pixels.features, &pixels.colors, options.epochs, options.implementation)?
    };
    let steps = options.epochs * (SIDE * SIDE / BATCH);
    let rate = steps as f64 / trained.seconds;
    println!(
        "{steps} steps in {:.3} s on {}: {rate:.0} steps/s, {:.1} million samples/s",
        trained.seconds,
        trained.place,
        rate * BATCH as f64 / 1e6
    );
    let error = mean_squared_error(&trained.outputs, &pixels.colors);
    println!("the picture: {:.2} dB", decibels(error));
    write(options, &pixels, &trained)
}

fn mean_squared_error(outputs: &[f32], colors: &[f32]) -> f64 {
    let width = outputs.len() / (colors.len() / COLORS);
    let pairs = outputs.chunks_exact(width).zip(colors.chunks_exact(COLORS));
    let squares = pairs.flat_map(|(output, color)| {
        output.iter().zip(color).map(|(output, color)| f64::from(output - color).powi(2))
    });
    squares.sum::<f64>() / colors.len() as f64
}

fn on_cpu(parameters: &Parameters, pixels: &Pixels, epochs: usize) -> Result<Trained, Failure> {
    let network = parameters.network();
    let mut field = Cpu::new(parameters);
    let mut optimizer = cpu::AdamW::new(network, settings(1.0));
    let mut gradients = vec![0.0; network.parameters()];
    let steps = pixels.order.len() / BATCH;
    let mut curve = Curve::new(epochs, steps);
    let start = Instant::now();
    for epoch in 0..epochs {
        optimizer.set_learning_rate(schedule(epoch, epochs));
        let mut sum = 0.0;
        let batches =
            pixels.features.chunks_exact(BATCH * FEATURES).zip(pixels.colors.chunks_exact(BATCH * COLORS));
        for (x, targets) in batches {
            let count = targets.len() as f64;
            sum += field.train(x, None, &mut gradients, |samples, y, dy| {
                let mut squares = 0.0;
                let rows = y.chunks_exact(network.outputs()).zip(dy.chunks_exact_mut(network.outputs()));
                for ((y, dy), target) in rows.zip(targets.chunks_exact(COLORS).skip(samples.start)) {
                    dy.fill(0.0);
                    for ((y, dy), target) in y.iter().zip(dy).zip(target) {
                        let difference = y - target;
                        squares += f64::from(difference).powi(2);
                        *dy = difference * 2.0 / targets.len() as f32;
                    }
                }
                squares / count
            })?;
            optimizer.step(&mut field, &gradients)?;
        }
        if curve.is_due(epoch) {
            curve.add(epoch, sum / steps as f64);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut outputs = vec![0.0; pixels.order.len() * network.outputs()];
    field.forward(&pixels.features, &mut outputs)?;
    let place = format!("{} threads of the CPU, fp32", field.threads());
    Ok(Trained { outputs, parameters: field.parameters().clone(), curve, seconds, place })
}

fn write(options: &Options, pixels: &Pixels, trained: &Trained) -> Result<(), Failure> {
    let folder = &options.output;
    std::fs::create_dir_all(folder)?;
    let target = pixels.picture(&pixels.colors, COLORS);
    let learned = pixels.picture(&trained.outputs, trained.outputs.len() / pixels.order.len());
    write_pair(&folder.join("field.png"), &target, &learned)?;

    let points: Vec<(f64, f64)> =
        trained.curve.points.iter().map(|&(step, loss)| (step as f64, loss.log10())).collect();
    let line = Line { label: "training".to_owned(), color: Color::nth(0), points };
    let chart = LineChart::new(
        "A picture learned from coordinates",
        AxisLabel::new("step"),
        AxisLabel::new("mean squared error, log10"),
        vec![line],
    )?;
    let chart =
        chart.subtitle(format!("{}, {BATCH} pixels a step; {}", trained.parameters.network(), trained.place));
    std::fs::write(folder.join("field_loss.svg"), chart.to_svg()?)?;
    trained.parameters.save(folder.join("field.safetensors"), Precision::F32)?;
    println!("wrote field.png, field_loss.svg and field.safetensors to {}", folder.display());
    Ok(())
}

/// Two pictures beside each other.
fn write_pair(path: &Path, left: &[u8], right: &[u8]) -> Result<(), Failure> {
    let file = std::fs::File::create(path)?;
    let side = u32::try_from(SIDE)?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), 2 * side, side);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Best);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::Adaptive);
    let rows = left.chunks_exact(3 * SIDE).zip(right.chunks_exact(3 * SIDE));
    let pixels: Vec<u8> = rows.flat_map(|(left, right)| [left, right].concat()).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}
