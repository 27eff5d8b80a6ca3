//! What hiding copies behind kernels saves at most.

use flopgap_gap::{Gap, Kind, Options, gap};
use flopgap_kineto::Job;

/// A step of 1,000 µs that copies to the GPU for `copies` µs, and whose one kernel begins at
/// `kernel` and runs to the end.
fn step(copies: i64, kernel: i64) -> Gap {
    let event = |category: &str, name: &str, start: i64, length: i64, correlation: u32| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{length},"args":{{"correlation":{correlation},"device":0,"stream":{correlation}}}}}"#
        )
    };
    let events = [
        event("user_annotation", "ProfilerStep#1", 0, 1000, 0),
        event("cuda_runtime", "cudaMemcpyAsync", 0, 5, 1),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, copies, 1),
        event("cuda_runtime", "cudaLaunchKernel", 5, 5, 2),
        event("kernel", "ampere_sgemm_128x64_tn", kernel, 1000 - kernel, 2),
    ];
    let json = format!("[{}]", events.join(","));
    let trace =
        flopgap_kineto::Trace::options().without_shapes(true).read(json.as_bytes(), "t.json").unwrap();
    gap(&Job::of(vec![trace]).unwrap(), &Options::default()).unwrap()
}

fn advised(found: &Gap) -> Vec<(Kind, i64)> {
    let copies = |kind| matches!(kind, Kind::UnoverlappedCopies | Kind::FewerCopies | Kind::PageableCopies);
    found.advice.iter().filter(|own| copies(own.kind)).map(|own| (own.kind, own.bound_ns / 1000)).collect()
}

#[test]
fn a_step_takes_at_least_as_long_as_its_copies() {
    // Kernels longer than copies hide all of them; shorter ones as much as they run.
    assert_eq!(advised(&step(300, 300)), [(Kind::UnoverlappedCopies, 300)]);
    assert_eq!(advised(&step(700, 700)), [(Kind::UnoverlappedCopies, 300)]);
    // What runs at the same time already is hidden, and the copies take 900 µs in any case.
    assert_eq!(advised(&step(900, 400)), [(Kind::FewerCopies, 400), (Kind::UnoverlappedCopies, 100)]);
    assert_eq!(advised(&step(960, 960)), [(Kind::FewerCopies, 960)]);
    assert_eq!(advised(&step(40, 40)), []);
}
