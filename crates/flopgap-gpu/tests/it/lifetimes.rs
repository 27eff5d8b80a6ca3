//! Memory, kernels and numbers of the host live as long as work that uses them, on a real GPU.
//!
//! What is freed too early is soon something else's: each test makes new buffers, which get that
//! memory, and writes to them.

use flopgap_gpu::blas::{Blas, Gemm};
use flopgap_gpu::{Buffer, GpuError, Stream};

use crate::gpu;
use crate::work::{kernel, launch};

const LENGTH: usize = 1 << 20;
/// Steps of a kernel that takes milliseconds.
const LONG: i32 = 2_000_000;

/// New buffers on this stream, which get what memory is free, full of a number that no test
/// expects.
fn overwrite(stream: &Stream) -> Vec<Buffer<f32>> {
    let buffers = (0..8).map(|_| stream.upload(&vec![-7.0_f32; LENGTH])).collect::<Result<_, GpuError>>();
    stream.synchronize().unwrap();
    buffers.unwrap()
}

#[test]
fn a_graph_owns_the_memory_that_it_reads_and_writes() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut result = stream.zeros::<f32>(LENGTH).unwrap();
    let graph = {
        let source = stream.upload(&vec![3.0_f32; LENGTH]).unwrap();
        let mut between = stream.zeros::<f32>(LENGTH).unwrap();
        stream
            .capture(|| {
                stream.copy(&source, &mut between)?;
                stream.copy(&between, &mut result)
            })
            .unwrap()
    };
    let others = overwrite(&stream);
    graph.launch().unwrap();
    assert!(stream.download(&result).unwrap() == vec![3.0; LENGTH]);
    for other in &others {
        assert!(stream.download(other).unwrap() == vec![-7.0; LENGTH], "written by the graph");
    }
}

#[test]
fn a_graph_owns_numbers_of_the_host_kernels_and_workspaces() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    let (a, mut c) = (stream.upload(&[2.0_f32; 256]).unwrap(), stream.zeros::<f32>(256).unwrap());
    let blas = Blas::new(&stream);
    let graph = {
        let Some(fadd) = kernel(&context, "count_fadd") else { return };
        let numbers = vec![1.0_f32; 64];
        stream
            .capture(|| {
                stream.write(&numbers, &mut x)?;
                launch(&stream, &fadd, &mut x, (2, 32, 8))?;
                if let Ok(blas) = &blas {
                    blas.sgemm(&Gemm::new(16, 16, 16), &a, &a, &mut c)?;
                }
                Ok::<_, GpuError>(())
            })
            .unwrap()
    };
    let multiplied = blas.is_ok();
    drop((blas, a));
    // As many bytes, to get the place of the numbers.
    let _numbers: Vec<Vec<f32>> = (0..64).map(|_| vec![9.0_f32; 64]).collect();
    let _others = overwrite(&stream);
    graph.launch().unwrap();
    assert_eq!(stream.download(&x).unwrap(), [3.0; 64]);
    if multiplied {
        assert_eq!(stream.download(&c).unwrap(), [64.0; 256]);
    }
}

#[test]
fn memory_used_on_another_stream_is_freed_behind_it() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(fadd) = kernel(&context, "count_fadd") else { return };
    let (home, other) = (context.stream().unwrap(), context.stream().unwrap());
    let mut result = other.zeros::<f32>(LENGTH).unwrap();
    let mut busy = other.zeros::<f32>(32).unwrap();
    let source = home.upload(&vec![3.0_f32; LENGTH]).unwrap();
    launch(&other, &fadd, &mut busy, (1, 32, LONG)).unwrap();
    other.copy(&source, &mut result).unwrap();
    // The copy waits behind the kernel.
    drop(source);
    let _others = overwrite(&home);
    assert!(other.download(&result).unwrap() == vec![3.0; LENGTH]);
}

#[test]
fn streams_wait_for_each_other_where_they_share_memory() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(fadd) = kernel(&context, "count_fadd") else { return };
    let streams = [(); 3].map(|()| context.stream().unwrap());
    let mut x = streams[0].zeros::<f32>(32).unwrap();
    let mut copies = Vec::new();
    for round in 0..9_usize {
        let (writer, reader) = (&streams[round % 3], &streams[(round + 1) % 3]);
        launch(writer, &fadd, &mut x, (1, 32, 100_000)).unwrap();
        let mut copy = streams[(round + 2) % 3].zeros::<f32>(32).unwrap();
        reader.copy(&x, &mut copy).unwrap();
        copies.push(copy);
    }
    for (round, copy) in copies.iter().enumerate() {
        let expected = 25_000.0 * (round + 1) as f32;
        assert_eq!(streams[0].download(copy).unwrap(), [expected; 32], "{round}");
    }
}

#[test]
fn a_kernel_may_be_dropped_while_it_runs() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut x = stream.zeros::<f32>(32).unwrap();
    for _ in 0..3 {
        let Some(fadd) = kernel(&context, "count_fadd") else { return };
        launch(&stream, &fadd, &mut x, (1, 32, LONG)).unwrap();
    }
    assert_eq!(stream.download(&x).unwrap(), [1_500_000.0; 32]);
}

#[test]
fn what_a_graph_could_not_own_is_refused_in_a_capture() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let x = stream.upload(&[1.0_f32; 32]).unwrap();
    let mut y = stream.zeros::<f32>(32).unwrap();
    let mut errors = Vec::new();
    let graph = stream
        .capture(|| {
            errors.push(stream.zeros::<f32>(32).unwrap_err());
            errors.push(stream.upload(&[1.0_f32; 32]).unwrap_err());
            errors.push(stream.download(&x).unwrap_err());
            stream.copy(&x, &mut y)
        })
        .unwrap();
    assert!(errors.iter().all(|error| matches!(error, GpuError::Capturing { .. })), "{errors:?}");
    assert_eq!(graph.nodes(), 1, "what was refused is not in the graph");
    graph.launch().unwrap();
    assert_eq!(stream.download(&y).unwrap(), [1.0; 32]);
}

#[test]
fn memory_dropped_during_a_capture_is_freed_after_it() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut dropped = Some(stream.zeros::<f32>(1 << 28).unwrap());
    stream.synchronize().unwrap();
    let mut y = stream.zeros::<f32>(32).unwrap();
    let before = context.memory().unwrap().free;
    let graph = stream
        .capture(|| {
            drop(dropped.take());
            stream.fill(&mut y, 0xff)
        })
        .unwrap();
    graph.launch().unwrap();
    // The pool gives free memory back when a stream is waited for.
    stream.synchronize().unwrap();
    assert!(context.memory().unwrap().free > before + (1 << 29), "a GiB was freed");
}

#[test]
fn a_capture_that_panics_leaves_the_stream_usable() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let mut x = stream.zeros::<f32>(32).unwrap();
    let captured = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|| {
            stream.fill(&mut x, 0xff)?;
            assert!(x.is_empty(), "on purpose");
            Ok::<_, GpuError>(())
        })
    }));
    assert!(captured.is_err());
    assert_eq!(stream.download(&x).unwrap(), [0.0; 32]);
}

#[test]
fn launches_in_a_capture_of_another_stream_are_kept_by_its_graph() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(fadd) = kernel(&context, "count_fadd") else { return };
    let (stream, beside) = (context.stream().unwrap(), context.stream().unwrap());
    let mut result = stream.zeros::<f32>(32).unwrap();
    let graph = {
        let mut x = beside.zeros::<f32>(32).unwrap();
        stream
            .capture(|| {
                beside.wait(&stream.event()?)?;
                beside.fill(&mut x, 0)?;
                launch(&beside, &fadd, &mut x, (1, 32, 4))?;
                // Waits for `beside`, since that wrote it, which also joins it.
                stream.copy(&x, &mut result)
            })
            .unwrap()
    };
    let _others = overwrite(&beside);
    for _ in 0..2 {
        graph.launch().unwrap();
        assert_eq!(stream.download(&result).unwrap(), [1.0; 32]);
    }
}
