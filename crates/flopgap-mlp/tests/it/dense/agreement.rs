//! On a GPU: outputs and gradients against the 64-bit reference, on fresh random inputs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flopgap_gpu::{ComputeCapability, Context, Stream};
use flopgap_mlp::cuda::{Implementation, Model, Options, Reduction};
use flopgap_mlp::{Activation, Element, MlpError, Network, Precision, Size};
use half::{bf16, f16};

use super::{BATCHES, networks};
use crate::case::{Case, Found, check};
use crate::gpu;

/// Every byte of an array before a pass writes it: not a number in all three types.
const POISON: u8 = 0xff;

/// Every array that a pass writes is poisoned before it.
fn compute<T: Element>(stream: &Stream, model: &Model<T>, case: &Case<T>) -> Found<T> {
    let batch = case.x.len() / case.network.inputs();
    let (x, dy) = (stream.upload(&case.x).unwrap(), stream.upload(&case.dy).unwrap());
    let mut y = stream.zeros(case.dy.len()).unwrap();
    stream.fill(&mut y, POISON).unwrap();
    model.forward(stream, &x, &mut y).unwrap();
    let inference = stream.download(&y).unwrap();
    let mut tape = model.tape(stream, batch).unwrap();
    let mut dx = stream.zeros(case.x.len()).unwrap();
    let mut gradients = stream.zeros(case.network.parameters()).unwrap();
    // Twice: the workspace of the first pass serves the second.
    for _ in 0..2 {
        stream.fill(&mut y, POISON).unwrap();
        stream.fill(&mut dx, POISON).unwrap();
        stream.fill(&mut gradients, POISON).unwrap();
        model.forward_train(stream, &x, &mut y, &mut tape).unwrap();
        model.backward(stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients).unwrap();
    }
    let found = Found {
        y: stream.download(&y).unwrap(),
        dx: stream.download(&dx).unwrap(),
        gradients: stream.download(&gradients).unwrap(),
    };
    let bits = |numbers: &[T]| -> Vec<u32> { numbers.iter().map(|n| n.widen().to_bits()).collect() };
    assert_eq!(bits(&inference), bits(&found.y), "with and without a tape");
    found
}

/// Every batch of one network on one implementation. What it does not have is said.
fn every_batch<T: Element>(context: &Context, options: Options, network: &Network) {
    // Blocks that go through several tiles, and their warpgroups alternately, where the 64-bit
    // reference does not take long.
    let many = match network.parameters() {
        0..10_000 => Some(40_000),
        10_000..20_000 => Some(20_000),
        20_000..50_000 => Some(9_000),
        _ => None,
    };
    let many = many.filter(|_| T::PRECISION != Precision::F32);
    let batches: Vec<usize> = BATCHES.into_iter().chain(many).collect();
    batches_of::<T>(context, options, network, &batches);
}

/// Few samples: enough for code that does not depend on their number, where deep networks keep the
/// 64-bit reference busy.
fn few_samples<T: Element>(context: &Context, options: Options, network: &Network) {
    batches_of::<T>(context, options, network, &[1, 31, 300]);
}

fn batches_of<T: Element>(context: &Context, options: Options, network: &Network, batches: &[usize]) {
    let implementation = options.implementation;
    let stream = context.stream().unwrap();
    let mut model = match Model::<T>::new(context, network, options) {
        Ok(model) => model,
        Err(error @ MlpError::Unsupported { .. }) => return eprintln!("{network}: {error}"),
        Err(error) => panic!("{network}: {error}"),
    };
    for (index, &batch) in batches.iter().enumerate() {
        let case = Case::<T>::new(network, batch, 100 + index as u64);
        model.upload(&stream, &case.parameters).unwrap();
        let found = compute(&stream, &model, &case);
        let plan = options.plan.map(|plan| format!(" planned for {plan}")).unwrap_or_default();
        check(&format!("{implementation} {}{plan} {network} batch {batch}", T::PRECISION), &case, &found);
        // The fixed order of sums: the same bits again. Naive has atomic additions only.
        if implementation != Implementation::Naive {
            let again = compute(&stream, &model, &case);
            assert_eq!(found.gradients, again.gradients, "{implementation} {network} batch {batch}");
        }
    }
}

/// Every network in every precision. Compiling and the 64-bit reference take the time, so that all
/// cores share them.
fn every_precision(implementation: Implementation) {
    let Some((context, _guard)) = gpu() else { return };
    all_at_once(&context, Options::new(implementation), &networks(), EVERY_BATCH);
}

/// One check for each precision.
type Checks = [fn(&Context, Options, &Network); 3];
const EVERY_BATCH: Checks = [every_batch::<f32>, every_batch::<f16>, every_batch::<bf16>];
const FEW_SAMPLES: Checks = [few_samples::<f32>, few_samples::<f16>, few_samples::<bf16>];

fn all_at_once(context: &Context, options: Options, networks: &[Network], cases: Checks) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(network) = networks.get(index / cases.len()) else { break };
                    cases[index % cases.len()](context, options, network);
                }
            });
        }
    });
}

/// Many inputs of a narrow hidden layer, whose weights are streamed on Hopper: the next tile's
/// inputs are brought with the very last weights of this one.
#[test]
fn coopmat_has_the_next_inputs_come_with_the_last_weights() {
    let Some((context, _guard)) = gpu() else { return };
    let network = Network::new(&[784, 16, 16]).unwrap().with_activation(Activation::Tanh);
    every_batch::<f16>(&context, Options::new(Implementation::Coopmat), &network);
}

/// Wide networks whose weights are streamed on Hopper: layers that are no multiple of 16 wide, of
/// one part and of several with a narrow last one; inputs too wide to stay in shared memory, of
/// more and of fewer chunks than its ring has places; three layers; tiles that other blocks have.
#[test]
fn coopmat_streams_wide_layers() {
    let Some((context, _guard)) = gpu() else { return };
    let networks: Vec<Network> = [
        &[264, 264, 8][..],
        &[512, 200, 24],
        &[520, 520, 128],
        &[784, 128, 16],
        &[1024, 1024, 128],
        &[776, 392, 104, 8],
        &[1000, 8, 8],
    ]
    .iter()
    .map(|widths| Network::new(widths).unwrap())
    .collect();
    for network in &networks {
        wide::<f16>(&context, network);
        wide::<bf16>(&context, network);
    }
}

/// Samples of one tile, of several clusters, and more than a wave of blocks takes.
fn wide<T: Element>(context: &Context, network: &Network) {
    batches_of::<T>(context, Options::new(Implementation::Coopmat), network, &[1, 1_100, 20_000]);
}

#[test]
fn naive_is_the_reference_within_its_precision() {
    every_precision(Implementation::Naive);
}

#[test]
fn forloop_is_the_reference_within_its_precision() {
    every_precision(Implementation::Forloop);
}

#[test]
fn coopvec_is_the_reference_within_its_precision() {
    every_precision(Implementation::Coopvec);
}

#[test]
fn coopmat_is_the_reference_within_its_precision() {
    every_precision(Implementation::Coopmat);
}

/// Networks whose code would take the compiler minutes if every layer and every piece of it had its
/// own: their kernels have loops.
#[test]
fn kernels_with_loops_are_the_reference_within_their_precision() {
    let Some((context, _guard)) = gpu() else { return };
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    let alternating: Vec<usize> = (0..23).map(|layer| 8 + 8 * (layer * 7 % 11)).collect();
    let networks = [
        of(&[64; 41]).with_activation(Activation::Tanh),
        of(&[[32].as_slice(), &[64; 12], &[16]].concat()).with_activation(Activation::Gelu),
        of(&alternating).with_activation(Activation::Silu),
        of(&[128, 136, 72, 16, 32, 168]).with_activation(Activation::Tanh),
        of(&[8, 24, 512, 88]).with_activation(Activation::Gelu).with_output_activation(Activation::Gelu),
        of(&[256, 256, 256, 256, 256, 256, 64]).with_activation(Activation::Silu),
    ];
    for implementation in Implementation::ALL {
        all_at_once(&context, Options::new(implementation), &networks, FEW_SAMPLES);
    }
}

/// What Turing, Ampere and Ada run, compiled for the GPU at hand.
#[test]
fn kernels_of_older_architectures_are_the_reference_within_their_precision() {
    let Some((context, _guard)) = gpu() else { return };
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    let networks = [
        Size::Small.network(),
        Size::XLarge.network(),
        of(&[72, 136, 24]).with_activation(Activation::Tanh),
        of(&[16, 32, 32, 32, 32, 16]).with_output_activation(Activation::Sigmoid),
        of(&[128, 256, 8]).with_activation(Activation::Gelu),
    ];
    for (major, minor) in [(7, 5), (8, 0), (8, 6), (8, 9)] {
        let older = ComputeCapability { major, minor };
        if older >= context.device().compute_capability {
            eprintln!("sm_{major}{minor} is no older than this GPU");
            continue;
        }
        for implementation in [Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat] {
            let options = Options { plan: Some(older), ..Options::new(implementation) };
            all_at_once(&context, options, &networks, EVERY_BATCH);
        }
    }
}

fn atomic_additions<T: Element>(context: &Context, implementation: Implementation, networks: &[&[usize]]) {
    let stream = context.stream().unwrap();
    let options = Options { reduction: Reduction::Atomic, ..Options::new(implementation) };
    for widths in networks {
        let network = Network::new(widths).unwrap();
        let mut model = Model::<T>::new(context, &network, options).unwrap();
        for kernel in model.facts().unwrap() {
            assert!(!kernel.name.ends_with("_sum") && !kernel.name.ends_with("_add"), "{}", kernel.name);
        }
        // More samples than the kernels for few take, of which no two blocks compute the same
        // gradients.
        for batch in [1_000, 1_500] {
            let case = Case::<T>::new(&network, batch, 7);
            model.upload(&stream, &case.parameters).unwrap();
            let found = compute(&stream, &model, &case);
            check(&format!("{implementation} {} {network} atomic", T::PRECISION), &case, &found);
        }
    }
}

/// Networks for each way that the gradients of the parameters are shared among blocks.
#[test]
fn atomic_additions_give_the_same_gradients() {
    let Some((context, _guard)) = gpu() else { return };
    for implementation in [Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat] {
        atomic_additions::<f32>(&context, implementation, &[&[64, 64, 16]]);
        atomic_additions::<f16>(
            &context,
            implementation,
            &[&[64, 64, 16], &[256, 256, 64], &[72, 64, 40, 8]],
        );
    }
}
