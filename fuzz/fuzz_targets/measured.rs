#![no_main]
//! Times that a user measured: each is at least a nanosecond and at most a day. The first line
//! names the column.

use flopgap_timings::measured;
use libfuzzer_sys::fuzz_target;

const DAY: i64 = 86_400_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let (column, rest) = flopgap_fuzz::first_line(bytes);
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let column = (!column.is_empty()).then_some(column);
    if let Some(times) = measured::list(text) {
        assert!(times.iter().all(|time| (1..=DAY).contains(time)), "{times:?}");
    }
    if let Ok(times) = measured::parse("times", text, column) {
        assert!(!times.is_empty() && times.len() <= text.len());
        assert!(times.iter().all(|time| (1..=DAY).contains(time)), "{times:?}");
        let lines: Vec<String> = times.iter().map(|time| format!("{time} ns")).collect();
        assert_eq!(measured::parse("times", &lines.join("\n"), None), Ok(times), "not read back");
    }
});
