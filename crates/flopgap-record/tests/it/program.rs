//! The program that is recorded, and the export of what it did.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopgap_nsys::Trace;
use flopgap_record::{Exported, Options, Session, export};
use rusqlite::Connection;
use rusqlite::types::FromSql;
use tempfile::TempDir;

/// A directory with a session, and where the programs are.
pub(crate) struct Recorded {
    pub(crate) folder: TempDir,
    pub(crate) session: Session,
}

/// What cargo built beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(built.exists(), "{}: build the examples, as `cargo test` does", built.display());
    built
}

impl Recorded {
    pub(crate) fn new(options: Options) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options;
        options.cupti = Some(example("libfake_cupti.so"));
        let session = Session::create(&folder.path().join("recording"), &options).unwrap();
        Recorded { folder, session }
    }

    /// The program, ready to run.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut program = Command::new(example("fake_program"));
        program.args(arguments).envs(self.session.environment()).stdin(Stdio::null());
        program
    }

    /// Waits until the program has filled some buffers, however busy the machine is.
    pub(crate) fn wait_for_buffers(&self) {
        let filled = || {
            let files = std::fs::read_dir(self.session.directory()).unwrap().map(|file| file.unwrap());
            let recordings = files.filter(|file| file.path().extension().is_some_and(|it| it == "fgr"));
            recordings.map(|file| file.metadata().unwrap().len()).sum::<u64>() > 12 << 20
        };
        let begun = Instant::now();
        while !filled() {
            assert!(begun.elapsed() < Duration::from_mins(1), "the program records nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a program has brought activities into its file.
    pub(crate) fn has_activities(&self) -> bool {
        // The header's page and one of events each take less; activities come in buffers of 2 MB.
        let files = std::fs::read_dir(self.session.directory()).unwrap().map(|file| file.unwrap());
        let recordings = files.filter(|file| file.path().extension().is_some_and(|it| it == "fgr"));
        recordings.map(|file| file.path()).any(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes.chunks_exact(4096).any(|page| page[..8] == *b"\x01chunk\xf6\x9f")
        })
    }

    pub(crate) fn export(self) -> (Exported, Rows) {
        let file = self.folder.path().join("x.sqlite");
        let exported = export(self.session.directory(), &file).unwrap();
        (exported, Rows { database: Connection::open(&file).unwrap(), file, _folder: self.folder })
    }
}

/// The rows of an export, by SQL: what any reader finds.
pub(crate) struct Rows {
    database: Connection,
    file: PathBuf,
    _folder: TempDir,
}

impl Rows {
    pub(crate) fn of<T: FromSql>(&self, query: &str) -> Vec<T> {
        let mut query = self.database.prepare(query).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// What every answer about the export begins with.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = Trace::open(&self.file).unwrap().problems().unwrap();
        problems.iter().map(ToString::to_string).collect()
    }
}

/// Kernels in the order in which they were launched: the fake numbers launches from 1.
pub(crate) const LAUNCHES: &str = "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1";
/// Their names.
pub(crate) const NAMES: &str =
    "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName ORDER BY 1";

/// Runs the program to its end, and exports.
pub(crate) fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Exported, Rows) {
    let recorded = Recorded::new(Options::default());
    let mut program = recorded.program(arguments);
    program.envs(variables.iter().copied());
    assert!(program.status().unwrap().success());
    recorded.export()
}
