//! `nsys-analyze rules TRACE…`: the expert rules of `nsys analyze`.

use std::path::PathBuf;

use flopgap_cli::Failure;
use flopgap_nsys::Rule;

use crate::output::{Nothing, Output, OutputArguments};
use crate::{PROGRAM, open, warn_all};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite`.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Rules by nsys's names, such as `gpu_gaps,cuda_api_sync`; without, all.
    #[arg(long, short, value_delimiter = ',', value_name = "RULE")]
    rule: Vec<Rule>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rules = if arguments.rule.is_empty() { Rule::ALL.as_slice() } else { arguments.rule.as_slice() };
    let mut output = Output::new(&arguments.output, rules.len() * arguments.traces.len())?;
    for path in &arguments.traces {
        let trace = open(path)?;
        for rule in rules {
            let found =
                output.report(&trace, rule.name(), Nothing::IsAnswer, |sink| trace.rule(*rule, sink))?;
            if found {
                flopgap_cli::note(PROGRAM, format!("{rule}: {}", rule.advice()));
            }
        }
        warn_all(&trace);
    }
    output.end()
}
