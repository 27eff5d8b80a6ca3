//! The names of tables.

use std::borrow::Cow;

/// A table of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name: `kernels`.
    pub name: Cow<'static, str>,
    /// What a row is, as a sentence.
    pub about: Cow<'static, str>,
}

/// A table that sources of some kind may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

impl From<Named> for TableInfo {
    fn from(table: Named) -> TableInfo {
        TableInfo { name: table.name.into(), about: table.about.into() }
    }
}
