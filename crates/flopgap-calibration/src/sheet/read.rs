//! Reading a table.

use std::fs;
use std::path::Path;

use super::cells::{Cells, Columns, Role};
use super::workload::workload;
use super::{Record, Sheet, SheetError, SheetFault, SheetWarning};

/// How far a recorded error may be from the error of its row, in percentage points.
const SLACK: f64 = 0.1;

/// Reads a table. With `device`, only the rows of that device; without, all rows must be of one.
///
/// # Errors
/// When the file is not such a table, a cell is not what its column holds, devices are mixed, or
/// there is no row.
pub fn read(path: &Path, role: Role, device: Option<&str>) -> Result<Sheet, SheetError> {
    let bytes = fs::read(path).map_err(|source| SheetError::new(path, SheetFault::Io { source }))?;
    parse(&bytes, path, role, device)
}

/// Reads the bytes of a table. `path` is what errors name.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8], path: &Path, role: Role, device: Option<&str>) -> Result<Sheet, SheetError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(SheetError::new(path, SheetFault::Empty { what: "the file is empty" }));
    }
    let mut reader = ::csv::ReaderBuilder::new().trim(::csv::Trim::All).from_reader(bytes);
    let malformed = |error: ::csv::Error| of_csv(&error, path);
    let header = reader.headers().map_err(malformed)?.clone();
    let columns = Columns::new(&header, path, role)?;
    let mut sheet = Sheet { identity: columns.identity_names(), records: Vec::new(), warnings: Vec::new() };
    let mut counts = Counts::default();
    for row in reader.records() {
        let row = row.map_err(malformed)?;
        let line = row.position().map_or(0, ::csv::Position::line);
        if row.iter().eq(header.iter()) {
            return Err(SheetError::in_line(path, line, SheetFault::SecondHeader));
        }
        let cells = Cells { row: &row, columns: &columns, path, line };
        sheet.records.push(record(&cells, role, &mut counts)?);
    }
    if sheet.records.is_empty() {
        return Err(SheetError::new(path, SheetFault::Empty { what: "no rows below the header" }));
    }
    sheet.warnings = counts.warnings(&columns);
    of_one_device(&mut sheet, path, role, device)?;
    Ok(sheet)
}

fn of_one_device(sheet: &mut Sheet, path: &Path, role: Role, device: Option<&str>) -> Result<(), SheetError> {
    let devices = sheet.devices();
    match device {
        Some(device) => {
            if !sheet.identity.iter().any(|column| column == "device") {
                return Ok(());
            }
            sheet.records.retain(|record| record.device.as_deref() == Some(device));
            if sheet.records.is_empty() {
                let device = device.to_owned();
                return Err(SheetError::new(path, SheetFault::NoSuchDevice { device, devices }));
            }
            Ok(())
        }
        // Estimates of several devices are allowed: each row takes those of its own device.
        None if devices.len() > 1 && role != Role::Analytical => {
            Err(SheetError::new(path, SheetFault::MixedDevices { devices }))
        }
        None => Ok(()),
    }
}

fn of_csv(error: &::csv::Error, path: &Path) -> SheetError {
    let fault = match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            SheetFault::Fields { found: *len, expected: *expected_len }
        }
        ::csv::ErrorKind::Utf8 { err, .. } => {
            SheetFault::Malformed { reason: format!("field {} is not UTF-8", err.field() + 1) }
        }
        other => SheetFault::Malformed { reason: format!("{other:?}") },
    };
    SheetError::in_line(path, error.position().map_or(1, ::csv::Position::line), fault)
}

/// The counts behind warnings.
#[derive(Default)]
struct Counts {
    no_memory: usize,
    other_errors: usize,
}

impl Counts {
    fn warnings(&self, columns: &Columns) -> Vec<SheetWarning> {
        let mut warnings = Vec::new();
        if self.no_memory > 0 {
            warnings.push(SheetWarning::ZeroMemory { rows: self.no_memory });
        }
        if self.other_errors > 0 {
            warnings.push(SheetWarning::ContradictoryError { rows: self.other_errors });
        }
        if columns.has("analytical_memory_traffic_mb") && !columns.has("analytical_memory_mb") {
            warnings.push(SheetWarning::MemoryTraffic);
        }
        warnings
    }
}

/// A row of the table.
fn record(cells: &Cells<'_>, role: Role, counts: &mut Counts) -> Result<Record, SheetError> {
    let mut measured = cells.values("empirical", role != Role::Analytical)?;
    let estimated = cells.values("analytical", role != Role::Empirical)?;
    if measured.memory_mb == Some(0.0) {
        // Sweeps that measure memory on a GPU alone write 0 for a CPU.
        measured.memory_mb = None;
        counts.no_memory += 1;
    }
    if let (Some(measured), Some(estimated), Some(recorded)) =
        (measured.time_ms, estimated.time_ms, cells.number("time_error_pct")?)
    {
        let error = 100.0 * (estimated - measured).abs() / measured;
        counts.other_errors += usize::from((error - recorded).abs() > SLACK);
    }
    let bounds =
        (cells.time("analytical_time_low_ms", false)?, cells.time("analytical_time_high_ms", false)?);
    Ok(Record {
        line: cells.line,
        identity: cells.identity(),
        workload: workload(cells)?,
        device: cells.text("device").map(str::to_owned),
        precision: cells.text("precision").map(str::to_owned),
        batch: cells.integer("batch_size")?,
        measured,
        estimated,
        interval_ms: bounds.0.zip(bounds.1),
        bottleneck: cells.text("analytical_bottleneck").map(str::to_owned),
        intensity: cells.number("analytical_ai")?,
    })
}
