//! What a trace says about its recording.

use flopgap_nsys::Recording;

use crate::support::{TRACES, Unpacked};

#[test]
fn a_recording_names_machine_time_and_program() {
    let trace = Unpacked::new("small_forward").open();
    let expected = Recording {
        gpus: vec![(0, "NVIDIA H200".to_owned())],
        duration: Some(9_578_252_004),
        began: Some("2026-11-21T01:46:26".to_owned()),
        command: Some("python3 lm.py --mode forward --steps 2 --warmup 1".to_owned()),
    };
    assert_eq!(trace.recording().unwrap(), expected);
    assert_eq!(trace.warnings(), []);
    for name in TRACES {
        assert!(Unpacked::new(name).open().recording().unwrap().duration.is_some_and(|ns| ns > 0), "{name}");
    }
}
