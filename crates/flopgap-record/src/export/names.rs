//! Strings of the export, each once.

use flopgap_kernels::demangle_nvidia;
use rusqlite::{Connection, params};
use rustc_hash::FxHashMap;

/// The strings that the table has.
#[derive(Debug, Default)]
pub(super) struct Strings {
    known: FxHashMap<String, i64>,
}

impl Strings {
    /// The row of a string.
    pub(super) fn id(&mut self, database: &Connection, text: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.known.get(text) {
            return Ok(id);
        }
        let id = i64::try_from(self.known.len()).unwrap_or(i64::MAX) + 1;
        let mut insert = database.prepare_cached("INSERT INTO StringIds VALUES (?1, ?2)")?;
        insert.execute(params![id, text])?;
        self.known.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// The three names that a kernel has in an export: demangled, short and mangled.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelName {
    pub(super) demangled: i64,
    pub(super) short: i64,
    pub(super) mangled: i64,
}

impl KernelName {
    /// The names, as nsys prints them. One that cannot be demangled stands for itself.
    pub(super) fn of(
        mangled: &str,
        strings: &mut Strings,
        database: &Connection,
    ) -> rusqlite::Result<KernelName> {
        let demangled = demangle_nvidia(mangled);
        let (full, short) = demangled.as_ref().map_or((mangled, mangled), |it| (&it.full, &it.short));
        Ok(KernelName {
            demangled: strings.id(database, full)?,
            short: strings.id(database, short)?,
            mangled: strings.id(database, mangled)?,
        })
    }
}
