//! `flopgap nsys rules TRACE…`: the expert rules of `nsys analyze`.

use std::path::PathBuf;

use flopgap_answers::sentences;
use flopgap_cli::Failure;
use flopgap_nsys::{AppliedRule, Rule};

use crate::filter::FilterArguments;
use crate::opening::{Opener, warn_all};
use crate::output::{Nothing, Output, OutputArguments};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys rules fixtures/nsys/small_training_step.sqlite.zst
  flopgap nsys rules fixtures/nsys/small_training_step.sqlite.zst --rule gpu_gaps:gap=100 --filter-time 1s/")]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite`.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Rules by nsys's names, such as `gpu_gaps:gap=100,cuda_api_sync:rows=-1`; without, all.
    #[arg(long, short, value_delimiter = ',', value_name = "RULE")]
    rule: Vec<AppliedRule>,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let rules = if arguments.rule.is_empty() {
        Rule::ALL.map(AppliedRule::from).to_vec()
    } else {
        arguments.rule.clone()
    };
    let mut output = Output::new(&arguments.output, rules.len() * arguments.traces.len(), opener.console())?;
    for path in &arguments.traces {
        let (export, file) = opener.open_nsys(path, "expert rules of nsys")?;
        let filtered = arguments.filter.apply(&export)?;
        let trace = filtered.as_ref().unwrap_or(&export);
        for applied in &rules {
            let rule = applied.rule;
            let found = output.report(trace, &applied.to_string(), Nothing::IsAnswer, |sink| {
                trace.rule(applied.clone(), sink)
            })?;
            if let Some(advice) = sentences::advice(rule).filter(|_| found) {
                opener.console().note(format_args!("{rule}: {advice}"));
            }
        }
        warn_all(&file);
    }
    output.end()
}
