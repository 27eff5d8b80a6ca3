//! One result of a report as a [`Launch`].

use super::FormatFault;
use super::nvtx;
use super::proto::{Kind, MetricValue, dim3, instance, metric};
use super::units::unit_of;
use super::wire::{Damage, Field, Message};
use crate::model::{Launch, MODIFIED_OPCODES, Metric, OPCODES, Opcode, Strings, Symbol, Value};

/// A name of the report's string table, with the unit that follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) symbol: Symbol,
    pub(super) unit: Symbol,
    opcodes: Option<Opcodes>,
}

/// Which opcodes a metric's instances are.
#[derive(Debug, Clone, Copy)]
enum Opcodes {
    Plain,
    Modified,
}

impl Name {
    pub(super) fn new(text: &str, strings: &mut Strings) -> Self {
        let (symbol, unit) = (strings.intern(text), strings.intern(unit_of(text)));
        let opcodes = match text {
            OPCODES => Some(Opcodes::Plain),
            MODIFIED_OPCODES => Some(Opcodes::Modified),
            _ => None,
        };
        Name { symbol, unit, opcodes }
    }
}

/// A metric whose name the string table does not have yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unnamed {
    /// Its place among the launch's metrics, where it has no name and unit.
    pub(super) place: usize,
    /// Its name's index in the string table.
    pub(super) index: u32,
    /// Where it stands in the file.
    pub(super) at: u64,
}

/// Fills what the result itself contains: everything but its process and its place in the file.
/// Returns the metrics whose names are still to come: a launch without any is complete, another one
/// is after [`properties`].
pub(super) fn fill(
    launch: &mut Launch,
    kind: Kind,
    result: Message<'_>,
    names: &[Name],
    strings: &mut Strings,
) -> Result<Vec<Unnamed>, Damage> {
    let numbers = kind.fields();
    let mut thread = None;
    let mut unnamed = Vec::new();
    let mut kernel_names = [None; 3];
    let mut nvtx = None;
    for field in result.fields() {
        let (number, field) = field?;
        match field {
            Field::Bytes(bytes) if number == numbers.metrics => {
                unnamed.extend(read_metric(bytes, names, strings, launch)?);
            }
            Field::Bytes(bytes) if number == numbers.grid => launch.grid = dim3(bytes)?,
            Field::Bytes(bytes) if number == numbers.block => launch.block = dim3(bytes)?,
            Field::Bytes(bytes) if number == numbers.nvtx => nvtx = Some(bytes),
            Field::Bytes(bytes) => {
                if let Some(name) = numbers.names.iter().position(|&name| name == number) {
                    kernel_names[name] = Some(bytes);
                }
            }
            Field::Varint(value) if number == numbers.thread => thread = Some(value),
            Field::Varint(value) if number == numbers.context => launch.context = Some(value),
            Field::Varint(value) if number == numbers.stream => launch.stream = Some(value),
            _ => {}
        }
    }
    let thread = thread
        .ok_or_else(|| Damage::new(result.at, FormatFault::Lacks { part: "result", what: "thread" }))?;
    launch.name = match kernel_names.into_iter().flatten().find(|name| !name.bytes.is_empty()) {
        Some(name) => strings.intern(&name.text()),
        // The format requires the names, but not that they say anything.
        None if kind == Kind::Kernel && kernel_names.iter().all(Option::is_none) => {
            return Err(Damage::new(result.at, FormatFault::Lacks { part: "result", what: "kernel name" }));
        }
        None => strings.intern(numbers.unnamed),
    };
    if let Some(state) = nvtx {
        nvtx::ranges(state, thread, strings, launch)?;
    }
    if unnamed.is_empty() {
        properties(launch, strings);
    }
    Ok(unnamed)
}

/// Adds the metric to the launch, unless the report has no value for it.
fn read_metric(
    message: Message<'_>,
    names: &[Name],
    strings: &mut Strings,
    launch: &mut Launch,
) -> Result<Option<Unnamed>, Damage> {
    let (index, value) = metric(message)?;
    let name = names.get(index as usize);
    match name.and_then(|name| name.opcodes) {
        Some(Opcodes::Plain) => read_opcodes(message, strings, &mut launch.opcodes)?,
        Some(Opcodes::Modified) => read_opcodes(message, strings, &mut launch.modified_opcodes)?,
        None => {}
    }
    let value = match value {
        Some(MetricValue::Whole(count)) => Value::U64(count),
        Some(MetricValue::Float(value)) if !value.is_nan() => Value::F64(value),
        Some(MetricValue::Text(text)) if !text.bytes.is_empty() => Value::Text(strings.intern(&text.text())),
        _ => return Ok(None),
    };
    let unnamed = name.is_none().then_some(Unnamed { place: launch.metrics.len(), index, at: message.at });
    let (name, unit) = name.map_or((Symbol::EMPTY, Symbol::EMPTY), |name| (name.symbol, name.unit));
    launch.metrics.push(Metric { name, section: Symbol::EMPTY, unit, value, spread: None });
    Ok(unnamed)
}

/// The instances of the metric: how many instructions each opcode had.
fn read_opcodes(
    message: Message<'_>,
    strings: &mut Strings,
    opcodes: &mut Vec<Opcode>,
) -> Result<(), Damage> {
    for element in message.all(3) {
        let (Some(MetricValue::Text(opcode)), Some(value)) = instance(element?)? else { continue };
        let count = match value {
            MetricValue::Whole(count) => Some(count),
            MetricValue::Float(value) => exact(value),
            MetricValue::Text(_) => None,
        };
        opcodes.extend(count.map(|count| Opcode { name: strings.intern(&opcode.text()), count }));
    }
    Ok(())
}

/// The device, which a result names only in its metrics: ncu adds them to every result, whichever
/// were requested.
pub(super) fn properties(launch: &mut Launch, strings: &Strings) {
    let whole = |name| match launch.metric(strings.find(name)?)?.value {
        Value::U64(count) => Some(count),
        // ncu 2022 stored the launch__ metrics as doubles.
        Value::F64(value) => exact(value),
        Value::Text(_) => None,
    };
    let device = whole("launch__device_id").or_else(|| whole("device__attribute_device_index"));
    let part = |name| whole(name).and_then(|part| u32::try_from(part).ok());
    let major = part("device__attribute_compute_capability_major");
    let minor = part("device__attribute_compute_capability_minor");
    launch.device = device;
    launch.compute_capability = major.zip(minor);
}

/// The whole number that a double holds, if it is one.
fn exact(value: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // guarded by the range, checked by the round trip
    let count = (0.0..=9_007_199_254_740_992.0).contains(&value).then_some(value as u64)?;
    #[allow(clippy::float_cmp)] // equal only if nothing was cut off, which is the question
    (count as f64 == value).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_well;
    use super::super::writer::{Block, Proto, file, kernel};

    #[test]
    fn instructions_by_opcode_are_read() {
        let text = |text: &str| Proto::default().bytes(1, text);
        let instance =
            |opcode: &str, value: &Proto| Proto::default().message(1, &text(opcode)).message(2, value);
        let opcodes = Proto::default()
            .number(1, 0)
            .message(2, &Proto::default().double(3, 50.0))
            .message(3, &instance("FFMA", &Proto::default().double(3, 42.0)))
            .message(3, &instance("HMMA", &Proto::default().number(5, 8)));
        // Other instances are not opcodes.
        let others = opcodes.clone().number(1, 1);
        let kernels = vec![kernel("k").message(13, &opcodes).message(13, &others)];
        let strings = vec!["sass__inst_executed_per_opcode", "sass__other"];
        let outcome = read_well(&file(7, &[Block { strings, kernels, ..Block::default() }]));
        let opcodes = outcome.launches[0].opcodes.iter();
        let opcodes: Vec<_> = opcodes.map(|opcode| (outcome.text(opcode.name), opcode.count)).collect();
        assert_eq!(opcodes, [("FFMA", 42), ("HMMA", 8)]);
        assert_eq!(outcome.launches[0].metrics.len(), 2);
    }
}
