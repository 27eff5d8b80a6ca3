//! `flopgap nsys summary TRACE…`: everything that the traces answer, on one page.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_answers::page::{PageOptions, page};
use flopgap_cli::Failure;
use flopgap_flops::{Attention, AttentionMask};
use flopgap_report::html::Document;
use flopgap_report::table::TextOptions;
use flopgap_timings::RangePattern;

use crate::failure;
use crate::opening::{Opener, ReadAs, warn_all};
use crate::passes::Measured;
use crate::scope::ScopeArguments;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys summary fixtures/nsys/small_training_step.sqlite.zst -o step.html
  flopgap nsys summary fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz")]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite` or traces of `torch.profiler`; two are compared, such
    /// as of inference and training. Traces of several ranks of one job, or a directory with them,
    /// are one recording.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    read_as: ReadAs,
    /// Write to this file instead of standard output, which is `-`.
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["txt", "md", "html", "json"]))]
    output: Option<PathBuf>,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    view: View,
}

/// How a page is written, and what it shows.
#[derive(clap::Args)]
pub(crate) struct View {
    /// Output format of the page [default: by the ending of --output, otherwise table].
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<PageFormat>,
    #[command(flatten)]
    look: Look,
}

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Text for reading in a terminal.
    Table,
    /// A Markdown document.
    Markdown,
    /// One file that needs no network, with charts and a timeline.
    Html,
    /// Numbers unformatted.
    Json,
}

impl PageFormat {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            PageFormat::Table => "txt",
            PageFormat::Markdown => "md",
            PageFormat::Html => "html",
            PageFormat::Json => "json",
        }
    }

    fn of(path: &Path) -> Option<PageFormat> {
        let extension = path.extension()?.to_str()?;
        PageFormat::value_variants().iter().copied().find(|format| format.extension() == extension)
    }

    /// The page in this format; `options` concern text for a terminal.
    pub(crate) fn write(self, page: &Document, options: &TextOptions) -> Result<String, Failure> {
        match self {
            PageFormat::Table => Ok(page.to_text(options)),
            PageFormat::Markdown => Ok(page.to_markdown()),
            PageFormat::Html => Ok(page.to_html()?),
            PageFormat::Json => Ok(flopgap_cli::json_document("flopgap-nsys-summary", &page.to_json()?)),
        }
    }
}

/// What a page shows.
#[derive(clap::Args)]
pub(crate) struct Look {
    /// Only these ranges, such as `forward` or `step_*`, instead of those that are steps or passes
    /// by their names. Can be repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Show only the first N rows of long tables, such as that of the kernels.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Samples in a batch, each a sequence: with the other sizes, attention is measured against its
    /// FLOPs.
    #[arg(long, value_name = "SAMPLES", requires_all = ["heads", "seq", "head_dim"], value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Attention heads.
    #[arg(long, value_name = "H", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    heads: Option<u64>,
    /// Positions of a sequence.
    #[arg(long, value_name = "S", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    seq: Option<u64>,
    /// Width of a head.
    #[arg(long, value_name = "D", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    head_dim: Option<u64>,
    #[command(flatten)]
    scope: ScopeArguments,
}

impl Look {
    /// What the page of traces shows, for which these times were measured outside.
    pub(crate) fn options(&self, measured: Vec<Vec<i64>>) -> PageOptions {
        let part = self.scope.part(&self.range);
        PageOptions { part, top: self.top, attention: self.sizes(), measured, ..PageOptions::default() }
    }

    /// The sizes of one attention layer, where they were given.
    fn sizes(&self) -> Option<Attention> {
        let heads = self.heads?;
        Some(Attention {
            batch: self.batch?,
            heads,
            kv_heads: heads,
            queries: self.seq?,
            keys: self.seq?,
            head_width: self.head_dim?,
            value_width: None,
            mask: AttentionMask::Full,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let measured = arguments.measured.times(arguments.traces.len())?;
    write(
        &arguments.traces,
        arguments.read_as,
        measured,
        &arguments.view,
        arguments.output.as_deref().filter(|path| *path != Path::new("-")),
        opener,
    )
}

/// Prints the page of traces to standard output.
pub(crate) fn print(traces: &[PathBuf], view: &View, opener: &Opener) -> Result<(), Failure> {
    write(traces, ReadAs::default(), Vec::new(), view, None, opener)
}

fn write(
    traces: &[PathBuf],
    read_as: ReadAs,
    measured: Vec<Vec<i64>>,
    view: &View,
    output: Option<&Path>,
    opener: &Opener,
) -> Result<(), Failure> {
    let traces = opener.open_jobs(traces, read_as)?;
    let page = page(&traces, &view.look.options(measured));
    for trace in &traces {
        warn_all(trace);
    }
    let page = page.map_err(|error| failure(&error))?;
    let format = view.format.or_else(|| output.and_then(PageFormat::of)).unwrap_or(PageFormat::Table);
    let options = if output.is_some() { TextOptions::default() } else { TextOptions::for_stdout() };
    let text = format.write(&page, &options)?;
    let Some(output) = output else { return flopgap_cli::print(&text) };
    flopgap_files::write_atomic(output, text.as_bytes())?;
    opener.console().note(format_args!("wrote {}", output.display()));
    Ok(())
}
