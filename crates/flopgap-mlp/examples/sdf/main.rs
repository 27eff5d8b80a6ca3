//! Learns the signed distance from a shape: `sdf [--cpu] [--epochs N] [--implementation NAME]
//! [--output FOLDER]`.
//!
//! The shape is a torus joined smoothly with a box, in the unit cube. On a GPU, positions are
//! encoded by a hash grid in three dimensions, and its table and a network with two hidden layers
//! are trained in half precision; with `--cpu` by sines and cosines of octaves, and the network in
//! 32 bits. Prints the loss, the speed and the mean absolute error of the distance, and writes the
//! surface itself next to the learned one, both traced by their distances (`sdf.png`), the loss
//! (`sdf_loss.svg`) and the parameters of the network (`sdf.safetensors`).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

#[path = "../common/mod.rs"]
mod common;
mod render;
mod shape;

use std::path::PathBuf;
use std::process::ExitCode;

use flopgap_mlp::cuda::Implementation;
use flopgap_mlp::encoding::{Encoding, Frequency, HashGrid, HashGridSettings};
use flopgap_mlp::{Activation, Network, Parameters, Precision};

use common::{Failure, Task, cpu, gpu, write_losses, write_pair};

/// Steps of an epoch.
const STEPS: usize = 16;

struct Options {
    cpu: bool,
    epochs: usize,
    implementation: Implementation,
    output: PathBuf,
    /// Places that are learned from.
    samples: usize,
    /// Width and height of a picture in pixels.
    side: usize,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sdf: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options {
        cpu: false,
        epochs: 0,
        implementation: Implementation::Auto,
        output: PathBuf::from("."),
        samples: 1 << 20,
        side: 256,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--cpu" => (options.cpu, options.samples) = (true, 1 << 16),
            "--epochs" => {
                options.epochs = value()?.parse().map_err(|error| format!("--epochs: {error}"))?;
            }
            "--implementation" => options.implementation = value()?.parse()?,
            "--output" => options.output = value()?.into(),
            _ => {
                let known = "[--cpu] [--epochs N] [--implementation NAME] [--output FOLDER]";
                return Err(format!("{argument}: {known}").into());
            }
        }
    }
    if options.epochs == 0 {
        options.epochs = if options.cpu { 100 } else { 200 };
    }
    Ok(options)
}

fn encoding(cpu: bool) -> Result<Encoding, Failure> {
    Ok(if cpu {
        Frequency::new(3, 3)?.into()
    } else {
        HashGrid::new(HashGridSettings {
            levels: 8,
            log2_entries: 16,
            base_resolution: 8,
            growth: 1.6,
            ..HashGridSettings::default()
        })?
        .into()
    })
}

/// The mean absolute error of the distance.
fn run(options: &Options) -> Result<f64, Failure> {
    let encoding = encoding(options.cpu)?;
    let network = Network::new(&[encoding.width(), 64, 64, 8])?
        .with_activation(Activation::Relu)
        .with_output_activation(Activation::Identity);
    let places = shape::places(1, options.samples);
    let batch = options.samples / STEPS;
    let task = Task {
        parameters: Parameters::he(&network, 1),
        encoding: Some(encoding.clone()),
        targets: shape::distances(&places),
        samples: places,
        columns: 1,
        batch,
        epochs: options.epochs,
        // Gradients by the outputs are then twice the error, whatever the batch.
        loss_scale: batch as f32,
        report: &|step, loss| println!("step {step:>6}  loss {loss:.3e}"),
    };
    println!("{network}, {} parameters, {} places, {batch} a step", task.parameters(), options.samples);
    println!("{encoding}");
    let mut trained =
        if options.cpu { cpu::train(&task)? } else { gpu::train(&task, options.implementation)? };
    println!("{}", trained.speed(batch));

    let others = shape::places(2, options.samples.min(1 << 16));
    let (found, exact) = (trained.field.outputs(&others)?, shape::distances(&others));
    let differences = found.iter().zip(&exact).map(|(found, exact)| f64::from((found - exact).abs()));
    let error = differences.sum::<f64>() / exact.len() as f64;
    println!("the distance: mean absolute error {error:.2e}, where the cube is 1 wide");

    std::fs::create_dir_all(&options.output)?;
    let exact = render::picture(options.side, &mut |places| Ok(shape::distances(places)))?;
    let learned = render::picture(options.side, &mut |places| trained.field.outputs(places))?;
    write_pair(&options.output.join("sdf.png"), options.side, &exact, &learned)?;
    let title = "A signed distance learned from positions";
    write_losses(&options.output.join("sdf_loss.svg"), title, batch, &trained)?;
    trained.parameters.save(options.output.join("sdf.safetensors"), Precision::F32)?;
    println!("wrote sdf.png, sdf_loss.svg and sdf.safetensors to {}", options.output.display());
    Ok(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_learned_on_the_cpu() {
        let folder = tempfile::tempdir().unwrap();
        let of = |epochs| Options {
            cpu: true,
            epochs,
            implementation: Implementation::Auto,
            output: folder.path().to_owned(),
            samples: 4_096,
            side: 32,
        };
        let (first, last) = (run(&of(1)).unwrap(), run(&of(40)).unwrap());
        assert!(last < 0.03 && last < 0.2 * first, "mean absolute errors {first:.2e} and {last:.2e}");
        let picture = std::fs::File::open(folder.path().join("sdf.png")).unwrap();
        let mut picture = png::Decoder::new(std::io::BufReader::new(picture)).read_info().unwrap();
        let mut pixels = vec![0; picture.output_buffer_size().unwrap()];
        picture.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels.len(), 3 * 64 * 32);
        // The shape is in the middle of the left half, and the background in its corner.
        let red_over_blue = |x: usize, y: usize| pixels[3 * (64 * y + x)] > pixels[3 * (64 * y + x) + 2];
        assert!(red_over_blue(16, 16) && !red_over_blue(0, 0));
    }

    #[test]
    fn the_distance_is_that_of_its_parts() {
        // Beyond the torus along its axis of x, and inside the box.
        assert!((shape::distance([0.96, 0.5, 0.5]) - 0.1).abs() < 1e-6);
        assert!(shape::distance([0.5, 0.5, 0.5]) < -0.06);
        let near = shape::distances(&shape::places(3, 1_000)).into_iter().skip(1).step_by(2);
        assert!(near.map(f32::abs).fold(0.0, f32::max) < 0.2);
    }
}
