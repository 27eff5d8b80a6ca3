//! How long a closed form and a decomposition take: they run once for each configuration of a
//! sweep.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use flopgap_flops::{ClassFlops, Decomposition, Pass, SquareMlp};

fn evaluate(criterion: &mut Criterion) {
    let network = SquareMlp::new(10, 1024, 128).expect("sizes are at least 1");
    let counted = ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 };
    criterion.bench_function("flops/theory", |bencher| {
        bencher.iter(|| black_box(network).theory(black_box(Pass::Backward)));
    });
    criterion.bench_function("flops/decompose", |bencher| {
        bencher.iter(|| Decomposition::new(black_box(network), Pass::Forward, black_box(counted)));
    });
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
