#![no_main]
//! Rows read from the pages of an SQLite file are those that SQLite reads, where SQLite finds the
//! file whole; from any other bytes come rows or an error.

use flopgap_nsys::sqlite::{Damage, Database, Fault, Slot, Value};
use libfuzzer_sys::fuzz_target;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Columns that are asked for.
const COLUMNS: usize = 8;

/// A table as SQLite describes it.
struct Table {
    name: String,
    root: u32,
    columns: Vec<String>,
    slots: Vec<Slot>,
}

/// A value that can be compared; not-a-number is equal to itself.
fn show(value: Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(value) => format!("int {value}"),
        Value::Real(value) => format!("real {:x}", value.to_bits()),
        Value::Text(bytes) => format!("text {bytes:?}"),
        Value::Blob(bytes) => format!("blob {bytes:?}"),
    }
}

/// The plain tables of a file that SQLite finds whole.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let whole: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if whole != "ok" {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let sql = "SELECT m.name, m.rootpage FROM sqlite_schema AS m JOIN pragma_table_list(m.name) AS l
               WHERE m.type = 'table' AND l.type = 'table' AND l.wr = 0 AND l.schema = 'main' AND m.rootpage > 1";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?)))?;
    for name in names {
        let (name, root) = name?;
        let sql = "SELECT name, cid, type, dflt_value IS NOT NULL OR hidden <> 0, pk > 0 FROM pragma_table_xinfo(?1)";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([&name], |row| {
            let declared = row.get::<_, Option<String>>(2)?.unwrap_or_default();
            let slot = Slot::stored(row.get::<_, u16>(1)?.into(), &declared);
            // A key may be another name of the row id, which rows do not store.
            Ok((row.get::<_, String>(0)?, slot, row.get(3)? || row.get(4)?))
        })?;
        let columns: Vec<(String, Slot, bool)> = rows.collect::<Result<_, _>>()?;
        if columns.iter().any(|(_, _, odd)| *odd) {
            continue;
        }
        let (columns, slots) = columns.into_iter().take(COLUMNS).map(|(name, slot, _)| (name, slot)).unzip();
        found.push(Table { name, root, columns, slots });
    }
    Ok(found)
}

fn by_sqlite(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<(i64, Vec<String>)>> {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: String = table.columns.iter().map(|column| format!(", {}", quote(column))).collect();
    let mut statement =
        connection.prepare(&format!("SELECT rowid{columns} FROM {} ORDER BY rowid", quote(&table.name)))?;
    let rows = statement.query_map([], |row| {
        let values = (0..table.columns.len()).map(|at| {
            Ok(match row.get_ref(at + 1)? {
                ValueRef::Null => show(Value::Null),
                ValueRef::Integer(value) => show(Value::Int(value)),
                ValueRef::Real(value) => show(Value::Real(value)),
                ValueRef::Text(bytes) => show(Value::Text(bytes)),
                ValueRef::Blob(bytes) => show(Value::Blob(bytes)),
            })
        });
        Ok((row.get(0)?, values.collect::<rusqlite::Result<_>>()?))
    })?;
    rows.collect()
}

fn by_pages(
    database: &Database,
    root: u32,
    slots: &[Slot],
) -> Result<Vec<(i64, Vec<String>)>, flopgap_nsys::sqlite::Error> {
    let mut read = database.rows(root, slots)?;
    let mut rows = Vec::new();
    while let Some(record) = read.next_row()? {
        rows.push((record.rowid(), (0..slots.len()).map(|at| show(record.value(at))).collect()));
    }
    Ok(rows)
}

fuzz_target!(|bytes: &[u8]| {
    let path = flopgap_fuzz::file("pages.sqlite", bytes);
    let Ok(database) = Database::open(&path) else { return };
    // Any page may be called a table.
    let slots: Vec<Slot> = (0..COLUMNS).map(|place| Slot::Stored { place, real: place % 2 == 1 }).collect();
    for root in 1..=8 {
        if let Ok(rows) = by_pages(&database, root, &slots) {
            assert!(rows.len() <= bytes.len(), "more rows than bytes");
        }
    }
    let uri = format!("file:{}?immutable=1", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let Ok(connection) = Connection::open_with_flags(uri, flags) else { return };
    for table in tables(&connection).unwrap_or_default() {
        let Ok(expected) = by_sqlite(&connection, &table) else { continue };
        match by_pages(&database, table.root, &table.slots) {
            Ok(rows) => assert_eq!(rows, expected, "{}", table.name),
            // SQLite reads as NULL what its format does not allow; it is damage to us.
            Err(flopgap_nsys::sqlite::Error {
                what: Fault::Damaged { damage: Damage::ReservedType | Damage::HeaderEmpty, .. },
                ..
            }) => {}
            Err(error) => panic!("SQLite reads {} rows of {}: {error}", expected.len(), table.name),
        }
    }
});
