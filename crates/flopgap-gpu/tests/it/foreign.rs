//! Contexts, streams and memory of the calling program, on a real GPU.

use std::sync::Arc;

use flopgap_gpu::cudarc::driver::CudaContext;
use flopgap_gpu::cudarc::driver::sys::CUgraphInstantiate_flags;
use flopgap_gpu::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
use flopgap_gpu::{Buffer, Context, GpuError, Stream};

use crate::gpu;

const LENGTH: usize = 1 << 16;

fn numbers(seed: u16) -> Vec<f32> {
    (0..=u16::MAX).map(|index| f32::from(index.wrapping_mul(seed) % 1021)).collect()
}

/// The primary context of the first GPU, as `cudarc` gives it.
fn theirs() -> Arc<CudaContext> {
    CudaContext::new(0).unwrap()
}

#[test]
fn memory_and_streams_of_cudarc_serve_as_our_own() {
    let Some((ours, _guard)) = gpu() else { return };
    let context = Context::from_cudarc(theirs()).unwrap();
    assert_eq!(context.device(), ours.device());
    let cuda = context.cuda();
    for theirs in [cuda.new_stream().unwrap(), cuda.default_stream()] {
        let stream = Stream::from_cudarc(theirs.clone()).unwrap();
        let source = Buffer::from_cudarc(theirs.clone_htod(&numbers(7)).unwrap()).unwrap();
        // Work of another stream on their memory waits for what they queued on theirs.
        let other = ours.stream().unwrap();
        let mut target = other.zeros::<f32>(LENGTH).unwrap();
        other.copy(&source, &mut target).unwrap();
        assert!(stream.download(&target).unwrap() == numbers(7));
        // And their stream is used by them and by us in turn.
        let more = Buffer::from_cudarc(theirs.clone_htod(&numbers(9)).unwrap()).unwrap();
        stream.copy(&more, &mut target).unwrap();
        drop((source, more));
        assert!(stream.download(&target).unwrap() == numbers(9));
    }
}

#[test]
fn streams_of_cudarc_are_captured_by_us_and_not_by_others() {
    let Some((_, _guard)) = gpu() else { return };
    let theirs = theirs().new_stream().unwrap();
    let stream = Stream::from_cudarc(theirs.clone()).unwrap();
    let (source, mut target) = (stream.upload(&numbers(3)).unwrap(), stream.zeros::<f32>(LENGTH).unwrap());
    let graph = stream.capture(|| stream.copy(&source, &mut target)).unwrap();
    graph.launch().unwrap();
    // A second value for the same stream knows its captures, too.
    assert!(Stream::from_cudarc(theirs.clone()).unwrap().download(&target).unwrap() == numbers(3));

    theirs.begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let refused = stream.copy(&source, &mut target).unwrap_err();
    theirs.end_capture(CUgraphInstantiate_flags(0)).unwrap();
    assert!(matches!(refused, GpuError::Capturing { .. }), "{refused}");
    stream.copy(&source, &mut target).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn per_thread_streams_are_refused() {
    let Some((_, _guard)) = gpu() else { return };
    let context = theirs();
    let refused = Stream::from_cudarc(context.per_thread_stream()).unwrap_err();
    assert_eq!(refused, GpuError::PerThreadStream);
}

#[test]
fn raw_handles_are_used_and_left_to_their_owner() {
    let Some((primary, _guard)) = gpu() else { return };
    let theirs = CudaContext::new_non_primary(0, 0).unwrap();
    let their_stream = theirs.new_stream().unwrap();
    let their_memory = their_stream.clone_htod(&numbers(5)).unwrap();
    their_stream.synchronize().unwrap();
    let address = {
        use flopgap_gpu::cudarc::driver::DevicePtr;
        let (address, _read) = their_memory.device_ptr(&their_stream);
        address
    };
    {
        // SAFETY: context, stream and memory outlive this block, and nothing else uses them in it.
        let context = unsafe { Context::from_raw(theirs.cu_ctx()) }.unwrap();
        // SAFETY: as above.
        let stream = unsafe { Stream::from_raw(&context, their_stream.cu_stream()) }.unwrap();
        // SAFETY: as above.
        let source = unsafe { Buffer::<f32>::from_raw(&stream, address, LENGTH) };
        let mut target = stream.zeros::<f32>(LENGTH).unwrap();
        stream.copy(&source, &mut target).unwrap();
        assert!(stream.download(&target).unwrap() == numbers(5));
        assert_eq!(context.device(), primary.device());
        // Memory of one context cannot be used by kernels and copies queued in another.
        let elsewhere = primary.stream().unwrap();
        assert_eq!(elsewhere.fill(&mut target, 0).unwrap_err(), GpuError::OtherDevice);
        stream.synchronize().unwrap();
    }
    // All three are as alive as before.
    assert!(their_stream.clone_dtoh(&their_memory).unwrap() == numbers(5));
    theirs.synchronize().unwrap();
}
