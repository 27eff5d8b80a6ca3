//! How long NVRTC takes: the first use of a network waits for the longest of its sources where
//! there are cores for all.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_mlp::dense::cuda::{Implementation, Options, Source, Target, sources};
use flopgap_mlp::dense::{Activation, Network, Precision};

use super::draws::{Draw, from_environment};

/// Seconds that a source may take a core.
const MOST: f64 = 10.0;

/// Seconds of a core that this thread has had, or where the system does not say, that have passed.
fn seconds_of_this_thread(begin: Instant) -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// What is compiled.
#[derive(Debug, Clone)]
struct Case {
    what: String,
    source: Source,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.source.name(), self.source.architecture(), self.what)
    }
}

/// The sources of a network for an architecture; none where an implementation does not have it.
fn cases(network: &Network, precision: Precision, options: Options, capability: &str) -> Vec<Case> {
    let target = Target::nominal(capability.parse::<Architecture>().unwrap().capability);
    let what = format!("{} {precision} {network}", options.implementation);
    let all = sources(network, precision, options, target).unwrap_or_default();
    all.into_iter().map(|source| Case { what: what.clone(), source }).collect()
}

/// Compiles all, and gives the seconds of a core of each, the longest first.
fn times(compiler: &Compiler, cases: &[Case]) -> Vec<(f64, Case)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                let begin = Instant::now();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let before = seconds_of_this_thread(begin);
                    case.source.compile(compiler).unwrap_or_else(|error| panic!("{case}: {error}"));
                    let seconds = seconds_of_this_thread(begin) - before;
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((seconds, case.clone()));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found
}

fn none_is_long(found: &[(f64, Case)]) {
    let long: Vec<String> = found
        .iter()
        .filter(|(seconds, _)| *seconds > MOST)
        .map(|(seconds, case)| format!("{seconds:.1} s: {case}"))
        .collect();
    assert!(long.is_empty(), "{} sources take longer than {MOST} s:\n{}", long.len(), long.join("\n"));
}

/// Networks that took from 14 s to several minutes while every layer and every piece of it had code
/// of its own.
#[test]
fn odd_and_deep_networks_compile_in_seconds() {
    let compiler = match Compiler::without_cache() {
        Ok(compiler) => compiler,
        Err(error) => return flopgap_skip::skip("nvrtc", error),
    };
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    let deep = of(&[64; 65]);
    let [forloop, coopvec, coopmat] =
        [Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat].map(Options::new);
    let all = [
        cases(&of(&[128, 136, 72, 16, 32, 168]), Precision::F32, coopvec, "sm_90"),
        cases(&of(&[128, 136, 72, 16, 32, 168]), Precision::F32, coopvec, "sm_100"),
        cases(&of(&[8, 24, 512, 88]).with_activation(Activation::Gelu), Precision::F16, coopvec, "sm_90"),
        cases(&deep, Precision::F32, forloop, "sm_80"),
        cases(&deep, Precision::F16, coopvec, "sm_80"),
        cases(&deep, Precision::F16, coopmat, "sm_90"),
        cases(&of(&[512, 512, 32, 32, 192, 304]), Precision::Bf16, coopmat, "sm_80"),
        cases(
            &of(&[256, 256, 256, 256, 256, 256, 64]).with_activation(Activation::Silu),
            Precision::F16,
            coopmat,
            "sm_90",
        ),
        // All inputs wait in shared memory: none is in registers.
        cases(&of(&[512, 408, 256]), Precision::Bf16, coopvec, "sm_90"),
    ];
    assert!(all.iter().all(|cases| !cases.is_empty()), "every one of them has kernels");
    let found = times(&compiler, &all.concat());
    for (seconds, case) in found.iter().take(5) {
        eprintln!("{seconds:.1} s: {case}");
    }
    none_is_long(&found);
}

/// The sources of networks drawn at random, the slowest ones shown: `FLOPGAP_COMPILE=all
/// FLOPGAP_DRAWS=200 cargo test -p flopgap-mlp --test it draws_compile -- --nocapture`.
/// `FLOPGAP_SEED` and `FLOPGAP_IMPLEMENTATION` are as for the draws on a GPU,
/// `FLOPGAP_ARCH=sm_80,sm_90` asks for those architectures.
#[test]
fn draws_compile_in_seconds() {
    if std::env::var("FLOPGAP_COMPILE").as_deref() != Ok("all") {
        return flopgap_skip::skip("FLOPGAP_COMPILE=all", "it takes many minutes");
    }
    let compiler = Compiler::without_cache().unwrap();
    let draws: u64 = from_environment("FLOPGAP_DRAWS").unwrap_or(50);
    let first: u64 = from_environment("FLOPGAP_SEED").unwrap_or(1);
    let only: Option<Implementation> = from_environment("FLOPGAP_IMPLEMENTATION");
    let capabilities: String =
        from_environment("FLOPGAP_ARCH").unwrap_or_else(|| "sm_80,sm_90,sm_100".to_owned());
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for mut draw in (first..first + draws).map(Draw::new) {
        draw.options.implementation = only.unwrap_or(draw.options.implementation);
        for capability in capabilities.split(',') {
            let of_draw = cases(&draw.network, draw.precision, draw.options, capability);
            all.extend(of_draw.into_iter().filter(|case| seen.insert(case.source.clone())));
        }
    }
    let found = times(&compiler, &all);
    let seconds: f64 = found.iter().map(|(seconds, _)| seconds).sum();
    eprintln!("{draws} draws from seed {first}, {} sources, {seconds:.0} s of a core", found.len());
    for (seconds, case) in found.iter().take(30) {
        eprintln!("{seconds:.1} s: {case}");
    }
    none_is_long(&found);
}
