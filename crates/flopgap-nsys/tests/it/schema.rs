//! Tables and columns are those that `SQLite` finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flopgap_nsys::sqlite::{Database, Slot};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::{TRACES, Unpacked};

/// The tables of a database: where their rows begin, if these lie there plainly, and where they
/// keep each column.
type Tables = BTreeMap<String, (Option<u32>, Vec<(String, Slot)>)>;

/// Each column of each table, in the order in which rows store them: whether the table has row ids,
/// whether the column has a default or is computed, and whether it is the row id.
const COLUMNS: &str = "
    SELECT m.name, m.rootpage, (SELECT l.wr FROM pragma_table_list(m.name) AS l WHERE l.schema = 'main'),
           c.name, c.cid, c.type, c.dflt_value IS NOT NULL OR c.hidden <> 0,
           c.pk = 1 AND upper(c.type) = 'INTEGER'
               AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name) WHERE pk > 1)
               AND NOT EXISTS (SELECT 1 FROM pragma_index_list(m.name) WHERE origin = 'pk')
    FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
    WHERE m.type = 'table' ORDER BY m.rowid, c.cid";

fn by_sqlite(connection: &Connection) -> Tables {
    let mut statement = connection.prepare(COLUMNS).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut tables = Tables::new();
    while let Some(row) = rows.next().unwrap() {
        let root = row.get::<_, Option<u32>>(1).unwrap().filter(|root| *root > 1);
        let without_rowids: bool = row.get(2).unwrap();
        let (root, columns) =
            tables.entry(row.get(0).unwrap()).or_insert((root.filter(|_| !without_rowids), Vec::new()));
        if row.get(6).unwrap() {
            *root = None;
        }
        let declared: Option<String> = row.get(5).unwrap();
        let place = usize::from(row.get::<_, u16>(4).unwrap());
        let stored = Slot::stored(place, &declared.unwrap_or_default());
        columns.push((row.get(3).unwrap(), if row.get(7).unwrap() { Slot::Rowid } else { stored }));
    }
    tables
}

fn by_pages(path: &Path) -> Tables {
    let tables = Database::open(path).unwrap().tables().unwrap();
    tables.into_iter().map(|table| (table.name, (table.root, table.columns))).collect()
}

/// What both read of a new database with these tables.
fn both(statements: &str) -> rusqlite::Result<(Tables, Tables)> {
    let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
    let connection = Connection::open(&path)?;
    connection.execute_batch(statements)?;
    let expected = by_sqlite(&connection);
    drop(connection);
    Ok((by_pages(&path), expected))
}

#[test]
fn recorded_exports_have_the_tables_that_sqlite_finds() {
    let mut tables = 0;
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let found = by_pages(&unpacked.path());
        assert_eq!(found, by_sqlite(&Connection::open(unpacked.path()).unwrap()), "{name}");
        assert!(found.values().all(|(root, _)| root.is_some()), "{name}: nsys writes plain tables");
        tables += found.len();
    }
    assert!(tables > 200, "{tables}");
}

#[test]
fn columns_are_where_sqlite_keeps_them() {
    let (found, expected) = both(
        r#"
        CREATE TABLE plain(a TEXT, id INTEGER PRIMARY KEY, b REAL);
        CREATE TABLE pair(a INTEGER, b INTEGER, PRIMARY KEY (a, b));
        CREATE TABLE defaulted(a INTEGER DEFAULT 7);
        CREATE TABLE computed(a INTEGER, b INTEGER AS (a + 1), c INTEGER);
        CREATE TABLE indexed(a INTEGER PRIMARY KEY) WITHOUT ROWID;
        -- Keys that are the row id, and keys that look like it.
        CREATE TABLE descending(a INTEGER PRIMARY KEY DESC, b);
        CREATE TABLE below(a INTEGER, b, CONSTRAINT c PRIMARY KEY("A" COLLATE nocase DESC));
        CREATE TABLE short(a INT PRIMARY KEY);
        CREATE TABLE sized(a INTEGER(8) PRIMARY KEY);
        CREATE TABLE quoted(a "INTEGER" PRIMARY KEY);
        CREATE TABLE counting(a integer primary key autoincrement, b);
        -- Words and parentheses that mean nothing here.
        CREATE TABLE checked(a INTEGER CHECK (a > (1) AND 'DEFAULT)' <> 'x'), b, UNIQUE (a, b), CHECK (b IN (1, 2)));
        CREATE TABLE referring(a REFERENCES plain(id) ON DELETE SET DEFAULT ON UPDATE SET NULL, b FLOAT);
        CREATE TABLE "names (odd)"("a ""b", [c "d], `e``f`, 'g''h', ü, "end" INT, key, "default" REAL);
        CREATE TABLE types(a VARYING CHARACTER(255), b DOUBLE PRECISION, c DECIMAL(10, 5), d, e "REAL", f POINT);
        CREATE TABLE/* a, b */commented -- c, d
            (a /* INTEGER */ REAL, -- , x
             b);
        CREATE TABLE strict(a INTEGER PRIMARY KEY, b REAL) STRICT;
        CREATE TABLE null_default(a DEFAULT NULL);
        CREATE TABLE generated(a, b GENERATED ALWAYS AS (a) STORED);
        CREATE TABLE copied AS SELECT a, b FROM plain;
        CREATE VIRTUAL TABLE words USING fts5(a, b);
        CREATE VIEW seen AS SELECT a FROM plain;
        CREATE INDEX by_a ON plain(a);
        ALTER TABLE plain ADD COLUMN added TEXT;
        ALTER TABLE pair RENAME COLUMN b TO "b 2";
        ALTER TABLE short RENAME TO "sho""rt";
        "#,
    )
    .unwrap();
    // The columns of a virtual table are known to its module alone.
    assert_eq!(found["words"], (None, Vec::new()));
    let without = |mut tables: Tables| {
        tables.remove("words");
        tables
    };
    assert_eq!(without(found.clone()), without(expected));
    let is_plain = |name: &str| found[name].0.is_some();
    assert!(["plain", "pair", "below", "referring", "types", "strict"].into_iter().all(is_plain));
    assert!(!["defaulted", "computed", "indexed", "generated", "null_default"].into_iter().any(is_plain));
    assert_eq!(found["plain"].1[1], ("id".to_owned(), Slot::Rowid));
    assert_eq!(found["below"].1[0], ("a".to_owned(), Slot::Rowid));
}

#[test]
fn a_schema_of_many_pages_is_read() {
    let long: Vec<String> = (0..300).map(|at| format!("column_{at} INTEGER")).collect();
    let tables = (0..100).map(|at| format!("CREATE TABLE t{at}({});", long.join(", ")));
    let (found, expected) = both(&tables.collect::<String>()).unwrap();
    assert_eq!(found, expected);
    assert_eq!((found.len(), found["t99"].1.len()), (100, 300));
}

#[test]
fn a_statement_that_is_none_leaves_a_table_without_columns() {
    let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); CREATE TABLE u(a);").unwrap();
    drop(connection);
    let mut bytes = fs::read(&path).unwrap();
    let statement = b"CREATE TABLE t(a, b)";
    let at = bytes.windows(statement.len()).position(|window| window == statement).unwrap();
    bytes[at + statement.len() - 1] = b'(';
    fs::write(&path, bytes).unwrap();
    let found = by_pages(&path);
    assert_eq!(found["t"], (None, Vec::new()));
    assert_eq!(found["u"].1.len(), 1);
}

fn any_name() -> impl Strategy<Value = String> {
    let names = ["a", "Start", "\"end\"", "[b c]", "`d`", "'e f'", "\"g\"\"h\"", "_i", "ü", "key", "$j"];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn any_column() -> impl Strategy<Value = String> {
    let types = [
        "",
        "INTEGER",
        "integer",
        "INT",
        "REAL",
        "Double  Precision",
        "TEXT",
        "VARCHAR (20)",
        "BLOB",
        "DECIMAL(10,\n2)",
        "\"INTEGER\"",
        "FLOAT/**/",
        "POINT",
    ];
    let constraints = [
        "",
        "PRIMARY KEY",
        "PRIMARY  key DESC",
        "PRIMARY KEY ASC AUTOINCREMENT",
        "NOT NULL",
        "UNIQUE",
        "CHECK (1 > (0))",
        "DEFAULT 7",
        "DEFAULT (1 + 2)",
        "DEFAULT 'AS'",
        "COLLATE NOCASE",
        "AS (1)",
        "GENERATED ALWAYS AS (2) STORED",
        "REFERENCES t(a) ON DELETE SET DEFAULT",
        "CONSTRAINT k NOT NULL",
    ];
    let (types, constraints) =
        (prop::sample::select(types.to_vec()), prop::sample::select(constraints.to_vec()));
    (any_name(), types, prop::collection::vec(constraints, 0..3))
        .prop_map(|(name, declared, constraints)| format!("{name} {declared} {}", constraints.join(" ")))
}

fn any_statement() -> impl Strategy<Value = String> {
    let ends = [
        "",
        "",
        ", PRIMARY KEY(a)",
        ", CONSTRAINT x PRIMARY KEY ([b c] DESC)",
        ", UNIQUE (a)",
        ", PRIMARY KEY (Start, a)",
        ", CHECK (1) UNIQUE(a)",
    ];
    let options = ["", "", "", "WITHOUT ROWID", "STRICT", " strict , without rowid"];
    let (ends, options) = (prop::sample::select(ends.to_vec()), prop::sample::select(options.to_vec()));
    (any_name(), prop::collection::vec(any_column(), 1..6), ends, options).prop_map(
        |(name, columns, end, options)| format!("CREATE TABLE {name}({}{end}){options};", columns.join(",")),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(256) })]

    /// Of any table that `SQLite` creates.
    #[test]
    fn any_table_is_read_as_sqlite_reads_it(statement in any_statement()) {
        let Ok((found, expected)) = both(&statement) else { return Err(TestCaseError::reject("not SQL")) };
        prop_assert_eq!(found, expected);
    }
}
