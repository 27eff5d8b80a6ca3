//! The columns of `ncu-analyze kernels`: all of them for files, and as many as fit for readers.

use std::collections::HashMap;

use flopgap_phases::{Sum, Totals};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use crate::groups::{By, Group, Groups, share};

/// Names are not made shorter than this; columns are omitted instead.
const SHORTEST_NAME: usize = 28;

/// Between two columns.
const GAP: usize = 2;

/// The cell of a column in a row, given the total.
type CellOf = Box<dyn Fn(&Group, &Totals) -> Cell>;

/// A column with its cells.
struct Field {
    column: Column,
    /// Columns with smaller numbers are omitted first; `None` for columns that are always shown.
    rank: Option<u8>,
    cell: CellOf,
}

impl Field {
    fn new(column: Column, rank: Option<u8>, cell: impl Fn(&Group, &Totals) -> Cell + 'static) -> Field {
        Field { column, rank, cell: Box::new(cell) }
    }

    /// A sum, shown if all launches have it.
    fn sum(column: Column, rank: Option<u8>, of: impl Fn(&Totals) -> Sum + 'static) -> Field {
        Field::new(column, rank, move |group, _| {
            Cell::optional(group.totals.complete(of(&group.totals)), Cell::from)
        })
    }
}

/// Every column that the whole has something for; with `for_readers`, without those that say
/// nothing new.
fn fields(by: By, whole: &Totals, for_readers: bool) -> Vec<Field> {
    let mut fields = Vec::new();
    for (index, &key) in by.labels().iter().enumerate() {
        let column = Column::text(key, key.replace('_', " "));
        if for_readers && key == "library" {
            continue;
        }
        fields.push(Field::new(column, None, move |group, _| match group.labels.get(index) {
            Some(label) => Cell::optional(label.clone(), Cell::text),
            None => Cell::text(""),
        }));
    }
    fields.push(Field::new(Column::number("launches", "launches"), None, |group, _| {
        Cell::from(group.totals.launches)
    }));
    fields.push(Field::sum(Column::number("flops", "work").unit("FLOP"), None, |totals| totals.flops));
    fields.push(Field::new(Column::number("share", "share"), None, |group, whole| {
        Cell::optional(share(&group.totals, whole), |share| Cell::percent(share, 2))
    }));
    // A precision without operations is redundant, and so is a precision with all operations.
    let of_whole = |sum: Sum| whole.complete(sum);
    let adds = |sum: Sum| of_whole(sum) != Some(0) && of_whole(sum) != of_whole(whole.flops);
    let precisions = whole.by_precision.iter().filter(|(_, sum)| !for_readers || adds(**sum));
    for &precision in precisions.map(|(precision, _)| precision) {
        let label = precision.label();
        let column = Column::number(label.replace(' ', "_"), label).unit("FLOP");
        fields.push(Field::sum(column, Some(5), move |totals| {
            totals.by_precision.get(&precision).copied().unwrap_or_default()
        }));
    }
    let measured = |sum: Sum| sum != Sum::default();
    let mut traffic_and_time = Vec::new();
    if measured(whole.dram_bytes) {
        let column = Column::number("dram_bytes", "DRAM").unit("byte");
        traffic_and_time.push(Field::sum(column, Some(7), |totals| totals.dram_bytes));
        let column = Column::number("intensity", "intensity").unit("FLOP/byte");
        traffic_and_time.push(Field::new(column, Some(6), |group, _| {
            Cell::optional(group.totals.intensity(), |intensity| Cell::float(intensity, 2))
        }));
    }
    if measured(whole.l2_bytes) {
        let column = Column::number("l2_bytes", "L2").unit("byte");
        traffic_and_time.push(Field::sum(column, Some(1), |totals| totals.l2_bytes));
    }
    if measured(whole.duration_ns) {
        let column = Column::number("duration_ns", "time").unit("ns");
        traffic_and_time.push(Field::sum(column, Some(8), |totals| totals.duration_ns));
    }
    fields.extend(traffic_and_time);
    for (&instruction, &sum) in &whole.by_instruction {
        // A column of zeros, for an instruction that was never executed, is redundant.
        if for_readers && whole.complete(sum) == Some(0) {
            continue;
        }
        let label = instruction.label();
        let rank = if label.starts_with('f') { 4 } else { 2 };
        fields.push(Field::sum(Column::number(label, label), Some(rank), move |totals| {
            totals.by_instruction.get(&instruction).copied().unwrap_or_default()
        }));
    }
    fields
}

/// All columns, for files; kernels with their full names.
pub(crate) fn table(title: &str, by: By, groups: &Groups, whole: &Totals) -> Result<Table, ReportError> {
    let mut fields = fields(by, whole, false);
    if by == By::Kernel {
        let name = |group: &Group, _: &Totals| Cell::optional(group.name.clone(), Cell::text);
        fields.push(Field::new(Column::text("name", "name"), None, name));
    }
    let mut table = Table::new(title, fields.iter().map(|field| field.column.clone()))?;
    for group in &groups.rows {
        table.push(fields.iter().map(|field| (field.cell)(group, whole)))?;
    }
    Ok(table)
}

/// The reader of a table, and the available width.
pub(crate) struct Reader {
    /// Columns of the terminal; `None` where lines may be as long as they need.
    pub(crate) width: Option<u16>,
}

impl Reader {
    /// A table with a row for what is not shown and one for the total, and the columns that do not
    /// fit.
    pub(crate) fn table(
        &self,
        title: String,
        by: By,
        groups: &Groups,
        whole: &Totals,
    ) -> Result<(Table, Vec<String>), ReportError> {
        let labeled = |label: String, totals: &Totals| Group {
            labels: vec![Some(label)],
            name: None,
            totals: totals.clone(),
        };
        let more = groups.more.as_ref().map(|(count, totals)| labeled(format!("{count} more"), totals));
        let total = labeled("total".to_owned(), whole);
        let rows: Vec<&Group> = groups.rows.iter().chain(&more).chain([&total]).collect();
        let mut columns: Vec<(Field, Vec<Cell>)> = fields(by, whole, true)
            .into_iter()
            .map(|field| {
                let cells = rows.iter().map(|group| (field.cell)(group, whole)).collect();
                (field, cells)
            })
            .collect();
        let left_out = self.fit(&mut columns);
        let mut table = Table::new(title, columns.iter().map(|(field, _)| field.column.clone()))?;
        for row in 0..rows.len() {
            table.push(columns.iter().map(|(_, cells)| cells[row].clone()))?;
        }
        Ok((table, left_out))
    }

    /// Leaves out columns, then shortens names, until a line fits. The names of the columns that
    /// are gone.
    fn fit(&self, columns: &mut Vec<(Field, Vec<Cell>)>) -> Vec<String> {
        let Some(width) = self.width.map(usize::from) else { return Vec::new() };
        let natural = |(field, cells): &(Field, Vec<Cell>)| {
            let heading = field.column.heading().chars().count();
            cells.iter().map(|cell| cell.display().chars().count()).max().unwrap_or(0).max(heading)
        };
        let mut left_out = Vec::new();
        loop {
            let widths: Vec<usize> = columns.iter().map(natural).collect();
            let others: usize = widths[1..].iter().map(|width| width + GAP).sum();
            if widths[0].min(SHORTEST_NAME) + others <= width {
                shorten(&mut columns[0].1, width - others);
                return left_out;
            }
            // The least important of those left, from the right.
            let rank = |index: &usize| columns[*index].0.rank;
            let least = (0..columns.len()).rev().filter(|index| rank(index).is_some()).min_by_key(rank);
            let Some(least) = least else {
                shorten(&mut columns[0].1, width.saturating_sub(others).max(SHORTEST_NAME / 2));
                return left_out;
            };
            left_out.insert(0, columns.remove(least).0.column.heading());
        }
    }
}

/// Names no longer than this: their middle becomes `…`, because the end distinguishes tiles and
/// operations.
fn shorten(names: &mut [Cell], longest: usize) {
    for cell in names.iter_mut() {
        let name = cell.display();
        let length = name.chars().count();
        if length > longest {
            let (start, end) = (longest / 2, longest - longest / 2 - 1);
            let first: String = name.chars().take(start).collect();
            let last: String = name.chars().skip(length - end).collect();
            *cell = Cell::text(format!("{first}…{last}"));
        }
    }
    // Two names may become equal when shortened.
    let mut seen: HashMap<String, usize> = HashMap::new();
    for cell in names {
        let name = cell.display();
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            let number = format!("({times})");
            let kept = longest.saturating_sub(number.len());
            *cell = Cell::text(name.chars().take(kept).chain(number.chars()).collect::<String>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_kernels::Classifier;
    use flopgap_ncu::Instruction;
    use flopgap_phases::Profile;

    fn groups() -> (Groups, Totals) {
        let counts = |fadd, fmul, ffma| {
            [(Instruction::Fadd, fadd), (Instruction::Fmul, fmul), (Instruction::Ffma, ffma)]
        };
        let gemm = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_kernel";
        let launches = [
            (gemm, counts(0, 1_048_576, 134_217_728), Some(1_234_567)),
            ("sigmoid_forward", counts(2_048, 0, 7_168), Some(1_234_567)),
        ];
        let profile = Profile::of(launches, &Classifier::new()).unwrap();
        let rows = profile.kernels.iter().map(|kernel| Group {
            labels: vec![
                Some(kernel.info.short.clone()),
                Some(kernel.info.class.to_string()),
                Some("cublas".to_owned()),
            ],
            name: Some(kernel.name.clone()),
            totals: kernel.totals.clone(),
        });
        (Groups { rows: rows.collect(), more: None }, profile.totals)
    }

    #[test]
    fn every_width_is_kept_and_what_is_left_out_is_named() {
        let (groups, whole) = groups();
        let all = Reader { width: None }.table(String::new(), By::Kernel, &groups, &whole).unwrap();
        assert_eq!(all.1, Vec::<String>::new());
        let keys: Vec<&str> = all.0.columns().iter().map(Column::key).collect();
        assert_eq!(
            keys,
            ["kernel", "class", "launches", "flops", "share", "duration_ns", "fadd", "fmul", "ffma"]
        );
        for width in [60, 80, 100, 120, 200] {
            let reader = Reader { width: Some(width) };
            let (table, left_out) = reader.table(String::new(), By::Kernel, &groups, &whole).unwrap();
            assert_eq!(table.columns().len() + left_out.len(), keys.len(), "{width}");
            let text = table.to_text(&flopgap_report::table::TextOptions::default());
            for line in text.lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}:\n{text}");
            }
            assert!(text.contains("total"), "{text}");
        }
        let (table, left_out) =
            Reader { width: Some(80) }.table(String::new(), By::Kernel, &groups, &whole).unwrap();
        assert!(table.columns().iter().all(|column| column.key() != "fadd"), "{left_out:?}");
        assert_eq!(left_out, ["time (ns)", "fadd", "fmul", "ffma"]);
    }

    #[test]
    fn the_end_of_a_shortened_name_is_kept() {
        let mut names = [Cell::text("sm80_xmma_gemm fp32 nn 64x64x8"), Cell::text("sigmoid")];
        shorten(&mut names, 20);
        assert_eq!(names.each_ref().map(Cell::display), ["sm80_xmma_…n 64x64x8", "sigmoid"]);
        let mut alike = ["abcdefgh", "abXXefgh", "ab--efgh"].map(Cell::text);
        shorten(&mut alike, 6);
        assert_eq!(alike.each_ref().map(Cell::display), ["abc…gh", "abX…gh", "ab-…gh"]);
        let mut alike = ["abcdefgh", "abcXXfgh"].map(Cell::text);
        shorten(&mut alike, 6);
        assert_eq!(alike.each_ref().map(Cell::display), ["abc…gh", "abc(2)"]);
    }
}
