//! How long the steps and passes of a trace took on the host and on the GPU, and which kinds of
//! work fill them: `cargo run --example steps -- TRACE.sqlite`.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use flopgap_kernels::Classifier;
use flopgap_nsys::{AttributeBy, Attribution, Trace};
use flopgap_timings::passes::{Options, passes};
use flopgap_timings::shares::shares;
use flopgap_timings::{Ranges, Scope, WarmUp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: steps TRACE.sqlite")?;
    let trace = Trace::open(path)?;
    let attribution = Attribution { by: AttributeBy::Process, whole_graphs: true };

    let found = passes(&trace, &Options { attribution, ..Options::default() })?;
    for pass in &found.passes {
        let gpu = pass.gpu.as_ref().map_or(0.0, |gpu| gpu.busy.mean_ns);
        println!(
            "{:<12} host {:>8.0} us, GPU busy {:>8.0} us",
            pass.name,
            pass.host.mean_ns / 1e3,
            gpu / 1e3
        );
    }

    let scope = Scope { ranges: Ranges::Steps, warm_up: WarmUp::default(), attribution, pool: false };
    for share in shares(&trace, &scope, &Classifier::new())?.shares {
        println!("{:>6.2} % {}", share.share * 100.0, share.work);
    }
    Ok(())
}
