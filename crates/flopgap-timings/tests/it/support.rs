//! Recorded traces, and the same questions asked in SQL.

use std::path::PathBuf;

use flopgap_nsys::{AttributeBy, Attribution, Trace};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// A recorded trace, unpacked.
pub(crate) struct Recorded {
    _folder: TempDir,
    path: PathBuf,
}

pub(crate) const BY_PROCESS: Attribution = Attribution { by: AttributeBy::Process, whole_graphs: true };
pub(crate) const BY_THREAD: Attribution = Attribution { by: AttributeBy::Thread, whole_graphs: true };

/// GPU operations as one table, each with the call that launched it, and its ranges. A kernel
/// launched by a thread without ranges (there is only one such thread, that of autograd) belongs to
/// the ranges of the process: so it is joined by process alone.
const VIEWS: &str = "
    CREATE TEMP VIEW op AS
        SELECT start, end, correlationId, 'kernel' AS kind, demangledName AS name FROM CUPTI_ACTIVITY_KIND_KERNEL
        UNION ALL SELECT start, end, correlationId, 'memcpy', NULL FROM CUPTI_ACTIVITY_KIND_MEMCPY
        UNION ALL SELECT start, end, correlationId, 'memset', NULL FROM CUPTI_ACTIVITY_KIND_MEMSET;
    CREATE TEMP VIEW range AS
        SELECT n.rowid AS id, coalesce(n.text, s.value) AS name, n.start, n.end, n.globalTid AS thread
        FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE n.eventType = 59;
    CREATE TEMP VIEW inside AS
        SELECT range.id AS id, range.name AS range, op.start, op.end, op.kind, op.name, r.globalTid = range.thread AS same,
               op.correlationId
        FROM range JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
            ON r.globalTid >> 24 = range.thread >> 24 AND r.start >= range.start AND r.end <= range.end
        JOIN op ON op.correlationId = r.correlationId
        WHERE range.name <> 'warmup' AND range.start > (SELECT end FROM range WHERE name = 'warmup');
";

impl Recorded {
    pub(crate) fn new(name: &str) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{name}.sqlite"));
        flopgap_testing::unpack(format!("nsys/{name}.sqlite.zst"), &path);
        Recorded { _folder: folder, path }
    }

    /// The same recording after an SQL script, such as one that renames its ranges.
    pub(crate) fn altered(name: &str, script: &str) -> Recorded {
        let recorded = Recorded::new(name);
        Connection::open(&recorded.path).unwrap().execute_batch(script).unwrap();
        recorded
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace::open(&self.path).unwrap()
    }

    fn sql(&self) -> Connection {
        let sql = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        sql.execute_batch(VIEWS).unwrap();
        sql
    }

    /// A row of whole numbers for each row of a query.
    pub(crate) fn rows<const N: usize>(&self, query: &str) -> Vec<[i64; N]> {
        let sql = self.sql();
        let mut statement = sql.prepare(query).unwrap();
        let rows = statement.query_map([], |row| {
            let mut values = [0; N];
            for (at, value) in values.iter_mut().enumerate() {
                *value = row.get(at)?;
            }
            Ok(values)
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// The one number of a query.
    pub(crate) fn number(&self, query: &str) -> i64 {
        let [[number]] = self.rows::<1>(query)[..] else { panic!("not one row: {query}") };
        number
    }
}
