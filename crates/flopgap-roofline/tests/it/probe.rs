//! The probes.

use std::collections::BTreeMap;

use flopgap_files::Hint as _;
use flopgap_flops::Precision;
use flopgap_gpu::Device;
use flopgap_gpu::compile::Compiler;
use flopgap_roofline::probe::{cpu, cuda};
use flopgap_testing::{none, skip};

fn compiler() -> Option<Compiler> {
    Compiler::without_cache().map_or_else(|error| none("nvrtc", error), Some)
}

#[test]
fn the_kernels_compile_for_every_architecture_without_spills() {
    let Some(compiler) = compiler() else { return };
    for architecture in compiler.architectures() {
        for source in cuda::sources(architecture.capability) {
            let binary = compiler
                .compile(source.name, &source.text, source.architecture, &["--ptxas-options=-v"])
                .unwrap_or_else(|error| panic!("{}: {error}", source.architecture));
            // Once another test works on a GPU, NVRTC no longer reports.
            let log = binary.log();
            if !log.is_empty() || Device::count().is_err() {
                let kernels = log.matches("0 bytes spill stores, 0 bytes spill loads").count();
                assert!(kernels >= source.kernels.len(), "{} for {architecture}: {log}", source.name);
                assert!(!log.contains("serialized"), "wgmma must run on: {log}");
            }
        }
    }
}

#[test]
fn the_ceilings_of_a_gpu_are_in_order() {
    let mut reported = Vec::new();
    let ceilings = match cuda::probe(0, &mut |what| reported.push(what.to_owned())) {
        Ok(ceilings) => ceilings,
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            return skip("gpu", error);
        }
    };
    assert!(reported.len() > 20, "{reported:?}");
    let peak = |precision| ceilings.peak(precision).map_or(0.0, |peak| peak.ops_per_second.value);
    assert!(peak(Precision::Fp32) > 1e12);
    assert!(peak(Precision::Fp16) > 1.5 * peak(Precision::Fp32), "tensor cores");
    assert!(peak(Precision::Int8) >= 0.9 * peak(Precision::Fp16));
    let names: Vec<&str> = ceilings.levels.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(names, ["L1", "L2", "HBM"]);
    for pair in ceilings.levels.windows(2) {
        assert!(pair[0].read > pair[1].read, "{pair:?}");
    }
    let theoretical = Device::get(0).unwrap().peak_memory_bandwidth() as f64;
    let memory = &ceilings.levels[2];
    assert!((0.6..1.05).contains(&(memory.read / theoretical)), "{memory:?} of {theoretical}");
    assert!(ceilings.launch_ns.value > 500.0);
    assert!(ceilings.graph_node_ns.unwrap().value < ceilings.launch_ns.value * 2.0);
}

#[test]
fn the_ceilings_of_this_cpu_are_in_order() {
    let properties = BTreeMap::from([("L1d".to_owned(), "32K x 1".to_owned())]);
    let settings = cpu::Settings {
        device: "a CPU".to_owned(),
        properties: properties.clone(),
        threads: None,
        // Small working sets: this is about the parts coming together, not about memory.
        largest: Some(256 << 10),
    };
    let mut reported = Vec::new();
    let ceilings = cpu::probe(&settings, &mut |what| reported.push(what.to_owned())).unwrap();
    assert!(reported.iter().any(|what| what == "a parallel region"), "{reported:?}");
    assert_eq!((ceilings.kind.as_str(), ceilings.device.as_str()), ("cpu", "a CPU"));
    assert_eq!(ceilings.details.properties, properties);
    assert!(ceilings.peak(Precision::Fp32).is_some() && ceilings.peak(Precision::Tf32).is_none());
    assert!(ceilings.bandwidth.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
    let threads = std::thread::available_parallelism().unwrap().get();
    assert_eq!(ceilings.units as usize, threads);
    assert_eq!(ceilings.details.one_thread.is_some(), threads > 1);
    assert_eq!(ceilings.levels.last().map(|level| level.name.as_str()), Some("DRAM"));
    assert!(ceilings.details.absent.contains(&"L2: this machine does not report its size".to_owned()));

    // A file of it is read again.
    let (_directory, [path]) = flopgap_testing::paths(["ceilings.json"]);
    ceilings.write(&path).unwrap();
    assert_eq!(flopgap_roofline::Ceilings::read(&path).unwrap().bandwidth.len(), ceilings.bandwidth.len());
}
