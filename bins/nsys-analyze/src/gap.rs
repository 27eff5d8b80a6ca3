//! `flopgap gap TRACE…`: what a step consists of, why the GPU does nothing, what to change first;
//! of two traces, why a step takes longer in one.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap::builder::styling::{AnsiColor, Style};
#[cfg(feature = "pages")]
use flopgap_answers::page::{PageOptions, Sections, page};
use flopgap_answers::screen::{self, Ink, Screen};
use flopgap_answers::{Opened, Part, ask};
use flopgap_cli::{Exit, Failure, OutputArgs};
use flopgap_report::table::Format;
use flopgap_timings::RangePattern;

use crate::answer::print;
use crate::failure;
use crate::opening::{Opener, ReadAs, warn_all};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys gap fixtures/kineto/layer.json.gz
  flopgap nsys gap fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz
  flopgap nsys gap fixtures/nsys/small_training_step.sqlite.zst -o step.html")]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite` or traces of `torch.profiler`; those of all ranks of
    /// one job, or a directory with them, are one. Of two recordings, it is by which causes a step
    /// of the second takes longer.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    read_as: ReadAs,
    /// Only these ranges, such as `forward` or `step_*`, instead of those that are steps by their
    /// names. Can be repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// The recording in which the CUDA graphs of the trace were captured: their kernels belong to
    /// the operators that were captured.
    #[arg(long, value_name = "TRACE")]
    capture: Option<PathBuf>,
    /// Ceilings of such a GPU, as `flopgap calibrate probe --output` writes them, for the floor of
    /// a step [default: its data sheet].
    #[cfg(feature = "ceilings")]
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,
    /// Output format [default: by the ending of --output, otherwise table].
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Form>,
    /// Write to this file instead of standard output, which is `-`.
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["txt", "csv", "json", "md", "html"]))]
    output: Option<PathBuf>,
}

/// How a step taken apart is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Answer(Format),
    Html,
}

impl ValueEnum for Form {
    fn value_variants<'a>() -> &'a [Form] {
        use Format::{Csv, CsvEscaped, Json, Markdown, Table};
        const ALL: [Form; 6] = [
            Form::Answer(Table),
            Form::Answer(Json),
            Form::Answer(Csv),
            Form::Answer(CsvEscaped),
            Form::Answer(Markdown),
            Form::Html,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Form::Answer(format) => format.to_possible_value(),
            Form::Html => Some(
                PossibleValue::new("html").help("One file that needs no network, with charts and a timeline"),
            ),
        }
    }
}

impl Arguments {
    /// What was measured on the GPU of the traces.
    #[cfg(feature = "ceilings")]
    fn peaks(&self, traces: &[Opened]) -> Result<Option<flopgap_gap::Peaks>, Failure> {
        self.ceilings.as_deref().map(|path| crate::ceilings::read(path, traces)).transpose()
    }

    /// Without what reads ceilings, there are none.
    #[cfg(not(feature = "ceilings"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    fn peaks(&self, _: &[Opened]) -> Result<Option<flopgap_gap::Peaks>, Failure> {
        Ok(None)
    }

    fn is_page(&self) -> bool {
        let is_html =
            |path: &PathBuf| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
        self.format.map_or_else(|| self.output.as_ref().is_some_and(is_html), |format| format == Form::Html)
    }

    /// How an answer is written that is not a page.
    fn output(&self) -> OutputArgs {
        let format = match self.format {
            Some(Form::Answer(format)) => Some(format),
            Some(Form::Html) | None => None,
        };
        OutputArgs::new(format, self.output.clone())
    }
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    #[cfg(not(feature = "pages"))]
    if arguments.is_page() {
        return Err(flopgap_cli::built_without("pages", "pages"));
    }
    let jobs = opener.open_jobs(&arguments.traces, arguments.read_as)?;
    let peaks = arguments.peaks(&jobs)?;
    let capture = arguments.capture.as_deref().map(|path| opener.open(path)).transpose()?.map(Arc::new);
    if let Some(capture) = &capture {
        warn_all(capture);
    }
    let part = Part { ranges: arguments.range.clone(), peaks, capture, ..Part::default() };
    let output = arguments.output();
    #[cfg(feature = "pages")]
    if arguments.is_page() {
        let options = PageOptions { part, sections: Sections::First, ..PageOptions::default() };
        let page = page(&jobs, &options);
        jobs.iter().for_each(warn_all);
        return output.write(opener.console(), &page.map_err(|error| failure(&error))?.to_html()?);
    }
    let answers: Result<Vec<_>, _> = jobs.iter().map(|trace| ask::gap(trace, &part)).collect();
    let answers = answers.map_err(|error| failure(&error))?;
    jobs.iter().for_each(warn_all);
    let difference = match answers.as_slice() {
        [a, b] => ask::difference_of([&a.data, &b.data]).map_err(|error| failure(&error))?,
        _ => None,
    };
    if output.format() == Format::Table {
        let screens = match (&difference, jobs.as_slice()) {
            (Some(found), [a, b]) => {
                let gaps = [&answers[0].data, &answers[1].data];
                vec![screen::difference([&a.title(), &b.title()], &arguments.traces, gaps, &found.data)]
            }
            (_, [trace]) => vec![screen::screen(&trace.title(), &arguments.traces, &answers[0].data)],
            (_, several) => {
                let each = several.iter().zip(&answers);
                let alone = each.map(|(trace, answer)| {
                    screen::screen(&trace.title(), &[trace.path().to_owned()], &answer.data)
                });
                alone.collect()
            }
        };
        if output.file().is_none() && flopgap_cli::is_colored() {
            return flopgap_cli::print_styled(&joined(&screens, |screen| screen.styled(styled)));
        }
        return output.write(opener.console(), &joined(&screens, Screen::to_text));
    }
    match (answers.as_slice(), &difference) {
        ([answer], _) => print(answer, &output, opener.console()),
        (_, Some(answer)) => print(answer, &output, opener.console()),
        _ => {
            let message =
                format!("{} traces, which are not the ranks of one job and do not compare", answers.len());
            Err(Failure::new(message).hint("ask for each alone, or for a table or a page").exit(Exit::Usage))
        }
    }
}

/// Screens one below the other.
fn joined(screens: &[Screen], text: impl Fn(&Screen) -> String) -> String {
    screens.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// A piece of the screen in its color.
fn styled(ink: Ink, text: &str) -> String {
    let style = match ink {
        Ink::Plain => return text.to_owned(),
        Ink::Strong => Style::new().bold(),
        Ink::Busy | Ink::Shorter => AnsiColor::Green.on_default(),
        Ink::Exposed => AnsiColor::Yellow.on_default(),
        Ink::Idle | Ink::Longer => AnsiColor::Red.on_default(),
    };
    format!("{style}{text}{style:#}")
}
