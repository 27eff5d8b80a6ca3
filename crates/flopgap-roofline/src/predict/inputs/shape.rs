//! The sizes of a step that its cost depends on, as floating-point numbers.
//!
//! Exact counts are `Step::work`'s. Here a size is only ever divided or put into a logarithm, and
//! no size can overflow.

use flopgap_flops::Activation;
use flopgap_graph::op::{Conv, ElementwiseFunction, Gemm, NormFunction, Pool};
use flopgap_graph::{Op, Step};

/// Kinds of steps that differ in what bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) enum Family {
    /// A matrix product.
    Gemm,
    /// A convolution.
    Conv,
    /// Attention in one kernel.
    Attention,
    /// A recurrent layer.
    Recurrent,
    /// A window's maximum or mean.
    Pool,
    /// Functions of rows: softmax, norms, sums.
    Rows,
    /// Functions of elements, copies, rows of a table.
    Elements,
    /// An empty launch.
    Empty,
}

/// Sizes of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    pub(crate) family: Family,
    /// Independent products of a (batched or grouped) product.
    pub(crate) batch: f64,
    /// Rows of each result; samples times pixels of a convolution.
    pub(crate) m: f64,
    /// Columns of each result.
    pub(crate) n: f64,
    /// Length of the inner sums.
    pub(crate) k: f64,
    /// Floating-point operations.
    pub(crate) flops: f64,
    /// Elements of activations that go in.
    pub(crate) inputs: f64,
    /// Of these, how many lie in gaps between windows, where nothing reads them.
    pub(crate) unread: f64,
    /// Elements of parameters that are read.
    pub(crate) weights: f64,
    /// Elements that are written.
    pub(crate) outputs: f64,
    /// Elements of the window of a convolution or pooling; 1 otherwise.
    pub(crate) window: f64,
    /// Product of the steps of the window; 1 otherwise.
    pub(crate) stride: f64,
    /// Samples of a convolution; 1 otherwise.
    pub(crate) images: f64,
    /// Height and width of a convolution's result; 1 otherwise.
    pub(crate) sides: [f64; 2],
    /// Whether the result is padded, dilated or transposed, in powers of two.
    pub(crate) variant: f64,
    /// Whether Winograd's algorithm (Lavin and Gray, 2016) applies: windows of 3 x 3, at each
    /// position, undilated.
    pub(crate) winograd: bool,
}

impl Shape {
    /// A launch alone, without windows; what a step has goes in its place.
    const PLAIN: Self = Self {
        family: Family::Empty,
        batch: 1.0,
        m: 1.0,
        n: 1.0,
        k: 1.0,
        flops: 0.0,
        inputs: 0.0,
        unread: 0.0,
        weights: 0.0,
        outputs: 0.0,
        window: 1.0,
        stride: 1.0,
        images: 1.0,
        sides: [1.0; 2],
        variant: 0.0,
        winograd: false,
    };

    pub(crate) fn of(step: &Step) -> Self {
        let mut shape = Self::of_op(&step.op);
        if step.epilogue.bias {
            shape.weights += shape.n * shape.batch_of_weights(&step.op);
            shape.flops += shape.outputs;
        }
        if step.epilogue.residual {
            shape.inputs += shape.outputs;
            shape.flops += shape.outputs;
        }
        if step.epilogue.activation != Activation::Identity {
            shape.flops += shape.outputs;
        }
        shape
    }

    /// Elements read and written.
    pub(crate) fn elements(&self) -> f64 {
        self.inputs - self.unread + self.weights + self.outputs
    }

    /// Tiles of these sizes that the results have.
    pub(crate) fn tiles(&self, rows: f64, columns: f64) -> f64 {
        self.batch * (self.m / rows).ceil() * (self.n / columns).ceil()
    }

    /// Whether it is an empty launch.
    pub(crate) fn vanishes(step: &Step) -> bool {
        step.op == Op::View
    }

    /// Channels that a convolution adds up for each of its results.
    pub(crate) fn inputs_of_group(&self) -> f64 {
        self.k / self.window.max(1.0)
    }

    /// Groups have channels, and so a bias, of their own; the products of a batch share it.
    fn batch_of_weights(&self, op: &Op) -> f64 {
        if matches!(op, Op::Conv(_)) { self.batch } else { 1.0 }
    }

    fn of_op(op: &Op) -> Self {
        match op {
            Op::Gemm(sizes) => Self::of_gemm(*sizes),
            Op::Conv(sizes) => Self::of_conv(sizes),
            Op::Pool(sizes) => Self::of_pool(sizes),
            Op::Elementwise(sizes) => {
                let cost = match sizes.function {
                    ElementwiseFunction::Transcendental | ElementwiseFunction::Activation(_) => 2.0,
                    _ => 1.0,
                };
                let elements = sizes.elements as f64;
                Self::of_elements(
                    Family::Elements,
                    1.0,
                    elements,
                    sizes.read as f64,
                    elements,
                    cost * elements,
                )
            }
            Op::Softmax { rows, columns } => {
                let (rows, columns) = (*rows as f64, *columns as f64);
                let elements = rows * columns;
                Self::of_elements(Family::Rows, rows, columns, elements, elements, 5.0 * elements)
            }
            Op::Norm(sizes) => {
                let (rows, columns) = (sizes.rows as f64, sizes.columns as f64);
                let elements = rows * columns;
                let family = match sizes.function {
                    NormFunction::BatchInference => Family::Elements,
                    _ => Family::Rows,
                };
                Self::of_elements(family, rows, columns, elements, elements, 5.0 * elements)
            }
            Op::Attention(sizes) => {
                let heads = (sizes.batch * sizes.heads) as f64;
                let (queries, keys, width) =
                    (sizes.queries as f64, sizes.keys as f64, sizes.head_width as f64);
                let kept = (sizes.batch * sizes.kv_heads) as f64;
                Self {
                    family: Family::Attention,
                    batch: heads,
                    m: queries,
                    n: keys,
                    k: width,
                    flops: 4.0 * heads * queries * keys * width,
                    inputs: heads * queries * width + 2.0 * kept * keys * width,
                    outputs: heads * queries * width,
                    ..Self::PLAIN
                }
            }
            Op::Gather { rows, width } => {
                let (rows, width) = (*rows as f64, *width as f64);
                Self::of_elements(Family::Elements, rows, width, rows * width, rows * width, 0.0)
            }
            Op::Reduce { inputs, outputs } => {
                let (inputs, outputs) = (*inputs as f64, *outputs as f64);
                let columns = inputs / outputs.max(1.0);
                Self::of_elements(Family::Rows, outputs, columns, inputs, outputs, inputs)
            }
            Op::Copy { elements } => {
                let elements = *elements as f64;
                Self::of_elements(Family::Elements, 1.0, elements, elements, elements, 0.0)
            }
            Op::Recurrent(sizes) => {
                let [batch, length, inputs, hidden, directions] =
                    [sizes.batch, sizes.length, sizes.inputs, sizes.hidden, sizes.directions]
                        .map(|size| size as f64);
                let multiply_adds = sizes.multiply_adds().map_or(0.0, |count| count as f64);
                let weights = multiply_adds / (batch * length).max(1.0);
                Self {
                    k: inputs + hidden,
                    weights,
                    ..Self::of_elements(
                        Family::Recurrent,
                        batch * length,
                        hidden * directions,
                        batch * length * inputs,
                        batch * length * hidden * directions,
                        2.0 * multiply_adds,
                    )
                }
            }
            _ => Self::of_elements(Family::Empty, 1.0, 1.0, 0.0, 0.0, 0.0),
        }
    }

    fn of_elements(family: Family, rows: f64, columns: f64, inputs: f64, outputs: f64, flops: f64) -> Self {
        Self { family, m: rows, n: columns, flops, inputs, outputs, ..Self::PLAIN }
    }

    fn of_gemm(sizes: Gemm) -> Self {
        let [batch, m, n, k] = [sizes.batch, sizes.m, sizes.n, sizes.k].map(|size| size as f64);
        // The second operand of a batched product is an activation.
        let second = batch * n * k;
        let (weights, activations) = if sizes.batch == 1 { (second, 0.0) } else { (0.0, second) };
        Self {
            family: Family::Gemm,
            batch,
            m,
            n,
            k,
            flops: 2.0 * batch * m * n * k,
            inputs: batch * m * k + activations,
            weights,
            outputs: batch * m * n,
            ..Self::PLAIN
        }
    }

    fn of_conv(sizes: &Conv) -> Self {
        let groups = sizes.groups.max(1) as f64;
        let [batch, inputs, outputs] = [sizes.batch, sizes.inputs, sizes.outputs].map(|size| size as f64);
        let product = |sizes: &[u64]| sizes.iter().map(|&size| size as f64).product::<f64>();
        let (image, window) = (product(&sizes.image), product(&sizes.kernel));
        let extents: Vec<f64> = (0..sizes.image.len()).map(|axis| extent(sizes, axis)).collect();
        let result: f64 = extents.iter().product();
        // The last side, and all others together.
        let last = extents.last().copied().unwrap_or(1.0);
        let weights = outputs * inputs / groups * window;
        let dilated = sizes.dilation.iter().any(|&step| step > 1);
        // A transposed convolution multiplies each of its inputs by the whole window.
        let (m, n, k) = if sizes.transposed {
            (batch * image, outputs / groups * window, inputs / groups)
        } else {
            (batch * result, outputs / groups, inputs / groups * window)
        };
        // Where windows leave gaps, what lies in them is not read.
        let read: f64 = if sizes.transposed {
            image
        } else {
            let get = |list: &[u64], axis: usize| list.get(axis).map_or(1.0, |&size| size as f64);
            let each = extents.iter().enumerate();
            each.map(|(axis, extent)| get(&sizes.image, axis).min(extent * get(&sizes.kernel, axis)))
                .product()
        };
        Self {
            family: Family::Conv,
            batch: groups,
            m,
            n,
            k,
            flops: 2.0 * groups * m * n * k,
            inputs: batch * inputs * image,
            unread: batch * inputs * (image - read),
            weights,
            outputs: batch * outputs * result,
            window,
            stride: product(&sizes.stride),
            images: batch,
            sides: [result / last, last],
            variant: f64::from(u8::from(dilated)) + 2.0 * f64::from(u8::from(sizes.transposed)),
            winograd: sizes.kernel == [3, 3]
                && sizes.stride.iter().all(|&step| step == 1)
                && !dilated
                && !sizes.transposed,
        }
    }

    fn of_pool(sizes: &Pool) -> Self {
        let product = |sizes: &[u64]| sizes.iter().map(|&size| size as f64).product::<f64>();
        let planes = sizes.planes as f64;
        let (inputs, outputs) = (planes * product(&sizes.image), planes * product(&sizes.output));
        let window = product(&sizes.kernel);
        Self {
            window,
            stride: product(&sizes.stride),
            ..Self::of_elements(
                Family::Pool,
                planes,
                product(&sizes.output),
                inputs,
                outputs,
                outputs * window,
            )
        }
    }
}

/// Size of a convolution's result along an axis; a list that is too short means 1 (or no padding).
fn extent(sizes: &Conv, axis: usize) -> f64 {
    let get = |list: &[u64]| list.get(axis).map_or(1.0, |&size| size as f64);
    let padding = sizes.padding.get(axis).map_or(0.0, |[before, after]| *before as f64 + *after as f64);
    let (image, stride) = (get(&sizes.image), get(&sizes.stride).max(1.0));
    let reach = get(&sizes.dilation) * (get(&sizes.kernel) - 1.0) + 1.0;
    if sizes.transposed {
        let extra = sizes.output_padding.get(axis).map_or(0.0, |&size| size as f64);
        ((image - 1.0) * stride - padding + reach + extra).max(1.0)
    } else {
        (((image + padding - reach) / stride).floor() + 1.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_windows_is_not_read() {
        let of = |kernel: u64, stride: u64| {
            let conv = Conv::new(2, [8, 16], &[9, 9], kernel, stride);
            Shape::of_conv(&conv)
        };
        let all = 2.0 * 8.0 * 81.0;
        assert_eq!((of(1, 1).inputs, of(1, 1).unread), (all, 0.0));
        assert_eq!((of(1, 2).inputs, of(1, 2).unread), (all, 2.0 * 8.0 * (81.0 - 25.0)));
        assert_eq!((of(3, 2).inputs, of(3, 2).unread), (all, 0.0));
    }
}
