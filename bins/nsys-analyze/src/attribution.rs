//! The options that say how GPU work is attributed to ranges.

use clap::ValueEnum;
use flopgap_nsys::{AttributeBy, Attribution};

/// How GPU work is attributed to NVTX ranges; the default is as nsys does it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct AttributionArguments {
    /// How GPU work is attributed to ranges.
    #[arg(long, value_enum, default_value_t, value_name = "WHOSE")]
    attribute: AttributeArg,
    /// Beyond nsys: count CUDA graphs that were traced as a whole as GPU work, each launch as one
    /// kernel `[CUDA graph N]`.
    #[arg(long)]
    whole_graphs: bool,
}

/// Whose NVTX ranges own what a thread launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttributeArg {
    /// Those of the thread, as nsys.
    #[default]
    Thread,
    /// Beyond nsys: where the thread has none around the launch, those of the main thread of its
    /// process. PyTorch's backward pass needs this.
    Process,
}

impl From<AttributeArg> for AttributeBy {
    fn from(by: AttributeArg) -> AttributeBy {
        match by {
            AttributeArg::Thread => AttributeBy::Thread,
            AttributeArg::Process => AttributeBy::Process,
        }
    }
}

impl From<AttributionArguments> for Attribution {
    fn from(arguments: AttributionArguments) -> Attribution {
        Attribution { by: arguments.attribute.into(), whole_graphs: arguments.whole_graphs }
    }
}
