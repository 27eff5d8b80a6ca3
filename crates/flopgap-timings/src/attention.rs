//! Attention in a forward pass: the time of its parts compared with their FLOPs.

use flopgap_flops::{Attention, ElementType};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{AttributeBy, Attribution, Recording, Unlaunched};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::pattern::RangePattern;
use crate::scope::{Ranges, Scope};
use crate::select::WarmUp;
use crate::shares::{Shares, Work, shares};

/// The ranges in which the parts of attention are launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `Q Kᵀ`.
    pub scores: RangePattern,
    /// Softmax.
    pub softmax: RangePattern,
    /// Softmax times `V`.
    pub weighted_sum: RangePattern,
}

impl Default for Names {
    /// `computing_attention_scores`, `computing_softmax`, `final_matmul`.
    fn default() -> Names {
        Names {
            scores: RangePattern::literal("computing_attention_scores"),
            softmax: RangePattern::literal("computing_softmax"),
            weighted_sum: RangePattern::literal("final_matmul"),
        }
    }
}

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sizes of one attention layer.
    pub sizes: Attention,
    /// The ranges of its parts.
    pub names: Names,
    /// Warm-up instances to leave out.
    pub warm_up: WarmUp,
    /// The rule that attributes GPU work to ranges.
    pub attribution: Attribution,
    /// Combine all processes and GPUs.
    pub pool: bool,
}

/// The three parts of attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionTimes {
    /// `Q Kᵀ`: `2 batch heads queries keys head_width` FLOPs.
    pub scores: Part,
    /// Softmax: `5 batch heads queries keys` FLOPs (maximum, subtraction, exponential, sum,
    /// division).
    pub softmax: Part,
    /// Softmax times `V`: as many FLOPs as the scores.
    pub weighted_sum: Part,
    /// GPU work of the trace that belongs to no range.
    pub unlaunched: Option<Unlaunched>,
    /// Whose ranges own GPU work.
    pub attribution: AttributeBy,
}

/// A part of attention. FLOPs and times are those of one instance of its range: one layer of one
/// forward pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The range.
    pub range: String,
    /// What ran in it, by kind of work.
    pub shares: Shares,
    /// The FLOPs of the part by its closed form.
    pub flops: u64,
    /// All GPU work of the range.
    pub range_ns: f64,
    /// The work that the part is named after: matrix products, or softmax. Absent when the range
    /// holds none of it.
    pub own_ns: Option<f64>,
}

impl Part {
    /// FLOPs per second, over the time of the work that the part is named after; absent when there
    /// is none.
    pub fn flops_per_second(&self) -> Option<f64> {
        self.own_ns.filter(|own| *own > 0.0).map(|own| self.flops as f64 / own * 1e9)
    }

    /// FLOPs per second, over the time of everything in the range.
    pub fn range_flops_per_second(&self) -> Option<f64> {
        (self.range_ns > 0.0).then(|| self.flops as f64 / self.range_ns * 1e9)
    }

    /// The share of the range's time spent on work other than what the part is named after.
    pub fn other_share(&self) -> Option<f64> {
        (self.range_ns > 0.0).then(|| 1.0 - self.own_ns.unwrap_or_default() / self.range_ns)
    }
}

/// The kinds of work that are matrix products: where the shapes are thin, libraries use products
/// with a vector, or split them.
const PRODUCTS: [KernelClass; 3] = [KernelClass::Matmul, KernelClass::Gemv, KernelClass::SplitKReduce];

/// The time of each part of attention and the FLOPs that it needs.
///
/// # Errors
/// [`Error::NoRange`] when a part has no range, [`Error::NoWork`] when it launched
/// nothing, [`Error::Flops`] for sizes that overflow.
pub fn attention(
    trace: &dyn Recording,
    options: &Options,
    classifier: &Classifier,
) -> Result<AttentionTimes, Error> {
    // FLOPs do not depend on the element type.
    let element = ElementType::Fp32;
    let part = |range: &RangePattern, flops: u64, own: &[KernelClass]| -> Result<Part, Error> {
        let scope = Scope {
            ranges: Ranges::Named(vec![range.clone()]),
            warm_up: options.warm_up.clone(),
            attribution: options.attribution,
            pool: options.pool,
        };
        let shares = shares(trace, &scope, classifier)?;
        let is_own = |work: Work| matches!(work, Work::Kernels(class) if own.contains(&class));
        let own: i128 =
            shares.shares.iter().filter(|share| is_own(share.work)).map(|share| share.total_ns).sum();
        Ok(Part {
            range: range.to_string(),
            flops,
            range_ns: shares.each(shares.total_ns),
            own_ns: (own > 0).then(|| shares.each(own)),
            shares,
        })
    };
    let Options { sizes, names, .. } = options;
    let scores = part(&names.scores, sizes.scores(element)?.flops, &PRODUCTS)?;
    Ok(AttentionTimes {
        unlaunched: scores.shares.unlaunched,
        scores,
        softmax: part(&names.softmax, sizes.softmax(element)?.flops, &[KernelClass::Softmax])?,
        weighted_sum: part(&names.weighted_sum, sizes.weighted_sum(element)?.flops, &PRODUCTS)?,
        attribution: options.attribution.by,
    })
}

impl AttentionTimes {
    /// The parts in the order of the computation.
    pub fn parts(&self) -> [(&'static str, &Part); 3] {
        [("QK^T", &self.scores), ("softmax", &self.softmax), ("AV", &self.weighted_sum)]
    }

    /// FLOPs of both products over those of softmax.
    pub fn flop_ratio(&self) -> Option<f64> {
        let products = self.scores.flops as f64 + self.weighted_sum.flops as f64;
        (self.softmax.flops > 0).then(|| products / self.softmax.flops as f64)
    }

    /// Time of both products over that of softmax, by the kernels that the parts are named after.
    pub fn time_ratio(&self) -> Option<f64> {
        let softmax = self.softmax.own_ns.filter(|own| *own > 0.0)?;
        Some((self.scores.own_ns? + self.weighted_sum.own_ns?) / softmax)
    }

    /// Time of both products' ranges over that of softmax's range, with everything in them.
    pub fn range_time_ratio(&self) -> Option<f64> {
        (self.softmax.range_ns > 0.0)
            .then(|| (self.scores.range_ns + self.weighted_sum.range_ns) / self.softmax.range_ns)
    }
}
