//! How much machine code a source becomes: the first use of a network waits for NVRTC, whose time
//! grows with it. The size is the same on every machine; the time is shown.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::time::Instant;

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_mlp::cuda::{Implementation, Options, Source, Target, sources};
use flopgap_mlp::{Activation, Network, Precision};
use rayon::prelude::*;

use super::draws::{Draw, from_environment};
use super::kernels::compiler;

/// Bytes of machine code that a source may have. 328 kB took NVRTC 13.0 6 s of a core here, and
/// 438 kB, the most of 40 draws, 5 s; with code for every layer they took from 14 s to minutes.
const MOST: usize = 500_000;

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

/// What a source became.
#[derive(Debug)]
struct Compiled {
    bytes: usize,
    seconds: f64,
    case: Case,
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {:.1} s: {}", self.bytes, self.seconds, self.case)
    }
}

/// Compiles all, and gives the largest first.
fn compile(compiler: &Compiler, cases: Vec<Case>) -> Vec<Compiled> {
    let compile = |case: Case| {
        let begin = Instant::now();
        let binary = case.source.compile(compiler).unwrap_or_else(|error| panic!("{case}: {error}"));
        Compiled { bytes: binary.image().len(), seconds: begin.elapsed().as_secs_f64(), case }
    };
    let mut found: Vec<_> = cases.into_par_iter().map(compile).collect();
    found.sort_by_key(|one: &Compiled| Reverse(one.bytes));
    found
}

fn none_is_large(found: &[Compiled]) {
    let large: Vec<String> = found.iter().filter(|one| one.bytes > MOST).map(ToString::to_string).collect();
    assert!(large.is_empty(), "{} sources have more than {MOST} bytes:\n{}", large.len(), large.join("\n"));
}

#[test]
fn odd_and_deep_networks_have_little_machine_code() {
    let Some(compiler) = compiler() else { return };
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
    let found = compile(&compiler, all.concat());
    for one in found.iter().take(5) {
        eprintln!("{one}");
    }
    none_is_large(&found);
}

/// The sources of networks drawn at random, the largest ones shown: `FLOPGAP_COMPILE=all
/// FLOPGAP_DRAWS=200 cargo test -p flopgap-mlp --test it little_machine_code -- --nocapture`.
/// `FLOPGAP_SEED` and `FLOPGAP_IMPLEMENTATION` are as for the draws on a GPU,
/// `FLOPGAP_ARCH=sm_80,sm_90` asks for those architectures.
#[test]
fn draws_have_little_machine_code() {
    if std::env::var("FLOPGAP_COMPILE").as_deref() != Ok("all") {
        return flopgap_testing::skip("FLOPGAP_COMPILE=all", "it takes many minutes");
    }
    let compiler = compiler().expect("NVRTC");
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
    let found = compile(&compiler, all);
    let seconds: f64 = found.iter().map(|one| one.seconds).sum();
    eprintln!("{draws} draws from seed {first}, {} sources, {seconds:.0} s", found.len());
    for one in found.iter().take(30) {
        eprintln!("{one}");
    }
    none_is_large(&found);
}
