//! FLOPs and bytes of each launch of a report of ncu, and why they are unknown where they are:
//! `cargo run --example flops -- REPORT`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its result")]

use flopgap_ncu::{FlopCounter, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: flops REPORT")?;
    let mut reader = Reader::open(path)?;
    let mut counter = FlopCounter::new();
    while let Some(launch) = reader.next_launch()? {
        let flops = counter.count(launch);
        let name: String = launch.kernel_name().chars().take(40).collect();
        match flops.work() {
            Ok(work) => {
                let bytes = flops.dram_bytes.map_or(String::from("-"), |bytes| bytes.value.to_string());
                println!("{:>12} FLOPs {bytes:>12} bytes  {name}", work.value);
            }
            Err(unknown) => println!("{unknown}  {name}"),
        }
    }
    for warning in reader.warnings() {
        eprintln!("{warning}");
    }
    Ok(())
}
