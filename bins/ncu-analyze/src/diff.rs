//! `flopgap ncu diff A B`: compares two reports, as a whole and kernel by kernel.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, simple_kernel};
use flopgap_phases::{Gpu, KernelProfile, Profile, Totals};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use serde_json::{Map, Value, json};

use crate::PROGRAM;
use crate::condition::Condition;
use crate::groups::{By, Gpus};
use crate::input::Input;
use crate::quantity::{Amount, Quantity};
use crate::selection::{Selected, Selection, fail};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap ncu diff before.ncu-rep after.ncu-rep --changed
  flopgap ncu diff before.ncu-rep after.ncu-rep --fail-if 'time>5%' --fail-if 'flops>0'
  flopgap ncu diff fixtures/ncu/lm_raw.csv.zst fixtures/ncu/lm_raw_base.csv.zst -o kernels.csv")]
pub(crate) struct Arguments {
    /// Report to compare with: a file, a directory, or a record or run of hyper-profile
    a: PathBuf,
    /// Report to compare
    b: PathBuf,
    /// Group rows by this
    #[arg(long, value_enum, value_name = "GROUP", default_value_t)]
    by: By,
    /// Show only changes: rows whose launches, time, FLOPs or bytes differ
    #[arg(long)]
    changed: bool,
    /// Show only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Exit with code 1 if the total changes so from A to B: `time>5%`, `flops>0`, `occupancy<-2`.
    /// launches, time, flops, bytes, l2-bytes, tflops, gbps, roofline and occupancy; limits are in
    /// percent, or in ns, FLOP, bytes and percentage points. Can be repeated
    #[arg(long, value_name = "CHANGE")]
    fail_if: Vec<Condition>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: OutputArgs,
}

/// A row is the same in A and B by these: the class, the display name (full names are shortened
/// differently from report to report), and the GPU where there are several.
type Key = Vec<Option<String>>;

/// One of the two sides.
struct Side {
    selected: Selected,
    rows: BTreeMap<Key, Totals>,
}

/// A row in A and in B.
struct Row<'a> {
    key: &'a Key,
    totals: [Option<&'a Totals>; 2],
}

/// Both sides, compared.
struct Comparison<'a> {
    keys: Vec<&'static str>,
    sides: [&'a Totals; 2],
    rows: Vec<Row<'a>>,
    /// What either side has, in the order of columns.
    quantities: Vec<Quantity>,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    Input::at_most_one_stdin([arguments.a.as_path(), arguments.b.as_path()])?;
    let classifier = Classifier::new();
    let load = |path: &PathBuf| {
        let paths = std::slice::from_ref(path);
        let selected = arguments.selection.load(paths, &arguments.input, &classifier, console)?;
        selected.warn();
        Ok::<_, Failure>(selected)
    };
    let (a, b) = (load(&arguments.a)?, load(&arguments.b)?);
    let gpus = [Gpus::new(&a.profile), Gpus::new(&b.profile)];
    let several = gpus.iter().any(Gpus::several);
    warn_of_gpus(&a.profile, &b.profile);
    let side = |selected: Selected, gpus: &Gpus| {
        let rows = rows(&selected.profile, arguments.by, several.then_some(gpus))?;
        Ok::<_, FlopError>(Side { selected, rows })
    };
    let (a, b) = (side(a, &gpus[0])?, side(b, &gpus[1])?);
    let comparison = Comparison::of(arguments.by, several, &a, &b);
    let text = comparison.render(arguments)?;
    let printed = arguments.output.write(console, &text);
    // Also where nobody reads the tables to their end (`| head`): the exit code is what CI asked
    // for.
    let judged = comparison.judge(&arguments.fail_if);
    fail(a.selected.failures().into_iter().chain(b.selected.failures()))?;
    judged?;
    printed
}

/// Different GPUs are compared, and said to be.
fn warn_of_gpus(a: &Profile, b: &Profile) {
    let capabilities = |profile: &Profile| -> BTreeSet<(u32, u32)> {
        profile.gpus().iter().filter_map(|gpu: &Gpu| gpu.capability).collect()
    };
    let (a, b) = (capabilities(a), capabilities(b));
    if !a.is_empty() && !b.is_empty() && a != b {
        let listed = |found: &BTreeSet<(u32, u32)>| {
            found.iter().map(|(major, minor)| format!("sm_{major}{minor}")).collect::<Vec<_>>().join(" and ")
        };
        flopgap_cli::warn(
            PROGRAM,
            format_args!("A is of another GPU than B: {} and {}", listed(&a), listed(&b)),
        );
    }
}

fn rows(profile: &Profile, by: By, gpus: Option<&Gpus>) -> Result<BTreeMap<Key, Totals>, FlopError> {
    let key = |kernel: &KernelProfile| {
        let mut key: Key = match by {
            By::Kernel => vec![Some(kernel.info.short.clone()), Some(kernel.info.class.to_string())],
            By::Class => vec![Some(kernel.info.class.to_string())],
            By::Simple => vec![simple_kernel(&kernel.name).map(str::to_owned)],
        };
        key.extend(gpus.map(|_| kernel.gpu.device.map(|device| device.to_string())));
        key
    };
    Ok(profile.group(key)?.into_iter().collect())
}

impl<'a> Comparison<'a> {
    fn of(by: By, several: bool, a: &'a Side, b: &'a Side) -> Comparison<'a> {
        let sides = [&a.selected.profile.totals, &b.selected.profile.totals];
        let mut keys = match by {
            By::Kernel => vec!["kernel", "class"],
            by => by.labels().to_vec(),
        };
        keys.extend(several.then_some("gpu"));
        let all: BTreeSet<&Key> = a.rows.keys().chain(b.rows.keys()).collect();
        let rows = all.into_iter().map(|key| Row { key, totals: [a.rows.get(key), b.rows.get(key)] });
        let is_measured = |quantity: &Quantity| sides.iter().any(|totals| quantity.is_measured(totals));
        let mut comparison = Comparison {
            keys,
            sides,
            rows: rows.collect(),
            quantities: Quantity::ALL.into_iter().filter(is_measured).collect(),
        };
        // By what both have, the time before the work; what is not known may be anything.
        let by = [Quantity::Time, Quantity::Flops, Quantity::DramBytes, Quantity::Launches];
        let by = by.into_iter().find(|quantity| sides.iter().all(|totals| quantity.is_measured(totals)));
        let by = by.unwrap_or(Quantity::Launches);
        let mut rows = std::mem::take(&mut comparison.rows);
        rows.sort_by_cached_key(|row| {
            let [a, b] = comparison.amounts(row.totals, by);
            let difference = a.zip(b).map(|(a, b)| count(b).abs_diff(count(a)));
            let most = [a, b].into_iter().flatten().map(count).max();
            Reverse((difference.is_none(), difference, most))
        });
        comparison.rows = rows;
        comparison
    }

    /// The values of a quantity. Of a kernel that one side did not launch there is 0, if that side
    /// measured the quantity.
    fn amounts(&self, totals: [Option<&Totals>; 2], quantity: Quantity) -> [Option<Amount>; 2] {
        [0, 1].map(|side| match totals[side] {
            Some(totals) => quantity.of(totals),
            None if quantity.adds_up() && quantity.is_measured(self.sides[side]) => Some(Amount::Count(0)),
            None => None,
        })
    }

    fn differs(&self, row: &Row<'_>) -> bool {
        let counted = self.quantities.iter().filter(|quantity| quantity.adds_up());
        counted.map(|&quantity| self.amounts(row.totals, quantity)).any(|[a, b]| a.is_none() || a != b)
    }

    fn render(&self, arguments: &Arguments) -> Result<String, Failure> {
        let report = |error: ReportError| Failure::from_error(&error);
        let rows: Vec<&Row<'_>> = self
            .rows
            .iter()
            .filter(|row| !arguments.changed || self.differs(row))
            .take(arguments.top.unwrap_or(usize::MAX))
            .collect();
        let format = arguments.output.format();
        if format == Format::Json {
            return Ok(self.in_json(&rows, arguments));
        }
        let title = format!("{}, A and B{}", arguments.by.title(), arguments.selection.title());
        if format.is_csv() {
            let table = self.table(title, &rows, false).map_err(report)?;
            return table.render(format, &TextOptions::default()).map_err(report);
        }
        let options = arguments.output.text();
        let tables = [self.totals(arguments), self.table(title, &rows, true)];
        let render = |table: Result<Table, ReportError>| table?.render(format, &options);
        let texts = tables.into_iter().map(render).collect::<Result<Vec<_>, _>>();
        Ok(texts.map_err(report)?.join("\n"))
    }

    /// What A and B add up to: a row for each quantity.
    fn totals(&self, arguments: &Arguments) -> Result<Table, ReportError> {
        let title = format!("Total of A and B{}", arguments.selection.title());
        let columns = [
            Column::text("what", "what"),
            Column::number("a", "A"),
            Column::number("b", "B"),
            Column::number("difference", "B - A").rank(2),
            Column::number("change", "change").rank(0),
        ];
        let mut table = Table::new(title, columns)?;
        for &quantity in &self.quantities {
            let [a, b] = self.amounts(self.sides.map(Some), quantity);
            let cell = |amount: Option<Amount>| Cell::optional(amount, |amount| quantity.cell(amount));
            let heading = quantity.column().heading();
            table.push([Cell::text(heading), cell(a), cell(b), difference(quantity, a, b), change(a, b)])?;
        }
        Ok(table)
    }

    /// The rows: for readers in the columns that matter, the most important first.
    fn table(&self, title: String, rows: &[&Row<'_>], for_readers: bool) -> Result<Table, ReportError> {
        let mut columns: Vec<(Column, Vec<Cell>)> = Vec::new();
        for (index, &key) in self.keys.iter().enumerate() {
            let name = if key == "gpu" { "GPU".to_owned() } else { key.replace('_', " ") };
            let cells = rows.iter().map(|row| Cell::optional(row.key[index].clone(), Cell::text)).collect();
            let rank = if key == "class" && index > 0 { 9 } else { 0 };
            columns.push((Column::text(key, name).rank(rank), cells));
        }
        let mut quantities = self.quantities.clone();
        if for_readers {
            // The time first: that is what a reader compares.
            quantities.sort_by_key(|&quantity| (quantity != Quantity::Time, quantity == Quantity::Launches));
            quantities.retain(|quantity| !matches!(quantity, Quantity::FlopRate | Quantity::ByteRate));
        }
        for quantity in quantities {
            let [sides, changes] = rank(quantity);
            let amounts: Vec<[Option<Amount>; 2]> =
                rows.iter().map(|row| self.amounts(row.totals, quantity)).collect();
            for (side, at) in [("a", 0), ("b", 1)] {
                let name = format!("{} {}", quantity.name(), side.to_uppercase());
                let column = Column::number(format!("{}_{side}", quantity.key()), name);
                let column = match quantity.unit() {
                    Some(unit) => column.unit(unit),
                    None => column,
                };
                let cell =
                    |pair: &[Option<Amount>; 2]| Cell::optional(pair[at], |amount| quantity.cell(amount));
                columns.push((column.rank(sides), amounts.iter().map(cell).collect()));
            }
            if !for_readers {
                let column = Column::number(format!("{}_difference", quantity.key()), "B - A");
                let cells = amounts.iter().map(|&[a, b]| difference(quantity, a, b)).collect();
                columns.push((column, cells));
            }
            if !for_readers || quantity != Quantity::Launches {
                let column = Column::number(
                    format!("{}_change", quantity.key()),
                    format!("{} change", quantity.name()),
                );
                let cells = rows.iter().zip(&amounts).map(|(row, &[a, b])| match row.totals {
                    [None, _] if for_readers => Cell::text("new"),
                    [_, None] if for_readers => Cell::text("gone"),
                    _ => change(a, b),
                });
                columns.push((column.rank(changes), cells.collect()));
            }
        }
        let mut table = Table::new(title, columns.iter().map(|(column, _)| column.clone()))?;
        for row in 0..rows.len() {
            table.push(columns.iter().map(|(_, cells)| cells[row].clone()))?;
        }
        Ok(table)
    }

    fn in_json(&self, rows: &[&Row<'_>], arguments: &Arguments) -> String {
        let pair = |totals: [Option<&Totals>; 2]| -> Map<String, Value> {
            let value = |amount: Option<Amount>| match amount {
                Some(Amount::Count(count)) => json!(count),
                Some(Amount::Real(value)) => json!(value),
                None => Value::Null,
            };
            let quantity = |&quantity: &Quantity| {
                let [a, b] = self.amounts(totals, quantity);
                (quantity.key().to_owned(), json!({ "a": value(a), "b": value(b), "change": fraction(a, b) }))
            };
            self.quantities.iter().map(quantity).collect()
        };
        let row = |row: &&Row<'_>| {
            let labels = self.keys.iter().zip(row.key).map(|(key, label)| ((*key).to_owned(), json!(label)));
            Value::Object(labels.chain(pair(row.totals)).collect())
        };
        let document = json!({
            "a": arguments.a.display().to_string(),
            "b": arguments.b.display().to_string(),
            "phase": arguments.selection.phase(),
            "ranges": arguments.selection.ranges(),
            "total": pair(self.sides.map(Some)),
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        });
        format!("{document:#}")
    }

    /// Fails if the total changes as a condition says, and with another code if that is not known.
    fn judge(&self, conditions: &[Condition]) -> Result<(), Failure> {
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for &condition in conditions {
            let [a, b] = self.amounts(self.sides.map(Some), condition.quantity);
            match (a, b) {
                (Some(a), Some(b)) if condition.holds(a, b) => failed.push(self.describe(condition, a, b)),
                (Some(_), Some(_)) => {}
                (a, b) => {
                    let side = match (a, b) {
                        (None, None) => "A and B",
                        (None, _) => "A",
                        _ => "B",
                    };
                    unknown
                        .push(format!("`{condition}` cannot be judged: not known of all launches of {side}"));
                }
            }
        }
        if !failed.is_empty() {
            return Err(Failure::new(failed.join("; ")));
        }
        if !unknown.is_empty() {
            return Err(Failure::new(unknown.join("; ")).exit(Exit::Undecided));
        }
        Ok(())
    }

    /// A change that fails, with the rows that changed most.
    fn describe(&self, condition: Condition, a: Amount, b: Amount) -> String {
        let quantity = condition.quantity;
        let unit = quantity.unit().map(|unit| format!(" {unit}")).unwrap_or_default();
        let side = |amount: Amount| format!("{}{unit}", quantity.cell(amount).display());
        let mut text = format!("`{condition}`: {} is {} in A and {} in B", quantity.name(), side(a), side(b));
        let mut rows: Vec<(f64, &str)> = self
            .rows
            .iter()
            .filter_map(|row| {
                let [a, b] = self.amounts(row.totals, quantity);
                Some((b?.as_f64() - a?.as_f64(), row.key[0].as_deref()?))
            })
            .filter(|(difference, _)| *difference != 0.0 && (*difference > 0.0) == (b.as_f64() > a.as_f64()))
            .collect();
        rows.sort_by(|(a, _), (b, _)| b.abs().total_cmp(&a.abs()));
        let named: Vec<String> = rows.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
        if !named.is_empty() && quantity.adds_up() {
            text.push_str(", most of it in ");
            text.push_str(&named.join(", "));
        }
        text
    }
}

/// The ranks of a quantity's columns: its two sides, and its change. Higher ranks are left out
/// first.
fn rank(quantity: Quantity) -> [u8; 2] {
    match quantity {
        Quantity::Time => [2, 1],
        Quantity::Flops => [8, 3],
        Quantity::DramBytes => [10, 4],
        Quantity::Launches => [6, 12],
        Quantity::Roofline | Quantity::Occupancy => [11, 12],
        _ => [13, 14],
    }
}

fn count(amount: Amount) -> u64 {
    match amount {
        Amount::Count(count) => count,
        Amount::Real(_) => 0,
    }
}

fn difference(quantity: Quantity, a: Option<Amount>, b: Option<Amount>) -> Cell {
    match (a, b) {
        (Some(Amount::Count(a)), Some(Amount::Count(b))) => Cell::Signed(i128::from(b) - i128::from(a)),
        (Some(a), Some(b)) => {
            let difference = b.as_f64() - a.as_f64();
            match quantity {
                // Percentage points.
                Quantity::Roofline | Quantity::Occupancy => Cell::signed_percent(difference, 2),
                _ => Cell::float(difference, 3),
            }
        }
        _ => Cell::Absent,
    }
}

fn fraction(a: Option<Amount>, b: Option<Amount>) -> Option<f64> {
    let (a, b) = (a?.as_f64(), b?.as_f64());
    (a > 0.0).then(|| (b - a) / a)
}

fn change(a: Option<Amount>, b: Option<Amount>) -> Cell {
    Cell::optional(fraction(a, b), |fraction| Cell::signed_percent(fraction, 2))
}
