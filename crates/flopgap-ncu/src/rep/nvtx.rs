//! The NVTX ranges around a result.

use super::FormatFault;
use super::wire::{Damage, Field, Message};
use crate::model::{Launch, NvtxKind, NvtxRange, Strings, Symbol};

/// How NVTX calls the domain of ranges that were given none.
const DEFAULT_DOMAIN: &[u8] = b"<default domain>";

/// What `NvtxState.PushPopRangeScope` holds after `--nvtx-push-pop-scope process`.
const PROCESS_SCOPE: u64 = 1;

/// Adds the ranges of an `NvtxState`: push/pop ranges outermost first, then start/end ranges.
///
/// As in NVIDIA's reader, the push/pop ranges of the launching thread count, and those of all
/// threads when the report was recorded with `--nvtx-push-pop-scope process`. Otherwise those of
/// other threads are kept apart.
pub(super) fn ranges(
    state: Message<'_>,
    launched_by: u64,
    strings: &mut Strings,
    launch: &mut Launch,
) -> Result<(), Damage> {
    let mut domains = Vec::new();
    let mut scope = 0;
    for field in state.fields() {
        match field? {
            (1, Field::Bytes(domain)) => domains.push(Domain::parse(domain)?),
            (5, Field::Varint(value)) => scope = value,
            _ => {}
        }
    }
    for field in state.fields() {
        let (2, Field::Bytes(thread)) = field? else { continue };
        let tid = id_of(thread, "NVTX thread")?;
        let counts = scope == PROCESS_SCOPE || tid == launched_by;
        let ranges = if counts { &mut launch.nvtx } else { &mut launch.nvtx_of_others };
        push_pop(thread, tid, &domains, strings, ranges)?;
    }
    for field in state.fields() {
        let (3, Field::Bytes(opened)) = field? else { continue };
        let domain = Domain::find(opened, &domains, strings)?;
        for field in opened.fields() {
            if let (3, Field::Bytes(range)) = field? {
                launch.nvtx.push(StartEnd::parse(range)?.resolve(domain, strings)?);
            }
        }
    }
    Ok(())
}

/// The stacks of one `NvtxThread`, one per domain, merged into the order in which the ranges were
/// pushed.
fn push_pop(
    thread: Message<'_>,
    tid: u64,
    domains: &[Domain<'_>],
    strings: &mut Strings,
    ranges: &mut Vec<NvtxRange>,
) -> Result<(), Damage> {
    let mut pushed = Vec::new();
    for field in thread.fields() {
        let (2, Field::Bytes(stack)) = field? else { continue };
        let domain = Domain::find(stack, domains, strings)?;
        for field in stack.fields() {
            let (3, Field::Bytes(range)) = field? else { continue };
            let (mut name, mut attributes, mut after_call) = (None, None, None);
            for field in range.fields() {
                match field? {
                    (1, Field::Bytes(text)) => name = Some(text),
                    (2, Field::Bytes(message)) => attributes = Some(message),
                    (3, Field::Varint(call)) => after_call = Some(call),
                    _ => {}
                }
            }
            let name = range_name(name, attributes, domain.info, strings)?;
            let range = NvtxRange { kind: NvtxKind::PushPop, domain: domain.name, name, thread: Some(tid) };
            pushed.push((after_call, range));
        }
    }
    // Between domains, only the API call before each push shows which came first; the sort keeps
    // the order of equals.
    if pushed.iter().all(|(after_call, _)| after_call.is_some()) {
        pushed.sort_by_key(|&(after_call, _)| after_call);
    }
    ranges.extend(pushed.into_iter().map(|(_, range)| range));
    Ok(())
}

/// `NvtxStartEndRange`.
#[derive(Default)]
struct StartEnd<'a> {
    name: Option<Message<'a>>,
    attributes: Option<Message<'a>>,
    thread: Option<u64>,
}

impl<'a> StartEnd<'a> {
    fn parse(message: Message<'a>) -> Result<Self, Damage> {
        let mut range = StartEnd::default();
        for field in message.fields() {
            match field? {
                (2, Field::Bytes(text)) => range.name = Some(text),
                (3, Field::Bytes(message)) => range.attributes = Some(message),
                (5, Field::Varint(tid)) => range.thread = Some(tid),
                _ => {}
            }
        }
        Ok(range)
    }

    fn resolve(self, domain: Named<'_, '_>, strings: &mut Strings) -> Result<NvtxRange, Damage> {
        let name = range_name(self.name, self.attributes, domain.info, strings)?;
        Ok(NvtxRange { kind: NvtxKind::StartEnd, domain: domain.name, name, thread: self.thread })
    }
}

/// A range's name, or else the text of its event attributes, or else the string registered for it.
fn range_name(
    name: Option<Message<'_>>,
    attributes: Option<Message<'_>>,
    domain: Option<&Domain<'_>>,
    strings: &mut Strings,
) -> Result<Symbol, Damage> {
    if let Some(name) = name.filter(|name| !name.bytes.is_empty()) {
        return Ok(strings.intern(&name.text()));
    }
    let (mut text, mut handle) = (None, None);
    if let Some(attributes) = attributes {
        for field in attributes.fields() {
            let (5, Field::Bytes(message)) = field? else { continue };
            for field in message.fields() {
                match field? {
                    (2, Field::Bytes(value)) => text = Some(value),
                    (3, Field::Varint(value)) => handle = Some(value),
                    _ => {}
                }
            }
        }
    }
    if text.is_none()
        && let (Some(handle), Some(domain)) = (handle, domain)
    {
        text = domain.registered(handle)?;
    }
    Ok(text.map_or(Symbol::EMPTY, |text| strings.intern(&text.text())))
}

/// `NvtxDomainInfo`.
struct Domain<'a> {
    id: u64,
    name: Message<'a>,
    message: Message<'a>,
}

/// A domain together with the symbol of its name.
#[derive(Clone, Copy)]
struct Named<'d, 'a> {
    info: Option<&'d Domain<'a>>,
    name: Symbol,
}

impl<'a> Domain<'a> {
    fn parse(message: Message<'a>) -> Result<Self, Damage> {
        let mut domain = Domain {
            id: id_of(message, "NVTX domain")?,
            name: Message { at: message.at, bytes: &[] },
            message,
        };
        for field in message.fields() {
            if let (2, Field::Bytes(name)) = field? {
                domain.name = name;
            }
        }
        Ok(domain)
    }

    /// The domain that an `NvtxPushPopDomain` or `NvtxStartEndDomain` belongs to.
    fn find<'d>(
        opened: Message<'_>,
        domains: &'d [Domain<'a>],
        strings: &mut Strings,
    ) -> Result<Named<'d, 'a>, Damage> {
        let id = id_of(opened, "NVTX domain")?;
        let info = domains.iter().find(|domain| domain.id == id);
        let name = match info {
            Some(domain) if domain.name.bytes == DEFAULT_DOMAIN => Symbol::EMPTY,
            Some(domain) => strings.intern(&domain.name.text()),
            // NVTX's default domain is number 0; any other must differ from it.
            None if id == 0 => Symbol::EMPTY,
            None => strings.intern(&format!("domain {id}")),
        };
        Ok(Named { info, name })
    }

    /// The string that the program registered under `handle`.
    fn registered(&self, handle: u64) -> Result<Option<Message<'a>>, Damage> {
        for field in self.message.fields() {
            let (3, Field::Bytes(entry)) = field? else { continue };
            if id_of(entry, "registered NVTX string")? == handle {
                for field in entry.fields() {
                    if let (2, Field::Bytes(text)) = field? {
                        return Ok(Some(text));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Field 1, which numbers domains, threads and registered strings alike.
fn id_of(message: Message<'_>, part: &'static str) -> Result<u64, Damage> {
    for field in message.fields() {
        if let (1, Field::Varint(id)) = field? {
            return Ok(id);
        }
    }
    Err(Damage::new(message.at, FormatFault::Lacks { part, what: "number" }))
}
