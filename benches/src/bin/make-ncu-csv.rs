//! `make-ncu-csv ROWS FILE`: a long-layout Nsight Compute CSV of any size, for the comparison with
//! pandas and Polars.

use std::env;
use std::fs::File;
use std::io::{self, BufWriter};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [rows, path] = arguments.as_slice() else {
        return Err(io::Error::other("usage: make-ncu-csv ROWS FILE"));
    };
    let rows = rows.parse().map_err(|error| io::Error::other(format!("{rows}: {error}")))?;
    flopgap_benches::write_long_csv(rows, &mut BufWriter::with_capacity(1 << 20, File::create(path)?))
}
