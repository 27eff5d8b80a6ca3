//! Reading a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::csv::StringRecord;

use super::workload::workload;
use super::{Record, Sheet, SheetError, Values};

/// What a table is read for, and so which columns it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Measurements; estimates come from elsewhere.
    Empirical,
    /// Estimates.
    Analytical,
    /// Measurements with estimates beside them.
    Both,
}

impl Role {
    fn required(self) -> &'static [&'static str] {
        match self {
            Role::Empirical => &["batch_size", "device", "precision", "empirical_time_ms"],
            Role::Analytical => &["analytical_time_ms"],
            Role::Both => &["batch_size", "device", "precision", "empirical_time_ms", "analytical_time_ms"],
        }
    }
}

/// How far a recorded error may be from the error of its row, in percentage points.
const SLACK: f64 = 0.1;

/// Reads a table. With `device`, only the rows of that device; without, all rows must be of one.
///
/// # Errors
/// When the file is not such a table, a cell is not what its column holds, devices are mixed, or
/// there is no row.
pub fn read(path: &Path, role: Role, device: Option<&str>) -> Result<Sheet, SheetError> {
    let bytes = fs::read(path).map_err(|source| SheetError::Io { path: path.to_owned(), source })?;
    parse(&bytes, path, role, device)
}

/// Reads the bytes of a table. `path` is what errors name.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8], path: &Path, role: Role, device: Option<&str>) -> Result<Sheet, SheetError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(SheetError::Empty { path: path.to_owned(), what: "the file is empty" });
    }
    let mut reader = ::csv::ReaderBuilder::new().trim(::csv::Trim::All).from_reader(bytes);
    let malformed = |error: ::csv::Error| of_csv(&error, path);
    let header = reader.headers().map_err(malformed)?.clone();
    let columns = Columns::of(&header, path, role)?;
    let mut sheet = Sheet { identity: columns.identity_names(), records: Vec::new(), warnings: Vec::new() };
    let mut counts = Counts::default();
    for row in reader.records() {
        let row = row.map_err(malformed)?;
        let line = row.position().map_or(0, ::csv::Position::line);
        if row.iter().eq(header.iter()) {
            return Err(SheetError::SecondHeader { path: path.to_owned(), line });
        }
        let cells = Cells { row: &row, columns: &columns, path, line };
        sheet.records.push(cells.record(role, &mut counts)?);
    }
    if sheet.records.is_empty() {
        return Err(SheetError::Empty { path: path.to_owned(), what: "no rows below the header" });
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
                let (path, device) = (path.to_owned(), device.to_owned());
                return Err(SheetError::NoSuchDevice { path, device, devices });
            }
            Ok(())
        }
        // Estimates of several devices are no harm: rows take those of their own.
        None if devices.len() > 1 && role != Role::Analytical => {
            Err(SheetError::MixedDevices { path: path.to_owned(), devices })
        }
        None => Ok(()),
    }
}

fn of_csv(error: &::csv::Error, path: &Path) -> SheetError {
    let path: PathBuf = path.to_owned();
    let line = error.position().map_or(1, ::csv::Position::line);
    match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            SheetError::Fields { path, line, found: *len, expected: *expected_len }
        }
        ::csv::ErrorKind::Utf8 { err, .. } => {
            let reason = format!("field {} is not UTF-8", err.field() + 1);
            SheetError::Malformed { path, line, reason }
        }
        other => SheetError::Malformed { path, line, reason: format!("{other:?}") },
    }
}

/// Which column is what.
struct Columns {
    /// Column by name.
    by_name: BTreeMap<String, usize>,
    /// Those that identify a row, in the order of the file.
    identity: Vec<(String, usize)>,
}

impl Columns {
    fn of(header: &StringRecord, path: &Path, role: Role) -> Result<Columns, SheetError> {
        let path = || path.to_owned();
        let mut by_name = BTreeMap::new();
        let mut identity = Vec::new();
        for (index, name) in header.iter().enumerate() {
            if by_name.insert(name.to_owned(), index).is_some() {
                return Err(SheetError::DuplicateColumn { path: path(), column: name.to_owned() });
            }
            let value = name.starts_with("empirical_")
                || name.starts_with("analytical_")
                || name.ends_with("_error_pct");
            if !value {
                identity.push((name.to_owned(), index));
            }
        }
        let missing: Vec<String> = role
            .required()
            .iter()
            .filter(|&&name| !by_name.contains_key(name))
            .map(|&n| n.to_owned())
            .collect();
        if !missing.is_empty() {
            let found = header.iter().map(str::to_owned).collect();
            return Err(SheetError::MissingColumns { path: path(), missing, found });
        }
        Ok(Columns { by_name, identity })
    }

    fn identity_names(&self) -> Vec<String> {
        self.identity.iter().map(|(name, _)| name.clone()).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }
}

/// What warnings are about.
#[derive(Default)]
struct Counts {
    no_memory: usize,
    other_errors: usize,
}

impl Counts {
    fn warnings(&self, columns: &Columns) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.no_memory > 0 {
            warnings.push(format!(
                "{} rows have a measured memory of 0 and are taken as not measured",
                self.no_memory
            ));
        }
        if self.other_errors > 0 {
            warnings.push(format!(
                "time_error_pct of {} rows is not that of their times, and is not used",
                self.other_errors
            ));
        }
        if columns.has("analytical_memory_traffic_mb") && !columns.has("analytical_memory_mb") {
            warnings.push(
                "analytical_memory_traffic_mb is what is moved, not what is in use: memory is not compared"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// A row that is being read.
pub(super) struct Cells<'a> {
    row: &'a StringRecord,
    columns: &'a Columns,
    path: &'a Path,
    line: u64,
}

impl Cells<'_> {
    /// The cell of a column; `None` where there is no such column, or nothing in it.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let index = *self.columns.by_name.get(column)?;
        self.row.get(index).filter(|text| !text.is_empty())
    }

    pub(super) fn wrong(&self, column: &str, expected: &'static str) -> SheetError {
        SheetError::Cell {
            path: self.path.to_owned(),
            line: self.line,
            column: column.to_owned(),
            text: self.text(column).unwrap_or_default().to_owned(),
            expected,
        }
    }

    /// A number of at least 0.
    fn number(&self, column: &str) -> Result<Option<f64>, SheetError> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let number: Option<f64> = text.parse().ok();
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(column, "a number of 0 or more is expected")),
        }
    }

    fn time(&self, column: &str, required: bool) -> Result<Option<f64>, SheetError> {
        let expected = "a time is a number above 0";
        match self.text(column) {
            None if required => Err(self.wrong(column, expected)),
            None => Ok(None),
            Some(text) => match text.parse::<f64>() {
                Ok(time) if time.is_finite() && time > 0.0 => Ok(Some(time)),
                _ => Err(self.wrong(column, expected)),
            },
        }
    }

    pub(super) fn integer(&self, column: &str) -> Result<Option<u64>, SheetError> {
        let Some(text) = self.text(column) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(integer) if integer > 0 => Ok(Some(integer)),
            _ => Err(self.wrong(column, "a whole number above 0 is expected")),
        }
    }

    fn values(&self, side: &str, required: bool) -> Result<Values, SheetError> {
        Ok(Values {
            time_ms: self.time(&format!("{side}_time_ms"), required)?,
            memory_mb: self.number(&format!("{side}_memory_mb"))?,
            flops: self.number(&format!("{side}_flops"))?,
            energy_j: self.number(&format!("{side}_energy_j"))?.filter(|joules| *joules > 0.0),
        })
    }

    fn record(&self, role: Role, counts: &mut Counts) -> Result<Record, SheetError> {
        let mut measured = self.values("empirical", role != Role::Analytical)?;
        let estimated = self.values("analytical", role != Role::Empirical)?;
        if measured.memory_mb == Some(0.0) {
            // Sweeps that measure memory on a GPU alone write 0 for a CPU.
            measured.memory_mb = None;
            counts.no_memory += 1;
        }
        if let (Some(measured), Some(estimated), Some(recorded)) =
            (measured.time_ms, estimated.time_ms, self.number("time_error_pct")?)
        {
            let error = 100.0 * (estimated - measured).abs() / measured;
            counts.other_errors += usize::from((error - recorded).abs() > SLACK);
        }
        let bounds =
            (self.time("analytical_time_low_ms", false)?, self.time("analytical_time_high_ms", false)?);
        let identity = self.columns.identity.iter().map(|&(_, index)| self.row[index].to_owned()).collect();
        Ok(Record {
            line: self.line,
            identity,
            workload: workload(self)?,
            device: self.text("device").map(str::to_owned),
            precision: self.text("precision").map(str::to_owned),
            batch: self.integer("batch_size")?,
            measured,
            estimated,
            interval_ms: bounds.0.zip(bounds.1),
            bottleneck: self.text("analytical_bottleneck").map(str::to_owned),
            intensity: self.number("analytical_ai")?,
        })
    }
}
