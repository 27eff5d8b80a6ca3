//! What an operator of `PyTorch` needs, from the sizes of what it was called with.
//!
//! | operator | FLOPs |
//! |---|---|
//! | `mm`, `bmm`, `addmm`, `baddbmm`, `_scaled_mm`, `_int_mm` | `2 b m k n` |
//! | `convolution` and what it calls | `2` for each output and weight of a filter; of a transposed one, for each input |
//! | `convolution_backward` | as much for each gradient that is asked for, of input and weights |
//! | scaled dot-product attention | `2 b h pairs (e + f)` for heads `e` wide, and values `f` wide |
//! | its backward pass | twice that; half as much again where scores are computed again |
//! | by element, softmax, normalization | 0: their bytes decide |
//! | lists of tensors: `_foreach_*`, fused optimizers | 0: their elements decide |
//!
//! These are the formulas of `torch.utils.flop_counter`, except that causal attention counts the
//! pairs that it needs, and that the scores which its backward pass computes again are separate.
//! Bytes are compulsory: each element that is stored read once, each result written once.
//! Operators that call one of these have no work themselves, so that nothing is counted twice.

mod marker;

pub use marker::Marker;

use crate::operator::window_positions;
use crate::{ElementType, checked};

/// A tensor that an operator was called with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operand {
    /// Its sizes.
    pub sizes: Vec<u64>,
    /// Elements from one to the next of each dimension; 0 where one element stands for all. Empty
    /// where they were not recorded.
    pub strides: Vec<u64>,
    /// How its elements are stored; none where that was not recorded.
    pub stored: Option<Stored>,
    /// Of a list of tensors, the elements of all; sizes and types are those of single tensors.
    pub list: Option<u64>,
}

/// How elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of one.
    pub bytes: u64,
    /// Its type, where products are computed with it.
    pub element: Option<ElementType>,
}

impl Stored {
    /// What the profiler of `PyTorch` calls a type: `c10::BFloat16`, `float`.
    ///
    /// ```
    /// use flopgap_flops::{ElementType, torch::Stored};
    ///
    /// let half = Stored::by_name("c10::Half").unwrap();
    /// assert_eq!((half.bytes, half.element), (2, Some(ElementType::Fp16)));
    /// assert_eq!(Stored::by_name("TensorList"), None);
    /// ```
    pub fn by_name(name: &str) -> Option<Stored> {
        let (bytes, element) = match name {
            "double" => (8, Some(ElementType::Fp64)),
            "float" => (4, Some(ElementType::Fp32)),
            "c10::Half" => (2, Some(ElementType::Fp16)),
            "c10::BFloat16" => (2, Some(ElementType::Bf16)),
            "signed char" => (1, Some(ElementType::Int8)),
            _ if name.starts_with("c10::Float8_") => (1, Some(ElementType::Fp8)),
            "unsigned char" | "bool" => (1, None),
            "short" => (2, None),
            "int" => (4, None),
            "long int" | "long" | "c10::complex<float>" => (8, None),
            _ => return None,
        };
        Some(Stored { bytes, element })
    }
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorKind {
    /// Matrix products.
    Product,
    /// A convolution or its gradients.
    Convolution,
    /// Attention or its gradients.
    Attention,
    /// It reads and writes memory, and its arithmetic takes less time than that.
    Memory,
}

/// What an operator needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorWork {
    /// What it does.
    pub kind: OperatorKind,
    /// FLOPs of its definition.
    pub flops: u64,
    /// FLOPs that it repeats because their results are too large to keep.
    pub repeated_flops: u64,
    /// Bytes read and written at least.
    pub bytes: u64,
    /// Elements beside these that are read and written at least. How they are stored was not
    /// recorded, as of lists of tensors; names of kernels may say it.
    pub elements: u64,
    /// With what it multiplies; none for [`OperatorKind::Memory`], and where it was not recorded.
    pub element: Option<ElementType>,
    /// Rows and columns of the result of each product; of attention, how many queries and keys a
    /// head has. None of other operators, and of gradients of attention.
    pub result: Option<[u32; 2]>,
}

impl OperatorWork {
    /// Nothing is needed.
    const fn new(kind: OperatorKind) -> OperatorWork {
        OperatorWork { kind, flops: 0, repeated_flops: 0, bytes: 0, elements: 0, element: None, result: None }
    }
}

/// Whether [`work`] knows an operator: whether its operands are worth reading.
pub fn is_known(operator: &str) -> bool {
    Operator::by_name(operator).is_some()
}

/// What an operator needs. None for one that is not known, that leaves the work to operators which
/// it calls, or whose sizes are missing or do not fit together.
///
/// `values` are the arguments that are not tensors, as text, by the same places.
///
/// ```
/// use flopgap_flops::torch::{Operand, Stored, work};
///
/// let operand = |sizes: &[u64]| {
///     let stored = Stored::by_name("c10::BFloat16");
///     Some(Operand { sizes: sizes.to_vec(), stored, ..Operand::default() })
/// };
/// let product = work("aten::mm", &[operand(&[64, 32]), operand(&[32, 16])], &[]).unwrap();
/// assert_eq!(product.flops, 2 * 64 * 32 * 16);
/// assert_eq!(product.bytes, 2 * (64 * 32 + 32 * 16 + 64 * 16));
/// assert_eq!(product.result, Some([64, 16]));
/// assert_eq!(work("aten::matmul", &[operand(&[64, 32]), operand(&[32, 16])], &[]), None);
/// ```
pub fn work(operator: &str, operands: &[Option<Operand>], values: &[String]) -> Option<OperatorWork> {
    let called = Called { operands, values };
    // Where sizes were not recorded, there are none at all.
    if operands.is_empty() {
        return None;
    }
    match Operator::by_name(operator)? {
        Operator::Product { first, rank } => called.product(first, rank),
        Operator::Convolution { settings, transposed } => called.convolution(settings, transposed),
        Operator::ConvolutionBackward => called.convolution_backward(),
        Operator::Attention { causal } => called.attention(0, causal, false),
        Operator::AttentionBackward { causal } => called.attention(1, causal, true),
        Operator::Memory { reads, writes } => called.memory(reads, writes),
        Operator::Lists { reads, writes } => called.lists(reads, writes),
    }
}

/// Which operands count, by their places.
#[derive(Debug, Clone, Copy)]
enum Operator {
    /// Two operands of a rank, from a place on.
    Product {
        first: usize,
        rank: usize,
    },
    /// Where stride, padding, dilation begin among the arguments, and whether it is transposed,
    /// where there is such an argument.
    Convolution {
        settings: [usize; 3],
        transposed: Option<usize>,
    },
    ConvolutionBackward,
    /// Where the arguments say whether it is causal.
    Attention {
        causal: usize,
    },
    AttentionBackward {
        causal: usize,
    },
    Memory {
        reads: Reads,
        writes: Writes,
    },
    /// All tensors of a list do the same; the lists that are read and written, by their places.
    Lists {
        reads: Reads,
        writes: &'static [usize],
    },
}

/// What is read.
#[derive(Debug, Clone, Copy)]
enum Reads {
    All,
    /// All but the first.
    Others,
    Nothing,
}

/// What is written.
#[derive(Debug, Clone, Copy)]
enum Writes {
    /// Nothing that the operands tell the size of.
    Unknown,
    /// As much as an operand has.
    Like(usize),
    /// What the operands become together.
    Broadcast,
}

impl Operator {
    fn by_name(name: &str) -> Option<Operator> {
        let by_element = Operator::Memory { reads: Reads::All, writes: Writes::Broadcast };
        let in_place = Operator::Memory { reads: Reads::All, writes: Writes::Like(0) };
        let name = name.strip_prefix("aten::")?;
        Some(match name {
            "mm" | "_scaled_mm" | "_int_mm" => Operator::Product { first: 0, rank: 2 },
            "addmm" | "_addmm_activation" => Operator::Product { first: 1, rank: 2 },
            "bmm" => Operator::Product { first: 0, rank: 3 },
            "baddbmm" => Operator::Product { first: 1, rank: 3 },
            "convolution" | "_convolution" => {
                Operator::Convolution { settings: [3, 4, 5], transposed: Some(6) }
            }
            // Padding comes before stride.
            "cudnn_convolution" => Operator::Convolution { settings: [3, 2, 4], transposed: None },
            "convolution_backward" => Operator::ConvolutionBackward,
            "scaled_dot_product_attention" => Operator::Attention { causal: 5 },
            "_scaled_dot_product_flash_attention" => Operator::Attention { causal: 4 },
            "_scaled_dot_product_efficient_attention" | "_scaled_dot_product_cudnn_attention" => {
                Operator::Attention { causal: 6 }
            }
            "_scaled_dot_product_flash_attention_backward"
            | "_scaled_dot_product_efficient_attention_backward" => {
                Operator::AttentionBackward { causal: 11 }
            }
            "_scaled_dot_product_cudnn_attention_backward" => Operator::AttentionBackward { causal: 14 },
            "add" | "sub" | "mul" | "div" | "maximum" | "minimum" | "gelu" | "silu" | "relu" | "sigmoid"
            | "tanh" | "exp" | "sqrt" | "rsqrt" | "neg" | "pow" | "square" | "reciprocal" | "clamp"
            | "clamp_min" | "threshold_backward" | "gelu_backward" | "silu_backward" | "sigmoid_backward"
            | "tanh_backward" | "leaky_relu" | "elu" | "hardtanh" | "where" => by_element,
            "add_" | "sub_" | "mul_" | "div_" | "relu_" | "clamp_min_" | "silu_" | "gelu_" | "sigmoid_"
            | "tanh_" | "sqrt_" | "neg_" | "lerp_" | "addcmul_" | "addcdiv_" => in_place,
            "copy_" => Operator::Memory { reads: Reads::Others, writes: Writes::Like(0) },
            "fill_" | "zero_" => Operator::Memory { reads: Reads::Nothing, writes: Writes::Like(0) },
            "_softmax"
            | "_log_softmax"
            | "_softmax_backward_data"
            | "_log_softmax_backward_data"
            | "native_layer_norm"
            | "_fused_rms_norm"
            | "native_layer_norm_backward"
            | "cudnn_batch_norm"
            | "cudnn_batch_norm_backward"
            | "native_batch_norm"
            | "native_batch_norm_backward"
            | "native_dropout"
            | "native_dropout_backward" => Operator::Memory { reads: Reads::All, writes: Writes::Like(0) },
            "sum" | "mean" | "amax" | "linalg_vector_norm" => {
                Operator::Memory { reads: Reads::All, writes: Writes::Unknown }
            }
            // Parameters and their state; gradients are only read.
            "_fused_adam_" | "_fused_adamw_" => Operator::Lists { reads: Reads::All, writes: &[0, 2, 3, 4] },
            "_fused_sgd_" | "_fused_adagrad_" => Operator::Lists { reads: Reads::All, writes: &[0, 2] },
            "_foreach_norm" | "_foreach_max" => Operator::Lists { reads: Reads::All, writes: &[] },
            "_foreach_copy_" => Operator::Lists { reads: Reads::Others, writes: &[0] },
            "_foreach_zero_" => Operator::Lists { reads: Reads::Nothing, writes: &[0] },
            _ if name.starts_with("_foreach_") => Operator::Lists { reads: Reads::All, writes: &[0] },
            _ => return None,
        })
    }
}

/// What an operator was called with.
#[derive(Clone, Copy)]
struct Called<'a> {
    operands: &'a [Option<Operand>],
    values: &'a [String],
}

impl<'a> Called<'a> {
    fn operand(self, at: usize) -> Option<&'a Operand> {
        self.operands.get(at)?.as_ref()
    }

    fn value(self, at: usize) -> Option<&'a str> {
        self.values.get(at).map(|text| text.trim())
    }

    fn flag(self, at: usize) -> Option<bool> {
        match self.value(at)? {
            "True" | "true" => Some(true),
            "False" | "false" => Some(false),
            _ => None,
        }
    }

    /// Numbers such as `[1, 1]`.
    fn numbers(self, at: usize) -> Option<Vec<u64>> {
        let inside = self.value(at)?.strip_prefix('[')?.strip_suffix(']')?;
        inside.split(',').map(|number| number.trim().parse().ok()).collect()
    }

    fn product(self, first: usize, rank: usize) -> Option<OperatorWork> {
        let (left, right) = (self.operand(first)?, self.operand(first + 1)?);
        if left.sizes.len() != rank
            || right.sizes.len() != rank
            || left.sizes[rank - 1] != right.sizes[rank - 2]
            || left.sizes[..rank - 2] != right.sizes[..rank - 2]
        {
            return None;
        }
        let columns = right.sizes[rank - 1];
        let results = product(&left.sizes[..rank - 1])?.checked_mul(columns)?;
        let flops = product(&[2, results, left.sizes[rank - 1]])?;
        let size = |size: u64| u32::try_from(size).ok();
        let result = size(left.sizes[rank - 2]).zip(size(columns)).map(<[u32; 2]>::from);
        let mut work = OperatorWork { flops, result, ..OperatorWork::new(OperatorKind::Product) };
        if let Some(stored) = left.stored.filter(|_| right.stored.is_some()) {
            work.bytes = sum(&[left.bytes()?, right.bytes()?, results.checked_mul(stored.bytes)?])?;
            work.element = stored.element;
        } else {
            work.elements = sum(&[left.elements()?, right.elements()?, results])?;
        }
        Some(work)
    }

    fn convolution(self, settings: [usize; 3], transposed: Option<usize>) -> Option<OperatorWork> {
        let (input, weight) = (self.operand(0)?, self.operand(1)?);
        let rank = input.sizes.len();
        if rank < 3 || weight.sizes.len() != rank {
            return None;
        }
        let filter = product(&weight.sizes[1..])?;
        let is_transposed = transposed.map_or(Some(false), |at| self.flag(at))?;
        let results = if is_transposed {
            // Its outputs depend on the padding of the output, which its FLOPs do not.
            0
        } else {
            let [stride, padding, dilation] = settings.map(|at| self.numbers(at));
            let (stride, padding, dilation) = (stride?, padding?, dilation?);
            let at = |all: &[u64], dimension: usize| all.get(dimension).or(all.first()).copied();
            let positions: Option<Vec<u64>> = (0..rank - 2)
                .map(|dimension| {
                    let padding = at(&padding, dimension)?;
                    let (stride, dilation) = (at(&stride, dimension)?, at(&dilation, dimension)?);
                    let (size, window) = (input.sizes[dimension + 2], weight.sizes[dimension + 2]);
                    window_positions(size, window, stride, dilation, [padding; 2]).ok()
                })
                .collect();
            product(&[input.sizes[0], weight.sizes[0], product(&positions?)?])?
        };
        let each = if is_transposed { input.elements()? } else { results };
        let flops = product(&[2, each, filter])?;
        let written = results.checked_mul(input.stored?.bytes)?;
        let bytes = sum(&[input.bytes()?, weight.bytes()?, written])?;
        let element = input.stored?.element;
        Some(OperatorWork { flops, bytes, element, ..OperatorWork::new(OperatorKind::Convolution) })
    }

    fn convolution_backward(self) -> Option<OperatorWork> {
        let (gradient, input, weight) = (self.operand(0)?, self.operand(1)?, self.operand(2)?);
        if weight.sizes.len() < 3 {
            return None;
        }
        let wanted = self.value(10)?.strip_prefix('[')?.strip_suffix(']')?;
        let mut wanted = wanted.split(',').map(|flag| flag.trim().eq_ignore_ascii_case("true"));
        let [of_input, of_weight] = [wanted.next()?, wanted.next()?];
        let each = if self.flag(7)? { input.elements()? } else { gradient.elements()? };
        let gradients = u64::from(of_input) + u64::from(of_weight);
        let flops = product(&[2, gradients, each, product(&weight.sizes[1..])?])?;
        // A gradient needs that of the output and the other factor, and is as large as its own.
        let bytes = match gradients {
            0 => 0,
            _ => sum(&[gradient.bytes()?, input.bytes()?, weight.bytes()?])?,
        };
        let element = gradient.stored?.element;
        Some(OperatorWork { flops, bytes, element, ..OperatorWork::new(OperatorKind::Convolution) })
    }

    /// Queries, keys and values from a place on.
    fn attention(self, first: usize, causal: usize, backward: bool) -> Option<OperatorWork> {
        let [query, keys, values] = [first, first + 1, first + 2].map(|at| self.operand(at));
        let (query, keys, values) = (query?, keys?, values?);
        let rank = query.sizes.len();
        if rank < 3 || keys.sizes.len() != rank || values.sizes.len() != rank {
            return None;
        }
        let [queries, width] = *query.sizes[rank - 2..].as_array()?;
        let [positions, key_width] = *keys.sizes[rank - 2..].as_array()?;
        let [value_positions, value_width] = *values.sizes[rank - 2..].as_array()?;
        if width != key_width || positions != value_positions {
            return None;
        }
        let pairs = if self.flag(causal)? {
            // Query i sees keys 0 to i.
            let square = queries.min(positions);
            sum(&[triangle(square)?, product(&[queries - square, positions])?])?
        } else {
            product(&[queries, positions])?
        };
        let heads = product(&query.sizes[..rank - 2])?;
        let forward = product(&[2, heads, pairs, sum(&[width, value_width])?])?;
        let element = query.stored?.element;
        let inputs = sum(&[query.bytes()?, keys.bytes()?, values.bytes()?])?;
        // As many results as queries, and as wide as values.
        let results = product(&[heads, queries, value_width, query.stored?.bytes])?;
        let work = OperatorWork { element, ..OperatorWork::new(OperatorKind::Attention) };
        Some(if backward {
            // Four products of the pairs; that of queries and keys is done again.
            let bytes = sum(&[inputs.checked_mul(2)?, results.checked_mul(2)?])?;
            let repeated_flops = product(&[2, heads, pairs, width])?;
            OperatorWork { flops: forward.checked_mul(2)?, repeated_flops, bytes, ..work }
        } else {
            let bytes = sum(&[inputs, results])?;
            let result = u32::try_from(queries).ok().zip(u32::try_from(positions).ok());
            OperatorWork { flops: forward, bytes, result: result.map(<[u32; 2]>::from), ..work }
        })
    }

    fn memory(self, reads: Reads, writes: Writes) -> Option<OperatorWork> {
        let tensors =
            self.operands.iter().enumerate().filter_map(|(at, operand)| Some((at, operand.as_ref()?)));
        // Numbers are operands without a type of a tensor.
        let tensors = tensors.filter(|(_, operand)| operand.stored.is_some());
        tensors.clone().next()?;
        let read = tensors.clone().map(|(at, operand)| match reads {
            Reads::All => operand.bytes(),
            Reads::Others if at > 0 => operand.bytes(),
            Reads::Others | Reads::Nothing => Some(0),
        });
        let read = read.sum::<Option<u64>>()?;
        let written = match writes {
            Writes::Unknown => 0,
            Writes::Like(at) => self.operand(at)?.bytes()?,
            Writes::Broadcast => {
                let sizes = broadcast(tensors.clone().map(|(_, operand)| &operand.sizes[..]))?;
                let widest = tensors.map(|(_, operand)| (!operand.sizes.is_empty(), operand.stored));
                let widest = widest.max_by_key(|(is_tensor, stored)| (*is_tensor, stored.map(|it| it.bytes)));
                product(&[product(&sizes)?, widest?.1?.bytes])?
            }
        };
        let bytes = sum(&[read, written])?;
        Some(OperatorWork { bytes, ..OperatorWork::new(OperatorKind::Memory) })
    }

    fn lists(self, reads: Reads, writes: &[usize]) -> Option<OperatorWork> {
        let list = |at: usize| self.operand(at).and_then(|operand| operand.list);
        // Where no list was recorded, nothing is known.
        (0..self.operands.len()).find_map(list)?;
        let read = (0..self.operands.len()).map(|at| match reads {
            Reads::Nothing => 0,
            Reads::Others if at == 0 => 0,
            Reads::All | Reads::Others => list(at).unwrap_or_default(),
        });
        let written = writes.iter().map(|at| list(*at).unwrap_or_default());
        let elements = sum(&read.chain(written).collect::<Vec<u64>>())?;
        Some(OperatorWork { elements, ..OperatorWork::new(OperatorKind::Memory) })
    }
}

impl Operand {
    fn elements(&self) -> Option<u64> {
        product(&self.sizes)
    }

    /// Bytes of what is stored of it.
    fn bytes(&self) -> Option<u64> {
        let is_stored = |at: usize| self.strides.get(at).is_none_or(|stride| *stride > 0);
        let sizes = self.sizes.iter().enumerate().filter(|(at, size)| is_stored(*at) || **size == 0);
        let sizes: Vec<u64> = sizes.map(|(_, size)| *size).collect();
        product(&sizes)?.checked_mul(self.stored?.bytes)
    }
}

fn product(factors: &[u64]) -> Option<u64> {
    checked::product("work", factors).ok()
}

fn sum(terms: &[u64]) -> Option<u64> {
    checked::sum("work", terms).ok()
}

/// `1 + 2 + … + n`.
fn triangle(n: u64) -> Option<u64> {
    let (half, other) = if n.is_multiple_of(2) { (n / 2, n + 1) } else { (n.div_ceil(2), n) };
    half.checked_mul(other)
}

/// The sizes that some tensors have together.
fn broadcast<'a>(all: impl Iterator<Item = &'a [u64]>) -> Option<Vec<u64>> {
    let mut together: Vec<u64> = Vec::new();
    for sizes in all {
        if sizes.len() > together.len() {
            together.splice(0..0, std::iter::repeat_n(1, sizes.len() - together.len()));
        }
        let from = together.len() - sizes.len();
        for (own, size) in together[from..].iter_mut().zip(sizes) {
            match (*own, *size) {
                (_, 1) => {}
                (1, size) => *own = size,
                (own, size) if own == size => {}
                _ => return None,
            }
        }
    }
    Some(together)
}

#[cfg(test)]
mod tests;
