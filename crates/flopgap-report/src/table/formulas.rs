//! CSV for spreadsheet programs, which take some text for formulas.

use std::io::{self, Write};

/// The longest field whose whole text decides; a number is shorter.
const LONGEST: usize = 64;

/// Passes CSV on, with an apostrophe before text that a spreadsheet program would evaluate: what
/// begins with `=`, `+`, `-`, `@`, a tab or the end of a line, and is no number. Names of kernels
/// and ranges come from the recorded program, which may be somebody else's.
///
/// ```
/// use std::io::Write as _;
///
/// let mut csv = flopgap_report::table::WithoutFormulas::new(Vec::new());
/// csv.write_all(b"name,change\n\"=HYPERLINK(\"\"http://a\"\")\",-1.5\n")?;
/// assert_eq!(csv.finish()?, b"name,change\n\"'=HYPERLINK(\"\"http://a\"\")\",-1.5\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WithoutFormulas<W> {
    out: W,
    /// The beginning of a field that was not passed on yet, as it is in the file.
    field: Vec<u8>,
    /// Whether the field began and was passed on.
    passed: bool,
    /// Whether the last byte lies between quotes; a doubled quote ends and begins them.
    quoted: bool,
}

impl<W: Write> WithoutFormulas<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, field: Vec::new(), passed: false, quoted: false }
    }

    /// Passes the rest on and gives `out` back.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass()?;
        Ok(self.out)
    }

    fn pass(&mut self) -> io::Result<()> {
        let (quote, text) = match self.field.strip_prefix(b"\"") {
            Some(text) => (&b"\""[..], text.strip_suffix(b"\"").unwrap_or(text)),
            None => (&b""[..], self.field.as_slice()),
        };
        if is_formula(text) {
            self.out.write_all(quote)?;
            self.out.write_all(b"'")?;
            self.out.write_all(&self.field[quote.len()..])?;
        } else {
            self.out.write_all(&self.field)?;
        }
        self.field.clear();
        Ok(())
    }
}

/// Whether a spreadsheet program may evaluate a field.
fn is_formula(text: &[u8]) -> bool {
    let is_number = || {
        let plain = text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
        plain && str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    matches!(text.first(), Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | b'\n')) && !is_number()
}

impl<W: Write> Write for WithoutFormulas<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            self.quoted ^= byte == b'"';
            if !self.quoted && matches!(byte, b',' | b'\n') {
                self.pass()?;
                self.out.write_all(&[byte])?;
                self.passed = false;
            } else if self.passed {
                self.out.write_all(&[byte])?;
            } else {
                self.field.push(byte);
                if self.field.len() > LONGEST {
                    self.pass()?;
                    self.passed = true;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(csv: &str) -> String {
        let mut writer = WithoutFormulas::new(Vec::new());
        // Byte by byte: where a buffer ends must not matter.
        csv.bytes().for_each(|byte| writer.write_all(&[byte]).unwrap());
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    fn fields(csv: &str) -> Vec<Vec<String>> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(csv.as_bytes());
        reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn formulas_become_text() {
        for text in ["=1+1", "@SUM(A1)", "+cmd", "-2+3", "-", "\tx", "-inf", "+1-1"] {
            assert_eq!(escaped(&format!("a,{text}\n{text},b\n")), format!("a,'{text}\n'{text},b\n"));
        }
        assert_eq!(escaped("\"=a,b\"\n"), "\"'=a,b\"\n");
        assert_eq!(escaped("\"\r=\",\"\n=\"\n"), "\"'\r=\",\"'\n=\"\n");
        assert_eq!(escaped("=1"), "'=1");
    }

    #[test]
    fn all_else_stays() {
        for text in ["", "a=1", "-1.5", "+2e-3", "\"-1.5\"", "gemm<a, b>", "\"a \"\"=b\"\"\"", "'=1", "1-2"] {
            let csv = format!("{text},{text}\n{text}\n");
            assert_eq!(escaped(&csv), csv);
        }
    }

    proptest! {
        #[test]
        fn only_apostrophes_are_added(rows in proptest::collection::vec(
            proptest::collection::vec("[-=+@\t\r\n\",'a1.]{0,6}|=.{100}", 1..4), 1..4)
        ) {
            let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let plain = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            let (before, after) = (fields(&plain), fields(&escaped(&plain)));
            prop_assert_eq!(before.len(), after.len());
            for (before, after) in before.into_iter().flatten().zip(after.into_iter().flatten()) {
                prop_assert!(!is_formula(after.as_bytes()), "{:?}", after);
                prop_assert!(after == before || after == format!("'{before}"), "{before:?}: {after:?}");
            }
        }
    }
}
