//! Networks that a user's kernel calls: compiled by NVRTC for every architecture, and run where
//! there is a GPU.

use flopgap_gpu::Context;
use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_mlp::cuda::{DeviceFunction, Target};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, relative_error};
use flopgap_mlp::{Activation, Element, MlpError, Network, Parameters, Precision, Size};
use half::{bf16, f16};

use super::kernels::{CAPABILITIES, compiler};
use crate::gpu;

/// The kernel of the example, and one that reads what it is asked.
const SHADE: &str = include_str!("../../../examples/shade/shade.cu");
const ASK: &str = r#"
extern "C" __global__ __launch_bounds__(MLP_THREADS) void ask(const Storage *parameters, const float *asked,
                                                              float *answers, unsigned batch) {
    extern __shared__ uint4 memory[];
    Mlp mlp(memory, parameters);
    for (unsigned first = blockIdx.x * MLP_THREADS; first < batch; first += gridDim.x * MLP_THREADS) {
        const unsigned sample = first + threadIdx.x;
        float x[MLP_INPUTS], y[MLP_OUTPUTS];
        for (int i = 0; i < MLP_INPUTS; ++i) x[i] = sample < batch ? asked[sample * MLP_INPUTS + i] : 0.0f;
        mlp(x, y);
        if (sample < batch)
            for (int i = 0; i < MLP_OUTPUTS; ++i) answers[sample * MLP_OUTPUTS + i] = y[i];
    }
}
"#;

fn target(architecture: &str) -> Target {
    Target::nominal(architecture.parse::<Architecture>().unwrap().capability)
}

fn color() -> Network {
    Network::new(&[2, 64, 64, 3]).unwrap().with_output_activation(Activation::Sigmoid)
}

/// The networks that are run: padded, with one hidden layer and with several, of all activations
/// together.
fn networks() -> Vec<Network> {
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    vec![
        color(),
        Size::Small.network(),
        of(&[3, 20, 1]).with_bias(false).with_activation(Activation::Silu),
        of(&[3, 20, 9, 1]).with_biases(&[true, false, true]).unwrap().with_activation(Activation::Silu),
        of(&[24, 40, 56, 8]).with_activation(Activation::Gelu).with_output_activation(Activation::Tanh),
        of(&[128, 64, 16]).with_activation(Activation::Relu),
    ]
}

#[test]
fn a_users_kernel_compiles_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    let check = |mlp: Result<DeviceFunction, MlpError>, name: &str| {
        let binary = mlp.unwrap().kernel("shade.cu", SHADE).compile(&compiler).unwrap();
        let log = binary.log();
        assert!(!log.contains("warning"), "{name}: {log}");
        // Once another test works on a GPU, NVRTC no longer reports.
        if !log.is_empty() || flopgap_gpu::Device::count().is_err() {
            assert_eq!(log.matches("Compiling entry function").count(), 1, "{name}: {log}");
            assert!(log.contains(" 0 bytes spill stores"), "{name}: {log}");
        }
    };
    for architecture in CAPABILITIES {
        check(DeviceFunction::new::<f16>(&color(), 128, target(architecture)), architecture);
    }
    check(DeviceFunction::new::<bf16>(&color(), 256, target("sm_80")), "bf16");
    check(DeviceFunction::new::<f32>(&color(), 32, target("sm_90")), "fp32");
}

#[test]
fn what_cannot_be_called_is_refused() {
    let target = target("sm_80");
    for threads in [0, 48, 2048] {
        let error = DeviceFunction::new::<f16>(&color(), threads, target).unwrap_err();
        assert!(error.to_string().contains(&format!("a block of {threads} threads")), "{error}");
    }
    let error = DeviceFunction::new::<f16>(&Size::XLarge.network(), 128, target).unwrap_err();
    assert!(matches!(error, MlpError::Unsupported { .. }), "{error}");
    let wide = Network::new(&[256, 256, 256, 64]).unwrap();
    let error = DeviceFunction::new::<f16>(&wide, 128, target).unwrap_err();
    assert!(error.to_string().contains("bytes of shared memory"), "{error}");

    let mlp = DeviceFunction::new::<f16>(&color(), 128, target).unwrap();
    let error = mlp.parameters::<bf16>(&Parameters::he(&color(), 1)).unwrap_err();
    assert_eq!(error, MlpError::Precision { expected: Precision::F16, found: Precision::Bf16 });
    let other = Parameters::he(&Size::Small.network(), 1);
    assert!(matches!(mlp.parameters::<f16>(&other), Err(MlpError::Length { .. })));
    assert_eq!(mlp.parameters::<f16>(&Parameters::he(&color(), 1)).unwrap().len(), 5_256);
}

fn answers<T: Element>(context: &Context, network: &Network) {
    let mlp = DeviceFunction::new::<T>(network, 96, Target::new(context.device())).unwrap();
    let binary = mlp.kernel("ask.cu", ASK).compile(&Compiler::new().unwrap()).unwrap();
    let kernel = context.load(&binary).unwrap().kernel_with_shared("ask", mlp.shared_bytes()).unwrap();
    let stream = context.stream().unwrap();
    for (seed, batch) in [(1, 1_usize), (2, 95), (3, 5_001)] {
        let parameters = Parameters::he(network, seed).rounded::<T>();
        let count = batch * network.inputs();
        let x: Vec<f32> =
            (0..count as u64).map(|i| T::narrow(uniform(seed, (1 << 40) + i)).widen()).collect();
        let weights = stream.upload(&mlp.parameters::<T>(&parameters).unwrap()).unwrap();
        let asked = stream.upload(&x).unwrap();
        let mut found = stream.upload(&vec![f32::NAN; batch * network.outputs()]).unwrap();
        let launch = Launch { shared: mlp.shared_bytes(), ..Launch::new(20, 96) };
        let samples = u32::try_from(batch).unwrap();
        let arguments = Arguments::default().read(&weights).read(&asked).write(&mut found).u32(samples);
        // SAFETY: these are the kernel's arguments, and the arrays have the rows that it reads and
        // writes.
        unsafe { launch.queue(&stream, &kernel, arguments) }.unwrap();
        let mut none = vec![0.0; batch * network.outputs()];
        let truth = reference::run_off_kinks(&parameters, &x, &mut none).unwrap();
        let allowed = Errors::allowed(T::PRECISION, &parameters, &x, &none, &truth).unwrap().outputs;
        let error = relative_error(&stream.download(&found).unwrap(), &truth.outputs);
        assert!(error <= allowed, "{network} {} batch {batch}: {error:.2e}, {allowed:.2e}", T::PRECISION);
    }
}

#[test]
fn a_users_kernel_gets_the_answers_of_the_network() {
    let Some((context, _guard)) = gpu() else { return };
    for network in networks() {
        answers::<f32>(&context, &network);
        answers::<f16>(&context, &network);
        if context.device().compute_capability.major >= 8 {
            answers::<bf16>(&context, &network);
        }
    }
}
