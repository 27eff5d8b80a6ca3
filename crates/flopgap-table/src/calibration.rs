//! Measured rows of a calibration as a table.

use std::path::Path;
use std::sync::Arc;

use flopgap_calibration::{Energy, EnergySource, Header, Row};
use serde_json::{Map, Value};

use crate::column::{Column, count, float, maybe_count, maybe_float, text};
use crate::held::{Held, table};
use crate::info::Named;
use crate::{Error, Table};

pub(crate) const ROWS: Named =
    Named { name: "calibration", about: "Operations and networks, measured on one machine." };

/// A calibration, read.
#[derive(Debug)]
pub(crate) struct Calibration {
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "is part of the provenance alone"))]
    header: Header,
    rows: Vec<Measured>,
    torn: bool,
}

/// A row, and its parts that are texts.
#[derive(Clone, Debug)]
struct Measured {
    row: Row,
    device: Arc<str>,
    /// What was run, as in the file: `workload`, `op`, sizes.
    spec: Map<String, Value>,
    spec_json: String,
    mode: String,
    precision: String,
    algorithms: Option<String>,
    remarks: Option<String>,
    throttle: Option<String>,
    lists: [Option<String>; LISTS.len()],
}

/// Sizes that are one number.
const SIZES: [(&str, &str); 18] = [
    ("batch", "Samples, or products of their own."),
    ("m", "Rows of a product's first factor."),
    ("n", "Columns of a product's second factor."),
    ("k", "The inner size of a product."),
    ("input", "Inputs of a fully connected network."),
    ("output", "Outputs of a fully connected network."),
    ("depth", "Layers of a residual network, as its name counts them."),
    ("inputs", "Input channels of a convolution, or inputs of a reduction."),
    ("outputs", "Output channels of a convolution, or outputs of a reduction."),
    ("groups", "Groups of a convolution."),
    ("rows", "Rows of a normalization, softmax or gather."),
    ("columns", "Columns of a normalization or softmax."),
    ("elements", "Elements of an element-wise operation or a copy."),
    ("heads", "Heads of an attention."),
    ("queries", "Queries of an attention."),
    ("keys", "Keys of an attention."),
    ("head_width", "Width of a head of an attention."),
    ("steps", "Steps of a model from a file."),
];

/// Sizes of several dimensions, which `3x3` stands for.
const LISTS: [(&str, &str); 4] = [
    ("hidden", "Widths of the hidden layers: `512x512`."),
    ("image", "Sizes of the image: `224` or `55x55`."),
    ("kernel", "Sizes of the kernel of a convolution or pooling."),
    ("stride", "Its strides."),
];

impl Calibration {
    pub(crate) fn open(path: &Path) -> Result<Calibration, Error> {
        let flopgap_calibration::Calibration { header, rows, torn } =
            flopgap_calibration::Calibration::read(path)?;
        let device: Arc<str> = header.origin.device.as_str().into();
        let rows = rows.into_iter().map(|row| Measured::new(row, &device)).collect();
        Ok(Calibration { header, rows, torn })
    }

    pub(crate) fn table(&self, path: &Path, name: &str) -> Option<Table> {
        (name == ROWS.name).then(|| table(path, (ROWS.name, ROWS.about), columns(), self.rows.clone()))
    }

    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        Vec::from_iter(self.torn.then_some("the last line was cut off and is left out"))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> crate::parquet::Provenance {
        let origin = &self.header.origin;
        crate::parquet::Provenance {
            recorded: crate::parquet::spelled(&self.header.created),
            profiler: Some("model-calibrate".to_owned()),
            profiler_version: origin.versions.get("flopgap").cloned(),
            gpu: (origin.kind == "cuda").then(|| origin.device.clone()),
            driver: origin.versions.get("driver").cloned(),
            ..Default::default()
        }
    }
}

impl Measured {
    fn new(row: Row, device: &Arc<str>) -> Measured {
        // These types cannot fail to be JSON: their maps have text for keys.
        let spec = match serde_json::to_value(&row.workload) {
            Ok(Value::Object(spec)) => spec,
            _ => Map::new(),
        };
        let word = |value: serde_json::Result<Value>| {
            value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        let joined = |texts: &[String]| (!texts.is_empty()).then(|| texts.join("; "));
        let measured = &row.measurement;
        let algorithms = (!measured.algorithms.is_empty())
            .then(|| serde_json::to_string(&measured.algorithms).ok())
            .flatten();
        Measured {
            device: device.clone(),
            spec_json: Value::Object(spec.clone()).to_string(),
            mode: word(serde_json::to_value(row.mode)),
            precision: row.precision.to_string(),
            algorithms,
            remarks: joined(&measured.remarks),
            throttle: measured.state.as_ref().and_then(|state| joined(&state.throttle)),
            lists: LISTS.map(|(key, _)| list(spec.get(key)?)),
            spec,
            row,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.spec.get(key)?.as_str()
    }

    fn energy(&self) -> Option<&Energy> {
        self.row.measurement.energy.as_ref()
    }
}

/// `3x3` of a list of numbers, and a number as it is.
fn list(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::Array(numbers) => Some(numbers.iter().map(Value::to_string).collect::<Vec<_>>().join("x")),
        _ => None,
    }
}

type Of = Held<Measured>;

fn columns() -> Vec<Column<Of>> {
    let mut columns: Vec<Column<Of>> = vec![
        text("device", "The machine's GPU or processor.", |row: &Of| Some(&row.device)),
        text("workload", "What was run: `step`, `mlp`, `resnet` or `file`.", |row: &Of| row.text("workload")),
        text("op", "The operation of a step: `gemm`, `conv`...", |row: &Of| row.text("op")),
        text("name", "The model of a file.", |row: &Of| row.text("name")),
        text("function", "Which of its kind the operation is, such as `layer`.", |row: &Of| {
            row.text("function")
        }),
        text("activation", "The activation of a network, or behind a step.", |row: &Of| {
            let epilogue = || row.spec.get("epilogue")?.get("activation")?.as_str();
            row.text("activation").or_else(epilogue)
        }),
    ];
    for (key, about) in SIZES {
        columns.push(maybe_count(key, about, move |row: &Of| row.spec.get(key)?.as_u64()));
    }
    for (place, (key, about)) in LISTS.into_iter().enumerate() {
        columns.push(text(key, about, move |row: &Of| row.lists[place].as_deref()));
    }
    columns.extend([
        text("spec", "All of what was run, as in the calibration file (JSON).", |row: &Of| {
            Some(&row.spec_json)
        }),
        text("engine", "What ran it: `cuda`, `ort`, `native`...", |row: &Of| Some(&row.row.engine)),
        text("mode", "`call`, `stream` (launched) or `graph` (replayed).", |row: &Of| Some(&row.mode)),
        text("precision", "In what arithmetic.", |row: &Of| Some(&row.precision)),
        count("threads", "Threads of the CPU that computed; 0 on a GPU.", |row: &Of| {
            u64::from(row.row.threads)
        }),
    ]);
    columns.extend(measured());
    columns
}

fn measured() -> Vec<Column<Of>> {
    vec![
        float("median_ns", "The median time of a run.", |row: &Of| row.row.measurement.time.median_ns),
        float("low_ns", "The lower bound of its 95 % confidence interval.", |row: &Of| {
            row.row.measurement.time.low_ns
        }),
        float("high_ns", "The upper bound.", |row: &Of| row.row.measurement.time.high_ns),
        float("minimum_ns", "The fastest run.", |row: &Of| row.row.measurement.time.minimum_ns),
        maybe_float("wall_ns", "The median of plain wall time, where others are normalized.", |row: &Of| {
            row.row.measurement.time.wall_ns
        }),
        count("runs", "Runs that were timed.", |row: &Of| row.row.measurement.time.runs),
        count("capped", "1 where the limit of time ended the repetitions, else 0.", |row: &Of| {
            u64::from(row.row.measurement.time.capped)
        }),
        maybe_count("memory_bytes", "The most that the engine's allocator held.", |row: &Of| {
            row.row.measurement.memory_bytes
        }),
        maybe_count("device_memory_bytes", "The most that the device or process lost to it.", |row: &Of| {
            row.row.measurement.device_memory_bytes
        }),
        maybe_float("energy_j", "Joules of a run.", |row: &Of| Some(row.energy()?.joules)),
        maybe_float("power_w", "Mean power over the window of the measurement.", |row: &Of| {
            Some(row.energy()?.watts)
        }),
        maybe_float("window_s", "The length of that window.", |row: &Of| Some(row.energy()?.window_s)),
        text("energy_source", "Where energy was read: `nvml` or `rapl`.", |row: &Of| {
            Some(match row.energy()?.source {
                EnergySource::Nvml => "nvml",
                EnergySource::Rapl => "rapl",
            })
        }),
        maybe_count("counted_flops", "FLOPs of a run, by hardware counters.", |row: &Of| {
            row.row.measurement.counted_flops
        }),
        text("algorithms", "How each step was computed, in order (JSON).", |row: &Of| {
            row.algorithms.as_deref()
        }),
        text("check_reference", "What the output was compared with.", |row: &Of| {
            Some(&row.row.measurement.check.as_ref()?.reference)
        }),
        maybe_float(
            "check_error",
            "Largest difference over the reference's largest magnitude.",
            |row: &Of| Some(row.row.measurement.check.as_ref()?.error),
        ),
        maybe_float("check_bound", "What the precision allows.", |row: &Of| {
            Some(row.row.measurement.check.as_ref()?.bound)
        }),
        maybe_count("clock_mhz", "Clock of the multiprocessors.", |row: &Of| {
            row.row.measurement.state.as_ref()?.clock_mhz.map(u64::from)
        }),
        maybe_count("memory_clock_mhz", "Clock of the memory.", |row: &Of| {
            row.row.measurement.state.as_ref()?.memory_clock_mhz.map(u64::from)
        }),
        maybe_count("temperature_c", "Degrees Celsius before the measurement.", |row: &Of| {
            row.row.measurement.state.as_ref()?.temperature_c.map(u64::from)
        }),
        text("throttle", "Why clocks were held down, by NVML's names.", |row: &Of| row.throttle.as_deref()),
        text("remarks", "What else the engine says: `fp16 computed as fp32`.", |row: &Of| {
            row.remarks.as_deref()
        }),
    ]
}
