//! A sweep that several processes measure, on one machine or many.
//!
//! A process that measures all of it appends to `calibration.jsonl`; one that measures a shard to
//! a file of its own, `shards/2-of-4.jsonl`, with the same header. Gathered, their rows are those
//! of a single process, in the order of the plan. The files stay: gathering again gives the same.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_files::run::{Lock, Opening, Shard};

use super::{RunError, RunPlan, calibration_path};
use crate::file::{Calibration, FileError, FileFault, Header, Writer};
use crate::row::Row;

/// The directory of the shards' files in a run directory.
const SHARDS: &str = "shards";

/// A run directory that is open for measuring: no other process measures the same part of it.
#[derive(Debug)]
pub struct Session {
    run: PathBuf,
    shard: Shard,
    /// Appends to the file of this process.
    pub writer: Writer,
    /// Whether that file had an incomplete last row, which was removed.
    pub torn: bool,
    /// What all processes had measured when this one opened the run.
    pub gathered: Gathered,
    _lock: Lock,
}

/// The rows of a run and of all its shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// The header of the run, and the rows in the order of the plan.
    pub calibration: Calibration,
    /// Files of shards. Without any, the rows are those of the run's own file.
    pub files: usize,
    /// Rows that were measured more often than planned, and are left out.
    pub surplus: usize,
}

impl Session {
    /// Opens a run to measure a part of its plan. The header of the run is that of the first
    /// process that opens it, here `header`. Who measures all brings the rows of shards into the
    /// run's own file.
    ///
    /// # Errors
    /// [`RunError::Lock`] when another process measures some of this part;
    /// [`FileFault::OtherOrigin`] when the run was started on another machine or with other
    /// software than `header` says; when a file cannot be read or written.
    pub fn open(run: &Path, plan: &RunPlan, shard: Shard, header: &Header) -> Result<Session, RunError> {
        let opening = Opening::wait(run)?;
        let lock = opening.claim(shard)?;
        let own = calibration_path(run);
        if !own.exists() {
            Writer::create(&own, header)?;
        }
        let of_run = Calibration::read(&own)?.header;
        of_run.expect_origin(&header.origin, &own)?;
        let path = rows_path(run, shard);
        if !shard.is_whole() && !path.exists() {
            flopgap_files::create_folder(&run.join(SHARDS))?;
            Writer::create(&path, &of_run)?;
        }
        let (mut writer, Calibration { torn, .. }) = Writer::resume(&path, &of_run)?;
        let gathered = gather(run, plan)?;
        if shard.is_whole() && gathered.files > 0 {
            gathered.calibration.write(&own)?;
            writer = Writer::resume(&own, &of_run)?.0; // the file is a new one
        }
        Ok(Session { run: run.to_owned(), shard, writer, torn, gathered, _lock: lock })
    }

    /// The places in the plan's rows that this process is to measure, in order.
    pub fn outstanding(&self, plan: &RunPlan) -> Vec<usize> {
        let missing: HashSet<usize> = plan.outstanding(&self.gathered.calibration.rows).into_iter().collect();
        plan.part(self.shard).into_iter().filter(|place| missing.contains(place)).collect()
    }

    /// Waits until all rows are on the disk; of a whole run with shards, in the order of the plan.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn finish(self, plan: &RunPlan) -> Result<(), RunError> {
        self.writer.sync()?;
        if self.shard.is_whole() && self.gathered.files > 0 {
            gather(&self.run, plan)?.calibration.write(&calibration_path(&self.run))?;
        }
        Ok(())
    }
}

/// Where the rows of a process are appended.
pub fn rows_path(run: &Path, shard: Shard) -> PathBuf {
    if shard.is_whole() {
        return calibration_path(run);
    }
    run.join(SHARDS).join(format!("{}-of-{}.jsonl", shard.index(), shard.of()))
}

/// Reads the rows of a run and of all its shards, also while some are being measured.
///
/// # Errors
/// As [`Calibration::read`]; [`FileFault::OtherOrigin`] when a shard is from another machine.
pub fn gather(run: &Path, plan: &RunPlan) -> Result<Gathered, FileError> {
    let own = Calibration::read(&calibration_path(run))?;
    let paths = list(&run.join(SHARDS))?;
    if paths.is_empty() {
        return Ok(Gathered { calibration: own, files: 0, surplus: 0 });
    }
    let mut files = vec![own.rows];
    for path in &paths {
        let shard = Calibration::read(path)?;
        shard.header.expect_origin(&own.header.origin, path)?;
        files.push(shard.rows);
    }
    let (rows, surplus) = plan.in_order(&union(files));
    let calibration = Calibration { header: own.header, rows, torn: false };
    Ok(Gathered { calibration, files: paths.len(), surplus })
}

/// The files of shards, by name.
fn list(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let io = |source| FileError::new(directory, FileFault::Io { source });
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(io)?.path();
        // Names that begin with a dot are unfinished files.
        let is_unfinished = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|ending| ending == "jsonl") && !is_unfinished {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// All rows, each as often as the file says that has it most often: a row that was gathered before
/// is in the run's own file, too.
fn union(files: Vec<Vec<Row>>) -> Vec<Row> {
    let mut found: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut rows = Vec::new();
    for file in files {
        let mut here: HashMap<Vec<u8>, usize> = HashMap::new();
        for row in file {
            // Serialization of these types cannot fail: their maps have text for keys.
            let json = serde_json::to_vec(&row).unwrap_or_else(|error| unreachable!("{error}"));
            let times = here.entry(json.clone()).or_default();
            *times += 1;
            let most = found.entry(json).or_default();
            if *times > *most {
                *most = *times;
                rows.push(row);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::grid::Point;
    use crate::run::PlannedRow;
    use crate::testing;

    /// A plan of so many workloads, some of them twice.
    fn plan(rows: &[Row], repeats: usize) -> RunPlan {
        let planned = |row: &Row| PlannedRow {
            engine: row.engine.clone(),
            point: Point { workload: row.workload.clone(), mode: row.mode, precision: row.precision },
            energy: false,
            count: false,
        };
        let again = rows.iter().take(repeats);
        RunPlan::new(Vec::new(), rows.iter().chain(again).map(planned).collect())
    }

    /// What a single process measures: the second time takes longer.
    fn measured(rows: &[Row], repeats: usize) -> Vec<Row> {
        let again = rows.iter().take(repeats).cloned().map(|mut row| {
            row.measurement.time.median_ns *= 1.01;
            row
        });
        rows.iter().cloned().chain(again).collect()
    }

    fn session(run: &Path, plan: &RunPlan, shard: &str) -> Result<Session, RunError> {
        Session::open(run, plan, shard.parse().unwrap(), &testing::header())
    }

    /// A run directory whose shards have measured so many rows of their parts.
    fn run(all: &[Row], plan: &RunPlan, of: u32, part: impl Fn(u32, usize) -> usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for index in 1..=of {
            let mut session = session(dir.path(), plan, &format!("{index}/{of}")).unwrap();
            let places = session.outstanding(plan);
            for &place in places.iter().take(part(index, places.len())) {
                session.writer.append(&all[place]).unwrap();
            }
            session.finish(plan).unwrap();
        }
        dir
    }

    proptest! {
        // Each case writes files.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn shards_give_what_one_process_gives(count in 1usize..30, repeats in 0usize..10, of in 1u32..9) {
            let rows = testing::rows(count);
            let repeats = repeats.min(count);
            let (plan, all) = (plan(&rows, repeats), measured(&rows, repeats));
            let mut places: Vec<usize> =
                (1..=of).flat_map(|index| plan.part(Shard::new(index, of).unwrap())).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..all.len()).collect::<Vec<_>>(), "the shards partition the plan");

            let dir = run(&all, &plan, of, |_, length| length);
            let gathered = gather(dir.path(), &plan).unwrap();
            // One shard of one is the whole.
            let files = if of == 1 { 0 } else { of as usize };
            prop_assert_eq!((gathered.files, gathered.surplus), (files, 0));
            prop_assert_eq!(&gathered.calibration.rows, &all);
            prop_assert_eq!(&gathered.calibration.header, &testing::header());

            // In the run's own file, they are there twice and count once.
            session(dir.path(), &plan, "1/1").unwrap().finish(&plan).unwrap();
            prop_assert_eq!(Calibration::read(&calibration_path(dir.path())).unwrap(), gathered.calibration.clone());
            prop_assert_eq!(gather(dir.path(), &plan).unwrap(), gathered);
        }
    }

    #[test]
    fn what_is_missing_can_be_measured_by_the_whole_and_comes_in_order() {
        let all = testing::rows(20);
        let plan = plan(&all, 0);
        let dir = run(&all, &plan, 3, |index, length| if index == 2 { 2 } else { length });
        let mut session = session(dir.path(), &plan, "1/1").unwrap();
        let outstanding = session.outstanding(&plan);
        assert_eq!((outstanding.len(), session.gathered.calibration.rows.len()), (5, 15));
        for &place in &outstanding {
            session.writer.append(&all[place]).unwrap();
        }
        session.finish(&plan).unwrap();
        assert_eq!(Calibration::read(&calibration_path(dir.path())).unwrap().rows, all);
        let gathered = gather(dir.path(), &plan).unwrap();
        assert_eq!(gathered.calibration.rows, all);
        assert_eq!((gathered.files, gathered.surplus), (3, 0));
    }

    #[test]
    fn a_torn_row_is_left_out_and_one_too_many_is_counted() {
        let rows = testing::rows(6);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, length| length);
        let mut late = rows[0].clone();
        late.measurement.time.median_ns += 7.0;
        session(dir.path(), &plan, "1/5").unwrap().writer.append(&late).unwrap();
        let path = rows_path(dir.path(), Shard::new(2, 2).unwrap());
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"workload\":").unwrap();
        let gathered = gather(dir.path(), &plan).unwrap();
        assert_eq!(gathered.calibration.rows.len(), 6);
        assert_eq!(gathered.surplus, 1);
        assert!(session(dir.path(), &plan, "2/2").unwrap().torn);
    }

    #[test]
    fn shards_and_the_whole_exclude_each_other() {
        let rows = testing::rows(4);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, _| 0);
        let open = |shard| session(dir.path(), &plan, shard);
        let both = [open("1/2").unwrap(), open("2/2").unwrap()];
        for shard in ["2/2", "1/1"] {
            assert!(matches!(open(shard), Err(RunError::Lock(_))), "{shard}");
        }
        drop(both);
        let whole = open("1/1").unwrap();
        assert!(matches!(open("1/2"), Err(RunError::Lock(_))));
        drop(whole);
        open("1/2").unwrap();
    }

    #[test]
    fn a_shard_of_another_machine_is_refused() {
        let rows = testing::rows(4);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, _| 1);
        let mut other = testing::header();
        other.origin.device = "NVIDIA L40S".to_owned();
        let shard = Shard::new(2, 2).unwrap();
        let error = Session::open(dir.path(), &plan, shard, &other).unwrap_err().to_string();
        assert!(error.contains("the device is `NVIDIA H200` there and `NVIDIA L40S` here"), "{error}");
        let path = rows_path(dir.path(), shard);
        let text = fs::read_to_string(&path).unwrap().replace("H200", "L40S");
        fs::write(&path, text).unwrap();
        let error = gather(dir.path(), &plan).unwrap_err().to_string();
        assert!(error.contains("2-of-2.jsonl") && error.contains("L40S"), "{error}");
    }
}
