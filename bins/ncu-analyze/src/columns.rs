//! The columns of `flopgap ncu kernels`: all of them for files, and as many as fit for readers.

use flopgap_phases::{Sum, Totals};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use crate::groups::{By, Group, Groups, share, time_share};
use crate::quantity::Quantity;

/// The cell of a column in a row, given the total.
type CellOf = Box<dyn Fn(&Group, &Totals) -> Cell>;

/// A column, and how a row fills it. Columns of a higher rank are left out first where a line does
/// not fit, those of rank 0 never.
struct Field {
    column: Column,
    cell: CellOf,
}

impl Field {
    fn new(column: Column, rank: u8, cell: impl Fn(&Group, &Totals) -> Cell + 'static) -> Field {
        Field { column: column.rank(rank), cell: Box::new(cell) }
    }

    /// A sum, shown if all launches have it.
    fn sum(column: Column, rank: u8, of: impl Fn(&Totals) -> Sum + 'static) -> Field {
        Field::new(column, rank, move |group, _| {
            Cell::optional(group.totals.complete(of(&group.totals)), Cell::from)
        })
    }

    fn quantity(quantity: Quantity, rank: u8) -> Field {
        Field::new(quantity.column(), rank, move |group, _| {
            Cell::optional(quantity.of(&group.totals), |amount| quantity.cell(amount))
        })
    }
}

/// The column of a label; the classes of kernels and their libraries follow from their names.
fn label(index: usize, key: &'static str) -> Field {
    let name = if key == "gpu" { "GPU".to_owned() } else { key.replace('_', " ") };
    let rank = if index > 0 && key == "class" { 9 } else { 0 };
    Field::new(Column::text(key, name), rank, move |group, _| match group.labels.get(index) {
        Some(label) => Cell::optional(label.clone(), Cell::text),
        None => Cell::text(""),
    })
}

/// Every column that the whole has something for, and always the work; with `for_readers`, without
/// those that say nothing new.
fn fields(groups: &Groups, whole: &Totals, for_readers: bool) -> Vec<Field> {
    let labels = groups.keys.iter().enumerate().filter(|(_, key)| !for_readers || **key != "library");
    let mut fields: Vec<Field> = labels.map(|(index, key)| label(index, key)).collect();
    fields.push(Field::quantity(Quantity::Launches, 0));
    fields.push(Field::new(Quantity::Flops.column(), 1, move |group, _| {
        let known = Quantity::Flops.of(&group.totals).map(|work| Quantity::Flops.cell(work));
        Cell::optional(known.or_else(|| for_readers.then(|| Cell::text("unknown"))), |cell| cell)
    }));
    if !for_readers || Quantity::Flops.is_measured(whole) {
        fields.push(Field::new(Column::number("share", "share"), 4, |group, whole| {
            Cell::optional(share(&group.totals, whole), |share| Cell::percent(share, 2))
        }));
    }
    // A precision without operations is redundant, and so is a precision with all operations.
    let of_whole = |sum: Sum| whole.complete(sum);
    let adds = |sum: Sum| {
        whole.measured(sum) > 0 && of_whole(sum) != Some(0) && of_whole(sum) != of_whole(whole.flops)
    };
    let precisions = whole.by_precision.iter().filter(|(_, sum)| !for_readers || adds(**sum));
    for &precision in precisions.map(|(precision, _)| precision) {
        let label = precision.as_str();
        let column = Column::number(label.replace(' ', "_"), label).unit("FLOP");
        fields.push(Field::sum(column, 12, move |totals| {
            totals.by_precision.get(&precision).copied().unwrap_or_default()
        }));
    }
    let measured = |quantity: Quantity| quantity.is_measured(whole);
    if measured(Quantity::DramBytes) {
        fields.push(Field::quantity(Quantity::DramBytes, 10));
        if !for_readers || measured(Quantity::Flops) {
            let column = Column::number("intensity", "intensity").unit("FLOP/byte");
            fields.push(Field::new(column, 11, |group, _| {
                Cell::optional(group.totals.intensity(), |intensity| Cell::float(intensity, 2))
            }));
        }
    }
    if measured(Quantity::L2Bytes) {
        fields.push(Field::quantity(Quantity::L2Bytes, 15));
    }
    if measured(Quantity::Time) {
        fields.push(Field::quantity(Quantity::Time, 2));
        fields.push(Field::new(Column::number("time_share", "of time"), 5, |group, whole| {
            Cell::optional(time_share(&group.totals, whole), |share| Cell::percent(share, 2))
        }));
    }
    for (quantity, rank) in
        [(Quantity::FlopRate, 3), (Quantity::ByteRate, 7), (Quantity::Roofline, 6), (Quantity::Occupancy, 7)]
    {
        if measured(quantity) {
            fields.push(Field::quantity(quantity, rank));
        }
    }
    for (&instruction, &sum) in &whole.by_instruction {
        // A column of zeros, for an instruction that was never executed, is redundant.
        if for_readers && whole.complete(sum) == Some(0) {
            continue;
        }
        let label = instruction.as_str();
        let rank = if label.starts_with('f') { 13 } else { 14 };
        fields.push(Field::sum(Column::number(label, label), rank, move |totals| {
            totals.by_instruction.get(&instruction).copied().unwrap_or_default()
        }));
    }
    fields
}

/// All columns, for files; kernels with their full names.
pub(crate) fn table(title: &str, by: By, groups: &Groups, whole: &Totals) -> Result<Table, ReportError> {
    let mut fields = fields(groups, whole, false);
    if by == By::Kernel {
        let name = |group: &Group, _: &Totals| Cell::optional(group.name.clone(), Cell::text);
        fields.push(Field::new(Column::text("name", "name"), 0, name));
    }
    let mut table = Table::new(title, fields.iter().map(|field| field.column.clone()))?;
    for group in &groups.rows {
        table.push(fields.iter().map(|field| (field.cell)(group, whole)))?;
    }
    Ok(table)
}

/// The columns that say something, for readers, with a row for what is not shown and one for the
/// total.
pub(crate) fn table_for_readers(
    title: String,
    groups: &Groups,
    whole: &Totals,
) -> Result<Table, ReportError> {
    let labeled = |label: String, totals: &Totals| Group {
        labels: vec![Some(label)],
        name: None,
        totals: totals.clone(),
    };
    let more = groups.more.as_ref().map(|(count, totals)| labeled(format!("{count} more"), totals));
    let total = labeled("total".to_owned(), whole);
    let fields = fields(groups, whole, true);
    let mut table = Table::new(title, fields.iter().map(|field| field.column.clone()))?;
    for group in groups.rows.iter().chain(&more).chain([&total]) {
        table.push(fields.iter().map(|field| (field.cell)(group, whole)))?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_kernels::Classifier;
    use flopgap_ncu::Instruction;
    use flopgap_phases::Profile;
    use flopgap_report::table::TextOptions;

    fn groups() -> (Groups, Totals) {
        let counts = |fadd, fmul, ffma| {
            [(Instruction::Fadd, fadd), (Instruction::Fmul, fmul), (Instruction::Ffma, ffma)]
        };
        let gemm = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_kernel";
        let launches = [
            (gemm, counts(0, 1_048_576, 134_217_728), Some(1_234_567)),
            ("sigmoid_forward", counts(2_048, 0, 7_168), Some(1_234_567)),
        ];
        let profile = Profile::new(launches, &Classifier::new()).unwrap();
        let rows = profile.kernels.iter().map(|kernel| Group {
            labels: vec![
                Some(kernel.info.short.clone()),
                Some(kernel.info.class.to_string()),
                Some("cublas".to_owned()),
            ],
            name: Some(kernel.name.clone()),
            totals: kernel.totals.clone(),
        });
        let keys = By::Kernel.labels().to_vec();
        (Groups { keys, rows: rows.collect(), more: None }, profile.totals)
    }

    #[test]
    fn every_width_is_kept_and_time_and_rate_stay_longest() {
        let (groups, whole) = groups();
        let table = table_for_readers(String::new(), &groups, &whole).unwrap();
        let keys: Vec<&str> = table.columns().iter().map(Column::key).collect();
        let all = ["kernel", "class", "launches", "flops", "share", "duration_ns", "time_share", "tflops"];
        assert_eq!(keys, [&all[..], &["fadd", "fmul", "ffma"]].concat());
        for width in [60, 80, 100, 120, 200] {
            let options = TextOptions { width: Some(width), ..TextOptions::default() };
            let text = table.to_text(&options);
            for line in text.lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}:\n{text}");
            }
            assert!(text.contains("total"), "{text}");
            let heading = text.lines().next().unwrap();
            for (key, from) in [("work", 60), ("time (ns)", 80), ("TFLOP/s", 80), ("ffma", 200)] {
                assert_eq!(heading.contains(key), width >= from, "{key} {width}:\n{text}");
            }
        }
    }
}
