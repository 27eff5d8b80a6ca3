#![no_main]
//! Any bytes end in launches, warnings or an error: no panic, no hang, no memory beyond a small
//! multiple of the input.

use std::io::Cursor;

use flopgap_ncu::{FlopCounter, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::from_reader(Cursor::new(bytes.to_vec()), "fuzz") else { return };
    let mut counter = FlopCounter::new();
    let mut launches = 0_usize;
    while let Ok(Some(launch)) = reader.next_launch() {
        let _ = counter.count(launch).total();
        launches += 1;
        assert!(launches <= bytes.len(), "more launches than bytes");
    }
});
