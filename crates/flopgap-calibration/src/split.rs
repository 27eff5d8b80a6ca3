//! Divides workloads into the parts of a cross-validation.
//!
//! The part of a workload depends on what was run alone: never on its time, on the row's place in a
//! file, or on what else there is. All rows of a workload, in any precision and mode and from any
//! engine, are in one part. The hash is part of the accuracy that is stated, and frozen: a test
//! holds it.

use flopgap_graph::Workload;

/// The seed of the hash.
pub const SEED: u64 = 14;

/// What a whole network is called, without its batch: `resnet50`, `mlp 784-256-10`, a file's name.
/// `None` for a single step.
pub fn model_name(workload: &Workload) -> Option<String> {
    match workload {
        Workload::Step(_) => None,
        Workload::Resnet(spec) => Some(format!("resnet{}", spec.depth)),
        Workload::Mlp(spec) => {
            let widths = std::iter::once(spec.input).chain(spec.hidden.iter().copied());
            let widths: Vec<String> = widths.chain([spec.output]).map(|width| width.to_string()).collect();
            Some(format!("mlp {}", widths.join("-")))
        }
        Workload::File(spec) => Some(spec.name.clone()),
    }
}

/// A number for each workload, by which it belongs to a part. A step's epilogue does not count: a
/// product with a bias is in the part of the product without.
pub fn order(workload: &Workload) -> u64 {
    let json = match workload {
        Workload::Step(step) => serde_json::to_vec(&step.op),
        network => serde_json::to_vec(network),
    };
    // Serialization of these types cannot fail: their maps have text for keys.
    let json = json.unwrap_or_else(|error| unreachable!("{error}"));
    // The low bits of FNV alone are not even; the mixer makes them so.
    mix(fnv(&json) ^ SEED)
}

/// FNV-1a.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finalizer of `SplitMix64`.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, MlpSpec, Op, ResnetSpec, Step};

    use super::*;

    fn gemm(m: u64, n: u64, k: u64) -> Workload {
        let op = Op::Gemm(Gemm { batch: 1, m, n, k });
        Workload::Step(Step { op, epilogue: Epilogue::default() })
    }

    /// The order is part of every accuracy that was ever stated: these numbers do not change.
    #[test]
    fn the_order_is_frozen() {
        // Computed by a second implementation, in Python.
        let spec =
            MlpSpec { input: 784, hidden: vec![256], output: 10, batch: 4, activation: Activation::Relu };
        let resnet = Workload::Resnet(ResnetSpec { depth: 50, batch: 8, image: 224 });
        assert_eq!(
            [gemm(32, 512, 1024), gemm(1, 16, 16), Workload::Mlp(spec), resnet]
                .map(|workload| order(&workload)),
            [
                16_021_534_039_400_453_870,
                3_827_230_707_617_485_097,
                5_091_136_951_967_521_197,
                5_576_594_303_209_754_560
            ]
        );
    }

    #[test]
    fn an_epilogue_has_the_order_of_its_product() {
        let plain = gemm(48, 80, 112);
        let Workload::Step(mut step) = plain.clone() else { unreachable!() };
        step.epilogue.bias = true;
        assert_eq!(order(&plain), order(&Workload::Step(step)));
    }
}
