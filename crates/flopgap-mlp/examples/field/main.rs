//! Learns a picture as a function of the coordinates: `field [--cpu] [--encoding
//! fourier|frequency|hash] [--epochs N] [--implementation NAME] [--output FOLDER]`.
//!
//! Coordinates are encoded as sines and cosines, of random frequencies (`fourier`) or of octaves
//! (`frequency`), or by a trained table (`hash`). A network of three hidden layers makes a color of
//! them, and `AdamW` brings the mean squared error down; on a GPU in half precision with one CUDA
//! graph for an epoch, with `--cpu` in 32 bits on all cores. Prints the loss and the speed, and
//! writes the target next to what was learned (`field.png`), the loss (`field_loss.svg`) and the
//! parameters of the network (`field.safetensors`).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

#[path = "../common/mod.rs"]
mod common;
mod scene;

use std::path::PathBuf;
use std::process::ExitCode;

use flopgap_mlp::cuda::Implementation;
use flopgap_mlp::encoding::{Encoding, Frequency, HashGrid, HashGridSettings};
use flopgap_mlp::{Activation, Network, Parameters, Precision};

use common::{Failure, Task, Trained, cpu, gpu, write_losses, write_pair};
use scene::{FEATURES, Pixels, SIDE};

/// Outputs that count; the network has 8.
const COLORS: usize = 3;
/// Pixels of a step: a quarter of the picture.
const BATCH: usize = 16_384;

/// How coordinates become inputs of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fourier,
    Frequency,
    Hash,
}

struct Options {
    cpu: bool,
    kind: Kind,
    epochs: usize,
    implementation: Implementation,
    output: PathBuf,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("field: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options {
        cpu: false,
        kind: Kind::Fourier,
        epochs: 0,
        implementation: Implementation::Auto,
        output: PathBuf::from("."),
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--cpu" => options.cpu = true,
            "--encoding" => {
                options.kind = match value()?.as_str() {
                    "fourier" => Kind::Fourier,
                    "frequency" => Kind::Frequency,
                    "hash" => Kind::Hash,
                    other => {
                        return Err(format!(
                            "invalid encoding `{other}`; expected fourier, frequency or hash"
                        )
                        .into());
                    }
                }
            }
            "--epochs" => {
                options.epochs = value()?.parse().map_err(|error| format!("--epochs: {error}"))?;
            }
            "--implementation" => options.implementation = value()?.parse()?,
            "--output" => options.output = value()?.into(),
            _ => {
                return Err(format!(
                    "{argument}: [--cpu] [--encoding fourier|frequency|hash] [--epochs N] [--implementation NAME] \
                     [--output FOLDER]"
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

/// What is computed of coordinates in each step; random Fourier features are computed before.
fn encoding(kind: Kind) -> Result<Option<Encoding>, Failure> {
    Ok(match kind {
        Kind::Fourier => None,
        Kind::Frequency => Some(Frequency::new(2, 8)?.into()),
        Kind::Hash => Some(
            HashGrid::new(HashGridSettings {
                dimensions: 2,
                levels: 8,
                features: 2,
                log2_entries: 12,
                base_resolution: 8,
                growth: 1.6,
            })?
            .into(),
        ),
    })
}

fn run(options: &Options) -> Result<(), Failure> {
    let (pixels, encoding) = (Pixels::mixed(), encoding(options.kind)?);
    let inputs = encoding.as_ref().map_or(FEATURES, Encoding::width);
    let network = Network::new(&[inputs, 64, 64, 64, 8])?.with_output_activation(Activation::Sigmoid);
    let samples = if encoding.is_some() { pixels.places.clone() } else { pixels.features() };
    let task = Task {
        parameters: Parameters::he(&network, 1),
        encoding,
        samples,
        targets: pixels.colors.clone(),
        columns: COLORS,
        batch: BATCH,
        epochs: options.epochs,
        loss_scale: 4096.0,
        report: &|step, loss| println!("step {step:>6}  loss {loss:.3e}  {:.2} dB", decibels(loss)),
    };
    println!("{network}, {} parameters, {SIDE} x {SIDE} pixels, {BATCH} a step", task.parameters());
    if let Some(encoding) = &task.encoding {
        println!("{encoding}");
    }
    let mut trained =
        if options.cpu { cpu::train(&task)? } else { gpu::train(&task, options.implementation)? };
    println!("{}", trained.speed(BATCH));
    let outputs = trained.field.outputs(&task.samples)?;
    println!("the picture: {:.2} dB", decibels(mean_squared_error(&outputs, &pixels.colors)));
    write(options, &pixels, &outputs, &trained)
}

/// The ratio of peak to noise.
fn decibels(loss: f64) -> f64 {
    -10.0 * loss.log10()
}

fn mean_squared_error(outputs: &[f32], colors: &[f32]) -> f64 {
    let squares = outputs.iter().zip(colors).map(|(output, color)| f64::from(output - color).powi(2));
    squares.sum::<f64>() / colors.len() as f64
}

fn write(options: &Options, pixels: &Pixels, outputs: &[f32], trained: &Trained) -> Result<(), Failure> {
    let folder = &options.output;
    std::fs::create_dir_all(folder)?;
    let (target, learned) = (pixels.picture(&pixels.colors), pixels.picture(outputs));
    write_pair(&folder.join("field.png"), SIDE, &target, &learned)?;
    let title = "A picture learned from coordinates";
    write_losses(&folder.join("field_loss.svg"), title, BATCH, trained)?;
    trained.parameters.save(folder.join("field.safetensors"), Precision::F32)?;
    println!("wrote field.png, field_loss.svg and field.safetensors to {}", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_of(text: &str) -> Result<Options, Failure> {
        options(text.split(' ').map(str::to_owned))
    }

    #[test]
    fn a_picture_is_learned_from_sines_of_octaves_on_the_cpu() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options_of("--cpu --encoding frequency --epochs 2").unwrap();
        options.output = folder.path().to_owned();
        run(&options).unwrap();
        let picture = std::fs::File::open(folder.path().join("field.png")).unwrap();
        let picture = png::Decoder::new(std::io::BufReader::new(picture)).read_info().unwrap();
        assert_eq!((picture.info().width, picture.info().height), (512, 256));
        assert!(folder.path().join("field_loss.svg").exists());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = run(&options_of("--cpu --encoding hash").unwrap()).unwrap_err().to_string();
        assert_eq!(error, "the table of a hash grid is trained on a GPU; use another encoding with --cpu");
        let error = options_of("--encoding waves").map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "invalid encoding `waves`; expected fourier, frequency or hash");
    }
}
