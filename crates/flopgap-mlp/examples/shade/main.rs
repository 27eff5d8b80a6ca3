//! Calls a network from a kernel of one's own: compiles `shade.cu` for a network 2-64-64-3, runs it
//! on the first GPU, and compares the picture with the CPU's. Without a GPU it is compiled alone.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::process::ExitCode;

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{ComputeCapability, Context};
use flopgap_mlp::cuda::{DeviceFunction, Target};
use flopgap_mlp::{Activation, Cpu, Network, Parameters};
use half::f16;

type Failure = Box<dyn std::error::Error>;

const KERNEL: &str = include_str!("shade.cu");
const THREADS: u32 = 128;
const SIDE: u32 = 200;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shade: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let network = Network::new(&[2, 64, 64, 3])?
        .with_activation(Activation::Relu)
        .with_output_activation(Activation::Sigmoid);
    let compiler = Compiler::new()?;
    let context = match Context::new(0) {
        Ok(context) => context,
        Err(error) => {
            let capability = ComputeCapability { major: 9, minor: 0 };
            let mlp = DeviceFunction::new::<f16>(&network, THREADS, Target::nominal(capability))?;
            let binary = mlp.kernel("shade.cu", KERNEL).compile(&compiler)?;
            let architecture = Architecture::from(capability);
            println!("{network}: {} bytes for {architecture}; not run: {error}", binary.image().len());
            return Ok(());
        }
    };

    let mlp = DeviceFunction::new::<f16>(&network, THREADS, Target::new(context.device()))?;
    let binary = mlp.kernel("shade.cu", KERNEL).compile(&compiler)?;
    let shade = context.load(&binary)?.kernel_with_shared("shade", mlp.shared_bytes())?;

    let parameters = Parameters::he(&network, 1);
    let stream = context.stream()?;
    let weights = stream.upload(&mlp.parameters::<f16>(&parameters)?)?;
    let mut colors = stream.zeros::<f32>((3 * SIDE * SIDE) as usize)?;
    let launch =
        Launch { shared: mlp.shared_bytes(), ..Launch::new(context.device().multiprocessors, THREADS) };
    let arguments = Arguments::default().read(&weights).write(&mut colors).u32(SIDE).u32(SIDE * SIDE);
    // SAFETY: these are the kernel's arguments; there are the network's parameters and three
    // numbers a pixel.
    unsafe { launch.queue(&stream, &shade, arguments) }?;
    let found = stream.download(&colors)?;

    let place = |pixel: u32| [pixel % SIDE, pixel / SIDE].map(|place| place as f32 / SIDE as f32);
    let x: Vec<f32> = (0..SIDE * SIDE).flat_map(place).collect();
    let mut expected = vec![0.0; found.len()];
    Cpu::new(&parameters).forward(&x, &mut expected)?;
    let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{}: {SIDE} x {SIDE} pixels, at most {difference:.1e} from the CPU", context.device().name);
    if difference < 5e-3 { Ok(()) } else { Err("the GPU's picture is another one".into()) }
}
