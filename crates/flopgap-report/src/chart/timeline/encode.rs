//! The timeline as data of a page.
//!
//! Intervals are numbers of variable length (LEB128): for each level, the time since the last one
//! ended, its length, and its name; then the sums of what came before, each as the spans since the
//! last one, its color, its time, and its count. All of it is compressed by zlib and written in
//! base64, which a browser reads without a library.

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use super::{Color, Counted, Level, Timeline};
use crate::ReportError;

#[derive(Serialize)]
struct Data<'a> {
    extent: u64,
    /// Single intervals are there from here on.
    detail: u64,
    /// The length of the spans of the sums.
    span: u64,
    /// Label and color.
    names: Vec<(&'a str, u8)>,
    kinds: Vec<(&'a str, u8)>,
    parts: Vec<(&'a str, u8)>,
    rows: Vec<RowData<'a>>,
    bytes: String,
}

#[derive(Serialize)]
struct RowData<'a> {
    label: &'a str,
    counted: Counted,
    /// How many intervals are not drawn, and their nanoseconds.
    left: (u64, u64),
    lanes: Vec<LaneData<'a>>,
}

#[derive(Serialize)]
struct LaneData<'a> {
    label: &'a str,
    /// For each level, the number of intervals and of sums.
    levels: Vec<(usize, usize)>,
}

/// The JSON for the page's script.
pub(crate) fn script_json(timeline: &Timeline) -> Result<String, ReportError> {
    let mut bytes = ZlibEncoder::new(Vec::new(), Compression::new(3));
    let mut rows = Vec::new();
    for row in timeline.drawn() {
        let mut lanes = Vec::new();
        for lane in row.lanes.iter().filter(|lane| !lane.levels.is_empty()) {
            for level in &lane.levels {
                write(level, &mut bytes)?;
            }
            let levels = lane.levels.iter().map(|level| (level.intervals.len(), level.sums.len())).collect();
            lanes.push(LaneData { label: &lane.label, levels });
        }
        let left = (row.left_out.count, row.left_out.nanoseconds);
        rows.push(RowData { label: &row.label, counted: row.counted, left, lanes });
    }
    let entry = |entry: &'_ (String, Color)| entry.1.index();
    let data = Data {
        extent: timeline.extent,
        detail: timeline.detail,
        span: timeline.span(),
        names: timeline.names.iter().map(|name| (name.0.as_str(), entry(name))).collect(),
        kinds: timeline.kinds.iter().map(|kind| (kind.0.as_str(), entry(kind))).collect(),
        parts: timeline.parts.iter().map(|part| (part.0.as_str(), entry(part))).collect(),
        rows,
        bytes: BASE64_STANDARD.encode(bytes.finish()?),
    };
    serde_json::to_string(&data).map_err(ReportError::json)
}

/// How many bytes of numbers are handed to the compressor at once.
const BUFFER: usize = 1 << 16;

fn write(level: &Level, out: &mut ZlibEncoder<Vec<u8>>) -> Result<(), ReportError> {
    let mut buffer = Vec::with_capacity(BUFFER + 64);
    let mut end = 0;
    for interval in &level.intervals {
        number(interval.start - end, &mut buffer);
        number(interval.end - interval.start, &mut buffer);
        number(u64::from(interval.name), &mut buffer);
        end = interval.end;
        if buffer.len() >= BUFFER {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    let mut place = 0;
    for ((span, color), sum) in &level.sums {
        number(u64::from(span - place), &mut buffer);
        number(u64::from(*color), &mut buffer);
        number(sum.nanoseconds, &mut buffer);
        number(sum.count, &mut buffer);
        place = *span;
    }
    out.write_all(&buffer)?;
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits of it")]
fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let bytes = |value| {
            let mut out = Vec::new();
            number(value, &mut out);
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [127]);
        assert_eq!(bytes(300), [0xac, 0x02]);
        assert_eq!(bytes(u64::MAX).len(), 10);
    }
}
