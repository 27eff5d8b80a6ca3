//! Public tables of measurements, found through `FLOPGAP_CORPUS` (a directory with a `calibration`
//! directory in it).

use std::fs::File;
use std::path::PathBuf;

use flopgap_flops::Precision;
use flopgap_graph::op::{Conv, Gemm};
use flopgap_graph::{Algorithm, Epilogue, Mode, Op, Step};
use flopgap_roofline::predict::Observation;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;

/// A table, or `None` with the skip counted.
pub(crate) fn table(name: &str) -> Option<PathBuf> {
    let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
        return flopgap_testing::none("corpus", "FLOPGAP_CORPUS is not set");
    };
    let path = PathBuf::from(corpus).join("calibration").join(name);
    if path.is_file() { Some(path) } else { flopgap_testing::none("corpus", format!("{name} is not in it")) }
}

fn step(op: Op) -> Vec<Step> {
    vec![Step { op, epilogue: Epilogue::default() }]
}

/// `bfloat16` products of aiconfigurator's H200 recording, with energy.
pub(crate) fn h200() -> Option<Vec<Observation>> {
    let path = table("aiconfigurator_h200_gemm_vllm_0.22.0.parquet")?;
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let column = |name: &str| schema.columns().iter().position(|column| column.name() == name).unwrap();
    let [dtype, m, n, k, latency, power] = ["gemm_dtype", "m", "n", "k", "latency", "power"].map(column);
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        if row.get_string(dtype).unwrap() != "bfloat16" {
            continue;
        }
        let [m, n, k] = [m, n, k].map(|place| u64::try_from(row.get_long(place).unwrap()).unwrap());
        let nanoseconds = row.get_double(latency).unwrap() * 1e6;
        let op = Op::Gemm(Gemm { batch: 1, m, n, k });
        let mut seen = Observation::of_time(step(op), Precision::Bf16, Mode::Graph, nanoseconds);
        seen.joules = Some(row.get_double(power).unwrap() * nanoseconds * 1e-9);
        rows.push(seen);
    }
    Some(rows)
}

/// The rows of a zstd-compressed CSV as maps from column to text.
fn csv(name: &str) -> Option<Vec<std::collections::HashMap<String, String>>> {
    let reader = zstd::Decoder::new(File::open(table(name)?).unwrap()).unwrap();
    let mut reader = csv::Reader::from_reader(reader);
    Some(reader.deserialize().map(|row| row.unwrap()).collect())
}

/// What `NeuSight` knows of a kernel: names, and tiles where a name reports it them.
fn algorithm(kernels: &str, name: &str, blocks_per_sm: &str) -> Algorithm {
    // `ampere_sgemm_128x64_tn`, `..._tilesize128x128x8_...`: the last pair of numbers around an x.
    let bytes = name.as_bytes();
    let mut tile = None;
    for (place, _) in name.match_indices('x') {
        let before = name[..place].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let after = bytes[place + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let pair = (name[before..place].parse::<u32>(), name[place + 1..place + 1 + after].parse::<u32>());
        if let (Ok(rows @ 16..), Ok(columns @ 16..)) = pair {
            tile = Some([rows, columns]);
        }
    }
    // Blocks over multiprocessors: waves of one block each.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number below 2^32"
    )]
    let waves = (blocks_per_sm.parse::<f64>().unwrap() * 1000.0).round() as u64;
    Algorithm { id: kernels.to_owned(), tile, waves_thousandths: Some(waves), ..Algorithm::default() }
}

/// `NeuSight`'s linear layers of one device.
pub(crate) fn linear(device: &str, algorithms: bool) -> Option<Vec<Observation>> {
    let rows = csv("neusight_linear.csv.zst")?;
    let rows = rows.iter().filter(|row| row["Device"] == device).map(|row| {
        let size = |name: &str| row[name].parse::<u64>().unwrap();
        // Its N counts inputs and its K outputs, as the grids of the kernels show.
        let op = Op::Gemm(Gemm { batch: 1, m: size("M"), n: size("K"), k: size("N") });
        let nanoseconds = row["Latency"].parse::<f64>().unwrap() * 1e6;
        let mut seen = Observation::of_time(step(op), Precision::Fp32, Mode::Stream, nanoseconds);
        if algorithms {
            seen.algorithms = vec![algorithm(&row["Kernels"], &row["Kernel Name"], &row["Blocks per SM"])];
        }
        seen
    });
    Some(rows.collect())
}

/// `NeuSight`'s convolutions on an A100.
pub(crate) fn conv(algorithms: bool) -> Option<Vec<Observation>> {
    let rows = csv("neusight_conv_a100.csv.zst")?;
    let rows = rows.iter().map(|row| {
        let size = |name: &str| row[name].parse::<u64>().unwrap();
        let (image, kernel, padding) = (size("Input_Size"), size("Kernel_Szie"), size("Padding"));
        let channels = [size("Input_Channel"), size("Output_Channel")];
        let op = Op::Conv(Conv {
            padding: vec![[padding; 2]; 2],
            ..Conv::new(size("B"), channels, &[image; 2], kernel, size("Stride"))
        });
        let nanoseconds = row["Latency"].parse::<f64>().unwrap() * 1e6;
        let mut seen = Observation::of_time(step(op), Precision::Fp32, Mode::Stream, nanoseconds);
        if algorithms {
            seen.algorithms = vec![algorithm(&row["Kernels"], &row["Kernel Name"], &row["Blocks per SM"])];
        }
        seen
    });
    Some(rows.collect())
}
