//! Prints what the steps of a trace consist of:
//! `cargo run -p flopgap-gap --example parts -- TRACE`.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use flopgap_gap::{Options, gap};
use flopgap_trace::Recording;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("parts TRACE.sqlite|TRACE.json")?;
    let trace: Box<dyn Recording> = if path.ends_with(".sqlite") {
        Box::new(flopgap_nsys::Trace::open(&path)?)
    } else {
        Box::new(flopgap_kineto::Job::open(&[&path])?)
    };
    let found = gap(trace.as_ref(), &Options::default())?;
    println!(
        "{}: {:?}, {} x {:.3} ms, limit {}",
        found.step,
        found.found_by,
        found.measured,
        found.step_ns as f64 / 1e6,
        found.limit.as_str()
    );
    for part in &found.parts {
        let share = found.share(part.ns) * 100.0;
        println!("{share:6.2} % {:?} {} ({})", part.part, part.cause.as_str(), part.pieces);
        for detail in part.details.iter().take(3) {
            let what = detail.what.as_deref().unwrap_or("-");
            let by = detail.by.as_deref().unwrap_or("-");
            println!("         {:6.2} % {what:.50} by {by:.50}", found.share(detail.ns) * 100.0);
        }
    }
    for group in &found.limits {
        println!("{:6.2} % {}", found.share(group.ns) * 100.0, group.limit.as_str());
    }
    for advice in &found.advice {
        println!(
            "{} at most {:.3} ms ({:.1} %)",
            advice.kind.as_str(),
            advice.bound_ns as f64 / 1e6,
            advice.share * 100.0
        );
    }
    Ok(())
}
