//! `make-nsys-trace KERNELS FILE`: an Nsight Systems export of any size, for the comparison with
//! `nsys stats`.

use std::env;
use std::error::Error;
use std::io::{self, Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kernels, path] = arguments.as_slice() else {
        return Err("usage: make-nsys-trace KERNELS FILE".into());
    };
    let kernels = kernels.parse().map_err(|error| format!("{kernels}: {error}"))?;
    let counts = flopgap_benches::nsys_trace::write_nsys_export(kernels, path.as_ref())?;
    writeln!(io::stderr(), "{path}: {counts:?}")?;
    Ok(())
}
