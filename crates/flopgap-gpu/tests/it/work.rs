//! Streams, buffers, events, graphs and cuBLAS on a real GPU.

use flopgap_files::Hint as _;
use flopgap_gpu::blas::{self, Blas, Gemm};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::library::{Library, probe};
use flopgap_gpu::{Context, Device, Digester, GpuError, Kernel, Stream, digest_of, driver_version};

use crate::{compiler, gpu};

/// One of the kernels of the examples.
pub(crate) fn kernel(context: &Context, name: &str) -> Option<Kernel> {
    let architecture = context.device().compute_capability.into();
    let binary =
        compiler()?.compile("count.cu", include_str!("../../examples/count.cu"), architecture, &[]).unwrap();
    Some(context.load(&binary).unwrap().kernel(name).unwrap())
}

/// Launches one of the kernels: `x = x * a + b`, `steps` times.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &Kernel,
    x: &mut flopgap_gpu::Buffer<f32>,
    (blocks, threads, steps): (u32, u32, i32),
) -> Result<(), GpuError> {
    assert!(blocks as usize * threads as usize <= x.len());
    let arguments = Arguments::default().write(x).f32(0.5).f32(0.25).i32(steps);
    // SAFETY: the arguments are those of `count.cu`, and there is a number for each thread.
    unsafe { Launch::new(blocks, threads).queue(stream, kernel, arguments) }
}

#[test]
fn the_devices_describe_themselves() {
    let Some((context, _guard)) = gpu() else { return };
    let devices = Device::all().unwrap();
    assert_eq!(&devices[0], context.device());
    let device = context.device();
    assert!(!device.name.is_empty());
    assert!(device.uuid.starts_with("GPU-") && device.uuid.len() == 40, "{}", device.uuid);
    assert!(device.multiprocessors > 0 && device.l2_bytes > 0 && device.memory_bytes > 1 << 30);
    assert!(driver_version().unwrap().cuda >= (12, 8));
    let memory = context.memory().unwrap();
    assert!(memory.free > 0 && memory.free <= memory.total);
    let error = Device::get(devices.len()).unwrap_err();
    assert_eq!(error, GpuError::NoSuchDevice { asked: devices.len(), count: devices.len() });
}

#[test]
fn buffers_hold_what_was_copied_to_them() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let data: Vec<f32> = (0..1001_u16).map(f32::from).collect();
    let mut buffer = stream.upload(&data).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), data);
    stream.write(&[-1.0, -2.0], &mut buffer.slice_mut(10..12)).unwrap();
    assert_eq!(stream.download(&buffer.slice(9..13)).unwrap(), [9.0, -1.0, -2.0, 12.0]);
    let mut zeros = stream.zeros::<f32>(5).unwrap();
    assert_eq!(stream.download(&zeros).unwrap(), [0.0; 5]);
    stream.copy(&buffer.slice(0..5), &mut zeros).unwrap();
    assert_eq!(stream.download(&zeros).unwrap(), data[..5]);
    let too_long = GpuError::Length { what: "copy to the GPU", needed: 6, found: 5 };
    assert_eq!(stream.write(&data[..6], &mut zeros).unwrap_err(), too_long);
    let memory = context.memory().unwrap();
    let error = stream.zeros::<u8>(usize::try_from(memory.total).unwrap() * 2).unwrap_err();
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
}

#[test]
fn a_graph_does_what_the_stream_did_and_events_time_it() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(ffma) = kernel(&context, "count_ffma") else { return };
    let stream = context.stream().unwrap();
    let mut x = stream.upload(&[1.0_f32; 64]).unwrap();
    let mut y = stream.upload(&[1.0_f32; 64]).unwrap();
    for _ in 0..3 {
        launch(&stream, &ffma, &mut x, (2, 32, 1)).unwrap();
    }
    let graph = stream
        .capture(|| {
            for _ in 0..3 {
                launch(&stream, &ffma, &mut y, (2, 32, 1))?;
            }
            Ok::<_, GpuError>(())
        })
        .unwrap();
    assert_eq!(graph.nodes(), 3);
    assert_eq!(stream.download(&y).unwrap(), [1.0; 64], "capturing runs nothing");
    graph.upload().unwrap();
    let start = stream.event().unwrap();
    graph.launch().unwrap();
    let end = stream.event().unwrap();
    assert_eq!(stream.download(&y).unwrap(), stream.download(&x).unwrap());
    let nanoseconds = end.nanoseconds_since(&start).unwrap();
    assert!((1..1_000_000_000).contains(&nanoseconds), "{nanoseconds}");
}

#[test]
fn launches_with_attributes_compute_the_same() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(ffma) = kernel(&context, "count_ffma") else { return };
    let stream = context.stream().unwrap();
    let numbers: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let mut plain = stream.upload(&numbers).unwrap();
    launch(&stream, &ffma, &mut plain, (4, 32, 3)).unwrap();
    let expected = stream.download(&plain).unwrap();
    let mut launches = vec![Launch::new(4, 32)];
    if context.device().compute_capability.major >= 9 {
        launches.push(Launch { cluster: 2, ..Launch::new(4, 32) });
        launches.push(Launch { cluster: 4, ..Launch::new(4, 32) });
        launches.push(Launch { overlap: true, ..Launch::new(4, 32) });
    }
    for launch in launches {
        let mut x = stream.upload(&numbers).unwrap();
        let arguments = Arguments::default().write(&mut x).f32(0.5).f32(0.25).i32(3);
        // SAFETY: the arguments are those of `count.cu`, and there is a number for each thread.
        unsafe { launch.queue(&stream, &ffma, arguments) }.unwrap();
        assert_eq!(stream.download(&x).unwrap(), expected, "{launch:?}");
    }
    let too_many = Launch::new(1, 1 << 20);
    let nothing = Arguments::default().addresses([0]).f32(0.5).f32(0.25).i32(3);
    // SAFETY: nothing is launched: no block has so many threads.
    let error = unsafe { too_many.queue(&stream, &ffma, nothing) }.unwrap_err();
    assert!(matches!(error, GpuError::Driver { .. }), "{error}");
}

/// Only kernels can be overlapped: what else may be in front of one in a capture is not.
#[test]
fn launches_that_overlap_are_captured_after_anything() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(fadd) = kernel(&context, "count_fadd") else { return };
    if context.device().compute_capability.major < 9 {
        return flopgap_testing::skip("compute capability 9.0", "older kernels do not overlap");
    }
    let (stream, other) = (context.stream().unwrap(), context.stream().unwrap());
    let overlapped = Launch { overlap: true, ..Launch::new(2, 32) };
    let once = |x: &mut flopgap_gpu::Buffer<f32>| {
        let arguments = Arguments::default().write(x).f32(0.5).f32(0.25).i32(1_000);
        // SAFETY: the arguments are those of `count.cu`, and there is a number for each thread.
        unsafe { overlapped.queue(&stream, &fadd, arguments) }
    };
    let mut x = stream.upload(&[7.0_f32; 64]).unwrap();
    let numbers = [1.0_f32; 64];
    let after_zeros = stream.capture(|| stream.fill(&mut x, 0).and_then(|()| once(&mut x))).unwrap();
    let after_copy = stream.capture(|| stream.write(&numbers, &mut x).and_then(|()| once(&mut x))).unwrap();
    let after_join = stream
        .capture(|| {
            stream.fill(&mut x, 0)?;
            other.wait(&stream.event()?)?;
            launch(&other, &fadd, &mut x, (2, 32, 1_000))?;
            stream.wait(&other.event()?)?;
            once(&mut x)
        })
        .unwrap();
    let once_alone = stream.capture(|| once(&mut x)).unwrap();
    for (graph, expected) in
        [(after_zeros, 250.0), (after_copy, 251.0), (after_join, 500.0), (once_alone, 750.0)]
    {
        graph.launch().unwrap();
        assert_eq!(stream.download(&x).unwrap(), [expected; 64]);
    }
}

#[test]
fn digests_are_those_of_the_host() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut digester = match Digester::new(&context, &stream) {
        Ok(digester) => digester,
        Err(error) => return flopgap_testing::skip("nvrtc", error),
    };
    let numbers: Vec<u16> = (0..1_000_003_u32).map(|i| (i % 65_521) as u16).collect();
    let buffer = stream.upload(&numbers).unwrap();
    let expected = |numbers: &[u16]| digest_of(numbers.iter().map(|&bits| bits.into()));
    assert_eq!(digester.digest(&stream, &buffer).unwrap(), expected(&numbers));
    assert_eq!(digester.digest(&stream, &buffer.slice(1..8)).unwrap(), expected(&numbers[1..8]));
    let floats = stream.upload(&[1.0_f32, -0.0]).unwrap();
    let bits = [1.0_f32, -0.0].map(|number| number.to_bits().into());
    assert_eq!(digester.digest(&stream, &floats).unwrap(), digest_of(bits));
    let bytes = stream.upload(&[1_u8, 255]).unwrap();
    assert_eq!(digester.digest(&stream, &bytes).unwrap(), digest_of([1, 255]));
    let wide = stream.upload(&[u64::MAX]).unwrap();
    assert_eq!(digester.digest(&stream, &wide).unwrap(), digest_of([u64::MAX]));
}

#[test]
fn a_failed_capture_leaves_the_stream_usable() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let error = stream.capture(|| Err::<(), _>(GpuError::NoDevice)).unwrap_err();
    assert_eq!(error, GpuError::NoDevice);
    // Waiting for a stream that is being captured is an error of the driver.
    let error = stream.capture(|| stream.synchronize()).unwrap_err();
    assert!(matches!(error, GpuError::Driver { .. }), "{error}");
    let buffer = stream.upload(&[7_u32]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7]);
}

#[test]
fn streams_wait_for_events() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(fadd) = kernel(&context, "count_fadd") else { return };
    let (first, second) = (context.stream().unwrap(), context.stream().unwrap());
    let mut x = first.zeros::<f32>(32).unwrap();
    launch(&first, &fadd, &mut x, (1, 32, 1_000_000)).unwrap();
    second.wait(&first.event().unwrap()).unwrap();
    let copy = second.download(&x).unwrap();
    assert_eq!(copy, [250_000.0; 32]);
}

#[test]
fn products_agree_with_64_bit_arithmetic() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let blas = match Blas::new(&stream) {
        Ok(blas) => blas,
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            let error = probe(Library::Cublas).unwrap_err();
            return flopgap_testing::skip("cublas", error);
        }
    };
    assert!(blas::version().unwrap().0 >= 11);
    // A linear congruential generator: values of both signs that differ in the low bits, which TF32
    // would lose.
    let mut state = 0x9e37_79b9_u32;
    let mut random = |len: usize| -> Vec<f32> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from_bits(0x3f80_0000 | (state >> 9)) - 1.5
            })
            .collect()
    };
    for (m, n, k) in [(1, 1, 1), (3, 5, 7), (65, 17, 129), (128, 16, 128)] {
        for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut gemm = Gemm::new(m, n, k);
            gemm = if transpose_a { gemm.transpose_a() } else { gemm };
            gemm = if transpose_b { gemm.transpose_b() } else { gemm };
            let (a, b) = (random(m * k), random(k * n));
            let (device_a, device_b) = (stream.upload(&a).unwrap(), stream.upload(&b).unwrap());
            let mut device_c = stream.zeros(m * n).unwrap();
            blas.sgemm(&gemm, &device_a, &device_b, &mut device_c).unwrap();
            let result = stream.download(&device_c).unwrap();
            let (mut error, mut size) = (0.0_f64, 0.0_f64);
            for column in 0..n {
                for row in 0..m {
                    let expected: f64 = (0..k)
                        .map(|inner| {
                            let a = if transpose_a { a[row * k + inner] } else { a[inner * m + row] };
                            let b = if transpose_b { b[inner * n + column] } else { b[column * k + inner] };
                            f64::from(a) * f64::from(b)
                        })
                        .sum();
                    error += (f64::from(result[column * m + row]) - expected).powi(2);
                    size += expected.powi(2);
                }
            }
            let relative = (error / size).sqrt();
            assert!(relative < 2e-6, "{m}x{n}x{k} {transpose_a} {transpose_b}: {relative:e}");
        }
    }
    let small = stream.zeros::<f32>(3).unwrap();
    let mut c = stream.zeros::<f32>(4).unwrap();
    let error = blas.sgemm(&Gemm::new(2, 2, 2), &small, &small, &mut c).unwrap_err();
    assert_eq!(error, GpuError::Length { what: "matrix A", needed: 4, found: 3 });
}
