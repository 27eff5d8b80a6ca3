#![no_main]
//! A trace of `torch.profiler`: compressed bytes give the same answer as plain ones, and the totals
//! add up to the operators.

use std::io::Write as _;

use flopgap_kineto::Trace;
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) -> Option<Trace> {
    Trace::options().without_shapes(true).read(bytes, "trace.json").ok()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Trace::read(bytes, "trace.json");
    let Some(trace) = read(bytes) else { return };
    assert!(trace.operators.len() + trace.gpu_work.len() <= bytes.len(), "more events than bytes");
    if let Ok(totals) = trace.totals() {
        let calls: u64 = totals.iter().map(|total| total.calls).sum();
        assert_eq!(calls, trace.operators.len() as u64, "calls are lost or counted twice");
        let of_totals: u128 = totals.iter().filter_map(|total| total.flops).map(u128::from).sum();
        let of_calls = trace.operators.iter().filter_map(|operator| operator.flops);
        assert_eq!(of_totals, of_calls.map(|(flops, _)| u128::from(flops)).sum(), "FLOPs are lost");
    }
    for warning in &trace.warnings {
        std::hint::black_box(warning.to_string());
    }
    // Bytes that are compressed are not compressed again: they are read once.
    if bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("memory");
    for packed in [gzip.finish().expect("memory"), zstd::encode_all(bytes, 1).expect("memory")] {
        let again = read(&packed).expect("what can be read plain can be read compressed");
        assert_eq!((&again.operators, &again.gpu_work), (&trace.operators, &trace.gpu_work));
        assert_eq!((again.device, again.warnings), (trace.device.clone(), trace.warnings.clone()));
    }
});
