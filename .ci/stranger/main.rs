//! What a report of ncu counted against what the network needs, and where the time of a trace of
//! nsys went, by kernel class: `stranger REPORT TRACE.sqlite.zst`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io;

use flopgap_flops::{Pass, SquareMlp};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_ncu::{FlopCounter, OperationType, Reader};
use flopgap_nsys::Trace;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(report), Some(packed)) = (arguments.next(), arguments.next()) else {
        return Err("usage: stranger REPORT TRACE.sqlite.zst".into());
    };
    let classifier = Classifier::new();

    let counted = counted(&report, &classifier)?;
    let needed = SquareMlp::new(4, 512, 64)?.theory(Pass::Forward)?;
    for (class, flops) in &counted {
        println!("{class}: {flops} FLOPs");
    }
    println!("products need: {} FLOPs", needed.gemm);

    // SQLite wants a file.
    let path = std::path::Path::new("trace.sqlite");
    io::copy(&mut zstd::Decoder::new(File::open(packed)?)?, &mut File::create(path)?)?;
    for (class, nanoseconds) in times(&Trace::open(path)?, &classifier)? {
        println!("{class}: {nanoseconds} ns");
    }
    Ok(())
}

/// FLOPs of each kernel class in a report.
fn counted(report: &str, classifier: &Classifier) -> Result<BTreeMap<KernelClass, u64>, flopgap_ncu::Error> {
    let mut reader = Reader::open(report)?;
    let mut counter = FlopCounter::new();
    let mut sums = BTreeMap::new();
    while let Some(launch) = reader.next_launch()? {
        let flops = counter.count(launch).get(OperationType::Fp32).count().map_or(0, |count| count.value);
        *sums.entry(classifier.get(launch.kernel_name()).class).or_default() += flops;
    }
    Ok(sums)
}

/// GPU time of each kernel class in a trace.
fn times(trace: &Trace, classifier: &Classifier) -> Result<BTreeMap<KernelClass, i64>, flopgap_nsys::Error> {
    let mut sums = BTreeMap::new();
    for kernel in trace.kernels()? {
        let kernel = kernel?;
        let name = trace.string(kernel.demangled)?.unwrap_or_default();
        *sums.entry(classifier.get(&name).class).or_default() += kernel.at.duration();
    }
    Ok(sums)
}
