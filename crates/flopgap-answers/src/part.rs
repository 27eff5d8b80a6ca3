//! Which part of a trace is measured.

use std::sync::Arc;

use flopgap_flops::Attention;
use flopgap_gap::Peaks;
use flopgap_timings::compare::scopes;
use flopgap_timings::{Error, RangePattern, Ranges, Scope, WarmUp, attention, passes};
use flopgap_trace::{AttributeBy, Attribution, Recording};

use crate::open::Opened;

/// The part of a trace that is measured, as a user requests it. Every question makes its
/// [`Scope`] of it.
///
/// By default nothing is requested by name, GPU work belongs to ranges by process, and graphs that
/// were traced as a whole are work like any other.
///
/// ```
/// use flopgap_answers::Part;
/// use flopgap_timings::Ranges;
///
/// let part = Part { ranges: vec!["forward".parse()?], ..Part::default() };
/// assert!(matches!(part.scope().ranges, Ranges::Named(_)));
/// assert_eq!(Part::default().scope().ranges, Ranges::All);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part {
    /// Ranges by name; without any, each question has its own.
    pub ranges: Vec<RangePattern>,
    /// What is left out as warm-up.
    pub warm_up: WarmUp,
    /// How GPU work finds its range.
    pub attribution: Attribution,
    /// Combine all processes and GPUs.
    pub pool: bool,
    /// What was measured on the GPU: what steps are set beside instead of its data sheet.
    pub peaks: Option<Peaks>,
    /// The recording in which the CUDA graphs of the trace were captured.
    pub capture: Option<Arc<Opened>>,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            ranges: Vec::new(),
            warm_up: WarmUp::default(),
            attribution: Attribution { by: AttributeBy::Process, whole_graphs: true },
            pool: false,
            peaks: None,
            capture: None,
        }
    }
}

impl Part {
    /// The requested ranges, otherwise everything.
    pub fn scope(&self) -> Scope {
        self.named().unwrap_or_else(|| self.of(Ranges::All))
    }

    /// The requested ranges, where there are any.
    pub fn named(&self) -> Option<Scope> {
        (!self.ranges.is_empty()).then(|| self.of(Ranges::Named(self.ranges.clone())))
    }

    /// These ranges instead of the requested ones.
    pub fn of(&self, ranges: Ranges) -> Scope {
        let Part { warm_up, attribution, pool, .. } = self.clone();
        Scope { ranges, warm_up, attribution, pool }
    }

    /// Of two traces: the requested ranges, otherwise the steps where both mark some, otherwise
    /// everything.
    ///
    /// # Errors
    /// When a trace cannot be read.
    pub fn of_both(&self, a: &dyn Recording, b: &dyn Recording) -> Result<Scope, Error> {
        self.named().map_or_else(|| scopes(a, b, &self.of(Ranges::Steps)), Ok)
    }

    /// The parts of attention in these ranges, of a layer of these sizes.
    pub fn attention(&self, sizes: Attention, names: attention::Names) -> attention::Options {
        let Part { warm_up, attribution, pool, .. } = self.clone();
        attention::Options { sizes, names, warm_up, attribution, pool }
    }

    /// The steps and passes, to be compared with times that were measured outside, in nanoseconds.
    pub fn passes(&self, measured: Vec<i64>) -> passes::Options {
        let Part { ranges, warm_up, attribution, pool, .. } = self.clone();
        passes::Options { ranges, warm_up, attribution, measured, no_instances: false, pool }
    }
}
