//! `flopgap gap TRACE`: what a step consists of, why the GPU does nothing, what to change first.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Style};
use flopgap_answers::ask;
use flopgap_answers::screen::{self, Ink};
use flopgap_cli::{Exit, Failure, FormatArg, OutputArgs};
use flopgap_timings::RangePattern;

use crate::answer::print;
use crate::failure;
use crate::opening::{Opener, warn_all};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys gap fixtures/kineto/layer.json.gz
  flopgap nsys gap fixtures/nsys/small_training_step.sqlite.zst --format json")]
pub(crate) struct Arguments {
    /// An export of `nsys export --type sqlite` or a trace of `torch.profiler`; or those of all
    /// ranks of one job, or a directory with them.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Only these ranges, such as `forward` or `step_*`, instead of those that are steps by their
    /// names. Can be repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let jobs = opener.open_jobs(&arguments.traces)?;
    let [trace] = jobs.as_slice() else {
        let message = format!("{} traces, which are not the ranks of one job", jobs.len());
        return Err(Failure::new(message)
            .hint("ask for each alone; `flopgap nsys diff A B` compares two")
            .exit(Exit::Usage));
    };
    let part = flopgap_answers::Part { ranges: arguments.range.clone(), ..flopgap_answers::Part::default() };
    let answer = ask::gap(trace, &part).map_err(|error| failure(&error))?;
    warn_all(trace);
    if arguments.output.format() == FormatArg::Table {
        let path = match arguments.traces.as_slice() {
            [path] => screen::in_commands(path),
            _ => "TRACE…".to_owned(),
        };
        let screen = screen::screen(&trace.name(), &path, &answer.data);
        if arguments.output.file().is_none() && flopgap_cli::is_colored() {
            return flopgap_cli::print_styled(&screen.styled(styled));
        }
        return arguments.output.write(opener.console(), &screen.to_text());
    }
    print(&answer, &arguments.output, opener.console())
}

/// A piece of the screen in its color.
fn styled(ink: Ink, text: &str) -> String {
    let style = match ink {
        Ink::Plain => return text.to_owned(),
        Ink::Strong => Style::new().bold(),
        Ink::Busy => AnsiColor::Green.on_default(),
        Ink::Exposed => AnsiColor::Yellow.on_default(),
        Ink::Idle => AnsiColor::Red.on_default(),
    };
    format!("{style}{text}{style:#}")
}
