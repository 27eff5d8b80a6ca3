//! `flopgap nsys capture -- CMD…`: records a program with nsys, exports the trace and summarizes
//! it.

mod record;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure};

use record::Program;

use crate::opening::Opener;
use crate::summary::{self, View};
use crate::{PROGRAM, find};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys capture -o runs/step -- python3 train.py --steps 2
  flopgap nsys capture --nsys-arg=--delay=5 -- ./program")]
pub(crate) struct Arguments {
    /// Write PATH.nsys-rep and PATH.sqlite, in the place of what these files hold.
    #[arg(long, short, value_name = "PATH", default_value = "capture")]
    output: PathBuf,
    /// What nsys traces.
    #[arg(long, value_delimiter = ',', value_name = "KIND", default_value = "cuda,nvtx")]
    trace: Vec<String>,
    /// Whether kernels within CUDA graphs are recorded one by one, or each graph as a whole (which
    /// costs less, and leaves its kernels without names).
    #[arg(long, value_enum, default_value_t = GraphTrace::Node)]
    graph_trace: GraphTrace,
    /// Record the Python stack of each CUDA call.
    #[arg(long)]
    python_backtrace: bool,
    /// A further option of `nsys profile`, such as `--nsys-arg=--delay=5`; can be
    /// repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    nsys_arg: Vec<String>,
    /// The nsys to use; without, the first on PATH or where it is usually installed.
    #[arg(long, value_name = "PROGRAM")]
    nsys: Option<PathBuf>,
    #[command(flatten)]
    view: View,
    /// The program to record, with its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How nsys records CUDA graphs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphTrace {
    /// Each kernel.
    Node,
    /// Each launch as a whole.
    Graph,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let nsys = match &arguments.nsys {
        Some(nsys) if nsys.is_file() => nsys.clone(),
        Some(nsys) => {
            return Err(Failure::new(format!("{}: there is no such program", nsys.display())).exit(Exit::Absent));
        }
        None => find::nsys(std::env::var_os("PATH").as_deref(), Path::new("/")).map_err(|searched| {
            Failure::new(format!("Nsight Systems (`nsys`) is not on this machine; searched: {}", searched.join(", ")))
                .hint(
                    "install Nsight Systems or name it with --nsys; or record elsewhere with `nsys profile -t cuda,nvtx -s none \
                     --cpuctxsw=none --cuda-graph-trace=node`, and give the .sqlite of `nsys export --type sqlite` to `flopgap nsys summary`",
                )
                .exit(Exit::Absent)
        })?,
    };
    let recorded = record::record(&nsys, arguments, opener.console())?;
    match &recorded.program {
        Program::Well => opener.console().note("the profiled program ended with exit code 0"),
        Program::Badly(ended) => {
            let message = format!("the profiled program {ended}; the trace holds what ran until then");
            flopgap_cli::warn(PROGRAM, message);
        }
        Program::Unknown(ended) => {
            flopgap_cli::warn(
                PROGRAM,
                format!("nsys {ended}, so how the profiled program ended is not known"),
            );
        }
    }
    opener.console().note(format_args!("wrote {}", recorded.sqlite.display()));
    summary::print(std::slice::from_ref(&recorded.sqlite), &arguments.view, opener)?;
    match recorded.program {
        Program::Badly(ended) => Err(Failure::new(format!("the profiled program {ended}"))),
        Program::Well | Program::Unknown(_) => Ok(()),
    }
}
