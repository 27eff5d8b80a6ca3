//! How fast a long ncu CSV becomes launches, against the floor of touching its bytes once.

use std::hint::black_box;
use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flopgap_ncu::Reader;

fn ingest(criterion: &mut Criterion) {
    let mut bytes = Vec::new();
    flopgap_benches::write_long_csv(100_000, &mut bytes).expect("the fixture reads");
    let mut group = criterion.benchmark_group("ncu");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.sample_size(20);
    group.bench_function("long_csv", |bencher| {
        bencher.iter(|| {
            let mut reader =
                Reader::from_reader(Cursor::new(bytes.clone()), "generated.csv").expect("a report");
            let mut metrics = 0;
            while let Some(launch) = reader.next_launch().expect("readable") {
                metrics += launch.metrics.len();
            }
            assert!(metrics >= 100_000);
        });
    });
    group.bench_function("floor_copy_and_count_lines", |bencher| {
        bencher.iter(|| {
            let copy = bytes.clone();
            black_box(memchr::memchr_iter(b'\n', &copy).count())
        });
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
