//! An encoding and a network in a user's kernel: compiled by NVRTC for every architecture, and run
//! where there is a GPU.

use flopgap_gpu::Context;
use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_mlp::cuda::{DeviceFunction, Target};
use flopgap_mlp::encoding::Encoding;
use flopgap_mlp::numerics::{relative_error, uniform};
use flopgap_mlp::reference::{self, Errors};
use flopgap_mlp::{Element, MlpError, Network, Parameters};
use half::{bf16, f16};

use super::encodings;
use crate::dense::kernels::{CAPABILITIES, compiler, read_log};
use crate::gpu;

const FIELD: &str = r#"
extern "C" __global__ __launch_bounds__(MLP_THREADS) void field(const Storage *parameters, const Storage *table,
                                                                const float *positions, float *answers, unsigned batch) {
    extern __shared__ uint4 memory[];
    Mlp mlp(memory, parameters);
    for (unsigned first = blockIdx.x * MLP_THREADS; first < batch; first += gridDim.x * MLP_THREADS) {
        const unsigned sample = first + threadIdx.x;
        float position[ENCODING_DIMENSIONS], x[MLP_INPUTS], y[MLP_OUTPUTS];
        for (int d = 0; d < ENCODING_DIMENSIONS; ++d)
            position[d] = sample < batch ? positions[sample * ENCODING_DIMENSIONS + d] : 0.0f;
        encode(table, position, x);
        mlp(x, y);
        if (sample < batch)
            for (int i = 0; i < MLP_OUTPUTS; ++i) answers[sample * MLP_OUTPUTS + i] = y[i];
    }
}
"#;

const THREADS: u32 = 128;

/// Of a frequency encoding, a grid in two dimensions and one in three.
fn fields() -> [(Encoding, Network); 3] {
    [2, 4, 10].map(|index| {
        let encoding = encodings().swap_remove(index);
        let network = Network::new(&[encoding.width(), 64, 64, 3]).unwrap();
        (encoding, network)
    })
}

#[test]
fn an_encoded_network_compiles_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    let check = |mlp: Result<DeviceFunction, MlpError>, name: &str| {
        let binary = mlp.unwrap().kernel("field.cu", FIELD).compile(&compiler).unwrap();
        if let Err(problem) = read_log(name, binary.log(), 0) {
            panic!("{problem}");
        }
    };
    for (encoding, network) in fields() {
        for capability in CAPABILITIES {
            let target = Target::nominal(capability.parse::<Architecture>().unwrap().capability);
            check(DeviceFunction::encoded::<f16>(&network, &encoding, THREADS, target), capability);
        }
        let target = Target::nominal("sm_90".parse::<Architecture>().unwrap().capability);
        check(DeviceFunction::encoded::<bf16>(&network, &encoding, THREADS, target), "bf16");
        check(DeviceFunction::encoded::<f32>(&network, &encoding, THREADS, target), "fp32");
    }
}

#[test]
fn a_network_of_another_width_is_refused() {
    let [(encoding, _), ..] = fields();
    let target = Target::nominal("sm_90".parse::<Architecture>().unwrap().capability);
    let network = Network::new(&[8, 64, 3]).unwrap();
    let error = DeviceFunction::encoded::<f16>(&network, &encoding, THREADS, target).unwrap_err();
    assert_eq!(error.to_string(), "inputs of a network after an encoding: expected 30 numbers, found 8");
}

fn answers<T: Element>(context: &Context, encoding: &Encoding, network: &Network) {
    const BATCH: u32 = 1_001;
    let batch = BATCH as usize;
    let target = Target::new(context.device());
    let mlp = DeviceFunction::encoded::<T>(network, encoding, THREADS, target).unwrap();
    let binary = mlp.kernel("field.cu", FIELD).compile(&Compiler::new().unwrap()).unwrap();
    let kernel = context.load(&binary).unwrap().kernel_with_shared("field", mlp.shared_bytes()).unwrap();
    let stream = context.stream().unwrap();
    let parameters = Parameters::he(network, 1).rounded::<T>();
    // A frequency encoding has no table; an empty buffer has no address.
    let numbers = encoding.parameters().max(1) as u64;
    let table: Vec<T> = (0..numbers).map(|i| T::narrow(uniform(2, i))).collect();
    let positions: Vec<f32> =
        (0..batch * encoding.dimensions()).map(|i| 0.5 + 0.5 * uniform(3, i as u64)).collect();

    let weights = stream.upload(&mlp.parameters::<T>(&parameters).unwrap()).unwrap();
    let on_gpu = stream.upload(&table).unwrap();
    let places = stream.upload(&positions).unwrap();
    let mut found = stream.upload(&vec![f32::NAN; batch * network.outputs()]).unwrap();
    let launch = Launch { shared: mlp.shared_bytes(), ..Launch::new(5, THREADS) };
    let arguments = Arguments::default().read(&weights).read(&on_gpu).read(&places).write(&mut found);
    // SAFETY: these are the kernel's arguments, and the arrays have the rows that it reads and
    // writes.
    unsafe { launch.queue(&stream, &kernel, arguments.u32(BATCH)) }.unwrap();

    let wide: Vec<f32> = table[..encoding.parameters()].iter().map(|value| value.widen()).collect();
    let x = encoding.encode(&wide, &positions).unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "rounded as the kernel does")]
    let x: Vec<f32> = x.into_iter().map(|x| T::narrow(x as f32).widen()).collect();
    let none = vec![0.0; batch * network.outputs()];
    let truth = reference::run(&parameters, &x, &none, reference::Rounding::None).unwrap();
    let allowed = Errors::allowed(T::PRECISION, &parameters, &x, &none, &truth).unwrap().outputs;
    let error = relative_error(&stream.download(&found).unwrap(), &truth.outputs);
    assert!(error <= allowed + 1e-6, "{encoding} {}: {error:.2e}, {allowed:.2e}", T::PRECISION);
}

#[test]
fn an_encoded_network_gets_the_answers_of_the_reference() {
    let Some((context, _guard)) = gpu() else { return };
    for (encoding, network) in fields() {
        answers::<f32>(&context, &encoding, &network);
        answers::<f16>(&context, &encoding, &network);
        if context.device().compute_capability.major >= 8 {
            answers::<bf16>(&context, &encoding, &network);
        }
    }
}
