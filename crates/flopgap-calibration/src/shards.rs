//! A sweep that several processes measure, on one machine or many.
//!
//! Each process appends to a file of its own, `shards/2-of-4.jsonl` of the run directory, with the
//! header of the run's `calibration.jsonl`. Gathered, their rows are those of a single process, in
//! the order of the plan. The files stay: gathering again gives the same.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flopgap_cluster::Shard;

use crate::file::{Calibration, FileError, FileFault, Header, Writer, lock_shared, not_written};
use crate::row::{Origin, Row};
use crate::run::{RunPlan, calibration_path};

/// The directory of the shards' files in a run directory.
const SHARDS: &str = "shards";

/// A process that measures a shard of a run.
#[derive(Debug)]
pub struct Member {
    /// Appends to the shard's file.
    pub writer: Writer,
    /// Whether the shard's file had an incomplete last row, which was removed.
    pub torn: bool,
    /// The claim on the run.
    pub claim: Claim,
}

/// While this lives, the run's own file cannot be written.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

/// The rows of a run and of all its shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// The header of the run, and the rows in the order of the plan.
    pub calibration: Calibration,
    /// Files of shards. Without any, the rows are those of the run's own file.
    pub files: usize,
    /// Rows that were measured more often than planned, and are left out: two processes measured
    /// them at the same time, in different numbers of shards.
    pub surplus: usize,
}

/// Where a shard's rows are appended.
pub fn shard_path(run: &Path, shard: Shard) -> PathBuf {
    run.join(SHARDS).join(format!("{}-of-{}.jsonl", shard.index(), shard.of()))
}

/// Joins a run whose `calibration.jsonl` has its header.
///
/// # Errors
/// [`FileFault::OtherOrigin`] when the run was started on another machine or with other software
/// than `origin`; [`FileFault::Locked`] when another process measures this shard or the whole run;
/// when a file cannot be read or written.
pub fn join(run: &Path, shard: Shard, origin: &Origin) -> Result<Member, FileError> {
    let path = calibration_path(run);
    let file = File::open(&path).map_err(|source| FileError::new(&path, FileFault::Io { source }))?;
    lock_shared(&file, &path)?;
    let header = Calibration::read(&path)?.header;
    header.expect_origin(origin, &path)?;
    let path = shard_path(run, shard);
    flopgap_fs::create_folder(&run.join(SHARDS)).map_err(not_written)?;
    let (writer, torn) = match Writer::create(&path, &header) {
        Ok(writer) => (writer, false),
        Err(FileError { what: FileFault::Exists, .. }) => {
            let (writer, found) = Writer::resume(&path, &Header { origin: origin.clone(), ..header })?;
            (writer, found.torn)
        }
        Err(error) => return Err(error),
    };
    Ok(Member { writer, torn, claim: Claim { _file: file } })
}

/// Reads the rows of a run and of all its shards, also while some are being measured.
///
/// # Errors
/// As [`Calibration::read`]; [`FileFault::OtherOrigin`] when a shard is from another machine.
pub fn gather(run: &Path, plan: &RunPlan) -> Result<Gathered, FileError> {
    let path = calibration_path(run);
    let own = Calibration::read(&path)?;
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

    /// A run directory whose shards have measured so many rows of their parts.
    fn run(all: &[Row], plan: &RunPlan, of: u32, part: impl Fn(u32, usize) -> usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let header = testing::header();
        drop(Writer::create(&calibration_path(dir.path()), &header).unwrap());
        for index in 1..=of {
            let shard = Shard::new(index, of).unwrap();
            let mut member = join(dir.path(), shard, &header.origin).unwrap();
            let places = plan.part(shard);
            for &place in places.iter().take(part(index, places.len())) {
                member.writer.append(&all[place]).unwrap();
            }
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
            prop_assert_eq!((gathered.files, gathered.surplus), (of as usize, 0));
            prop_assert_eq!(&gathered.calibration.rows, &all);
            prop_assert_eq!(&gathered.calibration.header, &testing::header());

            // Written into the run's own file, they are there twice and count once.
            gathered.calibration.write(&calibration_path(dir.path())).unwrap();
            prop_assert_eq!(gather(dir.path(), &plan).unwrap(), gathered);
        }
    }

    #[test]
    fn what_is_missing_can_be_measured_in_other_shards() {
        let all = testing::rows(20);
        let plan = plan(&all, 0);
        let dir = run(&all, &plan, 3, |index, length| if index == 2 { 2 } else { length });
        let before = gather(dir.path(), &plan).unwrap().calibration.rows;
        let left = plan.outstanding(&before);
        assert_eq!((left.len(), before.len()), (5, 15));
        let shard = Shard::new(1, 1).unwrap();
        let mut member = join(dir.path(), shard, &testing::header().origin).unwrap();
        for &place in &left {
            member.writer.append(&all[place]).unwrap();
        }
        drop(member);
        let gathered = gather(dir.path(), &plan).unwrap();
        assert_eq!(gathered.calibration.rows, all);
        assert_eq!((gathered.files, gathered.surplus), (4, 0));
    }

    #[test]
    fn a_torn_row_is_left_out_and_one_too_many_is_counted() {
        let rows = testing::rows(6);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, length| length);
        let mut late = rows[0].clone();
        late.measurement.time.median_ns += 7.0;
        let mut member = join(dir.path(), Shard::new(1, 5).unwrap(), &testing::header().origin).unwrap();
        member.writer.append(&late).unwrap();
        drop(member);
        let path = shard_path(dir.path(), Shard::new(2, 2).unwrap());
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"workload\":").unwrap();
        let gathered = gather(dir.path(), &plan).unwrap();
        assert_eq!(gathered.calibration.rows.len(), 6);
        assert_eq!(gathered.surplus, 1);
        let member = join(dir.path(), Shard::new(2, 2).unwrap(), &testing::header().origin).unwrap();
        assert!(member.torn);
    }

    #[test]
    fn shards_and_the_whole_exclude_each_other() {
        let rows = testing::rows(4);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, _| 0);
        let (header, path) = (testing::header(), calibration_path(dir.path()));
        let shard = |index| join(dir.path(), Shard::new(index, 2).unwrap(), &header.origin);
        let first = shard(1).unwrap();
        let second = shard(2).unwrap();
        assert!(matches!(shard(2), Err(FileError { what: FileFault::Locked, .. })), "one process a shard");
        assert!(matches!(Writer::resume(&path, &header), Err(FileError { what: FileFault::Locked, .. })));
        drop((first, second));
        let whole = Writer::resume(&path, &header).unwrap();
        assert!(matches!(shard(1), Err(FileError { what: FileFault::Locked, .. })));
        drop(whole);
        shard(1).unwrap();
    }

    #[test]
    fn a_shard_of_another_machine_is_refused() {
        let rows = testing::rows(4);
        let plan = plan(&rows, 0);
        let dir = run(&rows, &plan, 2, |_, _| 1);
        let other = Origin { device: "NVIDIA L40S".to_owned(), ..testing::header().origin };
        let error = join(dir.path(), Shard::new(1, 2).unwrap(), &other).unwrap_err().to_string();
        assert!(error.contains("the device is `NVIDIA H200` there and `NVIDIA L40S` here"), "{error}");
        let path = shard_path(dir.path(), Shard::new(2, 2).unwrap());
        let text = fs::read_to_string(&path).unwrap().replace("H200", "L40S");
        fs::write(&path, text).unwrap();
        let error = gather(dir.path(), &plan).unwrap_err().to_string();
        assert!(error.contains("2-of-2.jsonl") && error.contains("L40S"), "{error}");
    }
}
