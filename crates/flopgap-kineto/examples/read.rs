//! Reads the traces of a job and prints how long its kernels ran.

use flopgap_kineto::Job;
use flopgap_trace::{Attribution, Recording as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let job = Job::open(&paths)?;
    let times = job.operation_times(None, Attribution::default())?;
    let (calls, total) =
        times.kernels.iter().fold((0, 0), |sum, (_, times)| (sum.0 + times.count, sum.1 + times.total));
    #[expect(clippy::print_stdout, reason = "a program")]
    {
        println!("{calls} kernels, {total} ns");
    }
    Ok(())
}
