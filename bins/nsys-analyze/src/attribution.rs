//! The options that say how GPU work is attributed to ranges.

use clap::ValueEnum;
use flopgap_nsys::{AttributeBy, Attribution};

/// How GPU work is attributed to NVTX ranges; the default is as nsys does it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct AttributionArguments {
    /// Whose NVTX ranges own what a thread launches.
    #[arg(long, value_enum, default_value_t, value_name = "WHOSE")]
    attribute: AttributeArg,
    /// Beyond nsys: count CUDA graphs that were traced as a whole as GPU work, each launch as one kernel `[CUDA graph N]`.
    #[arg(long)]
    whole_graphs: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum AttributeArg {
    /// Those of the thread, as nsys.
    #[default]
    Thread,
    /// Beyond nsys: where the thread has none around the launch, those of the main thread of its process. PyTorch's backward pass
    /// needs this.
    Process,
}

impl From<AttributionArguments> for Attribution {
    fn from(arguments: AttributionArguments) -> Attribution {
        let by = match arguments.attribute {
            AttributeArg::Thread => AttributeBy::Thread,
            AttributeArg::Process => AttributeBy::Process,
        };
        Attribution { by, whole_graphs: arguments.whole_graphs }
    }
}
