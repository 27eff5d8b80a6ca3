//! One result of a report as a [`Launch`].

use super::FormatFault;
use super::nvtx;
use super::proto::{Kind, MetricValue, dim3, metric};
use super::units::unit_of;
use super::wire::{Damage, Field, Message, u32_of};
use crate::model::{Launch, Metric, Strings, Symbol, Value};

/// A name of the report's string table, with the unit that follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) name: Symbol,
    pub(super) unit: Symbol,
}

impl Name {
    pub(super) fn new(text: &str, strings: &mut Strings) -> Self {
        Name { name: strings.intern(text), unit: strings.intern(unit_of(text)) }
    }
}

/// Fills what the result itself contains: everything but its process and its place in the file.
pub(super) fn fill(
    launch: &mut Launch,
    kind: Kind,
    result: Message<'_>,
    names: &[Name],
    strings: &mut Strings,
) -> Result<(), Damage> {
    let numbers = kind.fields();
    let mut thread = None;
    let mut kernel_names = [None; 3];
    let mut nvtx = None;
    for field in result.fields() {
        match field? {
            (number, Field::Bytes(bytes)) => {
                if number == numbers.metrics {
                    launch.metrics.extend(read_metric(bytes, names, strings)?);
                } else if number == numbers.name {
                    kernel_names[0] = Some(bytes);
                } else if number == numbers.function {
                    kernel_names[1] = Some(bytes);
                } else if number == numbers.mangled {
                    kernel_names[2] = Some(bytes);
                } else if number == numbers.grid {
                    launch.grid = dim3(bytes)?;
                } else if number == numbers.block {
                    launch.block = dim3(bytes)?;
                } else if number == numbers.nvtx {
                    nvtx = Some(bytes);
                }
            }
            (number, Field::Varint(value)) => {
                if number == numbers.thread {
                    thread = Some(value);
                } else if number == numbers.context {
                    launch.context = Some(value);
                } else if number == numbers.stream {
                    launch.stream = Some(value);
                }
            }
            _ => {}
        }
    }
    let thread = thread
        .ok_or_else(|| Damage::new(result.at, FormatFault::Lacks { part: "result", what: "thread" }))?;
    launch.name = match kernel_names.into_iter().flatten().find(|name| !name.bytes.is_empty()) {
        Some(name) => strings.intern(&name.text()),
        None if kind == Kind::Kernel => {
            return Err(Damage::new(result.at, FormatFault::Lacks { part: "result", what: "kernel name" }));
        }
        None => strings.intern(numbers.unnamed),
    };
    if let Some(state) = nvtx {
        nvtx::ranges(state, thread, strings, &mut launch.nvtx)?;
    }
    device(launch, strings, result.at)
}

/// The metric, unless the report has no value for it.
fn read_metric(
    message: Message<'_>,
    names: &[Name],
    strings: &mut Strings,
) -> Result<Option<Metric>, Damage> {
    let (index, value) = metric(message)?;
    let Some(&Name { name, unit }) = names.get(index as usize) else {
        let strings = names.len();
        return Err(Damage::new(message.at, FormatFault::NameIndex { index, strings }));
    };
    let value = match value {
        Some(MetricValue::Whole(count)) => Value::U64(count),
        Some(MetricValue::Float(value)) if !value.is_nan() => Value::F64(value),
        Some(MetricValue::Text(text)) if !text.bytes.is_empty() => Value::Text(strings.intern(&text.text())),
        _ => return Ok(None),
    };
    Ok(Some(Metric { name, section: Symbol::EMPTY, unit, value, spread: None }))
}

/// The device, which a result names only in its metrics: ncu adds them to every result, whichever
/// were requested.
fn device(launch: &mut Launch, strings: &Strings, at: u64) -> Result<(), Damage> {
    let whole = |name| match launch.metric(strings.find(name)?)?.value {
        Value::U64(count) => Some(count),
        // ncu 2022 stored the launch__ metrics as doubles.
        Value::F64(value) => exact(value),
        Value::Text(_) => None,
    };
    let device = whole("launch__device_id").or_else(|| whole("device__attribute_device_index"));
    let major = whole("device__attribute_compute_capability_major");
    let minor = whole("device__attribute_compute_capability_minor");
    launch.device = device;
    if let (Some(major), Some(minor)) = (major, minor) {
        let what = "a compute capability";
        launch.compute_capability = Some((u32_of(major, at, what)?, u32_of(minor, at, what)?));
    }
    Ok(())
}

/// The whole number that a double holds, if it is one.
fn exact(value: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // guarded by the range, checked by the round trip
    let count = (0.0..=f64::from(u32::MAX)).contains(&value).then_some(value as u64)?;
    #[allow(clippy::float_cmp)] // equal only if nothing was cut off, which is the question
    (count as f64 == value).then_some(count)
}
