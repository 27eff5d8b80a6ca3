//! One step as a graph of its own.

use flopgap_flops::{Activation, ElementType, FlopError};

use crate::build::Builder;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Elementwise, ElementwiseFunction, Gemm, NormFunction, Op, product};
use crate::step::Step;

/// The operation of a step with its epilogue as layers behind it: what [`plan`](crate::plan) fuses
/// back into the step.
///
/// Weights, biases, gains and tables are parameters; residuals and the second operand of batched
/// products are inputs. An operation that is recognized by its number of elements alone gets a
/// shape that has as many.
pub(crate) fn single(step: &Step) -> Result<Graph, GraphError> {
    let label = step.label();
    let refused = |reason: &str| GraphError::Workload { what: step.label(), reason: reason.to_owned() };
    let count = || GraphError::count(step.label());
    let mut builder = Builder::new(&label, ElementType::Fp32);
    if step.op == Op::Empty {
        return Ok(builder.finish_without_output());
    }
    let (mut inputs, shape) = operands(&mut builder, &step.op).map_err(|error| match error {
        Sizes::Count(error) => count()(error),
        Sizes::Impossible(reason) => refused(reason),
    })?;
    let epilogue = step.epilogue;
    let fuses = matches!(step.op, Op::Gemm(_) | Op::Conv(_));
    if !fuses && epilogue != crate::step::Epilogue::default() {
        return Err(refused("only products and convolutions have an epilogue"));
    }
    if epilogue.bias {
        if matches!(step.op, Op::Gemm(Gemm { batch: 2.., .. })) {
            return Err(refused("a batched product has no bias"));
        }
        let channels = step.op.channels().unwrap_or_default();
        inputs.push(builder.parameter("bias".to_owned(), &[channels]));
    }
    let elements = product("output elements", &shape).map_err(count())?;
    let operator = operator_name(&step.op);
    let mut x = builder.layer(step.op.name(), operator, step.op.clone(), inputs, &shape)?;
    if epilogue.residual {
        let residual = builder.input("residual", &shape);
        let read = elements.checked_mul(2).ok_or_else(|| refused("too many elements"))?;
        let op = Op::Elementwise(Elementwise { function: ElementwiseFunction::Add, elements, read });
        x = builder.layer("add", "Add", op, vec![x, residual], &shape)?;
    }
    if epilogue.activation != Activation::Identity {
        let function = ElementwiseFunction::Activation(epilogue.activation);
        let op = Op::Elementwise(Elementwise { function, elements, read: elements });
        x = builder.layer("activation", epilogue.activation.name(), op, vec![x], &shape)?;
    }
    Ok(builder.finish(x))
}

/// Why an operation has no tensors.
enum Sizes {
    Count(FlopError),
    Impossible(&'static str),
}

impl From<FlopError> for Sizes {
    fn from(error: FlopError) -> Self {
        Sizes::Count(error)
    }
}

/// Its operands, and the shape of its result.
fn operands(builder: &mut Builder, op: &Op) -> Result<(Vec<usize>, Vec<u64>), Sizes> {
    Ok(match op {
        Op::Gemm(gemm) => {
            let Gemm { batch, m, n, k } = *gemm;
            if batch == 1 {
                let x = builder.input("input", &[m, k]);
                (vec![x, builder.parameter("weight".to_owned(), &[n, k])], vec![m, n])
            } else {
                let x = builder.input("input", &[batch, m, k]);
                (vec![x, builder.input("other", &[batch, k, n])], vec![batch, m, n])
            }
        }
        Op::Conv(conv) => {
            let output = conv.output()?;
            let (first, second) =
                if conv.transposed { (conv.inputs, conv.outputs) } else { (conv.outputs, conv.inputs) };
            if conv.groups == 0 || !first.is_multiple_of(conv.groups) || !second.is_multiple_of(conv.groups) {
                return Err(Sizes::Impossible("the groups must divide the channels"));
            }
            let image = [&[conv.batch, conv.inputs], conv.image.as_slice()].concat();
            let weights = [&[first, second / conv.groups], conv.kernel.as_slice()].concat();
            let x = builder.input("input", &image);
            let weights = builder.parameter("weight".to_owned(), &weights);
            (vec![x, weights], [&[conv.batch, conv.outputs], output.as_slice()].concat())
        }
        Op::Pool(pool) => {
            let image = [&[1, pool.planes], pool.image.as_slice()].concat();
            (vec![builder.input("input", &image)], [&[1, pool.planes], pool.output.as_slice()].concat())
        }
        Op::Elementwise(op) => elementwise(builder, op)?,
        Op::Softmax { rows, columns } => {
            (vec![builder.input("input", &[*rows, *columns])], vec![*rows, *columns])
        }
        Op::Norm(norm) => {
            let (rows, columns) = (norm.rows, norm.columns);
            let shape = if norm.function == NormFunction::BatchInference {
                vec![1, rows, columns]
            } else {
                vec![rows, columns]
            };
            let each = if norm.function == NormFunction::BatchInference { rows } else { columns };
            let vectors = norm.parameters.checked_div(each).unwrap_or(0);
            if vectors * each != norm.parameters || vectors > 4 {
                return Err(Sizes::Impossible(
                    "the parameters of the norm must be whole vectors, four at most",
                ));
            }
            let mut inputs = vec![builder.input("input", &shape)];
            for index in 0..vectors {
                inputs.push(builder.parameter(format!("parameter{index}"), &[each]));
            }
            (inputs, shape)
        }
        Op::Attention(a) => {
            let query = [a.batch, a.heads, a.queries, a.head_width];
            let width = a.width_of_values();
            let inputs = vec![
                builder.input("query", &query),
                builder.input("key", &[a.batch, a.kv_heads, a.keys, a.head_width]),
                builder.input("value", &[a.batch, a.kv_heads, a.keys, width]),
            ];
            (inputs, vec![a.batch, a.heads, a.queries, width])
        }
        Op::Recurrent(r) => {
            let rows = product("recurrent parameters", &[r.cell.gates(), r.hidden])?;
            let mut inputs = vec![
                builder.input("input", &[r.length, r.batch, r.inputs]),
                builder.parameter("W".to_owned(), &[r.directions, rows, r.inputs]),
                builder.parameter("R".to_owned(), &[r.directions, rows, r.hidden]),
            ];
            if r.bias {
                let biases = product("recurrent parameters", &[2, rows])?;
                inputs.push(builder.parameter("B".to_owned(), &[r.directions, biases]));
            }
            (inputs, vec![r.length, r.directions, r.batch, r.hidden])
        }
        Op::Gather { rows, width } => {
            let table = builder.parameter("table".to_owned(), &[*rows, *width]);
            let indexes = builder.indexes("indexes", &[*rows]);
            (vec![table, indexes], vec![*rows, *width])
        }
        Op::Reduce { inputs, outputs } => {
            if *outputs == 0 || !inputs.is_multiple_of(*outputs) {
                return Err(Sizes::Impossible("the outputs of a reduction must divide its inputs"));
            }
            (vec![builder.input("input", &[*outputs, inputs / outputs])], vec![*outputs])
        }
        Op::Copy { elements } => {
            // Two dimensions that change places, as near to a square as there is: what copies of
            // networks mostly do.
            let rows = (1..=elements.isqrt())
                .rev()
                .take(4096)
                .find(|rows| elements.is_multiple_of(*rows))
                .unwrap_or(1);
            (vec![builder.input("input", &[rows, elements / rows])], vec![elements / rows, rows])
        }
        Op::GridSample(_) | Op::EmbeddingBag(_) | Op::GroupedGemm(_) => {
            return Err(Sizes::Impossible("what it costs depends on where its operands point"));
        }
        Op::View | Op::Empty => return Err(Sizes::Impossible("there is nothing to compute")),
    })
}

fn elementwise(builder: &mut Builder, op: &Elementwise) -> Result<(Vec<usize>, Vec<u64>), Sizes> {
    let Elementwise { elements, read, .. } = *op;
    let Some(second) = read.checked_sub(elements) else {
        return Err(Sizes::Impossible("an element-wise operation reads at least what it writes"));
    };
    if second == 0 {
        return Ok((vec![builder.input("input", &[elements])], vec![elements]));
    }
    if second > elements || !elements.is_multiple_of(second) {
        return Err(Sizes::Impossible("the second operand must be broadcast evenly over the first"));
    }
    let shape = [elements / second, second];
    let inputs = vec![builder.input("input", &shape), builder.input("other", &[second])];
    if shape[0] == 1 {
        return Ok((inputs, vec![1, second]));
    }
    Ok((inputs, shape.to_vec()))
}

/// The ONNX name.
fn operator_name(op: &Op) -> &'static str {
    match op {
        Op::Gemm(Gemm { batch: 1, .. }) => "Gemm",
        Op::Gemm(_) => "MatMul",
        Op::Conv(conv) if conv.transposed => "ConvTranspose",
        Op::Conv(_) => "Conv",
        Op::Pool(_) => "Pool",
        Op::Elementwise(_) => "Elementwise",
        Op::Softmax { .. } => "Softmax",
        Op::Norm(norm) => match norm.function {
            NormFunction::BatchInference => "BatchNormalization",
            NormFunction::Layer => "LayerNormalization",
            NormFunction::Rms => "RMSNormalization",
            NormFunction::Group => "GroupNormalization",
        },
        Op::Attention(_) => "Attention",
        Op::Recurrent(_) => "Recurrent",
        Op::Gather { .. } => "Gather",
        Op::GridSample(_) => "GridSample",
        Op::EmbeddingBag(_) => "EmbeddingBag",
        Op::GroupedGemm(_) => "GroupedGemm",
        Op::Reduce { .. } => "ReduceSum",
        Op::Copy { .. } => "Transpose",
        Op::View => "Identity",
        Op::Empty => "Empty",
    }
}
