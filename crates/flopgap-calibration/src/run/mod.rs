//! The run directory of a sweep: its plan, which never changes, and what was measured of it, by one
//! process or by several.
//!
//! What is outstanding is the plan without the rows that are whole in the calibration file; it is
//! computed whenever it is requested and stored nowhere.

mod session;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use flopgap_files::{
    ErrorKind, Hint, InFile, Text,
    run::{Format, FormatError, FormatFault, LockError, Shard, now},
};
use flopgap_flops::Precision;
use flopgap_graph::{Mode, Workload};
use serde::{Deserialize, Serialize};

pub use session::{Gathered, Session, gather, rows_path};

use crate::file::FileError;
use crate::grid::Point;
use crate::row::Row;

/// The format of every plan.
static FORMAT: Format = Format { name: "flopgap-sweep-plan", version: 1, noun: "plan" };

/// The plan's name in a run directory.
const PLAN: &str = "plan.json";

/// The calibration file's name in a run directory.
const CALIBRATION: &str = "calibration.jsonl";

/// Where the rows of a run are appended.
pub fn calibration_path(run: &Path) -> PathBuf {
    run.join(CALIBRATION)
}

/// The plan of a sweep, row by row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlan {
    /// When the sweep was planned (RFC 3339, UTC).
    pub created: String,
    /// The request as command-line options. A run can be resumed only with the same options.
    pub options: Vec<String>,
    /// The rows, in the order in which they are measured. One that is there twice is measured
    /// twice: what differs between the two is noise.
    pub rows: Vec<PlannedRow>,
}

/// One row of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRow {
    /// The engine.
    pub engine: String,
    /// The workload.
    #[serde(flatten)]
    pub point: Point,
    /// Whether its energy is measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
    /// Whether its FLOPs are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
}

impl PlannedRow {
    fn key(&self) -> Key<'_> {
        (&self.point.workload, &self.engine, self.point.mode, self.point.precision)
    }
}

/// An error of the run directory of a sweep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The directory has no plan.
    #[error("{}: no sweep to resume: {PLAN} is missing", run.display())]
    NoPlan {
        /// The directory.
        run: PathBuf,
    },
    /// The directory already holds a sweep.
    #[error("{}: already holds a sweep", run.display())]
    Occupied {
        /// The directory.
        run: PathBuf,
    },
    /// The plan cannot be read.
    #[error(transparent)]
    Plan(#[from] FormatError),
    /// The plan could not be written.
    #[error(transparent)]
    Write(#[from] flopgap_files::WriteError),
    /// Another process measures the same part of the run.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file of rows cannot be read or written.
    #[error(transparent)]
    Rows(#[from] FileError),
}

impl Hint for RunError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::NoPlan { .. } => Some("pass a directory that `flopgap calibrate sweep` created".into()),
            Self::Occupied { .. } => Some("resume it, or choose another directory".into()),
            Self::Plan(InFile { what: FormatFault::Shape { .. }, .. }) => {
                Some("start a new sweep in another directory; rows that were measured remain valid".into())
            }
            Self::Plan(error) => error.hint(),
            Self::Write(error) => error.hint(),
            Self::Lock(error) => error.hint(),
            Self::Rows(error) => error.hint(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoPlan { .. } => ErrorKind::Absent,
            Self::Rows(error) => error.kind(),
            _ => ErrorKind::Failed,
        }
    }
}

impl RunPlan {
    /// A plan created now.
    pub fn new(options: Vec<String>, rows: Vec<PlannedRow>) -> Self {
        RunPlan { created: now(), options, rows }
    }

    /// Whether a run directory has a plan.
    pub fn exists(run: &Path) -> bool {
        run.join(PLAN).exists()
    }

    /// Creates a run directory with this plan.
    ///
    /// # Errors
    /// [`RunError::Occupied`] when it has one; when the directory or file cannot be written.
    pub fn write_new(&self, run: &Path) -> Result<(), RunError> {
        flopgap_files::create_folder(run)?;
        // One line for each row, so that the file can be read and compared by eye.
        let json = FORMAT.line(self).replace("{\"engine\":", "\n{\"engine\":");
        if !flopgap_files::write_new(&run.join(PLAN), json.as_bytes())? {
            return Err(RunError::Occupied { run: run.to_owned() });
        }
        Ok(())
    }

    /// Reads the plan of a run directory.
    ///
    /// # Errors
    /// When there is none, or it cannot be read, or another version wrote it.
    pub fn read(run: &Path) -> Result<RunPlan, RunError> {
        FORMAT.read(&run.join(PLAN))?.ok_or_else(|| RunError::NoPlan { run: run.to_owned() })
    }

    /// The places in [`RunPlan::rows`] that were not measured yet, in order.
    pub fn outstanding(&self, measured: &[Row]) -> Vec<usize> {
        let mut times: HashMap<Key<'_>, usize> = HashMap::new();
        for row in measured {
            *times.entry((&row.workload, &row.engine, row.mode, row.precision)).or_default() += 1;
        }
        let is_outstanding = |&place: &usize| match times.get_mut(&self.rows[place].key()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        };
        (0..self.rows.len()).filter(is_outstanding).collect()
    }

    /// The places in [`RunPlan::rows`] that a shard measures, in order. All measurements of a row
    /// that is planned twice are in one shard: their difference is the noise of one device.
    pub fn part(&self, shard: Shard) -> Vec<usize> {
        let mut places: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
        let mut keys = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            let of_key = places.entry(row.key()).or_default();
            if of_key.is_empty() {
                keys.push(row.key());
            }
            of_key.push(place);
        }
        let mut part: Vec<usize> =
            shard.deal(keys).flat_map(|key| places.get(&key).into_iter().flatten().copied()).collect();
        part.sort_unstable();
        part
    }

    /// Measured rows in the order of the plan, in whatever order they were measured, and how many
    /// there are beyond it: these are left out.
    pub fn in_order(&self, measured: &[Row]) -> (Vec<Row>, usize) {
        let mut free: HashMap<Key<'_>, VecDeque<usize>> = HashMap::new();
        for (place, row) in self.rows.iter().enumerate() {
            free.entry(row.key()).or_default().push_back(place);
        }
        let mut placed: Vec<(usize, &Row)> = Vec::with_capacity(measured.len());
        for row in measured {
            let key = (&row.workload, row.engine.as_str(), row.mode, row.precision);
            let place = free.get_mut(&key).and_then(VecDeque::pop_front);
            placed.extend(place.map(|place| (place, row)));
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        let beyond = measured.len() - placed.len();
        (placed.into_iter().map(|(_, row)| row.clone()).collect(), beyond)
    }

    /// The engines, each once, in the order of their first rows.
    pub fn engines(&self) -> Vec<&str> {
        let mut engines: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !engines.contains(&row.engine.as_str()) {
                engines.push(&row.engine);
            }
        }
        engines
    }
}

/// What distinguishes the rows of one run.
type Key<'a> = (&'a Workload, &'a str, Mode, Precision);

/// Joins the points of several engines to the rows of a plan, in an order that mixes them, and
/// plans some of them again. What is measured again lies as far behind its first time as that lies
/// behind the beginning, so that a sweep that is cut off has measured some twice, too.
pub fn mix(engines: Vec<(String, Vec<Point>)>, repeats: usize) -> Vec<PlannedRow> {
    let all: usize = engines.iter().map(|(_, points)| points.len()).sum();
    let mut rows: Vec<(f64, PlannedRow)> = Vec::with_capacity(all + repeats);
    for (engine, points) in engines {
        let count = points.len() as f64;
        for (place, point) in points.into_iter().enumerate() {
            let row = PlannedRow { engine: engine.clone(), point, energy: false, count: false };
            rows.push(((place as f64 + 0.5) / count, row));
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let repeats = repeats.min(all / 2);
    for repeat in 0..repeats {
        let place = (repeat + 1) * (all / 2) / (repeats + 1);
        let (first, row) = rows[place].clone();
        rows.push((2.0 * first, row));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing;

    fn point(index: usize) -> Point {
        let row = testing::rows(index + 1).remove(index);
        Point { workload: row.workload, mode: row.mode, precision: row.precision }
    }

    fn planned(engine: &str, index: usize) -> PlannedRow {
        PlannedRow { engine: engine.to_owned(), point: point(index), energy: index == 1, count: false }
    }

    #[test]
    fn plans_come_back() {
        let (_dir, [run]) = flopgap_testing::paths(["run"]);
        let rows = vec![planned("cuda", 0), planned("cuda", 1), planned("torch-eager", 0)];
        let plan = RunPlan::new(vec!["--quick".to_owned()], rows);
        plan.write_new(&run).unwrap();
        assert_eq!(RunPlan::read(&run).unwrap(), plan);
        assert_eq!(plan.engines(), ["cuda", "torch-eager"]);
        assert_eq!(fs::read_to_string(run.join(PLAN)).unwrap().lines().count(), 4);
        let error = plan.write_new(&run).unwrap_err();
        assert!(error.to_string().ends_with("run: already holds a sweep"), "{error}");
    }

    #[test]
    fn what_is_not_a_plan_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let read = || RunPlan::read(dir.path()).unwrap_err();
        assert!(matches!(read(), RunError::NoPlan { .. }));
        let write = |text: &str| fs::write(dir.path().join(PLAN), text).unwrap();
        write("{\"format\":\"flopgap-sweep-plan\",\"version\":2}");
        assert!(read().to_string().contains("version 2; supported: "));
        write("{\"format\":\"flopgap-sweep-plan\",\"version\":1,");
        let error = read();
        assert!(error.to_string().ends_with("plan.json: not a plan"), "{error}");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(source.is_some_and(|source| source.contains("line 1 column")), "{error:?}");
    }

    #[test]
    fn outstanding_is_what_has_no_row_yet_and_repeats_need_two() {
        let rows = vec![planned("cuda", 0), planned("cuda", 1), planned("cuda", 0), planned("ort", 1)];
        let plan = RunPlan::new(Vec::new(), rows);
        let measured = testing::rows(2);
        assert_eq!(plan.outstanding(&[]), [0, 1, 2, 3]);
        assert_eq!(plan.outstanding(&measured[..1]), [1, 2, 3]);
        assert_eq!(plan.outstanding(&measured), [2, 3]);
        let twice = [measured.clone(), measured].concat();
        assert_eq!(plan.outstanding(&twice), [3]);
    }

    #[test]
    fn engines_are_mixed_and_repeats_come_later() {
        let points = |count: usize| (0..count).map(point).collect::<Vec<_>>();
        let rows = mix(vec![("a".to_owned(), points(20)), ("b".to_owned(), points(10))], 4);
        assert_eq!(rows.len(), 34);
        let first_third = rows[..12].iter().filter(|row| row.engine == "b").count();
        assert_eq!(first_third, 4);
        let mut seen: Vec<&PlannedRow> = Vec::new();
        let mut again = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            if seen.contains(&row) {
                again.push(place);
            }
            seen.push(row);
        }
        assert_eq!(again.len(), 4);
        assert!(again[0] < 12 && again[3] > 25, "some early, some late: {again:?}");
    }
}
