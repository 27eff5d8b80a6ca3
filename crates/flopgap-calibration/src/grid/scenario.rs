//! Memory scenarios: which level of this machine's memory a working set fits.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use flopgap_files::{ErrorKind, Hint};
use flopgap_flops::Precision;
use flopgap_graph::{Graph, GraphError, Op, Workload};

use crate::row::Origin;

/// The smallest level of memory that holds a working set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// The first-level cache of a core, or of a multiprocessor.
    L1Fit,
    /// The second level, and not the first. A CPU core's own; a GPU's is shared.
    L2Fit,
    /// The third level, which cores share, and not the second.
    L3Fit,
    /// No cache.
    DramSpill,
}

impl Scenario {
    /// Every scenario, smallest first.
    pub const ALL: [Scenario; 4] = [Scenario::L1Fit, Scenario::L2Fit, Scenario::L3Fit, Scenario::DramSpill];

    /// The name on command lines and in reports: `L1_fit`.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::L1Fit => "L1_fit",
            Scenario::L2Fit => "L2_fit",
            Scenario::L3Fit => "L3_fit",
            Scenario::DramSpill => "DRAM_spill",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Scenario::ALL.into_iter().find(|scenario| scenario.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| {
            format!("unknown scenario `{text}`; expected L1_fit, L2_fit, L3_fit or DRAM_spill")
        })
    }
}

/// The caches of a machine in bytes. A level that it lacks or does not report is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caches {
    /// First level for data, of one core or multiprocessor.
    pub l1: Option<u64>,
    /// Second level: of one core of a CPU, of the whole GPU.
    pub l2: Option<u64>,
    /// Third level.
    pub l3: Option<u64>,
}

/// A scenario that this machine does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{scenario} needs {level}, which this machine does not have or does not report")]
pub struct NoSuchLevel {
    /// The scenario.
    pub scenario: Scenario,
    /// The missing level: `an L3 cache`.
    pub level: &'static str,
}

/// How many times the largest cache the working sets of `DRAM_spill` take at most.
const SPILL: u64 = 4;

impl Hint for NoSuchLevel {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Absent
    }
}

impl Caches {
    /// The caches that an origin lists: of a CPU `L1d`, `L2` and `L3` with the size of one and how
    /// many there are (`48K x 2`); of a GPU `shared_bytes_per_multiprocessor`, which is its first
    /// level, and `l2_bytes`.
    pub fn new(origin: &Origin) -> Caches {
        let property = |name: &str| origin.properties.get(name).and_then(|text| bytes(text));
        match origin.kind.as_str() {
            "cuda" => {
                let l1 = property("shared_bytes_per_multiprocessor");
                Caches { l1, l2: property("l2_bytes"), l3: None }
            }
            _ => Caches { l1: property("L1d"), l2: property("L2"), l3: property("L3") },
        }
    }

    /// The working sets of a scenario in bytes: more than the first number, at most the second.
    ///
    /// # Errors
    /// When the machine lacks the level that the scenario fits, or the one that it spills from.
    pub fn range(&self, scenario: Scenario) -> Result<(u64, u64), NoSuchLevel> {
        let level = |bytes: Option<u64>, level| bytes.ok_or(NoSuchLevel { scenario, level });
        let (l1, l2, l3) = ("an L1 cache", "an L2 cache", "an L3 cache");
        match scenario {
            Scenario::L1Fit => Ok((0, level(self.l1, l1)?)),
            Scenario::L2Fit => Ok((level(self.l1, l1)?, level(self.l2, l2)?)),
            Scenario::L3Fit => Ok((level(self.l2, l2)?, level(self.l3, l3)?)),
            Scenario::DramSpill => {
                let largest = level(self.largest(), "a cache")?;
                Ok((largest, largest.saturating_mul(SPILL)))
            }
        }
    }

    fn largest(&self) -> Option<u64> {
        self.l3.or(self.l2).or(self.l1)
    }
}

/// A size as Linux writes it, with what comes after it: `48K x 2` is 49,152.
fn bytes(text: &str) -> Option<u64> {
    let size = text.split_whitespace().next()?;
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << unit)?;
    (bytes > 0).then_some(bytes)
}

/// Bytes that a run touches again and again: all parameters, and the most activations that are
/// needed at one time. For a step alone, its operands and results. `None` for a model from a file,
/// whose tensors a workload does not have.
///
/// # Errors
/// Sizes that are no network's, or are beyond 64 bits.
pub(crate) fn working_set(workload: &Workload, precision: Precision) -> Result<Option<u64>, GraphError> {
    match workload {
        Workload::Step(step) => {
            let error = |source| GraphError::Count { place: workload.label(), source };
            let work = step.work(precision).map_err(error)?;
            Ok(Some(work.bytes_read.saturating_add(work.bytes_written)))
        }
        Workload::Mlp(_) | Workload::Resnet(_) => Ok(Some(of_graph(&workload.graph()?, precision))),
        Workload::File(_) => Ok(None),
    }
}

/// Parameters and the most activations alive at once, with each number stored as `precision` stores
/// it.
fn of_graph(graph: &Graph, precision: Precision) -> u64 {
    let bytes = |tensor: usize| {
        let tensor = &graph.tensors[tensor];
        let numbers = tensor.shape.iter().fold(1_u64, |product, &size| product.saturating_mul(size));
        let of_each =
            if tensor.element.is_some() { precision.element().bytes() } else { tensor.element_bytes };
        numbers.saturating_mul(of_each)
    };
    let mut last_use = vec![0; graph.tensors.len()];
    for (index, layer) in graph.layers.iter().enumerate() {
        for &input in &layer.inputs {
            last_use[input] = index;
        }
    }
    for &output in &graph.outputs {
        last_use[output] = graph.layers.len();
    }
    let is_activation = |tensor: &usize| !graph.tensors[*tensor].parameter;
    let mut alive: HashSet<usize> = graph.inputs.iter().copied().filter(is_activation).collect();
    let mut most: u64 = alive.iter().map(|&tensor| bytes(tensor)).sum();
    for (index, layer) in graph.layers.iter().enumerate() {
        // A view is another name for its input. An activation or an addition can be computed in
        // place, which engines do.
        let moves = !matches!(layer.op, Some(Op::View | Op::Elementwise(_)));
        let ending = |tensor: &usize| last_use[*tensor] <= index;
        if !moves {
            alive.retain(|tensor| !ending(tensor));
        }
        alive.extend(layer.outputs.iter().copied());
        most = most.max(alive.iter().map(|&tensor| bytes(tensor)).fold(0, u64::saturating_add));
        alive.retain(|tensor| !ending(tensor));
    }
    let parameters = (0..graph.tensors.len()).filter(|&tensor| graph.tensors[tensor].parameter);
    parameters.map(bytes).fold(most, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, MlpSpec, ResnetSpec, Step};

    use super::*;

    const XEON: Caches = Caches { l1: Some(48 << 10), l2: Some(2 << 20), l3: Some(105 << 20) };
    const H200: Caches = Caches { l1: Some(256 << 10), l2: Some(50 << 20), l3: None };

    #[test]
    fn ranges_join_without_gaps() {
        let ranges: Vec<(u64, u64)> = Scenario::ALL.map(|scenario| XEON.range(scenario).unwrap()).to_vec();
        assert_eq!(ranges[0], (0, 48 << 10));
        assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ranges:?}");
    }

    #[test]
    fn a_level_that_the_machine_lacks_is_an_error() {
        let error = H200.range(Scenario::L3Fit).unwrap_err();
        assert_eq!(
            error.to_string(),
            "L3_fit needs an L3 cache, which this machine does not have or does not report"
        );
        assert_eq!(H200.range(Scenario::DramSpill).unwrap(), (50 << 20, 200 << 20));
        assert!(Caches::default().range(Scenario::DramSpill).is_err());
    }

    #[test]
    fn an_origin_lists_its_caches() {
        let of = |kind: &str, properties: &[(&str, &str)]| {
            let properties = properties.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            let properties = properties.collect();
            Caches::new(&Origin { kind: kind.to_owned(), properties, ..Origin::default() })
        };
        let cpu = [("L1d", "48K x 2"), ("L2", "2M x 2"), ("L3", "107520K x 1")];
        assert_eq!(of("cpu", &cpu), XEON);
        assert_eq!(of("cpu", &[("L1d", "many"), ("L2", "0K x 1")]), Caches::default());
        let cuda = [("l2_bytes", "52428800"), ("shared_bytes_per_multiprocessor", "262144")];
        assert_eq!(of("cuda", &cuda), H200);
    }

    #[test]
    fn names_come_back() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
        assert_eq!("dram_spill".parse(), Ok(Scenario::DramSpill));
        assert!("L4_fit".parse::<Scenario>().unwrap_err().contains("unknown scenario `L4_fit`"));
    }

    #[test]
    fn a_networks_working_set_is_its_parameters_and_the_widest_pair_of_activations() {
        let mlp =
            MlpSpec { input: 128, hidden: vec![64, 256], output: 8, batch: 10, activation: Activation::Relu };
        let numbers = (128 * 64 + 64) + (64 * 256 + 256) + (256 * 8 + 8) + 10 * (64 + 256);
        let bytes = |precision| working_set(&Workload::Mlp(mlp.clone()), precision).unwrap();
        assert_eq!(bytes(Precision::Fp32), Some(4 * numbers));
        assert_eq!(bytes(Precision::Fp16), Some(2 * numbers));
    }

    #[test]
    fn a_steps_working_set_is_what_it_reads_and_writes() {
        let op = Op::Gemm(Gemm { batch: 1, m: 3, n: 5, k: 7 });
        let step = Workload::Step(Step { op, epilogue: Epilogue::default() });
        assert_eq!(working_set(&step, Precision::Fp32).unwrap(), Some(4 * (3 * 7 + 7 * 5 + 3 * 5)));
    }

    #[test]
    fn a_residual_network_keeps_what_its_shortcuts_need() {
        let resnet = |batch| Workload::Resnet(ResnetSpec { depth: 18, batch, image: 224 });
        let bytes = |batch| working_set(&resnet(batch), Precision::Fp32).unwrap().unwrap();
        let of_a_sample = bytes(2) - bytes(1);
        // The first convolution's result with the pooling's: 64 x 112 x 112 and 64 x 56 x 56
        // numbers; 11.7 million parameters.
        assert_eq!(of_a_sample, 4 * 64 * (112 * 112 + 56 * 56));
        let parameters = bytes(1) - of_a_sample;
        assert!((46_000_000..47_500_000).contains(&parameters), "{parameters}");
    }
}
