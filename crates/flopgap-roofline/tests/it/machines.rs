//! Machines that others measured.

use flopgap_graph::language::{
    Attend, Division, Experts, Format, Kernel, LanguageModel, Operation, Pass, Phase, Routing,
};
use flopgap_roofline::machines::{Basis, Bound, Class, Machine, NAMES, Peaks, REFERENCE, Row, named};

const PEAKS: Peaks = Peaks {
    bytes_per_second: 2e12,
    memory_bytes: 80_000_000_000,
    bf16: 4e14,
    fp8: None,
    fp4: None,
    link_bytes_per_second: 3e11,
    gpus: 8,
    units: 100.0,
};

fn product(m: u64, n: u64, k: u64, format: Format) -> Kernel {
    Kernel::Product { m, n, k, format }
}

/// Nanoseconds of a made-up GPU: 3 µs, and 70 % of the larger of both ceilings.
fn time(kernel: &Kernel) -> f64 {
    3e3 + (kernel.flops() as f64 / 4e14).max(kernel.bytes() as f64 / 2e12) * 1e9 / 0.7
}

fn made_up() -> Machine {
    let mut rows = Vec::new();
    for m in (0..14).map(|power| 1 << power) {
        for n in (6..15).map(|power| 1 << power) {
            for k in (6..15).map(|power| 1 << power) {
                let kernel = product(m, n, k, Format::Bf16);
                rows.push(Row { kernel, nanoseconds: time(&kernel) });
            }
        }
    }
    let rows = vec![(Class::Product(Format::Bf16), rows)];
    Machine::fit(["made-up", "Made-up GPU"], vec!["none 1.0".to_owned()], PEAKS, rows, None)
}

#[test]
fn sizes_between_measured_ones_are_interpolated() {
    let machine = made_up();
    let listed: Vec<_> = machine.tables().collect();
    assert_eq!((listed.len(), listed[0].rows), (1, 14 * 81));
    assert!(listed[0].judged.mape < 0.05 && (0.8..=1.0).contains(&listed[0].judged.coverage), "{listed:?}");
    for kernel in [product(48, 3000, 1500, Format::Bf16), product(1500, 700, 12000, Format::Bf16)] {
        let estimate = machine.estimate(&kernel).unwrap();
        assert!((estimate.nanoseconds / time(&kernel) - 1.0).abs() < 0.15, "{kernel:?}: {estimate:?}");
        assert!(estimate.low < estimate.nanoseconds && estimate.nanoseconds < estimate.high);
        assert_eq!(estimate.basis, Basis::Table);
    }
    // Far beyond them, the interval is wider.
    let width =
        |kernel| machine.estimate(&kernel).map(|estimate| (estimate.high / estimate.low).ln()).unwrap();
    assert!(
        width(product(1 << 20, 1 << 20, 1 << 20, Format::Bf16))
            > 2.0 * width(product(64, 512, 512, Format::Bf16))
    );
}

#[test]
fn files_keep_times_and_damaged_ones_are_refused() {
    let machine = made_up();
    let bytes = machine.to_bytes().unwrap();
    let read = Machine::parse(&bytes, "made-up").unwrap();
    assert_eq!((&read.device, read.peaks), (&machine.device, machine.peaks));
    let kernel = product(64, 512, 512, Format::Bf16);
    let [before, after] = [&machine, &read].map(|machine| machine.estimate(&kernel).unwrap().nanoseconds);
    assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
    assert_eq!(read.to_bytes().unwrap(), bytes);
    let fails = |bytes: &[u8]| Machine::parse(bytes, "made-up").unwrap_err().to_string();
    assert_eq!(fails(b"flopgap-machine 2\n"), "made-up: not a file of a machine in version 1");
    assert_eq!(fails(&bytes[..40]), "made-up: the header does not end");
    assert_eq!(fails(&bytes[..bytes.len() - 1]), "made-up: damaged table of products");
    for end in 0..bytes.len().min(4000) {
        assert!(Machine::parse(&bytes[..end], "made-up").is_err());
    }
}

#[test]
fn what_no_table_has_is_from_the_floor_or_not_at_all() {
    let machine = made_up();
    assert!(machine.estimate(&product(64, 64, 64, Format::Fp8)).is_none(), "no such arithmetic");
    let kernel = product(4096, 4096, 4096, Format::Int4);
    let estimate = machine.estimate(&kernel).unwrap();
    let floor = 2.0 * 4096_f64.powi(3) / 4e14 * 1e9 + 500.0;
    assert_eq!((estimate.basis, estimate.bound), (Basis::Floor, Bound::Compute));
    assert!((estimate.low / floor - 1.0).abs() < 1e-9 && (estimate.high / floor - 10.0).abs() < 1e-6);
}

#[test]
fn machines_are_built_in_and_small() {
    for name in NAMES {
        let machine = named(name).unwrap_or_else(|| panic!("{name} cannot be read"));
        assert_eq!((machine.name.as_str(), machine.tables().count() > 0), (*name, true));
        let path = format!("{}/machines/{name}.machine.zst", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::metadata(path).unwrap().len() <= 300_000, "{name}");
        assert_eq!(machine.transfers().count(), if *name == REFERENCE { 0 } else { 3 }, "{name}");
        for listed in machine.tables().filter(|listed| listed.rows > 1000) {
            assert!((0.87..=0.93).contains(&listed.judged.coverage), "{name}: {listed:?}");
            assert!(listed.judged.mape < 0.13, "{name}: {listed:?}");
        }
    }
    assert!(named("H100").is_some() && named("v100").is_none());
}

#[test]
fn kinds_without_a_table_are_transferred() {
    let a100 = named("a100").unwrap();
    let experts = |format| {
        Kernel::Experts(Experts {
            tokens: 64,
            hidden: 2880,
            inner: 2880,
            chosen: 4,
            experts: 32,
            tensor_parallel: 1,
            expert_parallel: 1,
            routing: Routing::Balanced,
            format,
        })
    };
    let estimate = a100.estimate(&experts(Format::Mxfp4)).unwrap();
    assert_eq!((estimate.basis, estimate.bound), (Basis::Transferred, Bound::Memory));
    let reference = named(REFERENCE).unwrap().estimate(&experts(Format::Mxfp4)).unwrap();
    let [middle, low, high] = a100.transfer(Bound::Memory).unwrap().ratio;
    // Bytes at either bandwidth, and the 10 µs that both floors have.
    let floor = |rate: f64| experts(Format::Mxfp4).bytes() as f64 / rate + 1e-5;
    let expected = reference.nanoseconds * floor(2.039e12) / floor(4.8e12);
    for (found, ratio) in [(estimate.nanoseconds, middle), (estimate.low, low), (estimate.high, high)] {
        assert!((found / (expected * ratio) - 1.0).abs() < 1e-9, "{estimate:?}");
    }
    assert!(a100.estimate(&experts(Format::Nvfp4)).is_none());
}

#[test]
fn a_pass_is_the_sum_of_its_kernels() {
    let config = include_str!("../../../../fixtures/language/llama-3-8b.json");
    let model = LanguageModel::parse(config, "llama").unwrap();
    let pass = Pass {
        phase: Phase::Decode,
        batch: 16,
        tokens: 700,
        cache: Format::Bf16,
        routing: Routing::Balanced,
    };
    let launches = model.launches(pass, Division { tensor: 2, experts: 1 }).unwrap();
    let machine = named("h100").unwrap();
    let estimate = machine.pass(&launches).unwrap();
    let sum = |of: fn(&flopgap_roofline::machines::KernelEstimate) -> f64| -> f64 {
        launches
            .iter()
            .map(|launch| launch.count as f64 * of(&machine.estimate(&launch.kernel).unwrap()))
            .sum()
    };
    assert!((estimate.nanoseconds / sum(|kernel| kernel.nanoseconds) - 1.0).abs() < 1e-9);
    // Narrower than if all errors were shared, wider than if none were.
    assert!(estimate.low > sum(|kernel| kernel.low) && estimate.high < sum(|kernel| kernel.high));
    let parts: f64 = estimate.parts.iter().map(|part| part.nanoseconds).sum();
    assert!((estimate.nanoseconds / parts - 1.0).abs() < 1e-9);
    assert_eq!(
        estimate.flops,
        launches.iter().map(|launch| launch.count * launch.kernel.flops()).sum::<u64>()
    );
}

#[test]
fn every_kind_has_a_time_on_every_machine_that_has_the_arithmetic() {
    let attend = Attend {
        batch: 2,
        tokens: 1000,
        heads: 32,
        kv_heads: 8,
        head_width: 128,
        value_width: 128,
        window: None,
        values_in_keys: false,
        cache: Format::Bf16,
    };
    let operation = Operation::AllReduce;
    let latent = Attend { kv_heads: 1, head_width: 576, value_width: 512, values_in_keys: true, ..attend };
    for machine in NAMES.iter().map(|name| named(name).unwrap()) {
        for (kernel, basis) in [
            (product(7, 5000, 3000, Format::Bf16), Basis::Table),
            (Kernel::Prefill(attend), Basis::Table),
            (Kernel::Decode(attend), Basis::Table),
            (Kernel::Decode(latent), Basis::Floor),
            (Kernel::Collective { operation, gpus: 4, elements: 1 << 20, width: 2 }, Basis::Table),
            (Kernel::Memory { bytes: 1 << 20 }, Basis::Bandwidth),
        ] {
            let estimate = machine.estimate(&kernel).unwrap();
            assert_eq!(estimate.basis, basis, "{}: {kernel:?}", machine.name);
            let floor = kernel.flops() as f64 / machine.peaks.bf16 * 1e9;
            assert!(estimate.low <= estimate.nanoseconds && estimate.nanoseconds <= estimate.high);
            assert!(estimate.nanoseconds > 0.8 * floor, "{}: {kernel:?}: {estimate:?}", machine.name);
        }
    }
}
