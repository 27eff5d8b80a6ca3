//! The options that say which ranges count and what belongs to them.

use clap::ValueEnum;
use flopgap_nsys::{AttributeBy, Attribution};
use flopgap_timings::{Ranges, Scope, WarmUp};

/// Whose ranges own what a thread launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Those of the thread itself, as in nsys's own reports.
    Thread,
    /// Those of the thread, or where none contains the launch, of its process's main thread: so the backward pass that PyTorch
    /// launches from its autograd thread belongs to `backward`.
    Process,
}

/// Whose ranges own GPU work, for every command that asks for ranges.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct AttributionArguments {
    /// Whose ranges own what a thread launches.
    #[arg(long = "attribute", value_enum, default_value_t = By::Process)]
    by: By,
}

impl AttributionArguments {
    pub(crate) fn attribution(self) -> Attribution {
        let by = match self.by {
            By::Thread => AttributeBy::Thread,
            By::Process => AttributeBy::Process,
        };
        // Graphs that were traced as a whole are work like any other; an answer without them would be wrong.
        Attribution { by, whole_graphs: true }
    }
}

/// What is warming up, for every command that measures.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WarmUpArguments {
    /// Leave out the first N instances of each range; without it none where the trace marks its warming up, and else one.
    #[arg(long, value_name = "N")]
    skip_warmup: Option<u64>,
    /// Leave out ranges of this name with all within them; those called `warmup` are always left out.
    #[arg(long, value_name = "NAME")]
    warmup: Vec<String>,
}

impl WarmUpArguments {
    pub(crate) fn warm_up(&self) -> WarmUp {
        WarmUp { names: self.warmup.clone(), skip: self.skip_warmup }
    }
}

/// A scope of these options.
pub(crate) fn scope(ranges: Ranges, warm_up: &WarmUpArguments, attribution: AttributionArguments) -> Scope {
    Scope { ranges, warm_up: warm_up.warm_up(), attribution: attribution.attribution() }
}
