//! Reads every kind of report.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::csv::number::NumberFormat;
use crate::csv::{CsvSource, Decimal};
use crate::decode::{self, Content, Input};
use crate::error::{Error, Fault};
use crate::model::{Launch, LaunchView, Layout, Strings};
use crate::rep::RepSource;
use crate::source::{Context, Source};
use crate::warning::{Note, Warning};

/// How to read a report; the default reads everything.
///
/// ```
/// use flopgap_ncu::{NumberFormat, Reader};
///
/// let csv = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
///            \"0\",\"saxpy\",\"Waves Per SM\",\"\",\"1.024\"\n";
/// // Nothing in this file decides whether that is about one or about a thousand.
/// let mut reader = Reader::from_reader(csv.as_bytes(), "saxpy.csv")?;
/// assert!(reader.next_launch().is_err());
///
/// let mut reader = Reader::options().number_format(NumberFormat::Comma).from_reader(csv.as_bytes(), "saxpy.csv")?;
/// let launch = reader.next_launch()?.expect("one launch");
/// assert_eq!(launch.metric_named("Waves Per SM").unwrap().value.as_f64(), Some(1024.0));
/// # Ok::<(), flopgap_ncu::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    number_format: NumberFormat,
}

impl Options {
    /// Sets how a CSV's numbers are read instead of inferring it.
    #[must_use]
    pub fn number_format(mut self, format: NumberFormat) -> Self {
        self.number_format = format;
        self
    }

    /// See [`Reader::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Reader, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::new(path, Fault::Io { source }))?;
        self.from_reader(file, path)
    }

    /// See [`Reader::from_reader`].
    pub fn from_reader(
        self,
        input: impl Read + Send + 'static,
        name: impl Into<PathBuf>,
    ) -> Result<Reader, Error> {
        let path = name.into();
        let (format, input) = decode::open(Box::new(input), &path)?;
        let mut context = Context::default();
        let source = match format {
            Content::Report => Format::Report(Box::new(RepSource::new(input, path)?)),
            Content::Text => {
                let decimal = match self.number_format {
                    NumberFormat::Auto => None,
                    NumberFormat::Point => Some(Decimal::Point),
                    NumberFormat::Comma => Some(Decimal::Comma),
                };
                let mut csv = CsvSource::new(input, path, decimal);
                csv.find_table(&mut context)?;
                Format::Csv(Box::new(csv))
            }
        };
        Ok(Reader { source, context, launch: Launch::default(), failed: false })
    }

    /// See [`read`].
    pub fn read(self, path: impl AsRef<Path>) -> Result<Report, Error> {
        self.open(path)?.into_report()
    }
}

enum Format {
    Csv(Box<CsvSource<Input>>),
    Report(Box<RepSource<Input>>),
}

/// Reads a report launch by launch, in constant memory.
///
/// ```
/// # use flopgap_ncu::Reader;
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ncu/n4_d512_m64_forward.csv");
/// let mut reader = Reader::open(path)?;
/// let mut launches = 0;
/// while let Some(launch) = reader.next_launch()? {
///     println!("{:>4} {}", launch.id.unwrap(), launch.kernel_name());
///     launches += 1;
/// }
/// assert_eq!(launches, 17);
/// # Ok::<(), flopgap_ncu::Error>(())
/// ```
pub struct Reader {
    source: Format,
    context: Context,
    launch: Launch,
    failed: bool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("layout", &self.layout())
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a report of any kind: CSV in every layout and encoding, `.ncu-rep`, each also
    /// compressed with gzip or zstd. It is recognized by its content, never by its name.
    ///
    /// # Errors
    /// Any [`Error`]: a file that holds no table says why ([`Fault::CounterPermission`],
    /// [`Fault::NoKernels`], [`Fault::ProfilerFailed`], [`Fault::NotAReport`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        Options::default().open(path)
    }

    /// Like [`Reader::open`], for anything that can be read; `name` stands for it in messages.
    pub fn from_reader(input: impl Read + Send + 'static, name: impl Into<PathBuf>) -> Result<Reader, Error> {
        Options::default().from_reader(input, name)
    }

    /// Options to open a report with.
    pub fn options() -> Options {
        Options::default()
    }

    /// The next launch, or `None` at the end.
    ///
    /// The launch lives until the next call, which reuses its memory. Rows of one launch that stand
    /// apart in the file come as two launches, with a warning; [`read`] joins them.
    ///
    /// # Errors
    /// [`Fault::Io`], and what would give a wrong number: [`Fault::UndecidableNumber`],
    /// [`Fault::ContradictoryNumber`], [`Fault::DamagedReport`]. After an error there are no more
    /// launches.
    pub fn next_launch(&mut self) -> Result<Option<LaunchView<'_>>, Error> {
        if self.failed {
            return Ok(None);
        }
        let found = match &mut self.source {
            Format::Csv(csv) => csv.next_launch(&mut self.context, &mut self.launch),
            Format::Report(report) => report.next_launch(&mut self.context, &mut self.launch),
        };
        self.failed = found.is_err();
        Ok(found?.then_some(LaunchView { launch: &self.launch, strings: &self.context.strings }))
    }

    /// The strings of the launches so far.
    pub fn strings(&self) -> &Strings {
        &self.context.strings
    }

    /// Warnings so far; complete at the end.
    pub fn warnings(&self) -> &[Warning] {
        &self.context.warnings
    }

    /// Lines that belong to no table: ncu's messages and the program's own output. The first
    /// thousand are kept.
    pub fn notes(&self) -> &[Note] {
        &self.context.notes
    }

    /// Where launches or metrics were first lost so far: the line (CSV) or byte (`.ncu-rep`) at
    /// which the file breaks off or a row or a result is damaged. A sum over a report with a loss
    /// may be too small. Complete at the end.
    pub fn lost_at(&self) -> Option<u64> {
        self.context.lost_at
    }

    /// What kind of report it is; in a file of several tables, that of the table being read.
    pub fn layout(&self) -> Layout {
        match &self.source {
            Format::Csv(csv) => csv.layout().unwrap_or(Layout::Long),
            Format::Report(_) => Layout::Report,
        }
    }

    /// Reads the rest into memory and joins the rows of launches that stand apart.
    pub fn into_report(mut self) -> Result<Report, Error> {
        let layout = self.layout();
        let mut launches: Vec<Launch> = Vec::new();
        let mut places = FxHashMap::default();
        while let Some(view) = self.next_launch()? {
            let launch = view.launch;
            if let Some(id) = launch.id {
                // Mostly one: several kernels have one id only where reports were put together.
                let known: &mut Vec<usize> =
                    places.entry((launch.segment, launch.process_id, id)).or_default();
                if let Some(&place) = known.iter().find(|&&place| launches[place].is_same_kernel(launch)) {
                    launches[place].metrics.extend_from_slice(&launch.metrics);
                    continue;
                }
                known.push(launches.len());
            }
            launches.push(launch.clone());
        }
        let Context { strings, warnings, notes, rule_rows, lost_at } = self.context;
        Ok(Report { launches, strings, warnings, notes, rule_rows, lost_at, layout })
    }
}

/// A whole report in memory.
#[derive(Debug, Clone)]
pub struct Report {
    /// The launches in the file's order, each once.
    pub launches: Vec<Launch>,
    /// The strings behind the launches' symbols.
    pub strings: Strings,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Lines that belong to no table; the first thousand.
    pub notes: Vec<Note>,
    /// Rows that hold advice of ncu's rules; they are skipped.
    pub rule_rows: u64,
    /// Where launches or metrics were first lost, as [`Reader::lost_at`].
    pub lost_at: Option<u64>,
    /// The kind of the file's first table.
    pub layout: Layout,
}

impl Report {
    /// The launches with their strings.
    pub fn iter(&self) -> impl Iterator<Item = LaunchView<'_>> + Clone {
        self.launches.iter().map(|launch| LaunchView { launch, strings: &self.strings })
    }
}

/// Reads a whole report into memory. To go through a large one in constant memory, use [`Reader`].
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ncu/n4_d512_m64_forward.csv");
/// let report = flopgap_ncu::read(path)?;
/// let fma = report.strings.find("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum").unwrap();
/// assert!(report.launches.iter().all(|launch| launch.metric(fma).is_some()));
/// # Ok::<(), flopgap_ncu::Error>(())
/// ```
///
/// # Errors
/// As [`Reader::open`] and [`Reader::next_launch`].
pub fn read(path: impl AsRef<Path>) -> Result<Report, Error> {
    Options::default().read(path)
}
