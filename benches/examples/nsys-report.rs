//! `nsys-report FILE REPORT=OUT…`: reports of one export as CSV files, made together, for the
//! comparison with `nsys stats`.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};

use flopgap_nsys::{CsvSink, Report, Trace, Units};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().ok_or("usage: nsys-report FILE REPORT=OUT...")?;
    let trace = Trace::open(&path)?;
    let mut reports = Vec::new();
    for argument in arguments {
        let (report, out) = argument.split_once('=').ok_or("usage: nsys-report FILE REPORT=OUT...")?;
        let out = BufWriter::with_capacity(1 << 18, File::create(out)?);
        reports.push((report.parse::<Report>()?, CsvSink::new(out, Units::default())));
    }
    for (sink, ended) in trace.reports(reports) {
        ended?;
        sink.into_inner().into_inner()?;
    }
    for warning in trace.warnings() {
        writeln!(io::stderr(), "{path}: {warning}")?;
    }
    Ok(())
}
