//! How fast a long ncu CSV becomes launches, against the floor of reading its bytes once.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read as _};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flopgap_ncu::Reader;

fn ingest(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("generated.csv");
    let mut file = BufWriter::new(File::create(&path).expect("a new file"));
    flopgap_benches::write_long_csv(100_000, &mut file).expect("the fixture reads");
    drop(file);

    let mut group = criterion.benchmark_group("ncu");
    group.throughput(Throughput::Bytes(path.metadata().expect("the file is there").len()));
    group.sample_size(20);
    group.bench_function("long_csv", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::open(&path).expect("a report");
            let mut metrics = 0;
            while let Some(launch) = reader.next_launch().expect("readable") {
                metrics += launch.metrics.len();
            }
            assert!(metrics >= 100_000);
        });
    });
    let mut chunk = vec![0; 256 * 1024];
    group.bench_function("floor_read_and_count_lines", |bencher| {
        bencher.iter(|| {
            let mut file = File::open(&path).expect("the file is there");
            let mut lines = 0;
            loop {
                let read = file.read(&mut chunk).expect("readable");
                if read == 0 {
                    break;
                }
                lines += memchr::memchr_iter(b'\n', &chunk[..read]).count();
            }
            black_box(lines)
        });
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
