//! Inputs from a seed, and outputs as numbers.

use flopgap_mlp::numerics::uniform;
use half::{bf16, f16};
use ort::session::SessionOutputs;
use ort::value::{DynValue, Outlet, Tensor, TensorElementType, ValueType};

use super::shapes::Shapes;
use crate::engines::error::EngineError;

/// Inputs begin here in the sequence of the seed, each this far behind the one before.
const STEP: u64 = 1 << 40;

/// Numbers of the input at `place`, uniform in -1..1.
pub(super) fn numbers(seed: u64, place: usize, length: usize) -> Vec<f32> {
    let first = STEP.wrapping_mul(place as u64 + 1);
    (0..length as u64).map(|index| uniform(seed, first.wrapping_add(index))).collect()
}

/// The input at `place` of a session. Floats are uniform in -1..1; integers are 0 or 1, which is in
/// every vocabulary and a mask of some; truth values are true.
pub(super) fn make(
    outlet: &Outlet,
    place: usize,
    shapes: &Shapes,
    seed: u64,
) -> Result<DynValue, EngineError> {
    let ValueType::Tensor { ty, shape, dimension_symbols } = outlet.dtype() else {
        return Err(refused(outlet, "it is not a tensor"));
    };
    let shape = shapes.resolve(outlet.name(), shape, dimension_symbols)?;
    let length = shape
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?))
        .filter(|length| *length <= isize::MAX as usize / size_of::<f64>())
        .ok_or_else(|| refused(outlet, "its sizes exceed the address space of this machine"))?;
    let numbers = numbers(seed, place, length);
    let value = match ty {
        TensorElementType::Float32 => tensor(&shape, numbers),
        TensorElementType::Float16 => tensor(&shape, numbers.iter().copied().map(f16::from_f32).collect()),
        TensorElementType::Bfloat16 => tensor(&shape, numbers.iter().copied().map(bf16::from_f32).collect()),
        TensorElementType::Float64 => tensor(&shape, numbers.iter().copied().map(f64::from).collect()),
        TensorElementType::Int64 => tensor(&shape, numbers.iter().map(|x| i64::from(*x > 0.0)).collect()),
        TensorElementType::Int32 => tensor(&shape, numbers.iter().map(|x| i32::from(*x > 0.0)).collect()),
        TensorElementType::Int8 => tensor(&shape, numbers.iter().map(|x| i8::from(*x > 0.0)).collect()),
        TensorElementType::Uint8 => tensor(&shape, numbers.iter().map(|x| u8::from(*x > 0.0)).collect()),
        TensorElementType::Bool => tensor(&shape, vec![true; length]),
        other => return Err(refused(outlet, &format!("inputs of type {other} are not supported"))),
    };
    value.map_err(|error| refused(outlet, &error.to_string()))
}

fn tensor<T>(shape: &[i64], numbers: Vec<T>) -> ort::Result<DynValue>
where
    T: ort::value::PrimitiveTensorElementType + Clone + std::fmt::Debug + 'static,
{
    Ok(Tensor::from_array((shape.to_vec(), numbers))?.into_dyn())
}

fn refused(outlet: &Outlet, reason: &str) -> EngineError {
    EngineError::Unsupported {
        engine: super::runtime::NAME,
        what: format!("a model with the input {:?}", outlet.name()),
        reason: reason.to_owned(),
    }
}

/// All outputs that are numbers, one after the other.
pub(super) fn outputs(outputs: &SessionOutputs<'_>) -> Vec<f64> {
    let mut all = Vec::new();
    for (_, value) in outputs {
        if let Ok((_, numbers)) = value.try_extract_tensor::<f32>() {
            all.extend(numbers.iter().copied().map(f64::from));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<f16>() {
            all.extend(numbers.iter().map(|number| number.to_f64()));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<bf16>() {
            all.extend(numbers.iter().map(|number| number.to_f64()));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<f64>() {
            all.extend(numbers);
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<u8>() {
            all.extend(numbers.iter().copied().map(f64::from));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<i8>() {
            all.extend(numbers.iter().copied().map(f64::from));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<i32>() {
            all.extend(numbers.iter().copied().map(f64::from));
        } else if let Ok((_, numbers)) = value.try_extract_tensor::<i64>() {
            all.extend(numbers.iter().map(|&number| number as f64));
        }
    }
    all
}
