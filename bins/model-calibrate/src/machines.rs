//! `flopgap calibrate machines`: which GPUs can be estimated for, and what was measured on each.

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_report::numbers;
use flopgap_report::table::{Cell, Column, Format, Table};
use flopgap_roofline::machines::{NAMES, REFERENCE, named};
use flopgap_roofline::pytorch::{self, Errors};

use crate::recorded;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate machines --format json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let output = &arguments.output;
    let format = output.format();
    let text = output.text();
    let table = listed()?.render(format, &text)?;
    // Data alone is what programs read.
    let is_data = format == Format::Json || format.is_csv();
    let sentences = if is_data { String::new() } else { format.sentences(&sentences(), &text) };
    output.write(console, &(sentences + &table))
}

/// What the table does not have.
fn sentences() -> String {
    let mut lines = vec![
        "Errors are those of a fifth of the rows that the others predicted; covered: by intervals of 90%."
            .to_owned(),
        format!("Measured by flopgap itself: {}.", recorded::names()),
        format!(
            "Other kinds of work are transferred from the {REFERENCE} by peaks; measured over transferred, median (90%):"
        ),
    ];
    for machine in NAMES.iter().filter_map(|name| named(name)) {
        let bounds = machine.transfers().map(|(bound, transfer)| {
            let [median, low, high] = transfer.ratio;
            format!("{bound} {median:.2} ({low:.2} to {high:.2})")
        });
        let bounds: Vec<String> = bounds.collect();
        if !bounds.is_empty() {
            lines.push(format!("  {}: {}", machine.name, bounds.join(", ")));
        }
    }
    let inference = pytorch::NAMES.iter().filter_map(|name| Some(("calls", pytorch::named(name)?)));
    let training =
        pytorch::NAMES.iter().filter_map(|name| Some(("training steps", pytorch::training(name)?)));
    for (what, pytorch) in inference.chain(training) {
        let about = &pytorch.about;
        let errors = |of: &Errors| {
            if of.runs == 0 {
                return "not timed".to_owned();
            }
            let [error, covered] = [of.mape, of.coverage].map(|share| numbers::percent(share, 1));
            format!("MAPE {error}, {covered} covered")
        };
        lines.push(format!(
            "{}: {what} of {} models on {}; models of architectures that were left out: as a CUDA graph {}, eager {}.",
            about.software,
            about.models,
            about.device,
            errors(&about.graph),
            errors(&about.eager)
        ));
        if let Some(compiled) = &about.compiled {
            lines.push(format!(
                "  By torch.compile: as a CUDA graph {}, in its default mode {}.",
                errors(&compiled.graph),
                errors(&compiled.launched)
            ));
        }
    }
    lines.join("\n") + "\n\n"
}

fn listed() -> Result<Table, Failure> {
    let mut table = Table::new(
        "Measured by NVIDIA in vLLM's kernels (ai-dynamo/aiconfigurator 095f58a, Apache-2.0)",
        [
            Column::text("machine", "machine"),
            Column::text("device", "device").rank(3),
            Column::text("software", "software").rank(4),
            Column::text("kind", "kind"),
            Column::text("variant", "of"),
            Column::number("rows", "rows").rank(0),
            Column::number("mape", "MAPE").rank(0),
            Column::number("median", "median").rank(2),
            Column::number("p90", "p90").rank(1),
            Column::number("covered", "covered").rank(0),
        ],
    )?;
    for machine in NAMES.iter().filter_map(|name| named(name)) {
        for listed in machine.tables() {
            let judged = listed.judged;
            table.push([
                Cell::text(machine.name.clone()),
                Cell::text(machine.device.clone()),
                Cell::text(machine.software.join(", ")),
                Cell::text(listed.class.kind()),
                Cell::text(listed.class.variant()),
                Cell::from(listed.rows as u64),
                Cell::percent(judged.mape, 1),
                Cell::percent(judged.median, 1),
                Cell::percent(judged.p90, 1),
                Cell::percent(judged.coverage, 1),
            ])?;
        }
    }
    Ok(table)
}
