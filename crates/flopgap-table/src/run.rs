//! Tables of run directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flopgap_flops::Pass;
use flopgap_kernels::Classifier;
use flopgap_phases::sweep::{
    Config, MetricsRow, Problem, Quantity, RawFiles, Record, RunAnalysis, Stage, is_record,
};
use flopgap_phases::{Step, Strictness};

use crate::column::{Column, count, float, looked_up, maybe_count, maybe_int, text};
use crate::finding::Finding;
use crate::held::{Held, table};
use crate::info::Named;
use crate::table::Rows;
use crate::{Error, Table};

/// A run directory.
#[derive(Debug)]
pub(crate) struct Run {
    path: PathBuf,
    /// Its records, one for each configuration counted in process.
    records: Vec<(Config, PathBuf)>,
    classifier: Arc<Classifier>,
    analysis: OnceLock<Arc<RunAnalysis>>,
    warnings: Mutex<Vec<Finding>>,
}

const METRICS: Named = Named {
    name: "metrics",
    about: "Counted and theoretical FLOPs and the overheads of each network and pass.",
};
const OVERHEADS: Named = Named {
    name: "overheads",
    about: "From the closed form of each pass to what was counted, by cause and kernel.",
};
const LAUNCHES: Named = Named { name: "launches", about: "Every launch of every network with its counters." };

/// All tables; a run whose launches are in reports has no `launches`.
pub(crate) const TABLES: [Named; 3] = [METRICS, OVERHEADS, LAUNCHES];

impl Run {
    pub(crate) fn open(path: &Path) -> Result<Run, Error> {
        let io = |path: &Path, source| Error::Io { path: path.to_owned(), source };
        let raw = path.join("raw");
        if !raw.is_dir() {
            let what = "a folder without raw/".to_owned();
            return Err(Error::Unrecognized { path: path.to_owned(), what });
        }
        let files = RawFiles::list(&raw).map_err(|source| io(&raw, source))?;
        let record = |(config, stages): (Config, BTreeMap<Stage, PathBuf>)| {
            let record = stages.get(&Stage::Whole).filter(|path| is_record(path))?;
            Some((config, record.clone()))
        };
        let records = files.configs.into_iter().filter_map(record).collect();
        let classifier = Arc::new(Classifier::new());
        Ok(Run {
            path: path.to_owned(),
            records,
            classifier,
            analysis: OnceLock::new(),
            warnings: Mutex::default(),
        })
    }

    pub(crate) fn tables(&self) -> Vec<Named> {
        let count = if self.records.is_empty() { 2 } else { 3 };
        TABLES[..count].to_vec()
    }

    /// What its analysis found: what is left out, and what is questionable.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What its manifest says; nothing where it has none.
    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> Result<crate::parquet::Provenance, Error> {
        let manifest = flopgap_phases::sweep::Manifest::read(&self.path)
            .map_err(flopgap_phases::sweep::RunError::from)?;
        let recorded = manifest.as_ref().and_then(|manifest| crate::parquet::spelled(&manifest.created));
        let origin = manifest.map(|manifest| manifest.origin).unwrap_or_default();
        Ok(crate::parquet::Provenance {
            recorded,
            profiler: origin.profiler,
            gpu: origin.device,
            driver: origin.driver,
            ..Default::default()
        })
    }

    /// The analysis of the whole run, computed on first use.
    fn analysis(&self) -> Result<Arc<RunAnalysis>, Error> {
        if let Some(analysis) = self.analysis.get() {
            return Ok(analysis.clone());
        }
        let analysis = flopgap_phases::sweep::analyze(&self.path, Strictness::Strict, |_, _| {})?;
        analysis.require_complete(&self.path)?;
        let finding = |is_loss| move |problem: &Problem| Finding { text: problem.to_string(), is_loss };
        let problems = analysis.problems.iter().map(finding(true));
        let warnings = analysis.warnings.iter().map(finding(false));
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = problems.chain(warnings).collect();
        Ok(self.analysis.get_or_init(|| Arc::new(analysis)).clone())
    }

    pub(crate) fn table(&self, path: &Arc<Path>, name: &str) -> Result<Option<Table>, Error> {
        Ok(match name {
            "metrics" => Some(table(path, (METRICS.name, METRICS.about), metrics(), self.metrics()?)),
            "overheads" => {
                Some(table(path, (OVERHEADS.name, OVERHEADS.about), overheads(), self.overheads()?))
            }
            "launches" if self.records.is_empty() => {
                return Err(Error::NoRecords { path: self.path.clone() });
            }
            "launches" => {
                let records = self.records.clone();
                let columns = launches(&self.classifier);
                Some(Table::new(path, (LAUNCHES.name, LAUNCHES.about), columns, move || {
                    Ok(Box::new(records.clone().into_iter().flat_map(|(_, path)| of_record(&path)))
                        as Rows<Launch>)
                }))
            }
            _ => None,
        })
    }

    fn metrics(&self) -> Result<Vec<MetricsRow>, Error> {
        let analysis = self.analysis()?;
        let rows = analysis.configs.iter().map(|(config, one)| MetricsRow::of(*config, one));
        let rows: Result<Vec<_>, _> = rows.collect();
        Ok(rows.map_err(|source| self.flops(source))?.into_iter().flatten().collect())
    }

    fn overheads(&self) -> Result<Vec<Overhead>, Error> {
        let mut rows = Vec::new();
        for (&config, analysis) in &self.analysis()?.configs {
            for (pass, part) in [(Pass::Forward, &analysis.forward), (Pass::Backward, &analysis.backward)] {
                let breakdown = part.breakdown().map_err(|source| self.flops(source))?;
                rows.extend(breakdown.steps.into_iter().map(|step| Overhead {
                    config,
                    pass,
                    // Differences of 64-bit counts exceed 64 bits only in damaged files.
                    flops: i64::try_from(step.flops).ok(),
                    tile: step.tile.map(|tile| tile.to_string()),
                    step,
                }));
            }
        }
        Ok(rows)
    }

    fn flops(&self, source: flopgap_flops::FlopError) -> Error {
        Error::Flops { path: self.path.clone(), source }
    }
}

/// A part of what a pass executed.
struct Overhead {
    config: Config,
    pass: Pass,
    step: Step,
    flops: Option<i64>,
    tile: Option<String>,
}

/// A launch of a record.
struct Launch {
    config: Config,
    phase: &'static str,
    index: u64,
    kernel: Arc<str>,
    grid: [u64; 3],
    block: [u64; 3],
    quantities: [Option<u64>; Quantity::ALL.len()],
    flops: Option<u64>,
}

/// The launches of a record, or why it cannot be read.
fn of_record(path: &Path) -> Vec<Result<Launch, Error>> {
    let record = match Record::read(path) {
        Ok(record) => record,
        Err(error) => return vec![Err(error.into())],
    };
    let mut names: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let launches = record.launches().zip(0..).map(|(launch, index)| {
        let kernel = names.entry(launch.kernel).or_insert_with(|| launch.kernel.into()).clone();
        Ok(Launch {
            config: record.config(),
            phase: launch.phase.as_str(),
            index,
            kernel,
            grid: launch.grid,
            block: launch.block,
            quantities: Quantity::ALL.map(|quantity| launch.get(quantity)),
            flops: launch.flops().ok(),
        })
    });
    launches.collect()
}

fn config<R>(of: impl Fn(&R) -> Config + Clone + Send + Sync + 'static) -> [Column<R>; 3] {
    let [n, d, m] = [of.clone(), of.clone(), of];
    [
        count("n", "Layers.", move |row| n(row).n),
        count("d", "Width: inputs and outputs of each layer.", move |row| d(row).d),
        count("m", "Columns of the input.", move |row| m(row).m),
    ]
}

fn metrics() -> Vec<Column<Held<MetricsRow>>> {
    type Row = Held<MetricsRow>;
    let mut columns: Vec<Column<Row>> = config(|row: &Row| row.config()).into();
    columns.extend([
        text("pass", "`forward` or `backward`.", |row: &Row| Some(row.pass.name())),
        count("gemm_flops", "Counted FLOPs of matrix products.", |row: &Row| row.gemm),
        count(
            "split_k_flops",
            "Counted FLOPs of split-K reductions and, backward, of the loss reduction.",
            |row: &Row| row.split_k,
        ),
        count("activation_flops", "Counted FLOPs of element-wise kernels.", |row: &Row| row.activation),
        count("other_flops", "Counted FLOPs of all other kernels.", |row: &Row| row.other),
        count("total_flops", "All counted FLOPs.", |row: &Row| row.total),
        count("theory_gemm_flops", "The closed form's FLOPs of matrix products.", |row: &Row| {
            row.theory_gemm
        }),
        count("theory_activation_flops", "The closed form's FLOPs of activations.", |row: &Row| {
            row.theory_activation
        }),
        float("epsilon", "`gemm / theory_gemm - 1`.", |row: &Row| row.epsilon),
        float("rho", "`split_k` by the closed form's activations.", |row: &Row| row.rho),
        float("kappa", "`activation / theory_activation - 1`.", |row: &Row| row.kappa),
        float("omega", "`total / theory - 1`.", |row: &Row| row.omega),
        count(
            "reconstructed_flops",
            "What the closed form gives with the overheads: equal to the total.",
            |row: &Row| row.reconstructed,
        ),
    ]);
    columns
}

fn overheads() -> Vec<Column<Held<Overhead>>> {
    type Row = Held<Overhead>;
    let mut columns: Vec<Column<Row>> = config(|row: &Row| row.config).into();
    columns.extend([
        text("pass", "`forward` or `backward`.", |row: &Row| Some(row.pass.name())),
        text("cause", "Why it was executed.", |row: &Row| Some(row.step.cause.name())),
        text("kernel", "The kernel that did it; absent for the closed form.", |row: &Row| {
            row.step.kernel.as_deref()
        }),
        text("tile", "The output tile of one thread block, where the kernel's name has it.", |row: &Row| {
            row.tile.as_deref()
        }),
        count("launches", "Launches of the kernel; 0 for the closed form.", |row: &Row| row.step.launches),
        maybe_int(
            "flops",
            "FLOPs; negative where less was counted than the closed form has.",
            |row: &Row| row.flops,
        ),
    ]);
    columns
}

fn launches(classifier: &Arc<Classifier>) -> Vec<Column<Launch>> {
    let classifier = classifier.clone();
    let mut columns: Vec<Column<Launch>> = config(|launch: &Launch| launch.config).into();
    columns.extend([
        text("phase", "`setup`, `forward` or `backward`.", |launch: &Launch| Some(launch.phase)),
        count("index", "Its place among the launches of the network, from 0.", |launch: &Launch| {
            launch.index
        }),
        text("name", "The kernel's name.", |launch: &Launch| Some(&launch.kernel)),
        looked_up(
            "class",
            "The kind of work, from the name.",
            |launch: &Launch| Some(launch.kernel.clone()),
            move |name| Ok(Some(classifier.get(&name).class.as_str().into())),
        ),
        count("grid_x", "Blocks in x.", |launch: &Launch| launch.grid[0]),
        count("grid_y", "Blocks in y.", |launch: &Launch| launch.grid[1]),
        count("grid_z", "Blocks in z.", |launch: &Launch| launch.grid[2]),
        count("block_x", "Threads of a block in x.", |launch: &Launch| launch.block[0]),
        count("block_y", "Threads of a block in y.", |launch: &Launch| launch.block[1]),
        count("block_z", "Threads of a block in z.", |launch: &Launch| launch.block[2]),
    ]);
    for (place, quantity) in Quantity::ALL.into_iter().enumerate() {
        let about = match quantity {
            Quantity::DurationNs => "Time on the GPU; absent where it was not measured.",
            _ => "Executed instructions of threads; absent where they were not counted.",
        };
        columns.push(maybe_count(quantity.name(), about, move |launch: &Launch| launch.quantities[place]));
    }
    columns.push(maybe_count(
        "flops",
        "Executed FLOPs, a fused multiply-add being two.",
        |launch: &Launch| launch.flops,
    ));
    columns
}
