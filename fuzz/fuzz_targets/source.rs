#![no_main]
//! Any file as tables: every batch has the columns of its table's schema, and the first rows are
//! those of the whole.

use std::io;

use flopgap_table::{Source, csv};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::open(flopgap_fuzz::file("recorded", bytes)) else { return };
    for info in source.tables() {
        let Ok(table) = source.table(&info.name) else { continue };
        let schema = table.schema();
        let Ok(batches) = table.read() else { continue };
        let _ = csv::write(&table, &mut io::sink());
        let mut rows = 0;
        for batch in batches {
            let Ok(batch) = batch else { break };
            assert_eq!(batch.schema().fields(), schema.fields(), "{}", info.name);
            rows += batch.num_rows();
        }
        if let Ok(first) = table.first(3) {
            assert!(first.num_rows() <= 3 && first.num_rows() <= rows.max(3));
        }
    }
    for warning in source.warnings() {
        std::hint::black_box(warning);
    }
});
