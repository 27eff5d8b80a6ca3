//! Rows appended while a sweep runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use flopgap_files::WriteError;

use super::{Calibration, Contents, FORMAT, FileError, FileFault, Header, ZSTD, line, not_written};
use crate::row::Row;

/// A calibration file that is being filled. Nobody else may write to it: the lock of a
/// [`Session`](crate::run::Session) sees to that.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Starts a file with its header, which is on the disk when this returns.
    ///
    /// # Errors
    /// When the file exists, or cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Writer, FileError> {
        if !flopgap_files::write_new(path, FORMAT.line(header).as_bytes()).map_err(not_written)? {
            return Err(FileError::new(path, FileFault::Exists));
        }
        let file = OpenOptions::new().append(true).open(path).map_err(|source| write_error(path, source))?;
        Ok(Writer { path: path.to_owned(), file })
    }

    /// Opens a file to append further rows, and returns what it has. A torn last line is cut off.
    ///
    /// # Errors
    /// When it cannot be read or written, is damaged other than by a torn last line, is compressed,
    /// or was measured on another machine or with other software than `header` says.
    pub fn resume(path: &Path, header: &Header) -> Result<(Writer, Calibration), FileError> {
        let io = |source| FileError::new(path, FileFault::Io { source });
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        if bytes.starts_with(&ZSTD) {
            return Err(FileError::new(path, FileFault::Packed));
        }
        let contents = Contents::parse(&bytes, path)?;
        contents.header.expect_origin(&header.origin, path)?;
        if contents.torn {
            file.set_len(contents.whole).map_err(|source| write_error(path, source))?;
            file.seek(SeekFrom::End(0)).map_err(io)?;
        }
        let Contents { header, rows, torn, .. } = contents;
        Ok((Writer { path: path.to_owned(), file }, Calibration { header, rows, torn }))
    }

    /// Appends a row. It is whole in the file when this returns, also if the process is killed
    /// then.
    ///
    /// # Errors
    /// When it cannot be written, or its numbers cannot have been measured.
    pub fn append(&mut self, row: &Row) -> Result<(), FileError> {
        if let Some((what, value)) = row.measurement.fault() {
            return Err(FileError::new(&self.path, FileFault::NotWritten { what, value }));
        }
        // One call of the system for a line: what is torn is the end of the file.
        self.file.write_all(line(row).as_bytes()).map_err(|source| write_error(&self.path, source))
    }

    /// Waits until all rows are on the disk.
    ///
    /// # Errors
    /// The error of the system.
    pub fn sync(&self) -> Result<(), FileError> {
        self.file.sync_all().map_err(|source| write_error(&self.path, source))
    }
}

fn write_error(path: &Path, source: io::Error) -> FileError {
    not_written(WriteError::new(path, source))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing;

    #[test]
    fn a_killed_sweep_goes_on_where_it_was() {
        let (_dir, [path]) = flopgap_testing::paths(["calibration.jsonl"]);
        let header = testing::header();
        let rows = testing::rows(5);
        let mut writer = Writer::create(&path, &header).unwrap();
        let error = Writer::create(&path, &header).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: already exists", path.display()));
        for row in &rows[..3] {
            writer.append(row).unwrap();
        }
        drop(writer);
        // Killed while the third row was written.
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 40).unwrap();

        let (mut writer, found) = Writer::resume(&path, &header).unwrap();
        assert!(found.torn);
        assert_eq!(found.rows, rows[..2]);
        for row in &rows[2..] {
            writer.append(row).unwrap();
        }
        writer.sync().unwrap();
        let whole = Calibration::read(&path).unwrap();
        assert!(!whole.torn);
        assert_eq!(whole.rows, rows);
    }

    #[test]
    fn rows_of_another_machine_are_not_mixed_in() {
        let (_dir, [path]) = flopgap_testing::paths(["calibration.jsonl"]);
        let header = testing::header();
        drop(Writer::create(&path, &header).unwrap());
        let mut other = header.clone();
        other.origin.versions.insert("cudnn".to_owned(), "9.21".to_owned());
        let error = Writer::resume(&path, &other).unwrap_err().to_string();
        assert!(error.ends_with("cudnn is not recorded there and `9.21` here"), "{error}");
        other.origin.device = "NVIDIA L40S".to_owned();
        let error = Writer::resume(&path, &other).unwrap_err().to_string();
        assert!(error.contains("the device is `NVIDIA H200` there and `NVIDIA L40S` here"), "{error}");
    }

    #[test]
    fn impossible_numbers_are_not_written() {
        let (_dir, [path]) = flopgap_testing::paths(["calibration.jsonl"]);
        let mut writer = Writer::create(&path, &testing::header()).unwrap();
        let mut row = testing::rows(1).remove(0);
        row.measurement.time.median_ns = f64::NAN;
        let error = writer.append(&row).unwrap_err();
        assert!(error.to_string().contains("median_ns is NaN"), "{error}");
        assert!(Calibration::read(&path).unwrap().rows.is_empty());
    }
}
