//! Joins measurements of one table to estimates of another.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::{Record, Sheet, SheetError, SheetFault, SheetWarning};

/// Joins the estimates of `analytical` to the measurements of `empirical`. Rows match if all
/// identifying columns that both tables have are equal. Measured rows without an estimate, and
/// estimates without a measurement, are left out with a warning that counts them.
///
/// # Errors
/// When the tables have no such column in common, one row is estimated twice, or no row is
/// estimated.
pub fn join(empirical: Sheet, analytical: Sheet, path: &Path) -> Result<Sheet, SheetError> {
    let common: Vec<(usize, usize)> = empirical
        .identity
        .iter()
        .enumerate()
        .filter_map(|(ours, name)| {
            let theirs = analytical.identity.iter().position(|other| other == name)?;
            Some((ours, theirs))
        })
        .collect();
    if common.is_empty() {
        return Err(SheetError::new(path, SheetFault::NothingInCommon { columns: empirical.identity }));
    }
    let key = |record: &Record, columns: &mut dyn Iterator<Item = usize>| -> Vec<String> {
        columns.map(|column| normal(&record.identity[column])).collect()
    };
    let mut estimates: FxHashMap<Vec<String>, &Record> = FxHashMap::default();
    for record in &analytical.records {
        let key = key(record, &mut common.iter().map(|pair| pair.1));
        if let Some(first) = estimates.insert(key, record) {
            let twice = SheetFault::Duplicate { first: first.line, label: record.label() };
            return Err(SheetError::in_line(path, record.line, twice));
        }
    }
    let mut used = rustc_hash::FxHashSet::default();
    let measured = empirical.records.len();
    let first = empirical.records.first().map(Record::label).unwrap_or_default();
    let mut records = Vec::new();
    for record in empirical.records {
        let key = key(&record, &mut common.iter().map(|pair| pair.0));
        if let Some(estimate) = estimates.get(&key) {
            records.push(Record {
                estimated: estimate.estimated,
                interval_ms: estimate.interval_ms,
                bottleneck: estimate.bottleneck.clone(),
                intensity: estimate.intensity,
                ..record
            });
            used.insert(key);
        }
    }
    if records.is_empty() {
        return Err(SheetError::new(path, SheetFault::NothingMatches { rows: measured, first }));
    }
    let mut warnings = empirical.warnings;
    warnings.extend(analytical.warnings);
    if records.len() < measured {
        warnings.push(SheetWarning::NotEstimated { rows: measured - records.len(), measured });
    }
    if used.len() < estimates.len() {
        let estimates = estimates.len();
        warnings.push(SheetWarning::NotMeasured { rows: estimates - used.len(), estimates });
    }
    Ok(Sheet { identity: empirical.identity, records, warnings })
}

/// A cell without the blanks that lists are written with or without: `[512,512]` is `[512, 512]`.
fn normal(cell: &str) -> String {
    cell.chars().filter(|c| !c.is_whitespace()).collect()
}
