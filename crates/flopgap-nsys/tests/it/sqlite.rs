//! What is read from the pages is what `SQLite` reads.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rusqlite::types::{Value as Owned, ValueRef};
use rusqlite::{Connection, params_from_iter};

use flopgap_nsys::sqlite::{Damage, Database, Error, Fault, PageCache, Record, Slot, Unsupported, Value};

type Rows = Vec<(i64, Vec<Owned>)>;

/// Passes every row on.
fn scan(
    database: &Database,
    root: u32,
    slots: &[Slot],
    mut visit: impl FnMut(&Record<'_>),
) -> Result<(), Error> {
    let mut rows = database.rows(root, slots)?;
    while let Some(record) = rows.next_row()? {
        visit(&record);
    }
    Ok(())
}

/// Where a table begins, and where its rows keep each column, as `SQLite` says.
struct Layout {
    root: u32,
    slots: HashMap<String, Slot>,
}

impl Layout {
    fn read(path: &Path, table: &str) -> Layout {
        let connection = Connection::open(path).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let root = connection.query_row(sql, [table], |row| row.get(0)).unwrap();
        // The only column of a primary key, when it is an INTEGER, is another name of the row id.
        let sql = "SELECT name, cid, type, pk = 1 AND upper(type) = 'INTEGER'
                   AND (SELECT max(pk) FROM pragma_table_info(?1)) = 1 FROM pragma_table_info(?1)";
        let mut statement = connection.prepare(sql).unwrap();
        let slots = statement.query_map([table], |row| {
            let stored = Slot::stored(row.get::<_, u16>(1)?.into(), &row.get::<_, String>(2)?);
            Ok((row.get(0)?, if row.get(3)? { Slot::Rowid } else { stored }))
        });
        Layout { root, slots: slots.unwrap().collect::<Result<_, _>>().unwrap() }
    }

    fn slots(&self, columns: &[String]) -> Vec<Slot> {
        columns.iter().map(|column| self.slots[column]).collect()
    }
}

/// The columns of a table, as rows store them, read page by page.
fn by_pages(path: &Path, table: &str, columns: &[String]) -> Result<Rows, Error> {
    let layout = Layout::read(path, table);
    let slots = layout.slots(columns);
    let mut rows = Vec::new();
    scan(&Database::open(path)?, layout.root, &slots, |record| {
        let values = (0..slots.len()).map(|column| match record.value(column) {
            Value::Null => Owned::Null,
            Value::Int(value) => Owned::Integer(value),
            Value::Real(value) => Owned::Real(value),
            Value::Text(bytes) => Owned::Text(String::from_utf8_lossy(bytes).into_owned()),
            Value::Blob(bytes) => Owned::Blob(bytes.to_owned()),
        });
        rows.push((record.rowid(), values.collect()));
    })?;
    Ok(rows)
}

fn by_sqlite(path: &Path, table: &str, columns: &[String]) -> Rows {
    let connection = Connection::open(path).unwrap();
    let quoted: Vec<String> = columns.iter().map(|column| format!(", \"{column}\"")).collect();
    let sql = format!("SELECT rowid{} FROM \"{table}\" ORDER BY rowid", quoted.concat());
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| {
        let values = (0..columns.len()).map(|at| match row.get_ref(at + 1).unwrap() {
            ValueRef::Text(bytes) => Owned::Text(String::from_utf8_lossy(bytes).into_owned()),
            other => Owned::try_from(other).unwrap(),
        });
        Ok((row.get(0)?, values.collect()))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn columns_of(path: &Path, table: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let statement = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
    statement.column_names().into_iter().map(ToOwned::to_owned).collect()
}

fn tables_of(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn unpack(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(name.trim_end_matches(".zst"));
    flopgap_testing::unpack(format!("nsys/{name}"), &path);
    path
}

#[test]
fn every_table_of_every_recorded_export_reads_as_sqlite_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nsys");
    let (mut tables, mut rows) = (0, 0);
    for entry in fs::read_dir(fixtures).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".sqlite.zst") {
            continue;
        }
        let path = unpack(&name, folder.path());
        for table in tables_of(&path) {
            let columns = columns_of(&path, &table);
            let ours = by_pages(&path, &table, &columns).unwrap();
            assert_eq!(ours, by_sqlite(&path, &table, &columns), "{name} {table}");
            // One column alone: what lies before it is skipped.
            let last = &columns[columns.len() - 1..];
            assert_eq!(
                by_pages(&path, &table, last).unwrap(),
                by_sqlite(&path, &table, last),
                "{name} {table}"
            );
            tables += 1;
            rows += ours.len();
        }
    }
    assert!(tables > 200 && rows > 10_000, "{tables} tables, {rows} rows");
}

fn any_value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        Just(Owned::Null),
        Just(Owned::Integer(0)),
        Just(Owned::Integer(1)),
        any::<i8>().prop_map(|value| Owned::Integer(value.into())),
        any::<i16>().prop_map(|value| Owned::Integer(value.into())),
        any::<i32>().prop_map(|value| Owned::Integer(value.into())),
        (-(1_i64 << 47)..1 << 47).prop_map(Owned::Integer),
        any::<i64>().prop_map(Owned::Integer),
        any::<f64>().prop_map(Owned::Real),
        (-1000_i64..1000).prop_map(|value| Owned::Real(value as f64)),
        "[a-zé ]{0,12}".prop_map(Owned::Text),
        // Long enough to continue on other pages.
        (0_usize..9000).prop_map(|length| Owned::Text("é0123456789".repeat(length / 12 + 1))),
        (0_usize..3000).prop_map(|length| Owned::Blob(vec![7; length])),
    ]
}

/// A table of these columns; the third is another name of the row id.
const CREATE: &str =
    "CREATE TABLE t(a, b INTEGER, id INTEGER PRIMARY KEY, c REAL, d TEXT, e NUMERIC, f BLOB)";
const INSERT: &str = "INSERT OR REPLACE INTO t(id, a, b, c, d, e, f) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

fn columns() -> Vec<String> {
    ["a", "b", "id", "c", "d", "e", "f", "g", "h"].map(ToOwned::to_owned).to_vec()
}

/// Writes such a table, adds two columns to it, inserts again and deletes every third row.
fn write(path: &Path, page_size: u32, rows: &[(i64, [Owned; 6])]) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA page_size = {page_size}; PRAGMA journal_mode = OFF;")).unwrap();
    // Another table that grows at the same time, so that pages alternate.
    connection.execute_batch(&format!("BEGIN; {CREATE}; CREATE TABLE other(x);")).unwrap();
    for (at, (rowid, values)) in rows.iter().enumerate() {
        if at == rows.len() / 2 {
            connection
                .execute_batch("ALTER TABLE t ADD COLUMN g INTEGER; ALTER TABLE t ADD COLUMN h TEXT")
                .unwrap();
        }
        let values = std::iter::once(Owned::Integer(*rowid)).chain(values.iter().cloned());
        connection.execute(INSERT, params_from_iter(values)).unwrap();
        connection.execute("INSERT INTO other VALUES (zeroblob(200))", []).unwrap();
    }
    if rows.is_empty() {
        connection
            .execute_batch("ALTER TABLE t ADD COLUMN g INTEGER; ALTER TABLE t ADD COLUMN h TEXT")
            .unwrap();
    }
    connection
        .execute_batch(
            "DELETE FROM t WHERE id % 3 = 0; UPDATE t SET g = id, h = 'added' WHERE id % 5 = 0; COMMIT",
        )
        .unwrap();
}

/// Writes an empty database whose pages reserve bytes at their end, for which `SQLite` has no
/// statement.
fn reserve(path: &Path, page_size: u16, bytes: u8) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(&format!("PRAGMA page_size = {page_size}; PRAGMA journal_mode = OFF; CREATE TABLE gone(x); DROP TABLE gone; VACUUM"))
        .unwrap();
    drop(connection);
    let mut database = fs::read(path).unwrap();
    database[20] = bytes;
    // The content of its one page begins at its end, which is now earlier.
    database[105..107].copy_from_slice(&(page_size - u16::from(bytes)).to_be_bytes());
    fs::write(path, database).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_table_reads_as_sqlite_reads_it(
        rows in prop::collection::vec(
            (any::<i64>(), [any_value(), any_value(), any_value(), any_value(), any_value(), any_value()]), 0..60),
        dense in any::<bool>(),
        shift in 0_u32..8,
    ) {
        let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
        let rows: Vec<_> = (0..).zip(rows)
            .map(|(at, (rowid, values))| (if dense { at } else { rowid }, values)).collect();
        write(&path, 512 << shift, &rows);
        let columns = columns();
        let expected = by_sqlite(&path, "t", &columns);
        prop_assert_eq!(by_pages(&path, "t", &columns).unwrap(), expected.clone());
        for column in &columns {
            let one = std::slice::from_ref(column);
            prop_assert_eq!(by_pages(&path, "t", one).unwrap(), by_sqlite(&path, "t", one));
        }
        // Look-ups find each row, and no other.
        let layout = Layout::read(&path, "t");
        let database = Database::open(&path).unwrap();
        let mut cache = PageCache::default();
        let (root, slot) = (layout.root, layout.slots["d"]);
        let mut find = |rowid| database.find(&mut cache, root, rowid, slot, |value| match value {
            Value::Text(bytes) => Some(bytes.to_owned()),
            _ => None,
        }).unwrap();
        for (rowid, values) in &expected {
            let text = match &values[4] { Owned::Text(text) => Some(text.clone().into_bytes()), _ => None };
            prop_assert_eq!(find(*rowid), Some(text));
            if !expected.iter().any(|(other, _)| *other == rowid.wrapping_add(1)) {
                prop_assert_eq!(find(rowid.wrapping_add(1)), None);
            }
        }
    }

    /// Damage gives an error or rows, never a panic, and never more rows than the file could hold.
    #[test]
    fn damage_is_an_error_or_bounded(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
        shift in 0_u32..4,
    ) {
        let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
        let values = || [7, 300, 70_000, 5, 6, 1 << 40].map(Owned::Integer);
        let mut rows: Vec<_> = (0..400).map(|rowid| (rowid, values())).collect();
        rows[7].1[3] = Owned::Text("0123456789".repeat(900));
        rows[8].1[5] = Owned::Blob(vec![1; 20_000]);
        write(&path, 512 << shift, &rows);
        let layout = Layout::read(&path, "t");
        let slots = layout.slots(&columns());
        let mut database = fs::read(&path).unwrap();
        for (at, byte) in &flips {
            // The header stays: what is wrong with it is reported when the file is opened.
            let at = 100 + at.index(database.len() - 100);
            database[at] = *byte;
        }
        if let Some(cut) = cut {
            database.truncate(100 + cut.index(database.len() - 100));
        }
        fs::write(&path, &database).unwrap();
        let opened = Database::open(&path).unwrap();
        let (mut seen, mut bytes) = (0, 0);
        let scanned = scan(&opened, layout.root, &slots, |record| {
            seen += 1;
            for column in 0..slots.len() {
                if let Value::Text(value) | Value::Blob(value) = record.value(column) {
                    bytes += value.len();
                }
            }
        });
        prop_assert!(seen <= database.len() && bytes <= slots.len() * database.len());
        if let Err(Error { what: Fault::Damaged { page, .. }, .. }) = scanned {
            prop_assert!(page >= 1);
        }
        let mut cache = PageCache::default();
        for rowid in [-1, 0, 7, 8, 399, i64::MAX] {
            let _ = opened.find(&mut cache, layout.root, rowid, slots[4], |_| ());
        }
    }
}

/// A page that its own child names, a page beyond the file, and a pointer beyond the page: each is
/// reported with the page's number.
#[test]
fn damage_is_named() {
    let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
    let rows: Vec<_> =
        (0..400).map(|rowid| (rowid, [7, 300, 70_000, 5, 6, 1 << 40].map(Owned::Integer))).collect();
    write(&path, 512, &rows);
    let root = Layout::read(&path, "t").root;
    let sound = fs::read(&path).unwrap();
    let at = (root as usize - 1) * 512;
    assert_eq!(sound[at], 0x05, "an interior page: the table is deep enough to damage");
    let first_cell = at + usize::from(u16::from_be_bytes([sound[at + 12], sound[at + 13]]));
    let read_damaged = |damage: &[(usize, &[u8])]| {
        let mut database = sound.clone();
        for (at, bytes) in damage {
            database[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        fs::write(&path, database).unwrap();
        match scan(&Database::open(&path).unwrap(), root, &[], |_| {}) {
            Err(Error { what: Fault::Damaged { page, damage }, .. }) => (page, damage),
            other => panic!("{other:?}"),
        }
    };
    let itself = read_damaged(&[(first_cell, &root.to_be_bytes())]);
    assert_eq!(itself, (root, Damage::PageTwice));
    let beyond = read_damaged(&[(first_cell, &[0, 9, 9, 9])]);
    assert_eq!(beyond, (root, Damage::OutsideFile));
    let pointer = read_damaged(&[(at + 12, &[0xff, 0xff])]);
    assert_eq!(pointer, (root, Damage::CellOutside));
    let cells = read_damaged(&[(at + 3, &[0xff, 0xff])]);
    assert_eq!(cells, (root, Damage::TooManyCells));
    assert_eq!(read_damaged(&[(at, &[0x02])]), (root, Damage::NotATable));
    let leaf = sound[first_cell + 3];
    let leaf_at = (usize::from(leaf) - 1) * 512;
    let row_at = leaf_at + usize::from(u16::from_be_bytes([sound[leaf_at + 8], sound[leaf_at + 9]]));
    // Before the header stand the length and the row id of the first row, a byte each.
    let empty = read_damaged(&[(row_at + 2, &[0])]);
    assert_eq!(empty, (leaf.into(), Damage::HeaderEmpty));
}

/// Bytes that each page reserves at its end hold no content.
#[test]
fn reserved_bytes_are_skipped() {
    let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
    let long = Owned::Text("0123456789".repeat(2000));
    let rows: Vec<_> = (0..300)
        .map(|rowid| {
            (
                rowid,
                [
                    Owned::Integer(rowid),
                    Owned::Null,
                    Owned::Real(0.5),
                    long.clone(),
                    Owned::Null,
                    Owned::Null,
                ],
            )
        })
        .collect();
    reserve(&path, 1024, 32);
    write(&path, 1024, &rows);
    assert_eq!(fs::read(&path).unwrap()[20], 32);
    let columns = columns();
    let ours = by_pages(&path, "t", &columns).unwrap();
    assert_eq!(ours.len(), 200);
    assert_eq!(ours, by_sqlite(&path, "t", &columns));
}

/// A file that is no database, one whose texts are UTF-16, and one with a page size that does not
/// exist.
#[test]
fn what_cannot_be_read_is_refused_when_it_is_opened() {
    let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
    let fault = || Database::open(&path).unwrap_err().what;
    assert!(matches!(fault(), Fault::Io(_)));
    for text in ["", "SQLite format 3", "start_ns,end_ns\n"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(fault(), Fault::NotADatabase), "{text}");
    }
    fs::remove_file(&path).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a)").unwrap();
    drop(connection);
    let error = Database::open(&path).unwrap_err();
    assert!(matches!(error.what, Fault::Unsupported(Unsupported::Encoding)), "{error}");
    assert!(error.to_string().ends_with("t.sqlite: its texts are not UTF-8"), "{error}");
    let mut database = fs::read(&path).unwrap();
    database[16..18].copy_from_slice(&[0, 3]);
    fs::write(&path, database).unwrap();
    assert!(matches!(fault(), Fault::Unsupported(Unsupported::PageSize)));
}
