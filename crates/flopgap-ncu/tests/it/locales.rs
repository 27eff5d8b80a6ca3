//! Numbers as other locales print them.

use std::fmt::Write;

use flopgap_files::Hint as _;
use flopgap_ncu::{Error, Fault, NumberFormat, Value};
use proptest::prelude::*;

use crate::support::{parse, plains, read, text};

#[test]
fn every_recorded_locale_gives_the_same_report() {
    for page in ["details", "raw"] {
        let expected = plains(&read(&format!("nvtx_names/{page}_C.csv.zst")));
        for locale in ["de_DE", "de_CH", "fr_FR", "en_IN"] {
            let found = plains(&read(&format!("nvtx_names/{page}_{locale}.csv.zst")));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.metrics.len(), expected.metrics.len(), "{page} {locale}");
                for (found, expected) in found.metrics.iter().zip(&expected.metrics) {
                    assert_eq!(found, expected, "{page} {locale}");
                }
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_point_and_six_decimals_are_decimals_in_any_locale() {
    // The raw page prints some doubles without the locale: `242.534957` next to `622.592`, which is
    // 622592.
    let text = text("nvtx_names/raw_de_DE.csv.zst");
    assert!(text.contains("\"242.534957\"") && text.contains("\"622.592\""));
    let report = read("nvtx_names/raw_de_DE.csv.zst");
    let launch = report.iter().next().unwrap();
    let value = |name: &str| launch.metric_named(name).unwrap().value;
    assert_eq!(value("derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2"), Value::F64(242.534_957));
    assert_eq!(value("derived_tempMetric1").as_f64(), Some(622_592.0));
}

/// A file of one launch whose metrics have these names, units and values.
fn file(cells: &[(&str, &str, &str)]) -> String {
    let mut text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    for (name, unit, value) in cells {
        writeln!(text, "\"0\",\"k\",\"{name}\",\"{unit}\",\"{value}\"").unwrap();
    }
    text
}

fn values(cells: &[(&str, &str, &str)]) -> Result<Vec<Value>, Error> {
    let report = parse(file(cells))?;
    Ok(report.launches[0].metrics.iter().map(|metric| metric.value).collect())
}

#[test]
fn other_values_decide_an_ambiguous_one() {
    let ambiguous = ("a.avg", "", "117.344");
    let decided = |other: &'static str| values(&[ambiguous, ("b.avg", "", other)]).unwrap()[0];
    for comma in ["27.595.520", "65,77", "1.234,5", "0,123"] {
        assert_eq!(decided(comma), Value::U64(117_344), "{comma}");
    }
    for point in ["27,595,520", "65.77", "1,234.5", "0.123", "1234.567", "3995313115.40"] {
        assert_eq!(decided(point), Value::F64(117.344), "{point}");
    }
    // The same the other way round: what decides may come first.
    assert_eq!(values(&[("b.avg", "", "65,77"), ambiguous]).unwrap()[1], Value::U64(117_344));
}

#[test]
fn the_kind_of_a_metric_decides_at_last() {
    let counter = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
    assert_eq!(values(&[(counter, "inst", "117.344")]).unwrap(), [Value::U64(117_344)]);
    assert_eq!(values(&[(counter, "inst", "117,344")]).unwrap(), [Value::U64(117_344)]);
    assert_eq!(values(&[("gpu__time_duration.sum", "ns", "117.344")]).unwrap(), [Value::U64(117_344)]);
    // One count decides for its neighbors.
    let both = [("x.avg", "", "1.024"), (counter, "inst", "117.344")];
    assert_eq!(values(&both).unwrap(), [Value::U64(1024), Value::U64(117_344)]);
}

#[test]
fn what_cannot_be_decided_is_refused() {
    let error = values(&[("lts__t_sector_hit_rate.pct", "%", "95.123")]).unwrap_err();
    assert!(
        matches!(&error, Error { line: Some(2), what: Fault::UndecidableNumber { value }, .. } if value == "95.123"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("LC_ALL=C"));
    // Six decimals prove nothing.
    assert!(values(&[("a.avg", "", "95.123"), ("b.avg", "", "242.534957")]).is_err());
    // Scaled, it is no count.
    assert!(values(&[("dram__bytes.sum", "Mbyte", "10.531")]).is_err());
}

#[test]
fn what_contradicts_is_refused() {
    let error = values(&[("a.avg", "", "65,77"), ("b.avg", "", "1"), ("c.avg", "", "65.77")]).unwrap_err();
    let Fault::ContradictoryNumber { decided_at, ref value, format } = error.what else { panic!("{error}") };
    assert_eq!((error.line, decided_at, value.as_str(), format), (Some(4), 2, "65.77", NumberFormat::Comma));
    // Two counts that group differently.
    let counts = [("a__b.sum", "inst", "117.344"), ("a__c.sum", "inst", "117,344")];
    let values = values(&counts).unwrap();
    assert_eq!(values[0], Value::U64(117_344), "the first count decides");
    assert_eq!(values[1], Value::F64(117.344), "and the second is a fraction then");
}

#[test]
fn a_long_file_without_proof_is_decided_before_its_end() {
    // More than what may wait: the reader must not keep the whole file.
    let mut text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    let launches = 150_000;
    for id in 0..launches {
        writeln!(text, "\"{id}\",\"k\",\"a__b.sum\",\"inst\",\"117.{}\"", 100 + id % 900).unwrap();
    }
    let report = parse(text).unwrap();
    assert_eq!(report.launches.len(), launches);
    for (id, launch) in report.launches.iter().enumerate() {
        assert_eq!(launch.metrics[0].value, Value::U64(117_100 + id as u64 % 900));
    }
}

#[test]
fn every_table_of_a_file_has_its_own_format() {
    let (german, english) =
        (text("nvtx_names/details_de_DE.csv.zst"), text("nvtx_names/details_en_IN.csv.zst"));
    let report = parse(german + &english).unwrap();
    let metrics = |index: usize| &report.launches[index].metrics;
    assert_eq!(metrics(0), metrics(2));
    assert_eq!(metrics(1), metrics(3));
}

/// Prints like a C++ stream with a locale.
fn print(value: u64, decimals: Option<u8>, group: &str, sizes: &[usize], point: char) -> String {
    let digits = value.to_string();
    let mut groups = Vec::new();
    let mut end = digits.len();
    let mut sizes = sizes.iter().chain(sizes.last().into_iter().cycle());
    while end > 0 {
        let start = end.saturating_sub(*sizes.next().unwrap());
        groups.push(&digits[start..end]);
        end = start;
    }
    groups.reverse();
    let whole = groups.join(group);
    decimals.map_or(whole.clone(), |decimals| format!("{whole}{point}{decimals:02}"))
}

proptest! {
    #[test]
    fn whatever_a_locale_prints_is_read_back(
        cells in proptest::collection::vec((0..u64::MAX, proptest::option::of(0..100_u8)), 1..20),
        locale in 0..7_usize,
    ) {
        let (group, sizes, point): (&str, &[usize], char) = [
            (",", &[3][..], '.'),
            (".", &[3][..], ','),
            ("", &[30][..], '.'),
            ("\u{a0}", &[3][..], ','),
            ("\u{202f}", &[3][..], ','),
            ("\u{2019}", &[3][..], '.'),
            (",", &[3, 2][..], '.'),
        ][locale];
        let mut text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
        // A value that proves the format.
        writeln!(text, "\"0\",\"k\",\"a\",\"%\",\"{}\"", print(12, Some(34), group, sizes, point)).unwrap();
        for (value, decimals) in &cells {
            let shift = value % 64;
            writeln!(text, "\"0\",\"k\",\"a\",\"%\",\"{}\"", print(value >> shift, *decimals, group, sizes, point)).unwrap();
        }
        let report = parse(text).unwrap();
        let found = report.launches[0].metrics[1..].iter().map(|metric| metric.value);
        for (found, (value, decimals)) in found.zip(&cells) {
            let value = value >> (value % 64);
            match decimals {
                None => prop_assert_eq!(found, Value::U64(value)),
                Some(decimals) => {
                    let expected: f64 = format!("{value}.{decimals:02}").parse().unwrap();
                    prop_assert_eq!(found, Value::F64(expected));
                }
            }
        }
    }
}
