//! cuBLASLt on a real GPU.

use flopgap_gpu::blaslt::{Activation, Addresses, Arithmetic, BlasLt, Matmul, Product, version};
use flopgap_gpu::library::{Library, probe};
use flopgap_gpu::{Buffer, Context, GpuError, Stream};

use crate::gpu;

/// The choice of an algorithm, where there is one.
fn matmul(context: &Context, product: Product) -> Option<Matmul> {
    if let Err(error) = probe(Library::CublasLt) {
        return flopgap_testing::none("cublaslt", error);
    }
    let matmul = BlasLt::new(context).unwrap().matmul(&product, 32 << 20).unwrap();
    Some(matmul.expect("cuBLASLt has an algorithm"))
}

/// Queues a product of arrays that have its sizes: X, W and, where it has them, bias and residual.
fn queue<T, Y>(
    stream: &Stream,
    matmul: &Matmul,
    [x, w]: [&Buffer<T>; 2],
    added: Option<[&Buffer<T>; 2]>,
    y: &mut Buffer<Y>,
    workspace: &mut Buffer<u8>,
) -> Result<(), GpuError> {
    let memory = stream.submission();
    let address = |index: usize| added.map_or(Ok(0), |added| memory.read(added[index]));
    let at = Addresses {
        x: memory.read(x)?,
        w: memory.read(w)?,
        bias: address(0)?,
        residual: address(1)?,
        y: memory.write(y)?,
        workspace: memory.write(workspace)?,
    };
    // SAFETY: the tests make arrays of the sizes of their products.
    unsafe { matmul.queue_at(stream, &at) }
}

#[test]
fn a_product_with_its_epilogue_is_that_of_the_host() {
    let Some((context, _guard)) = gpu() else { return };
    let product = Product {
        bias: true,
        residual: true,
        activation: Activation::Relu,
        ..Product::new(Arithmetic::Fp32, 3, 5, 4)
    };
    let Some(matmul) = matmul(&context, product) else { return };
    assert!(version().unwrap().0 >= 12);
    assert!(matmul.choice().id.is_some(), "{:?}", matmul.choice());
    let stream = context.stream().unwrap();
    let numbers = |count: u8, scale: f32| -> Vec<f32> {
        (0..count).map(|index| (f32::from(index) - f32::from(count) / 2.0) * scale).collect()
    };
    let (x, w, bias, residual) = (numbers(12, 0.5), numbers(20, 0.25), numbers(5, 1.0), numbers(15, 0.125));
    let expected: Vec<f32> = (0..15)
        .map(|index| {
            let (row, column) = (index / 5, index % 5);
            let sum: f32 = (0..4).map(|k| x[row * 4 + k] * w[column * 4 + k]).sum();
            (sum + bias[column] + residual[index]).max(0.0)
        })
        .collect();
    assert!(expected.iter().any(|&value| value > 0.0) && expected.contains(&0.0));
    let on_device = [x, w, bias, residual].map(|numbers| stream.upload(&numbers).unwrap());
    let [x, w, bias, residual] = &on_device;
    let mut y = stream.zeros::<f32>(15).unwrap();
    let mut workspace = stream.zeros::<u8>(matmul.workspace()).unwrap();
    let added = Some([bias, residual]);
    queue(&stream, &matmul, [x, w], added, &mut y, &mut workspace).unwrap();
    // All of these numbers, and their products and sums, are exact.
    assert_eq!(stream.download(&y).unwrap(), expected);
    // A graph does the same, also when the product is gone.
    let mut again = stream.zeros::<f32>(15).unwrap();
    let graph =
        stream.capture(|| queue(&stream, &matmul, [x, w], added, &mut again, &mut workspace)).unwrap();
    drop(matmul);
    graph.launch().unwrap();
    assert_eq!(stream.download(&again).unwrap(), expected);
}

#[test]
fn integers_are_summed_in_32_bits() {
    let Some((context, _guard)) = gpu() else { return };
    let product = Product::new(Arithmetic::Int8Sums, 16, 32, 64);
    let Some(matmul) = matmul(&context, product) else { return };
    let stream = context.stream().unwrap();
    let (x, w) =
        (stream.upload(&vec![127_i8; 16 * 64]).unwrap(), stream.upload(&vec![-127_i8; 32 * 64]).unwrap());
    let mut y = stream.zeros::<i32>(16 * 32).unwrap();
    let mut workspace = stream.zeros::<u8>(matmul.workspace()).unwrap();
    queue(&stream, &matmul, [&x, &w], None, &mut y, &mut workspace).unwrap();
    assert_eq!(stream.download(&y).unwrap(), vec![-127 * 127 * 64; 16 * 32]);
}
