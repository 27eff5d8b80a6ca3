//! One event of a trace, where it lies in the file: nothing of it is copied.

use flopgap_flops::torch::{Operand, OperatorWork, Stored, work};

use crate::json::{Cursor, Raw, Scalar, Stop};

/// What kind of event it is, by its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Category {
    /// An operator of the framework; `Operator` in traces of `PyTorch` 1.8 to 1.11.
    Operator,
    /// `record_function`, among them a profiler's and an optimizer's step.
    Annotation,
    /// The same as the profiler projects it on a GPU: it says nothing that its work does not.
    GpuAnnotation,
    /// A frame of Python.
    Python,
    /// An arrow from a forward operator to its backward function.
    ForwardBackward,
    /// A call of a GPU's runtime or driver; `Runtime` in traces of `PyTorch` 1.8 to 1.11.
    Call,
    /// A kernel on a GPU; `Kernel` in traces of `PyTorch` 1.8 to 1.11.
    Kernel,
    /// A copy.
    Copy,
    /// A set.
    Set,
    /// The profiler's own work.
    Overhead,
    /// What is known and holds nothing that is asked for: arrows to GPUs, waits as a GPU sees them.
    Known,
    #[default]
    Other,
}

impl Category {
    fn of(name: &[u8]) -> Category {
        match name {
            b"cpu_op" | b"Operator" => Category::Operator,
            b"user_annotation" => Category::Annotation,
            b"gpu_user_annotation" => Category::GpuAnnotation,
            b"python_function" => Category::Python,
            b"fwdbwd" | b"forward_backward" => Category::ForwardBackward,
            b"cuda_runtime"
            | b"cuda_driver"
            | b"Runtime"
            | b"xpu_runtime"
            | b"mtia_runtime"
            | b"privateuse1_runtime"
            | b"hpu_runtime" => Category::Call,
            b"kernel" | b"Kernel" => Category::Kernel,
            b"gpu_memcpy" | b"Memcpy" => Category::Copy,
            b"gpu_memset" | b"Memset" => Category::Set,
            b"overhead" => Category::Overhead,
            b""
            | b"ac2g"
            | b"async_gpu"
            | b"async_cpu_to_gpu"
            | b"cuda_sync"
            | b"Trace"
            | b"cpu_instant_event"
            | b"cuda_profiler_range"
            | b"collective_comm" => Category::Known,
            _ => Category::Other,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event<'a> {
    /// `X` for one with a duration, `s` and `f` for the ends of an arrow, `M` for a name.
    pub(crate) phase: u8,
    pub(crate) category: Category,
    /// The category as it is written.
    pub(crate) label: Raw<'a>,
    pub(crate) name: Raw<'a>,
    pub(crate) process: Scalar<'a>,
    pub(crate) thread: Scalar<'a>,
    pub(crate) start: Scalar<'a>,
    pub(crate) duration: Scalar<'a>,
    /// Of an arrow.
    pub(crate) id: Scalar<'a>,
    /// As they are written; empty when there are none.
    pub(crate) arguments: &'a [u8],
}

impl<'a> Event<'a> {
    pub(crate) fn parse(cursor: &mut Cursor<'a>) -> Result<Event<'a>, Stop> {
        let mut event = Event { category: Category::Known, ..Event::default() };
        cursor.expect(b'{', "expected an event of a trace")?;
        let mut first = true;
        while cursor.next_item(b'}', first)? {
            first = false;
            match cursor.key()?.bytes {
                b"ph" => {
                    if let Scalar::Text(phase) = cursor.scalar()? {
                        event.phase = phase.bytes.first().copied().unwrap_or_default();
                    }
                }
                b"cat" => {
                    if let Scalar::Text(label) = cursor.scalar()? {
                        event.category = Category::of(label.bytes);
                        event.label = label;
                    }
                }
                b"name" => {
                    if let Scalar::Text(name) = cursor.scalar()? {
                        event.name = name;
                    }
                }
                b"pid" => event.process = cursor.scalar()?,
                b"tid" => event.thread = cursor.scalar()?,
                b"ts" => event.start = cursor.scalar()?,
                b"dur" => event.duration = cursor.scalar()?,
                b"id" => event.id = cursor.scalar()?,
                b"args" => event.arguments = cursor.skip()?,
                _ => drop(cursor.skip()?),
            }
        }
        Ok(event)
    }

    /// When it began and ended, in nanoseconds.
    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        let (start, duration) = (self.start.nanoseconds()?, self.duration.nanoseconds()?);
        (duration >= 0).then(|| start.checked_add(duration).map(|end| (start, end)))?
    }

    /// The arguments one by one, by their keys.
    pub(crate) fn each_argument(
        &self,
        mut visit: impl FnMut(&'a [u8], &mut Cursor<'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if !self.arguments.starts_with(b"{") {
            return Ok(());
        }
        let mut cursor = Cursor::new(self.arguments, true);
        cursor.expect(b'{', "expected arguments")?;
        let mut first = true;
        while cursor.next_item(b'}', first)? {
            first = false;
            let key = cursor.key()?.bytes;
            visit(key, &mut cursor)?;
        }
        Ok(())
    }

    /// One argument.
    pub(crate) fn argument(&self, wanted: &[u8]) -> Scalar<'a> {
        let mut found = Scalar::None;
        let read = self.each_argument(|key, cursor| {
            if key == wanted {
                found = cursor.scalar()?;
            } else {
                cursor.skip()?;
            }
            Ok(())
        });
        if read.is_ok() { found } else { Scalar::None }
    }
}

/// What an operator was called with.
#[derive(Debug, Default)]
pub(crate) struct Called<'a> {
    /// Whether its shapes are there at all.
    pub(crate) has_shapes: bool,
    pub(crate) shapes: Vec<Option<Vec<u64>>>,
    /// Of each list of tensors, the elements of all.
    pub(crate) lists: Vec<Option<u64>>,
    pub(crate) strides: Vec<Option<Vec<u64>>>,
    pub(crate) types: Vec<Option<Stored>>,
    pub(crate) concrete: Vec<String>,
    /// Above 0 for what the autograd engine runs for an operator of that thread.
    pub(crate) forward_thread: Scalar<'a>,
    pub(crate) sequence: Scalar<'a>,
    pub(crate) external: Scalar<'a>,
    pub(crate) flops: Scalar<'a>,
}

impl<'a> Called<'a> {
    /// Reads the arguments of an operator; of one with a formula, with what it was called.
    pub(crate) fn read(event: &Event<'a>, inputs: bool) -> Result<Called<'a>, Stop> {
        let mut called = Called::default();
        event.each_argument(|key, cursor| {
            match key {
                b"Input Dims" | b"Input dims" if inputs => {
                    list(cursor, |cursor| {
                        let (shape, list) = shape_or_list(cursor)?;
                        called.shapes.push(shape);
                        called.lists.push(list);
                        Ok(())
                    })?;
                    called.has_shapes = !called.shapes.is_empty();
                }
                b"Input Dims" | b"Input dims" => {
                    let written = cursor.skip()?;
                    called.has_shapes =
                        written.starts_with(b"[") && !written[1..].trim_ascii().starts_with(b"]");
                }
                b"Input Strides" if inputs => list(cursor, |cursor| {
                    called.strides.push(shape(cursor)?);
                    Ok(())
                })?,
                b"Input type" | b"Input types" if inputs => list(cursor, |cursor| {
                    called.types.push(match cursor.scalar()? {
                        Scalar::Text(text) => Stored::by_name(&text.text()),
                        _ => None,
                    });
                    Ok(())
                })?,
                b"Concrete Inputs" if inputs => list(cursor, |cursor| {
                    called.concrete.push(match cursor.scalar()? {
                        Scalar::Text(text) => text.text().into_owned(),
                        Scalar::Number(digits) => String::from_utf8_lossy(digits).into_owned(),
                        Scalar::None => String::new(),
                    });
                    Ok(())
                })?,
                b"Fwd thread id" => called.forward_thread = cursor.scalar()?,
                b"Sequence number" => called.sequence = cursor.scalar()?,
                b"External id" | b"external id" => called.external = cursor.scalar()?,
                b"flops" | b"Flops" | b"FLOPs" => called.flops = cursor.scalar()?,
                _ => drop(cursor.skip()?),
            }
            Ok(())
        })?;
        Ok(called)
    }

    /// What the operator needs, where that is known.
    pub(crate) fn work(&self, name: &str) -> Option<OperatorWork> {
        let operand = |(at, sizes): (usize, &Option<Vec<u64>>)| {
            let list = self.lists.get(at).copied().flatten();
            if list.is_some() {
                return Some(Operand { list, ..Operand::default() });
            }
            let strides = self.strides.get(at).cloned().flatten().unwrap_or_default();
            let stored = self.types.get(at).copied().flatten();
            Some(Operand { sizes: sizes.clone()?, strides, stored, list })
        };
        let operands: Vec<Option<Operand>> = self.shapes.iter().enumerate().map(operand).collect();
        work(name, &operands, &self.concrete)
    }
}

/// What the allocator had given out when it gave or took a piece of memory (`[memory]`).
#[derive(Debug, Default)]
pub(crate) struct Allocated<'a> {
    /// 0 for the host's memory, as `PyTorch` numbers kinds of devices.
    kind: Scalar<'a>,
    total: Scalar<'a>,
    /// Of the piece; less than 0 of one that was taken back.
    bytes: Scalar<'a>,
}

impl<'a> Allocated<'a> {
    /// The more of what was given out of a GPU's memory before it and after it.
    pub(crate) fn most(&self) -> Option<u64> {
        let total = self.total.count().filter(|_| self.kind.integer().is_some_and(|kind| kind != 0))?;
        let taken =
            self.bytes.integer().map_or(0, |bytes| u64::try_from(bytes.saturating_neg()).unwrap_or(0));
        Some(total.saturating_add(taken))
    }

    pub(crate) fn read(event: &Event<'a>) -> Result<Allocated<'a>, Stop> {
        let mut allocated = Allocated::default();
        event.each_argument(|key, cursor| {
            match key {
                b"Device Type" => allocated.kind = cursor.scalar()?,
                b"Total Allocated" => allocated.total = cursor.scalar()?,
                b"Bytes" => allocated.bytes = cursor.scalar()?,
                _ => drop(cursor.skip()?),
            }
            Ok(())
        })?;
        Ok(allocated)
    }
}

/// How a kernel was launched, or what a copy or set did.
#[derive(Debug, Default)]
pub(crate) struct Launched<'a> {
    pub(crate) device: Scalar<'a>,
    pub(crate) context: Scalar<'a>,
    pub(crate) stream: Scalar<'a>,
    pub(crate) correlation: Scalar<'a>,
    pub(crate) external: Scalar<'a>,
    pub(crate) registers: Scalar<'a>,
    pub(crate) shared_memory: Scalar<'a>,
    pub(crate) bytes: Scalar<'a>,
    pub(crate) graph_node: Scalar<'a>,
    /// The group of ranks of a collective: its name, and its ranks as a text.
    pub(crate) group_name: Scalar<'a>,
    pub(crate) group_ranks: Scalar<'a>,
    pub(crate) collective: Scalar<'a>,
    /// Elements that this rank gives to a collective and gets from it, and their type.
    pub(crate) given: Scalar<'a>,
    pub(crate) gotten: Scalar<'a>,
    pub(crate) element: Scalar<'a>,
    pub(crate) grid: Option<Vec<u64>>,
    pub(crate) block: Option<Vec<u64>>,
}

impl<'a> Launched<'a> {
    pub(crate) fn read(event: &Event<'a>) -> Result<Launched<'a>, Stop> {
        let mut launched = Launched::default();
        event.each_argument(|key, cursor| {
            match key {
                b"device" => launched.device = cursor.scalar()?,
                b"context" => launched.context = cursor.scalar()?,
                b"stream" => launched.stream = cursor.scalar()?,
                b"correlation" => launched.correlation = cursor.scalar()?,
                b"External id" | b"external id" => launched.external = cursor.scalar()?,
                b"registers per thread" => launched.registers = cursor.scalar()?,
                b"shared memory" => launched.shared_memory = cursor.scalar()?,
                b"bytes" => launched.bytes = cursor.scalar()?,
                b"graph node id" => launched.graph_node = cursor.scalar()?,
                b"Process Group Name" => launched.group_name = cursor.scalar()?,
                b"Collective name" => launched.collective = cursor.scalar()?,
                b"In msg nelems" => launched.given = cursor.scalar()?,
                b"Out msg nelems" => launched.gotten = cursor.scalar()?,
                b"dtype" => launched.element = cursor.scalar()?,
                b"Process Group Ranks" => launched.group_ranks = cursor.scalar()?,
                b"grid" => launched.grid = shape(cursor)?,
                b"block" => launched.block = shape(cursor)?,
                _ => drop(cursor.skip()?),
            }
            Ok(())
        })?;
        Ok(launched)
    }

    /// Bytes of what this rank gives to a collective and of what it gets.
    pub(crate) fn exchanged(&self) -> Option<[u64; 2]> {
        let Scalar::Text(element) = self.element else { return None };
        let element = element_bytes(&element.text())?;
        Some([self.given.count()?.checked_mul(element)?, self.gotten.count()?.checked_mul(element)?])
    }
}

/// Bytes of an element, by the name of its type in PyTorch.
fn element_bytes(name: &str) -> Option<u64> {
    Some(match name {
        "Byte" | "Char" | "Bool" => 1,
        "Half" | "BFloat16" | "Short" => 2,
        "Float" | "Int" => 4,
        "Double" | "Long" => 8,
        _ if name.starts_with("Float8_") => 1,
        _ => return None,
    })
}

/// Reads the elements of a list; any other value is passed over.
fn list<'a>(
    cursor: &mut Cursor<'a>,
    mut element: impl FnMut(&mut Cursor<'a>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    if cursor.peek()? != b'[' {
        return cursor.skip().map(drop);
    }
    cursor.expect(b'[', "expected a list")?;
    let mut first = true;
    while cursor.next_item(b']', first)? {
        first = false;
        element(cursor)?;
    }
    Ok(())
}

/// The sizes of one input: none when it is no single tensor with known sizes.
fn shape(cursor: &mut Cursor<'_>) -> Result<Option<Vec<u64>>, Stop> {
    Ok(shape_or_list(cursor)?.0)
}

/// The sizes of one input, or of a list of tensors with known sizes the elements of all.
fn shape_or_list(cursor: &mut Cursor<'_>) -> Result<(Option<Vec<u64>>, Option<u64>), Stop> {
    if cursor.peek()? != b'[' {
        cursor.skip()?;
        return Ok((None, None));
    }
    let (mut sizes, mut elements) = (Some(Vec::new()), None);
    list(cursor, |cursor| {
        if cursor.peek()? == b'[' {
            let own = shape(cursor)?
                .and_then(|own| own.iter().try_fold(1, |all: u64, size| all.checked_mul(*size)));
            let before = match sizes.take() {
                Some(sizes) => sizes.is_empty().then_some(0),
                None => elements,
            };
            elements = before.zip(own).and_then(|(before, own): (u64, u64)| before.checked_add(own));
            return Ok(());
        }
        // A size that only the run knows is not a number.
        let size = cursor.scalar()?.count();
        sizes = sizes.take().zip(size).map(|(mut sizes, size)| {
            sizes.push(size);
            sizes
        });
        elements = None;
        Ok(())
    })?;
    Ok((sizes, elements))
}
