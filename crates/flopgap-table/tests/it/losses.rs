//! What is lost with a source is distinguished from what is odd in it.

use std::fs;

use flopgap_table::{Source, table_names};

use crate::{batches, fixtures, open};

#[test]
fn a_row_that_is_cut_is_lost_and_nothing_else_is() {
    let (_folder, [report]) = flopgap_testing::paths(["report.csv"]);
    let whole = fs::read(fixtures().join("ncu/n4_d512_m64_forward.csv")).unwrap();
    for (end, losses) in [(whole.len(), 0), (whole.len() - 9, 1)] {
        fs::write(&report, &whole[..end]).unwrap();
        let source = Source::open(&report).unwrap();
        batches(&source.table("counters").unwrap());
        let found = source.losses();
        assert_eq!(found.len(), losses, "{found:?}");
        assert!(found.iter().all(|loss| source.warnings().contains(loss) && loss.contains("cut off")));
    }
}

#[test]
fn names_of_tables_are_those_of_all_kinds() {
    let names = table_names();
    for name in [
        "nsys/two_gpus.sqlite.zst",
        "kineto/mlp_n10_d1024_m128.json.gz",
        "ncu/n4_d512_m64_forward.csv",
        "runs/h200-small",
        "calibration/xeon-native.jsonl.zst",
    ] {
        let tables = open(name).tables();
        assert!(!tables.is_empty() && tables.iter().all(|table| names.contains(&*table.name)), "{name}");
    }
}
