//! Public traces of other versions and accelerators, found through `FLOPGAP_CORPUS` (a folder with
//! a `kineto` folder in it): such as the test data of `HolisticTraceAnalysis`.

use std::fs;
use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_kineto::Trace;

#[test]
fn every_public_trace_is_read_or_refused_in_words() {
    let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
        let _: Option<()> = flopgap_testing::none("corpus", "FLOPGAP_CORPUS is not set");
        return;
    };
    let folder = PathBuf::from(corpus).join("kineto");
    let Ok(entries) = fs::read_dir(&folder) else {
        let _: Option<()> = flopgap_testing::none("corpus", "FLOPGAP_CORPUS has no kineto folder");
        return;
    };
    let mut read = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        match Trace::options().without_shapes(true).open(&path) {
            Ok(trace) => {
                read += 1;
                for operator in &trace.operators {
                    assert!((operator.thread as usize) < trace.threads.len(), "{}", path.display());
                }
                let correlated = trace.gpu_work.iter().filter(|work| work.correlation.is_some()).count();
                assert!(
                    correlated == trace.gpu_work.len(),
                    "{}: {correlated} have a correlation",
                    path.display()
                );
            }
            Err(error) => assert!(error.hint().is_some(), "{}: {error}", path.display()),
        }
    }
    assert!(read > 0, "{}: no trace", folder.display());
}
