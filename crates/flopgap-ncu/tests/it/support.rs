//! Fixtures, and reading from memory.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use flopgap_ncu::{Error, LaunchView, Reader, Report, Value};

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ncu").join(name)
}

/// The bytes of a fixture, decompressed.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let raw = std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if Path::new(name).extension().is_none_or(|extension| extension != "zst") {
        return raw;
    }
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(&raw[..]).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

pub(crate) fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).unwrap()
}

pub(crate) fn read(name: &str) -> Report {
    flopgap_ncu::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn parse(bytes: impl Into<Vec<u8>>) -> Result<Report, Error> {
    Reader::from_reader(Cursor::new(bytes.into()), "memory.csv")?.into_report()
}

/// A launch with its strings resolved, to compare reports whose symbols differ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plain {
    pub(crate) segment: u32,
    pub(crate) id: Option<u64>,
    pub(crate) process: (Option<u64>, String),
    pub(crate) name: String,
    pub(crate) shape: (Option<[u64; 3]>, Option<[u64; 3]>),
    pub(crate) nvtx: Vec<(String, String)>,
    pub(crate) invocations: u64,
    pub(crate) metrics: Vec<PlainMetric>,
}

pub(crate) type PlainMetric = (String, String, String, String);

pub(crate) fn plain(launch: LaunchView<'_>) -> Plain {
    let get = |symbol| launch.strings.get(symbol).to_owned();
    Plain {
        segment: launch.segment,
        id: launch.id,
        process: (launch.process_id, get(launch.process_name)),
        name: get(launch.name),
        shape: (launch.grid, launch.block),
        nvtx: launch.nvtx.iter().map(|range| (get(range.domain), get(range.name))).collect(),
        invocations: launch.invocations,
        metrics: launch
            .metrics
            .iter()
            .map(|metric| {
                let value = match metric.value {
                    Value::U64(value) => format!("{value}"),
                    Value::F64(value) => format!("{value:?}f"),
                    Value::Text(text) => format!("{:?}", get(text)),
                };
                (get(metric.section), get(metric.name), get(metric.unit), value)
            })
            .collect(),
    }
}

pub(crate) fn plains(report: &Report) -> Vec<Plain> {
    report.iter().map(plain).collect()
}
