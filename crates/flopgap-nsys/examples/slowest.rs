//! The five kernels of a trace that ran longest, with where and when they ran:
//! `cargo run --example slowest -- TRACE.sqlite`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its result")]

use flopgap_nsys::Trace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: slowest TRACE.sqlite")?;
    let trace = Trace::open(path)?;
    let mut kernels = trace.kernels()?.collect::<Result<Vec<_>, _>>()?;
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.at.duration()));
    for kernel in kernels.iter().take(5) {
        let name = trace.string(kernel.short)?.unwrap_or_default();
        let (duration, start) = (kernel.at.duration(), kernel.at.start);
        println!("{duration:>9} ns at {start:>12} ns, grid {}: {name}", kernel.grid);
    }
    for warning in trace.warnings() {
        eprintln!("{warning}");
    }
    Ok(())
}
