//! The columns of a table and the cells of a row.

use std::collections::BTreeMap;
use std::path::Path;

use ::csv::StringRecord;

use super::{SheetError, SheetFault, Values};

/// The purpose of reading a table, which decides the required columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Measurements; the estimates come from elsewhere.
    Empirical,
    /// Estimates.
    Analytical,
    /// Measurements with their estimates.
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

/// The meaning of each column.
pub(super) struct Columns {
    /// Column by name.
    by_name: BTreeMap<String, usize>,
    /// Those that identify a row, in the order of the file.
    identity: Vec<(String, usize)>,
}

impl Columns {
    pub(super) fn new(header: &StringRecord, path: &Path, role: Role) -> Result<Columns, SheetError> {
        let mut by_name = BTreeMap::new();
        let mut identity = Vec::new();
        for (index, name) in header.iter().enumerate() {
            if by_name.insert(name.to_owned(), index).is_some() {
                return Err(SheetError::new(path, SheetFault::DuplicateColumn { column: name.to_owned() }));
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
            return Err(SheetError::new(path, SheetFault::MissingColumns { missing, found }));
        }
        Ok(Columns { by_name, identity })
    }

    pub(super) fn identity_names(&self) -> Vec<String> {
        self.identity.iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }
}

/// A row that is being read.
pub(super) struct Cells<'a> {
    pub(super) row: &'a StringRecord,
    pub(super) columns: &'a Columns,
    pub(super) path: &'a Path,
    pub(super) line: u64,
}

impl Cells<'_> {
    /// The cells that identify the row.
    pub(super) fn identity(&self) -> Vec<String> {
        self.columns.identity.iter().map(|&(_, index)| self.row[index].to_owned()).collect()
    }

    /// The cell of a column; `None` where there is no such column, or nothing in it.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let index = *self.columns.by_name.get(column)?;
        self.row.get(index).filter(|text| !text.is_empty())
    }

    pub(super) fn wrong(&self, column: &str, expected: &'static str) -> SheetError {
        let (column, text) = (column.to_owned(), self.text(column).unwrap_or_default().to_owned());
        SheetError::in_line(self.path, self.line, SheetFault::Cell { column, text, expected })
    }

    /// A number of at least 0.
    pub(super) fn number(&self, column: &str) -> Result<Option<f64>, SheetError> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let number: Option<f64> = text.parse().ok();
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(column, "a number of 0 or more is expected")),
        }
    }

    pub(super) fn time(&self, column: &str, required: bool) -> Result<Option<f64>, SheetError> {
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
            _ => Err(self.wrong(column, "expected a whole number above 0")),
        }
    }

    pub(super) fn values(&self, side: &str, required: bool) -> Result<Values, SheetError> {
        Ok(Values {
            time_ms: self.time(&format!("{side}_time_ms"), required)?,
            memory_mb: self.number(&format!("{side}_memory_mb"))?,
            flops: self.number(&format!("{side}_flops"))?,
            energy_j: self.number(&format!("{side}_energy_j"))?.filter(|joules| *joules > 0.0),
        })
    }
}
