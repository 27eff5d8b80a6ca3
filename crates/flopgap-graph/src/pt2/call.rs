//! One call of an operator with its arguments.

use serde_json::Value;

use crate::graph::Tensor;

/// The role of a tensor among the arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand<'a> {
    /// The argument's name: `weight`.
    pub(super) argument: &'a str,
    /// Its index in the graph.
    pub(super) tensor: usize,
}

/// A node of the file, resolved.
pub(super) struct Call<'a> {
    /// The operator without namespace and overload, and without the underscore of in-place
    /// variants: `conv2d`.
    pub(super) name: &'a str,
    /// `default`, `Tensor`, `int`.
    pub(super) overload: &'a str,
    pub(super) arguments: &'a [Value],
    /// The tensors among the arguments, in their order.
    pub(super) operands: &'a [Operand<'a>],
    pub(super) tensors: &'a [Tensor],
    /// What it writes.
    pub(super) outputs: &'a [usize],
    /// Whether it is read as a training step runs it, whatever it was exported for.
    pub(super) training: bool,
}

impl<'a> Call<'a> {
    /// Shapes of all operands.
    pub(super) fn shapes(&self) -> Vec<&'a [u64]> {
        self.operands.iter().map(|operand| self.tensors[operand.tensor].shape.as_slice()).collect()
    }

    /// The shape of an operand by its position.
    pub(super) fn shape(&self, position: usize) -> Option<&'a [u64]> {
        Some(self.tensors[self.operands.get(position)?.tensor].shape.as_slice())
    }

    pub(super) fn tensor(&self, position: usize) -> Option<&'a Tensor> {
        Some(&self.tensors[self.operands.get(position)?.tensor])
    }

    /// The first result.
    pub(super) fn output(&self) -> Option<&'a Tensor> {
        Some(&self.tensors[*self.outputs.first()?])
    }

    /// Where the first tensor of an argument is among the operands.
    pub(super) fn position(&self, argument: &str) -> Option<usize> {
        self.operands.iter().position(|operand| operand.argument == argument)
    }

    /// Elements of the tensors of these arguments.
    pub(super) fn elements(&self, arguments: &[&str]) -> u64 {
        arguments
            .iter()
            .filter_map(|argument| self.tensor(self.position(argument)?)?.elements().ok())
            .fold(0, u64::saturating_add)
    }

    fn argument(&self, name: &str) -> Option<&'a Value> {
        self.arguments.iter().find(|argument| argument["name"] == name).map(|argument| &argument["arg"])
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.argument(name)?["as_int"].as_i64()
    }

    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        self.argument(name)?["as_bool"].as_bool()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let value = self.argument(name)?;
        value["as_float"].as_f64().or_else(|| value["as_int"].as_f64())
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.argument(name)?["as_string"].as_str()
    }

    /// A list of sizes; a number alone is a list of one, and what is absent an empty one.
    pub(super) fn sizes(&self, name: &str) -> Vec<u64> {
        let Some(value) = self.argument(name) else { return Vec::new() };
        match value["as_ints"].as_array() {
            Some(list) => list.iter().filter_map(Value::as_u64).collect(),
            None => value["as_int"].as_u64().into_iter().collect(),
        }
    }
}
