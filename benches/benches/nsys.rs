//! How fast the reports come out of an export of 100 000 kernels, against the floor of reading its
//! largest table once.

use std::hint::black_box;
use std::io;

use criterion::{Criterion, criterion_group, criterion_main};
use flopgap_nsys::{CsvSink, Trace, Units};

const REPORTS: [&str; 8] = [
    "cuda_gpu_kern_sum",
    "nvtx_sum",
    "cuda_api_sum",
    "nvtx_kern_sum",
    "nvtx_gpu_proj_sum",
    "cuda_kern_exec_sum",
    "cuda_gpu_trace",
    "nvtx_pushpop_trace",
];

fn reports(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("generated.sqlite");
    flopgap_benches::nsys_trace::write_nsys_export(100_000, &path).expect("the fixture reads");
    let mut group = criterion.benchmark_group("nsys");
    group.sample_size(10);
    for name in REPORTS {
        let report = name.parse().expect("a report");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let trace = Trace::open(&path).expect("an export");
                let mut sink = CsvSink::new(io::sink(), Units::default());
                trace.report(report, &mut sink).expect("a trace with everything");
            });
        });
    }
    group.bench_function("floor_sum_of_kernel_times", |bencher| {
        bencher.iter(|| {
            let connection = rusqlite::Connection::open(&path).expect("a database");
            let sql = "SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL";
            black_box(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("kernels"))
        });
    });
    group.finish();
}

criterion_group!(benches, reports);
criterion_main!(benches);
