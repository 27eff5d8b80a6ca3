//! The kernels, without a GPU: NVRTC compiles them for every architecture.

use flopgap_gpu::compile::Architecture;
use flopgap_kernels::{KernelClass, classify};
use flopgap_mlp::Precision;
use flopgap_mlp::cuda::{Target, encoding};

use crate::dense::kernels::{CAPABILITIES, compiler, read_log};

/// All encodings on Hopper and Turing, and the first and last of each kind on the others: what they
/// compile does not depend on the architecture otherwise.
#[test]
fn encodings_compile_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    let all = super::encodings();
    for capability in CAPABILITIES {
        let target = Target::nominal(capability.parse::<Architecture>().unwrap().capability);
        let is_first = ["sm_90", "sm_75"].contains(&capability);
        let some = all.iter().enumerate().filter(|(index, _)| is_first || [2, 5, 9].contains(index));
        for (encoding, precision) in
            some.flat_map(|(_, one)| Precision::ALL.map(|precision| (one, precision)))
        {
            let binary = encoding::source(encoding, precision, target).compile(&compiler).unwrap();
            if let Err(problem) = read_log(&encoding.to_string(), binary.log(), 0) {
                panic!("{precision} {capability}, {problem}");
            }
        }
    }
}

#[test]
fn kernels_have_the_class_that_their_work_has() {
    for (name, class) in [
        ("frequency_encoding_elementwise", KernelClass::Elementwise),
        ("frequency_encoding_elementwise_backward", KernelClass::Elementwise),
        ("hash_grid_encoding_gather", KernelClass::Index),
        ("hash_grid_encoding_scatter", KernelClass::Index),
    ] {
        assert_eq!(classify(name).class, class, "{name}");
    }
}
