//! Why a table could not be read.

use std::io;

use flopgap_files::{Hint, InFile, Text};

/// Why a database could not be opened or a table could not be read.
pub type Error = InFile<Fault>;

/// What is wrong with a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The system could not open or read the file.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// The file does not begin with the header of an `SQLite` database.
    #[error("not an SQLite database")]
    NotADatabase,
    /// A database that only `SQLite` itself can read.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// A page does not follow the file format.
    #[error("page {page} {damage}")]
    Damaged {
        /// The number of the page, counted from 1.
        page: u32,
        /// What is wrong with it.
        damage: Damage,
    },
}

impl Hint for Fault {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Fault::NotADatabase | Fault::Io(_) => None,
            Fault::Unsupported(_) => Some("read the file with SQLite".into()),
            Fault::Damaged { .. } => Some("copy or create the file again".into()),
        }
    }
}

/// What only `SQLite` itself can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Texts are UTF-16.
    #[error("its texts are not UTF-8")]
    Encoding,
    /// The header states a page size that the format does not have.
    #[error("its page size is invalid")]
    PageSize,
}

/// What is wrong with a page, to follow "page 7".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It is no page of a table.
    #[error("is not a table page")]
    NotATable,
    /// It refers to a page that the file does not have.
    #[error("points to a page outside the file")]
    OutsideFile,
    /// It refers to a page that was read before.
    #[error("points to a page that the table already uses")]
    PageTwice,
    /// It lies deeper in its table than any file allows.
    #[error("lies too deep in its table")]
    TooDeep,
    /// Its header counts more cells than fit.
    #[error("claims more cells than it can hold")]
    TooManyCells,
    /// A cell begins or ends outside the page.
    #[error("has a cell beyond its end")]
    CellOutside,
    /// Row ids are not in ascending order.
    #[error("has row ids that do not ascend")]
    Order,
    /// A row is longer than the file.
    #[error("has a row that is longer than the file")]
    RowTooLong,
    /// A row ends before the columns that its header lists.
    #[error("has a row that ends before its columns")]
    RowTooShort,
    /// The header of a row is cut off.
    #[error("has a row whose header is cut off")]
    HeaderCutOff,
    /// The header of a row is empty. `SQLite` reads such a row as one of `NULL`s.
    #[error("has a row with an empty header")]
    HeaderEmpty,
    /// The header of a row is longer than the row.
    #[error("has a row whose header is longer than the row")]
    HeaderTooLong,
    /// A value is longer than 4 GB.
    #[error("has a value of more than 4 GB")]
    ValueTooLong,
    /// The header of a row ends within a number.
    #[error("has a row whose header ends within a number")]
    HeaderSplit,
    /// A value has a type that `SQLite` reserves.
    #[error("has a value of a reserved type")]
    ReservedType,
}

impl Damage {
    /// This damage, found on a page.
    pub(crate) fn on<T>(self, page: u32) -> Result<T, Fault> {
        Err(Fault::Damaged { page, damage: self })
    }
}
