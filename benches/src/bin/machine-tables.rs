//! Makes the files of the machines that others measured, and the tables of errors in
//! `docs/measurements/calibration.md`.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin machine-tables FOLDER \
//!     crates/flopgap-roofline/machines
//! ```
//!
//! `FOLDER` has a folder for each system with the Parquet tables of ai-dynamo/aiconfigurator
//! (095f58a): `gemm`, `context_attention`, `generation_attention`, `moe` and `nccl`. A table that
//! is absent is left out. Without a second folder, nothing is written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use flopgap_graph::language::{Attend, Experts, Format, Kernel, Operation, Routing};
use flopgap_roofline::machines::{Class, Judged, Machine, Peaks, Row};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A system: our name, its folder, and its peaks as aiconfigurator's files of systems state them.
struct System {
    name: &'static str,
    folder: &'static str,
    peaks: Peaks,
}

/// TFLOP/s; 0 where a system lacks a format.
#[derive(Clone, Copy)]
struct Rates {
    bf16: f64,
    fp8: f64,
    fp4: f64,
}

const fn system(
    [name, folder]: [&'static str; 2],
    gigabytes_per_second: f64,
    memory_bytes: u64,
    rates: Rates,
    [link, units]: [f64; 2],
    gpus: u64,
) -> System {
    let peaks = Peaks {
        bytes_per_second: gigabytes_per_second * 1e9,
        memory_bytes,
        bf16: rates.bf16 * 1e12,
        fp8: if rates.fp8 > 0.0 { Some(rates.fp8 * 1e12) } else { None },
        fp4: if rates.fp4 > 0.0 { Some(rates.fp4 * 1e12) } else { None },
        link_bytes_per_second: link * 1e9,
        gpus,
        units,
    };
    System { name, folder, peaks }
}

const HOPPER: Rates = Rates { bf16: 989.0, fp8: 1978.0, fp4: 0.0 };

/// The reference first. The multiprocessors of GB200 and GB300 are those of B200.
const SYSTEMS: [System; 8] = [
    system(["h200", "h200_sxm"], 4800.0, 151_397_597_184, HOPPER, [450.0, 132.0], 8),
    system(
        ["a100", "a100_sxm"],
        2039.0,
        85_899_345_920,
        Rates { bf16: 312.0, fp8: 0.0, fp4: 0.0 },
        [300.0, 108.0],
        8,
    ),
    system(["h100", "h100_sxm"], 3350.0, 85_899_345_920, HOPPER, [450.0, 132.0], 8),
    system(
        ["l40s", "l40s"],
        864.0,
        48_305_799_168,
        Rates { bf16: 362.05, fp8: 733.0, fp4: 0.0 },
        [32.0, 142.0],
        8,
    ),
    system(
        ["b200", "b200_sxm"],
        7700.0,
        193_273_528_320,
        Rates { bf16: 2250.0, fp8: 4500.0, fp4: 9000.0 },
        [900.0, 148.0],
        8,
    ),
    system(
        ["gb200", "gb200"],
        8000.0,
        198_674_743_296,
        Rates { bf16: 2500.0, fp8: 5000.0, fp4: 10000.0 },
        [900.0, 148.0],
        4,
    ),
    system(
        ["gb300", "gb300"],
        8000.0,
        298_013_687_808,
        Rates { bf16: 2500.0, fp8: 5000.0, fp4: 15000.0 },
        [900.0, 148.0],
        4,
    ),
    system(
        ["rtx-pro-6000", "rtx_pro_6000_server"],
        1792.0,
        102_641_958_912,
        Rates { bf16: 467.8, fp8: 935.6, fp4: 1871.2 },
        [64.0, 188.0],
        8,
    ),
];

/// A row by its columns.
struct Cells(BTreeMap<String, Field>);

impl Cells {
    fn text(&self, column: &str) -> Result<&str> {
        match self.0.get(column) {
            Some(Field::Str(text)) => Ok(text),
            other => Err(format!("column `{column}`: expected text, found {other:?}").into()),
        }
    }

    /// A size; a column that a table lacks is 0.
    fn size(&self, column: &str) -> Result<u64> {
        match self.0.get(column) {
            None => Ok(0),
            Some(Field::Long(size)) => Ok(u64::try_from(*size)?),
            Some(Field::Int(size)) => Ok(u64::try_from(*size)?),
            other => Err(format!("column `{column}`: expected a size, found {other:?}").into()),
        }
    }

    fn nanoseconds(&self) -> Result<f64> {
        match self.0.get("latency") {
            Some(Field::Double(milliseconds)) => Ok(milliseconds * 1e6),
            Some(Field::Float(milliseconds)) => Ok(f64::from(*milliseconds) * 1e6),
            other => Err(format!("column `latency`: expected a number, found {other:?}").into()),
        }
    }

    fn format(&self, column: &str) -> Result<Format> {
        Ok(match self.text(column)? {
            "bfloat16" => Format::Bf16,
            "fp8" => Format::Fp8,
            "fp8_block" => Format::Fp8Block,
            "nvfp4" => Format::Nvfp4,
            "int4_wo" => Format::Int4,
            "w4a16_mxfp4" => Format::Mxfp4,
            "w4a8_mxfp4_mxfp8" => Format::Mxfp4Fp8,
            other => return Err(format!("column `{column}`: unknown format `{other}`").into()),
        })
    }

    fn product(&self) -> Result<Kernel> {
        let [m, n, k] = [self.size("m")?, self.size("n")?, self.size("k")?];
        Ok(Kernel::Product { m, n, k, format: self.format("gemm_dtype")? })
    }

    fn attend(&self) -> Result<Attend> {
        let head_width = self.size("head_dim")?;
        let window = self.size("window_size")?;
        Ok(Attend {
            batch: self.size("batch_size")?,
            tokens: self.size("isl")? + self.size("step")?,
            heads: self.size("num_heads")?,
            kv_heads: self.size("num_key_value_heads")?,
            head_width,
            value_width: head_width,
            window: (window > 0).then_some(window),
            values_in_keys: false,
            cache: self.format("kv_cache_dtype")?,
        })
    }

    fn experts(&self) -> Result<Kernel> {
        let routing = match self.text("distribution")? {
            "balanced" => Routing::Balanced,
            "power_law_1.01" => Routing::Skewed,
            "power_law_1.2" => Routing::VerySkewed,
            other => return Err(format!("unknown distribution `{other}`").into()),
        };
        Ok(Kernel::Experts(Experts {
            tokens: self.size("num_tokens")?,
            hidden: self.size("hidden_size")?,
            inner: self.size("inter_size")?,
            chosen: self.size("topk")?,
            experts: self.size("num_experts")?,
            tensor_parallel: self.size("moe_tp_size")?,
            expert_parallel: self.size("moe_ep_size")?,
            routing,
            format: self.format("moe_dtype")?,
        }))
    }

    fn collective(&self) -> Result<Kernel> {
        let operation = match self.text("op_name")? {
            "all_reduce" => Operation::AllReduce,
            "all_gather" => Operation::AllGather,
            "reduce_scatter" => Operation::ReduceScatter,
            "alltoall" => Operation::AllToAll,
            other => return Err(format!("unknown collective `{other}`").into()),
        };
        let width = if self.text("nccl_dtype")? == "half" { 2 } else { 1 };
        let [gpus, elements] = [self.size("num_gpus")?, self.size("message_size")?];
        Ok(Kernel::Collective { operation, gpus, elements, width })
    }
}

/// What a table has, and how its rows are read.
type Reading = (&'static str, fn(&Cells) -> Result<Kernel>);

const TABLES: [Reading; 5] = [
    ("gemm", Cells::product),
    ("context_attention", |cells| Ok(Kernel::Prefill(cells.attend()?))),
    ("generation_attention", |cells| Ok(Kernel::Decode(cells.attend()?))),
    ("moe", Cells::experts),
    ("nccl", Cells::collective),
];

/// Rows by class, the name of the GPU, and what was measured.
#[derive(Default)]
struct Tables {
    rows: BTreeMap<Class, Vec<Row>>,
    device: String,
    software: BTreeSet<String>,
}

impl Tables {
    fn read(folder: &Path) -> Result<Self> {
        let mut tables = Self::default();
        for (name, reading) in TABLES {
            let path = folder.join(name).with_extension("parquet");
            if !path.is_file() {
                continue;
            }
            let reader = SerializedFileReader::new(File::open(&path)?)?;
            let mut seen = BTreeSet::new();
            for row in reader.get_row_iter(None)? {
                let cells = Cells(row?.into_columns().into_iter().collect());
                let kernel = reading(&cells)?;
                let class = Class::of(&kernel).ok_or("a kernel without a class")?;
                // A shape that was measured twice has one time: the first.
                if seen.insert(format!("{kernel:?}")) {
                    let nanoseconds = cells.nanoseconds()?;
                    tables.rows.entry(class).or_default().push(Row { kernel, nanoseconds });
                }
                cells.text("device")?.clone_into(&mut tables.device);
                let library = if name == "nccl" { "NCCL" } else { "vLLM" };
                let version = cells.text("version")?;
                // The commit of a build between releases is of no use.
                tables.software.insert(format!("{library} {}", version.split('+').next().unwrap_or(version)));
            }
        }
        Ok(tables)
    }
}

fn print(machine: &Machine, took: f64) {
    let percent = |fraction: f64| format!("{:.1}", 100.0 * fraction);
    for table in machine.tables() {
        let (class, judged) = (table.class, table.judged);
        let unseen = machine.unseen(class).map_or_else(String::new, |judged| {
            let one = |judged: Judged| {
                if judged.rows == 0 {
                    return "-".to_owned();
                }
                format!("{}, {} of {}", percent(judged.mape), percent(judged.coverage), judged.rows)
            };
            judged.map(one).join(" / ")
        });
        println!(
            "| {} | {}, {} | {} | {} | {} | {} | {} | {unseen} |",
            machine.name,
            class.kind(),
            class.variant(),
            table.rows,
            percent(judged.mape),
            percent(judged.median),
            percent(judged.p90),
            percent(judged.coverage)
        );
    }
    for (bound, transfer) in machine.transfers() {
        let [median, low, high] = transfer.ratio;
        eprintln!(
            "| {} | {bound} | {} | {} | {median:.2} | {low:.2} to {high:.2} |",
            machine.name,
            transfer.rows,
            percent(transfer.mape)
        );
    }
    eprintln!("{}: {took:.0} s", machine.name);
}

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    println!(
        "| GPU | table | rows | MAPE | median | p90 | covered | values never seen, between and beyond: MAPE, covered |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut reference: Option<Machine> = None;
    for system in SYSTEMS {
        let begin = std::time::Instant::now();
        let tables = Tables::read(&folder.join(system.folder))?;
        if tables.rows.is_empty() {
            eprintln!("{}: skipped: {} has no table of it", system.name, folder.display());
            continue;
        }
        let software = tables.software.into_iter().collect();
        let rows = tables.rows.into_iter().collect();
        let machine =
            Machine::fit([system.name, &tables.device], software, system.peaks, rows, reference.as_ref());
        if let Some(output) = output {
            let bytes = zstd::encode_all(machine.to_bytes()?.as_slice(), 22)?;
            std::fs::write(output.join(format!("{}.machine.zst", system.name)), bytes)?;
        }
        print(&machine, begin.elapsed().as_secs_f64());
        reference = reference.or(Some(machine));
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("machine-tables", run)
}
