//! The options that say which ranges count and what belongs to them.

use flopgap_nsys::{AttributeBy, Attribution};
use flopgap_timings::{RangePattern, Ranges, Scope, WarmUp};

use crate::attribution::AttributeArg;

/// The end of `flopgap nsys --help`: examples, and the syntax of ranges for every option that takes
/// them.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  flopgap nsys summary fixtures/nsys/small_training_step.sqlite.zst
  flopgap nsys kernels fixtures/kineto/ddp_rank0.json.gz --range 'ProfilerStep#*'
  flopgap nsys diff before.sqlite after.sqlite --fail-if-slower 5

How ranges are written (RANGE), in every option that takes them:
  forward         ranges of this name, in any NVTX domain; upper and lower case differ
  model:forward   those of the domain `model`; `:forward` those of the default domain
  step_*          `*` stands for any text: all steps, as tables show them with their numbers folded
  'blocks.*.attn' one row for all layers; `blocks.7.attn` is one of them alone
  '*'             all ranges
  'a, b'          commas, spaces and brackets are part of a name; for several ranges give the option several times
  'a\\*b'          `\\*` is a star in a name, `\\\\` a backslash
--filter-nvtx of `stats` and `rules` is nsys's own option and written as nsys has it: NAME[@DOMAIN][/INDEX].";

/// Attribution of GPU work for every command that measures passes: by process, because the
/// questions are about whole passes.
#[derive(Clone, Copy, Debug, clap::Args)]
struct OwnerArguments {
    /// How GPU work is attributed to ranges.
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = AttributeArg::Process)]
    attribute: AttributeArg,
}

impl OwnerArguments {
    fn attribution(self) -> Attribution {
        // Graphs that were traced as a whole are work like any other; an answer without them would
        // be wrong.
        Attribution { by: self.attribute.into(), whole_graphs: true }
    }
}

/// The warm-up, for every command that measures.
#[derive(Clone, Debug, clap::Args)]
struct WarmUpArguments {
    /// Leave out the first N instances of each range [default: 0 if warm-up is marked, otherwise
    /// the first step, or without steps the first instance of each pass].
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// Leave out these ranges with everything within them; those named `warmup` are always left
    /// out.
    #[arg(long, value_name = "RANGE")]
    warmup_range: Vec<RangePattern>,
    /// Leave nothing out.
    #[arg(long, conflicts_with_all = ["warmup", "warmup_range"])]
    with_warmup: bool,
}

impl WarmUpArguments {
    fn warm_up(&self) -> WarmUp {
        WarmUp { names: self.warmup_range.clone(), skip: self.warmup, keep: self.with_warmup }
    }
}

/// The requested ranges; nothing if there are none.
pub(crate) fn named(patterns: &[RangePattern]) -> Option<Ranges> {
    (!patterns.is_empty()).then(|| Ranges::Named(patterns.to_vec()))
}

/// The options that every command for ranges takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScopeArguments {
    #[command(flatten)]
    warm_up: WarmUpArguments,
    #[command(flatten)]
    owner: OwnerArguments,
    /// Combine all processes and GPUs; by default each process on each GPU has its own numbers.
    #[arg(long)]
    pool: bool,
}

impl ScopeArguments {
    /// The effective options: by default, GPU work belongs to ranges by process.
    pub(crate) fn new(warm_up: WarmUp, attribute: AttributeBy, pool: bool) -> ScopeArguments {
        let WarmUp { names, skip, keep } = warm_up;
        let attribute = match attribute {
            AttributeBy::Process => AttributeArg::Process,
            AttributeBy::Thread => AttributeArg::Thread,
        };
        ScopeArguments {
            warm_up: WarmUpArguments { warmup: skip, warmup_range: names, with_warmup: keep },
            owner: OwnerArguments { attribute },
            pool,
        }
    }

    pub(crate) fn warm_up(&self) -> WarmUp {
        self.warm_up.warm_up()
    }

    pub(crate) fn attribution(&self) -> Attribution {
        self.owner.attribution()
    }

    /// Whether what the ranges of its own thread do not contain belongs to those of the main
    /// thread.
    pub(crate) fn by_process(&self) -> bool {
        self.owner.attribute == AttributeArg::Process
    }

    /// Whether all processes and GPUs are combined.
    pub(crate) fn pool(&self) -> bool {
        self.pool
    }

    /// These ranges with these options.
    pub(crate) fn scope(&self, ranges: Ranges) -> Scope {
        Scope { ranges, warm_up: self.warm_up(), attribution: self.attribution(), pool: self.pool }
    }
}
