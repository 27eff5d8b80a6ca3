//! How long it takes to tell what a kernel is for: the first time, and from the cache that every
//! caller uses.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flopgap_kernels::{Classifier, base_name, classify};

fn names() -> Vec<String> {
    let report =
        String::from_utf8(flopgap_benches::recorded_report().expect("the fixture reads")).expect("UTF-8");
    let mut names: Vec<String> = report
        .lines()
        .filter(|line| line.starts_with('"') && !line.starts_with("\"ID\""))
        .filter_map(|line| line.split("\",\"").nth(4).map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn classification(criterion: &mut Criterion) {
    let names = names();
    let mut group = criterion.benchmark_group("kernels");
    group.throughput(Throughput::Elements(names.len() as u64));
    group.bench_function("classify", |bencher| {
        bencher.iter(|| names.iter().for_each(|name| drop(black_box(classify(name)))));
    });
    group.bench_function("base_name", |bencher| {
        bencher.iter(|| names.iter().for_each(|name| drop(black_box(base_name(name)))));
    });
    let classifier = Classifier::new();
    group.bench_function("cached", |bencher| {
        bencher.iter(|| names.iter().for_each(|name| drop(black_box(classifier.get(name)))));
    });
    group.finish();
}

criterion_group!(benches, classification);
criterion_main!(benches);
