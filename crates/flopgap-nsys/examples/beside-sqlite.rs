//! The CPU time of adding up two columns of a table, here and with `SQLite`.
//!
//! `beside-sqlite pages|sqlite FILE TABLE COLUMN COLUMN` prints the sum of differences.

use std::env::args;
use std::error::Error;

use flopgap_nsys::sqlite::{Database, Slot, Value};
use rusqlite::{Connection, OpenFlags};

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [how, path, table, first, second] = arguments.as_slice() else {
        return Err("usage: beside-sqlite pages|sqlite FILE TABLE COLUMN COLUMN".into());
    };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut sum = 0;
    if how == "sqlite" {
        let mut statement =
            connection.prepare(&format!("SELECT \"{first}\", \"{second}\" FROM \"{table}\""))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            sum += row.get::<_, i64>(1)? - row.get::<_, i64>(0)?;
        }
    } else {
        let root =
            connection
                .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))?;
        let slot = |column: &String| {
            let sql = "SELECT cid, type FROM pragma_table_info(?1) WHERE name = ?2";
            connection.query_row(sql, [table, column], |row| {
                Ok(Slot::stored(row.get::<_, u16>(0)?.into(), &row.get::<_, String>(1)?))
            })
        };
        let mut rows = Database::open(path)?.rows(root, &[slot(first)?, slot(second)?])?;
        while let Some(row) = rows.next_row()? {
            if let (Value::Int(first), Value::Int(second)) = (row.value(0), row.value(1)) {
                sum += second - first;
            }
        }
    }
    println!("{sum}");
    Ok(())
}
