//! The engines `cuda` and `fused` on a GPU.

use std::sync::MutexGuard;
use std::time::Duration;

use flopgap_calibration::engines::cuda::{Cuda, Fused};
use flopgap_calibration::engines::{Engine, EngineError, Repetition};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::{
    Conv, Elementwise, ElementwiseFunction, Gemm, Norm, NormFunction, Pool, PoolFunction,
};
use flopgap_graph::{Epilogue, FileSpec, MlpSpec, Mode, Op, ResnetSpec, Step, Workload};

/// The engine, for one test at a time: a GPU has one counter session.
fn engine<E>(open: impl FnOnce(usize) -> Result<E, EngineError>) -> Option<(E, MutexGuard<'static, ()>)> {
    flopgap_testing::turn("gpu", || open(0))
}

fn step(op: Op, epilogue: Epilogue) -> Workload {
    Workload::Step(Step { op, epilogue })
}

fn mlp(hidden: &[u64], output: u64, batch: u64) -> Workload {
    let activation = Activation::Gelu;
    Workload::Mlp(MlpSpec { input: 104, hidden: hidden.to_vec(), output, batch, activation })
}

/// Opens, checks, and returns the algorithms.
fn checked(engine: &dyn Engine, workload: &Workload, precision: Precision) -> Vec<flopgap_graph::Algorithm> {
    let mut session = engine.open(workload, precision, Mode::Graph).unwrap();
    let check = session.check().unwrap();
    assert!(check.error <= check.bound, "{} {precision}: {check:?}", workload.label());
    session.algorithms()
}

#[test]
fn products_are_right_in_every_precision_with_every_epilogue() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    for precision in Precision::ALL {
        for activation in Activation::ALL {
            for (bias, residual) in [(false, false), (true, false), (true, true)] {
                let epilogue = Epilogue { bias, residual, activation };
                // A multiple of everything, and one of nothing.
                for [m, n, k] in [[64, 128, 256], [7, 10, 13]] {
                    let workload = step(Op::Gemm(Gemm { batch: 1, m, n, k }), epilogue);
                    let algorithms = checked(&cuda, &workload, precision);
                    assert!(algorithms[0].id.starts_with("cublaslt "), "{algorithms:?}");
                }
            }
        }
        let batched = step(Op::Gemm(Gemm { batch: 5, m: 33, n: 64, k: 48 }), Epilogue::default());
        checked(&cuda, &batched, precision);
    }
}

/// Of two spatial dimensions, three samples of 20 x 17 pixels.
fn conv([inputs, outputs, groups]: [u64; 3], kernel: u64, stride: u64) -> Conv {
    Conv { groups, ..Conv::new(3, [inputs, outputs], &[20, 17], kernel, stride) }
}

#[test]
fn convolutions_are_right_in_every_precision_with_every_epilogue() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    let relu = Epilogue { bias: true, residual: true, activation: Activation::Relu };
    for precision in Precision::ALL {
        for activation in Activation::ALL {
            for (bias, residual) in [(false, false), (true, false), (true, true)] {
                let epilogue = Epilogue { bias, residual, activation };
                for channels in [[32, 48, 1], [7, 10, 1]] {
                    let algorithms =
                        checked(&cuda, &step(Op::Conv(conv(channels, 3, 1)), epilogue), precision);
                    assert!(algorithms[0].id.starts_with("cudnn "), "{algorithms:?}");
                    assert!(!algorithms[0].kernels.is_empty(), "{algorithms:?}");
                }
            }
        }
        let dilated = Conv { dilation: vec![2, 3], padding: vec![[2, 2], [3, 3]], ..conv([16, 32, 1], 3, 2) };
        let line = Conv::new(3, [16, 32], &[100], 5, 2);
        for conv in [conv([3, 64, 1], 7, 2), conv([24, 24, 24], 3, 1), conv([32, 64, 4], 3, 2), dilated, line]
        {
            checked(&cuda, &step(Op::Conv(conv), relu), precision);
        }
        // cuDNN 9.14 transposes no convolution of 8-bit integers.
        if precision != Precision::Int8 {
            let transposed = Conv { transposed: true, output_padding: vec![1, 0], ..conv([24, 16, 2], 3, 2) };
            checked(&cuda, &step(Op::Conv(transposed), relu), precision);
        }
        for (function, planes) in [(PoolFunction::Max, 3 * 64), (PoolFunction::Average, 35)] {
            let [image, output] = [vec![20, 17], vec![10, 9]];
            let (kernel, stride, padding) = (vec![3, 3], vec![2, 2], vec![[1, 1]; 2]);
            let pool = Pool { function, planes, image, output, kernel, stride, padding };
            checked(&cuda, &step(Op::Pool(pool), Epilogue::default()), precision);
        }
        let network = Workload::Resnet(ResnetSpec { depth: 18, batch: 2, image: 64 });
        assert_eq!(checked(&cuda, &network, precision).len(), 23);
    }
}

#[test]
fn networks_and_steps_of_files_are_right_in_every_precision() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    let op = |op| Step { op, epilogue: Epilogue::default() };
    let elements = 12 * 77;
    let steps = vec![
        op(Op::Gather { rows: 12, width: 77 }),
        op(Op::Norm(Norm { function: NormFunction::Layer, rows: 12, columns: 77, parameters: 154 })),
        op(Op::Elementwise(Elementwise { function: ElementwiseFunction::Add, elements, read: 2 * elements })),
        op(Op::Softmax { rows: 12, columns: 77 }),
        op(Op::Copy { elements }),
        op(Op::Reduce { inputs: elements, outputs: 12 }),
    ];
    let file = FileSpec { name: "steps".to_owned(), sha256: String::new(), batch: 12, steps };
    for precision in Precision::ALL {
        assert_eq!(checked(&cuda, &mlp(&[64, 40], 10, 17), precision).len(), 3);
        assert_eq!(checked(&cuda, &Workload::File(file.clone()), precision).len(), 6);
    }
}

#[test]
fn functions_of_each_element_are_right_in_every_precision() {
    use ElementwiseFunction::{
        Activation as Apply, Add, Compare, Div, Mul, Quantize, Several, Simple, Transcendental,
    };
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    let elements = 12 * 77;
    let functions = [
        (Apply(Activation::Silu), elements),
        (Add, 2 * elements),
        (Mul, 2 * elements),
        (Div, elements + 77),
        (Compare, 2 * elements),
        (Simple, elements),
        (Transcendental, elements),
        (Quantize, elements),
        (Several(4), elements),
        (Several(5), elements),
        // As a rotary embedding reads its angles, too.
        (Several(3), elements + 77),
    ];
    for precision in Precision::ALL {
        for (function, read) in functions {
            let op = Op::Elementwise(Elementwise { function, elements, read });
            checked(&cuda, &step(op, Epilogue::default()), precision);
        }
    }
}

#[test]
fn steps_of_one_row_of_narrow_rows_and_of_one_number_are_right() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    let norm = |function, rows, columns, parameters| Op::Norm(Norm { function, rows, columns, parameters });
    let add =
        |elements, read| Op::Elementwise(Elementwise { function: ElementwiseFunction::Add, elements, read });
    for op in [
        // In vectors, and in numbers.
        Op::Gather { rows: 1, width: 1 << 20 },
        Op::Gather { rows: 1, width: 150_529 },
        Op::Gather { rows: 70_001, width: 1 },
        Op::Gather { rows: 300, width: 24 },
        Op::Softmax { rows: 1, columns: 1 << 15 },
        Op::Reduce { inputs: 1 << 20, outputs: 1 },
        norm(NormFunction::Group, 2, 1 << 18, 4),
        norm(NormFunction::BatchInference, 96, 3136, 384),
        norm(NormFunction::BatchInference, 7, 1001, 28),
        // By one number, by a row, and by a row that is no multiple of four.
        add(4096, 4097),
        add(4096, 4096 + 64),
        add(4095, 4096),
        add(4095, 4095 + 35),
        Op::Copy { elements: 4097 },
    ] {
        for precision in Precision::ALL {
            checked(&cuda, &step(op.clone(), Epilogue::default()), precision);
        }
    }
}

#[test]
fn both_modes_time_the_same_work() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    // Long enough for the launch not to matter.
    let workload = step(Op::Gemm(Gemm { batch: 1, m: 4096, n: 4096, k: 4096 }), Epilogue::default());
    let limit = Repetition { limit: Duration::from_millis(300), ..Repetition::default() };
    let times: Vec<f64> = [Mode::Graph, Mode::Stream]
        .into_iter()
        .map(|mode| {
            let mut session = cuda.open(&workload, Precision::Fp16, mode).unwrap();
            assert!(session.memory_bytes().unwrap() >= 3 * 4096 * 4096 * 2);
            assert!(session.run_for(Duration::from_millis(50)).unwrap() > 10);
            session.time(&limit).unwrap().median_ns
        })
        .collect();
    assert!((times[0] / times[1] - 1.0).abs() < 0.2, "{times:?}");
    let mut empty = cuda.open(&step(Op::Empty, Epilogue::default()), Precision::Fp32, Mode::Graph).unwrap();
    let nothing = empty.time(&limit).unwrap().median_ns;
    assert!(nothing > 100.0 && nothing < 20_000.0, "{nothing}");
}

#[test]
fn what_memory_cannot_hold_and_what_has_no_kernel_is_refused() {
    let Some((cuda, _guard)) = engine(Cuda::new) else { return };
    let huge = step(Op::Copy { elements: 1 << 42 }, Epilogue::default());
    let Err(error) = cuda.open(&huge, Precision::Fp32, Mode::Graph) else { panic!("4 TiB were allocated") };
    assert!(matches!(error, EngineError::Memory { .. }), "{error}");
    let error = cuda.supports(&step(Op::View, Epilogue::default()), Precision::Fp32).unwrap_err();
    assert!(matches!(error, EngineError::Unsupported { .. }), "{error}");
    let Err(error) = cuda.open(&mlp(&[64], 8, 1), Precision::Fp32, Mode::Call) else {
        panic!("no mode of a GPU")
    };
    assert!(error.to_string().ends_with("it only supports streams and graphs"), "{error}");
}

#[test]
fn fused_networks_are_right() {
    let Some((fused, _guard)) = engine(Fused::new) else { return };
    for precision in [Precision::Fp32, Precision::Fp16, Precision::Bf16] {
        checked(&fused, &mlp(&[64, 40], 16, 33), precision);
        for (hidden, output) in [(&[64, 40][..], 10), (&[60], 16), (&[33, 7], 1)] {
            checked(&fused, &mlp(hidden, output, 33), precision);
        }
    }
    assert!(fused.supports(&mlp(&[20_000], 10, 1), Precision::Fp16).is_err());
    assert!(fused.supports(&mlp(&[64], 16, 1), Precision::Int8).is_err());
}

/// Rows of padded networks include what the padding costs, and say so.
#[test]
fn fused_networks_state_their_padding() {
    let Some((fused, _guard)) = engine(Fused::new) else { return };
    let open = |workload: &Workload| fused.open(workload, Precision::Fp16, Mode::Graph).unwrap();
    let even = open(&mlp(&[64], 16, 256));
    assert!(even.remarks().is_empty());
    assert_eq!(even.memory_bytes(), Some(2 * (104 * 64 + 64 + 64 * 16 + 16 + 256 * (104 + 16))));

    let mut odd = open(&mlp(&[60], 10, 256));
    let (own, all) = (2 * 256 * (104 * 60 + 60 * 10), 2 * 256 * (104 * 64 + 64 * 16));
    let remarks = odd.remarks();
    assert!(remarks[0].starts_with("computed as 104-64-16, "), "{remarks:?}");
    assert!(remarks[0].contains(&format!("{all} FLOPs instead of {own}")), "{remarks:?}");
    // Parameters twice and their places, inputs once, outputs twice.
    let parameters = 104 * 60 + 60 + 60 * 10 + 10;
    let of_kernels = 104 * 64 + 64 + 64 * 16 + 16;
    let numbers = parameters + of_kernels + 256 * (104 + 10 + 16);
    assert_eq!(odd.memory_bytes(), Some(2 * numbers + 4 * parameters));
    // What ran is at least the padded network.
    if let Some(counted) = odd.counted_flops().unwrap() {
        assert!(counted >= all, "{counted}");
    }
}
