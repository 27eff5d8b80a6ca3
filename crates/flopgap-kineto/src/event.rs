//! One event of a trace, read key by key; fields that no formula needs are skipped without being
//! stored.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A JSON value where traces have numbers, strings or null.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Scalar {
    #[default]
    None,
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// A time in microseconds as nanoseconds.
    pub(crate) fn nanoseconds(&self) -> Option<i64> {
        match self {
            Scalar::Integer(us) => us.checked_mul(1000),
            Scalar::Float(us) => float_nanoseconds(*us),
            Scalar::Text(text) => float_nanoseconds(text.trim().parse().ok()?),
            Scalar::None => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Scalar::Integer(value) => Some(*value),
            Scalar::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A count; a float is accepted if it is an exact integer.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked on the same line"
            )]
            Scalar::Float(value) if value.fract() == 0.0 && (0.0..9.0e15).contains(value) => {
                Some(*value as u64)
            }
            other => other.integer().and_then(|value| u64::try_from(value).ok()),
        }
    }
}

fn float_nanoseconds(us: f64) -> Option<i64> {
    let ns = (us * 1000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "within the range that is checked")]
    (ns.abs() < 9.2e18).then_some(ns as i64)
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }
            fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
                Ok(Scalar::None)
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Integer))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::None)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The sizes of one input; `None` unless it is a single tensor with known sizes.
#[derive(Debug, Clone, PartialEq)]
struct Shape(Option<Vec<u64>>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;
        impl<'de> Visitor<'de> for Sizes {
            type Value = Shape;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the sizes of a tensor")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut sizes = Some(Vec::new());
                while let Some(size) = list.next_element::<Scalar>()? {
                    // A list of tensors, or a symbolic size.
                    let size = size.integer().and_then(|size| u64::try_from(size).ok());
                    sizes = sizes.zip(size).map(|(mut sizes, size)| {
                        sizes.push(size);
                        sizes
                    });
                }
                Ok(Shape(sizes))
            }
            fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_unit<E>(self) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
                Ok(Shape(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Shape(None))
            }
        }
        deserializer.deserialize_any(Sizes)
    }
}

/// What kind of event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(field_identifier)]
pub(crate) enum Category {
    /// An operator of the framework; `Operator` in traces of `PyTorch` 1.8 to 1.11.
    #[serde(rename = "cpu_op", alias = "Operator")]
    Operator,
    /// `record_function`, among them an optimizer's step.
    #[serde(rename = "user_annotation")]
    Annotation,
    /// An arrow from a forward operator to its backward function.
    #[serde(rename = "fwdbwd", alias = "forward_backward")]
    ForwardBackward,
    /// A kernel on a GPU; `Kernel` in traces of `PyTorch` 1.8 to 1.11.
    #[serde(rename = "kernel", alias = "Kernel")]
    Kernel,
    /// A copy.
    #[serde(rename = "gpu_memcpy", alias = "Memcpy")]
    Copy,
    /// A memset.
    #[serde(rename = "gpu_memset", alias = "Memset")]
    Set,
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(field_identifier)]
pub(crate) enum Phase {
    #[serde(rename = "X")]
    Complete,
    #[serde(rename = "f")]
    FlowEnd,
    #[default]
    #[serde(other)]
    Other,
}

/// One event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    pub(crate) phase: Phase,
    pub(crate) category: Category,
    pub(crate) name: String,
    pub(crate) process: Scalar,
    pub(crate) thread: Scalar,
    pub(crate) start: Scalar,
    pub(crate) duration: Scalar,
    pub(crate) arguments: Arguments,
}

impl Category {
    /// Whether the arguments of these events are read.
    fn has_arguments(self) -> bool {
        matches!(self, Category::Operator | Category::Kernel | Category::Copy | Category::Set)
    }
}

/// What an operator was called with, or how a kernel was launched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    pub(crate) shapes: Vec<Option<Vec<u64>>>,
    pub(crate) concrete: Vec<String>,
    /// Above 0 for what the autograd engine runs for an operator of that thread.
    pub(crate) forward_thread: Scalar,
    pub(crate) flops: Scalar,
    pub(crate) device: Scalar,
    pub(crate) context: Scalar,
    pub(crate) stream: Scalar,
    pub(crate) correlation: Scalar,
    pub(crate) registers: Scalar,
    pub(crate) shared_memory: Scalar,
    pub(crate) bytes: Scalar,
    pub(crate) grid: Option<Vec<u64>>,
    pub(crate) block: Option<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "ph")]
    Phase,
    #[serde(rename = "cat")]
    Category,
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "pid")]
    Process,
    #[serde(rename = "tid")]
    Thread,
    #[serde(rename = "ts")]
    Start,
    #[serde(rename = "dur")]
    Duration,
    #[serde(rename = "args")]
    Arguments,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Event;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event of a trace")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let mut event = Event::default();
                let mut category = None;
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Phase => event.phase = map.next_value()?,
                        Key::Category => category = Some(map.next_value()?),
                        Key::Name => event.name = map.next_value()?,
                        Key::Process => event.process = map.next_value()?,
                        Key::Thread => event.thread = map.next_value()?,
                        Key::Start => event.start = map.next_value()?,
                        Key::Duration => event.duration = map.next_value()?,
                        // Keys have no order, so arguments are read until the category is known.
                        Key::Arguments if category.is_none_or(Category::has_arguments) => {
                            let wants_values = event.name.is_empty() || event.name == "aten::conv2d";
                            event.arguments = map.next_value_seed(ReadArguments { wants_values })?;
                        }
                        Key::Arguments | Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                event.category = category.unwrap_or_default();
                Ok(event)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum ArgumentKey {
    #[serde(rename = "Input Dims", alias = "Input dims")]
    Shapes,
    #[serde(rename = "Concrete Inputs")]
    Concrete,
    #[serde(rename = "Fwd thread id")]
    ForwardThread,
    #[serde(rename = "flops", alias = "Flops", alias = "FLOPs")]
    Flops,
    #[serde(rename = "device")]
    Device,
    #[serde(rename = "context")]
    Context,
    #[serde(rename = "stream")]
    Stream,
    #[serde(rename = "correlation")]
    Correlation,
    #[serde(rename = "registers per thread")]
    Registers,
    #[serde(rename = "shared memory")]
    SharedMemory,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "grid")]
    Grid,
    #[serde(rename = "block")]
    Block,
    #[serde(other)]
    Other,
}

struct ReadArguments {
    wants_values: bool,
}

impl<'de> DeserializeSeed<'de> for ReadArguments {
    type Value = Arguments;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arguments, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadArguments {
    type Value = Arguments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of an event")
    }

    fn visit_unit<E>(self) -> Result<Arguments, E> {
        Ok(Arguments::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments, A::Error> {
        let mut arguments = Arguments::default();
        while let Some(key) = map.next_key::<ArgumentKey>()? {
            match key {
                ArgumentKey::Shapes => {
                    arguments.shapes =
                        map.next_value::<Vec<Shape>>()?.into_iter().map(|shape| shape.0).collect();
                }
                ArgumentKey::Concrete if self.wants_values => {
                    let values = map.next_value::<Vec<Scalar>>()?;
                    let text = |value| match value {
                        Scalar::Text(text) => text,
                        Scalar::Integer(value) => value.to_string(),
                        Scalar::Float(_) | Scalar::None => String::new(),
                    };
                    arguments.concrete = values.into_iter().map(text).collect();
                }
                ArgumentKey::ForwardThread => arguments.forward_thread = map.next_value()?,
                ArgumentKey::Flops => arguments.flops = map.next_value()?,
                ArgumentKey::Device => arguments.device = map.next_value()?,
                ArgumentKey::Context => arguments.context = map.next_value()?,
                ArgumentKey::Stream => arguments.stream = map.next_value()?,
                ArgumentKey::Correlation => arguments.correlation = map.next_value()?,
                ArgumentKey::Registers => arguments.registers = map.next_value()?,
                ArgumentKey::SharedMemory => arguments.shared_memory = map.next_value()?,
                ArgumentKey::Bytes => arguments.bytes = map.next_value()?,
                ArgumentKey::Grid => arguments.grid = map.next_value::<Shape>()?.0,
                ArgumentKey::Block => arguments.block = map.next_value::<Shape>()?.0,
                ArgumentKey::Concrete | ArgumentKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(arguments)
    }
}
