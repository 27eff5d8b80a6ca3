//! The options that say which ranges count and what belongs to them.

use flopgap_nsys::Attribution;
use flopgap_timings::{Ranges, Scope, WarmUp};

use crate::attribution::AttributeArg;

/// Whose ranges own GPU work, for every command that measures passes: by process, because the questions are about whole passes.
#[derive(Clone, Copy, Debug, clap::Args)]
struct OwnerArguments {
    /// Whose ranges own what a thread launches.
    #[arg(long = "attribute", value_enum, value_name = "WHOSE", default_value_t = AttributeArg::Process)]
    by: AttributeArg,
}

impl OwnerArguments {
    fn attribution(self) -> Attribution {
        // Graphs that were traced as a whole are work like any other; an answer without them would be wrong.
        Attribution { by: self.by.into(), whole_graphs: true }
    }
}

/// What is warming up, for every command that measures.
#[derive(Clone, Debug, clap::Args)]
struct WarmUpArguments {
    /// Leave out the first N instances of each range; without it none where the trace marks its warming up, and else one.
    #[arg(long, value_name = "N")]
    skip_warmup: Option<u64>,
    /// Leave out ranges of this name with all within them; those called `warmup` are always left out.
    #[arg(long, value_name = "NAME")]
    warmup: Vec<String>,
    /// Leave nothing out.
    #[arg(long, conflicts_with_all = ["skip_warmup", "warmup"])]
    with_warmup: bool,
}

impl WarmUpArguments {
    fn warm_up(&self) -> WarmUp {
        WarmUp { names: self.warmup.clone(), skip: self.skip_warmup, keep: self.with_warmup }
    }
}

/// Both, as every command takes them that measures ranges.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScopeArguments {
    #[command(flatten)]
    warm_up: WarmUpArguments,
    #[command(flatten)]
    owner: OwnerArguments,
}

impl ScopeArguments {
    pub(crate) fn warm_up(&self) -> WarmUp {
        self.warm_up.warm_up()
    }

    pub(crate) fn attribution(&self) -> Attribution {
        self.owner.attribution()
    }

    /// Whether what the ranges of its own thread do not contain belongs to those of the main thread.
    pub(crate) fn by_process(&self) -> bool {
        self.owner.by == AttributeArg::Process
    }

    /// These ranges with these options.
    pub(crate) fn of(&self, ranges: Ranges) -> Scope {
        Scope { ranges, warm_up: self.warm_up(), attribution: self.attribution() }
    }
}
