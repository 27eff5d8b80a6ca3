#![no_main]
//! Where the time of a trace went: the parts add up to the whole.

use flopgap_kernels::Classifier;
use flopgap_nsys::Trace;
use flopgap_timings::{Scope, kernels, passes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = Trace::open(flopgap_fuzz::file("trace.sqlite", bytes)) else { return };
    let classifier = Classifier::default();
    if let Ok(found) = kernels::kernels(&trace, &Scope::all(), &classifier) {
        let sum: i128 = found.kernels.iter().map(|kernel| kernel.times.total_ns).sum();
        assert_eq!(sum, found.total_ns, "the times of kernels do not add up");
        if !found.places.is_empty() {
            let places: i128 = found.places.iter().map(|place| place.total_ns).sum();
            assert_eq!(places, found.total_ns, "the times of places do not add up");
        }
    }
    let _ = passes::passes(&trace, &passes::Options::default());
});
