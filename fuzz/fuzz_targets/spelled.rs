#![no_main]
//! Everything that is spelled on a command line: reports, rules, times, patterns of ranges, sizes,
//! shards, shapes, names of files. What prints is read back as it was.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use flopgap_graph::StatedShape;
use flopgap_nsys::{AppliedRule, Filter, Report, fold_name};
use flopgap_phases::sweep::{Config, MAX_CONFIGS, MAX_SIZE, Shard, Sizes, parse_file_name};
use flopgap_timings::RangePattern;
use libfuzzer_sys::fuzz_target;

fn printed<T: FromStr + Display + PartialEq + Debug>(text: &str)
where
    T::Err: Debug + Display,
{
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            let again = printed.parse::<T>();
            assert_eq!(again.as_ref().ok(), Some(&value), "{printed:?}: {again:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|text: &str| {
    printed::<Report>(text);
    printed::<AppliedRule>(text);
    printed::<Shard>(text);
    printed::<RangePattern>(text);
    let _ = text.parse::<Filter>();
    let _ = text.parse::<StatedShape>();
    if let Ok(sizes) = text.parse::<Sizes>() {
        let values = Sizes::join("n", &[sizes]).expect("a range has each size once");
        assert!(!values.is_empty() && values.len() <= MAX_CONFIGS);
        assert!(values.is_sorted() && values.iter().all(|size| (1..=MAX_SIZE).contains(size)));
    }
    if let Some(config) = Config::from_name(text) {
        assert_eq!(config.to_string(), text);
    }
    let _ = parse_file_name(text);
    let literal = RangePattern::literal(text);
    assert!(literal.matches("", text) && !literal.has_wildcard(), "a literal does not mean its own text");
    if let Ok(pattern) = text.parse::<RangePattern>() {
        let _ = pattern.matches("model", text);
        if !pattern.has_wildcard() && !text.contains('\\') {
            assert!(pattern.matches("", text));
        }
    }
    assert!(RangePattern::any().matches("domain", text));
    let _ = fold_name(text);
});
