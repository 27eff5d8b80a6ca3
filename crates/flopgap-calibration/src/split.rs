//! Decides which rows a fit may see and which judge it.
//!
//! A split depends on what was run alone: never on its time, on the row's place in a file, or on
//! what else there is. All rows of a workload, in any precision and mode and from any engine, are
//! on one side. The seeds are part of the accuracy that is stated, and frozen: tests hold them.

use std::collections::BTreeSet;

use flopgap_graph::{Op, Workload};

use crate::row::Row;
pub use crate::spread::at_most;

/// The seed of all splits.
pub const SEED: u64 = 14;

/// The side of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// A fit may see it.
    Fit,
    /// It judges the fit.
    Validation,
}

/// A way to divide workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Split {
    /// A third of all workloads, by hash, validates.
    Workloads,
    /// One of `of` equal parts, by hash, validates: cross-validation.
    Fold {
        /// The part that validates, from 0.
        index: u64,
        /// How many parts there are.
        of: u64,
    },
    /// Whole sets of values are left out: steps none of whose dimensions has a held-out value are
    /// fitted, those whose dimensions all have one validate, and others do neither. Three of eight
    /// values are held out, by hash. Dimensions are m, n and k of a product, and batch, channels
    /// and image of a convolution.
    Values,
    /// A third of all whole networks, by the hash of their names, validates in every batch; a third
    /// of the steps, by hash, as in [`Split::Workloads`].
    Networks,
    /// Networks for which `leaves_out` has the name validate, whatever their batch; everything else
    /// is fitted.
    Models {
        /// Names as [`model_name`] gives them: `resnet50`.
        leaves_out: BTreeSet<String>,
    },
}

impl Split {
    /// The side that a workload is on; `None` where it is on neither.
    ///
    /// A launch that does nothing is in every fit: it says what a call costs, and has no size to
    /// leave out.
    pub fn part(&self, workload: &Workload) -> Option<Part> {
        if matches!(workload, Workload::Step(step) if matches!(step.op, Op::Empty)) {
            return Some(Part::Fit);
        }
        let side = |validates| Some(if validates { Part::Validation } else { Part::Fit });
        match self {
            Split::Workloads => side(order(workload).is_multiple_of(3)),
            Split::Fold { index, of } => side(order(workload) % (*of).max(1) == *index),
            Split::Values => {
                let values = dimensions(workload)?;
                let out = values.iter().filter(|&&value| is_held_out(value)).count();
                match out {
                    0 => Some(Part::Fit),
                    all if all == values.len() => Some(Part::Validation),
                    _ => None,
                }
            }
            Split::Networks => match model_name(workload) {
                Some(name) => side(mix(fnv(name.as_bytes()) ^ SEED).is_multiple_of(3)),
                None => side(order(workload).is_multiple_of(3)),
            },
            Split::Models { leaves_out } => {
                side(model_name(workload).is_some_and(|name| leaves_out.contains(&name)))
            }
        }
    }

    /// The rows on each side.
    pub fn divide<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Divided<'a> {
        let mut divided = Divided::default();
        for row in rows {
            match self.part(&row.workload) {
                Some(Part::Fit) => divided.fit.push(row),
                Some(Part::Validation) => divided.validation.push(row),
                None => {}
            }
        }
        divided
    }
}

/// Rows on the two sides of a split.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Divided<'a> {
    /// Those that a fit may see.
    pub fit: Vec<&'a Row>,
    /// Those that judge it.
    pub validation: Vec<&'a Row>,
}

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

/// A number for each workload that splits go by. A step's epilogue does not count: a product with a
/// bias is on the side of the product without.
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
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finalizer of `SplitMix64`.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn is_held_out(value: u64) -> bool {
    mix(value ^ (SEED << 32)) % 8 < 3
}

/// The sizes of a step that [`Split::Values`] goes by.
fn dimensions(workload: &Workload) -> Option<Vec<u64>> {
    let Workload::Step(step) = workload else { return None };
    match &step.op {
        Op::Gemm(gemm) => Some(vec![gemm.m, gemm.n, gemm.k]),
        Op::Conv(conv) => {
            let sizes = [conv.batch, conv.inputs, conv.outputs];
            Some(sizes.into_iter().chain(conv.image.first().copied()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, MlpSpec, ResnetSpec, Step};

    use super::*;
    use crate::testing;

    fn gemm(m: u64, n: u64, k: u64) -> Workload {
        let op = Op::Gemm(Gemm { batch: 1, m, n, k });
        Workload::Step(Step { op, epilogue: Epilogue::default() })
    }

    fn mlp(batch: u64) -> Workload {
        let spec = MlpSpec { input: 784, hidden: vec![256], output: 10, batch, activation: Activation::Relu };
        Workload::Mlp(spec)
    }

    /// The split is part of every accuracy that was ever stated: these numbers do not change.
    #[test]
    fn the_split_is_frozen() {
        // Computed by a second implementation, in Python.
        let resnet = Workload::Resnet(ResnetSpec { depth: 50, batch: 8, image: 224 });
        assert_eq!(
            [gemm(32, 512, 1024), gemm(1, 16, 16), mlp(4), resnet].map(|workload| order(&workload)),
            [
                16_021_534_039_400_453_870,
                3_827_230_707_617_485_097,
                5_091_136_951_967_521_197,
                5_576_594_303_209_754_560
            ]
        );
        let held_out: Vec<u64> = (1..=40).filter(|&value| is_held_out(value)).collect();
        assert_eq!(held_out, [1, 2, 4, 7, 10, 11, 12, 14, 19, 23, 24, 26, 31, 33, 36, 38, 39]);
    }

    #[test]
    fn a_third_of_workloads_validates() {
        let rows = testing::rows(3000);
        let divided = Split::Workloads.divide(&rows);
        assert_eq!(divided.fit.len() + divided.validation.len(), 3000);
        assert!((900..1100).contains(&divided.validation.len()), "{}", divided.validation.len());
        let mut folds = 0;
        for index in 0..5 {
            folds += Split::Fold { index, of: 5 }.divide(&rows).validation.len();
        }
        assert_eq!(folds, 3000, "each row validates once");
    }

    #[test]
    fn an_epilogue_stays_on_the_side_of_its_product() {
        let plain = gemm(48, 80, 112);
        let Workload::Step(mut step) = plain.clone() else { unreachable!() };
        step.epilogue.bias = true;
        assert_eq!(order(&plain), order(&Workload::Step(step)));
    }

    #[test]
    fn values_are_left_out_whole() {
        let workloads: Vec<Workload> =
            (0..4000).map(|i| gemm(1 + i % 37, 1 + i % 101, 1 + i % 211)).collect();
        let mut fitted = BTreeSet::new();
        let (mut fit, mut validation) = (0, 0);
        for workload in &workloads {
            if Split::Values.part(workload) == Some(Part::Fit) {
                fitted.extend(dimensions(workload).unwrap());
                fit += 1;
            }
        }
        for workload in &workloads {
            if Split::Values.part(workload) == Some(Part::Validation) {
                assert!(dimensions(workload).unwrap().iter().all(|value| !fitted.contains(value)));
                validation += 1;
            }
        }
        assert!(fit > 700 && validation > 120, "{fit} {validation}");
        assert_eq!(Split::Values.part(&mlp(1)), None);
    }

    #[test]
    fn launches_are_in_every_fit() {
        let empty = Workload::Step(Step { op: Op::Empty, epilogue: Epilogue::default() });
        for split in [Split::Workloads, Split::Values, Split::Networks] {
            assert_eq!(split.part(&empty), Some(Part::Fit));
        }
        for index in 0..5 {
            assert_eq!(Split::Fold { index, of: 5 }.part(&empty), Some(Part::Fit));
        }
    }

    #[test]
    fn networks_keep_their_batches_together() {
        for depth in [18, 34, 50, 101, 152] {
            let part =
                |batch| Split::Networks.part(&Workload::Resnet(ResnetSpec { depth, batch, image: 224 }));
            assert!([1, 8, 64].iter().all(|&batch| part(batch) == part(2)));
        }
        let steps = testing::rows(300);
        for row in &steps {
            assert_eq!(Split::Networks.part(&row.workload), Split::Workloads.part(&row.workload));
        }
    }

    #[test]
    fn models_are_left_out_in_every_batch() {
        let split = Split::Models { leaves_out: BTreeSet::from(["mlp 784-256-10".to_owned()]) };
        for batch in [1, 2, 64] {
            assert_eq!(split.part(&mlp(batch)), Some(Part::Validation));
        }
        assert_eq!(split.part(&gemm(1, 2, 3)), Some(Part::Fit));
    }
}
