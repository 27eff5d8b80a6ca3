//! The NVTX ranges around a result.

use super::wire::{Damage, Message};
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
    let domains = state.all(1).map(|domain| {
        let domain = domain?;
        Ok((domain.id("NVTX domain")?, domain))
    });
    let domains = domains.collect::<Result<Vec<_>, _>>()?;
    let of_process = state.number(5)? == Some(PROCESS_SCOPE);
    for thread in state.all(2) {
        let thread = thread?;
        let tid = thread.id("NVTX thread")?;
        let counts = of_process || tid == launched_by;
        let ranges = if counts { &mut launch.nvtx } else { &mut launch.nvtx_of_others };
        push_pop(thread, tid, &domains, strings, ranges)?;
    }
    for opened in state.all(3) {
        let opened = opened?;
        let domain = Domain::new(opened, &domains, strings)?;
        for range in opened.all(3) {
            let range = range?;
            let name = range_name(range.message(2)?, range.message(3)?, domain.info, strings)?;
            let (kind, thread) = (NvtxKind::StartEnd, range.number(5)?);
            launch.nvtx.push(NvtxRange { kind, domain: domain.name, name, thread });
        }
    }
    Ok(())
}

/// The stacks of one `NvtxThread`, one per domain, merged into the order in which the ranges were
/// pushed.
fn push_pop(
    thread: Message<'_>,
    tid: u64,
    domains: &[(u64, Message<'_>)],
    strings: &mut Strings,
    ranges: &mut Vec<NvtxRange>,
) -> Result<(), Damage> {
    let mut pushed = Vec::new();
    for stack in thread.all(2) {
        let stack = stack?;
        let domain = Domain::new(stack, domains, strings)?;
        for range in stack.all(3) {
            let range = range?;
            let name = range_name(range.message(1)?, range.message(2)?, domain.info, strings)?;
            let after_call = range.number(3)?;
            let (kind, thread) = (NvtxKind::PushPop, Some(tid));
            pushed.push((after_call, NvtxRange { kind, domain: domain.name, name, thread }));
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

/// A range's name, or else the text of its event attributes, or else the string registered for it.
fn range_name(
    name: Option<Message<'_>>,
    attributes: Option<Message<'_>>,
    domain: Option<Message<'_>>,
    strings: &mut Strings,
) -> Result<Symbol, Damage> {
    if let Some(name) = name.filter(|name| !name.bytes.is_empty()) {
        return Ok(strings.intern(&name.text()));
    }
    let message = attributes.map_or(Ok(None), |attributes| attributes.message(5))?;
    let Some(message) = message else { return Ok(Symbol::EMPTY) };
    let text = match (message.message(2)?, message.number(3)?, domain) {
        (None, Some(handle), Some(domain)) => registered(domain, handle)?,
        (text, ..) => text,
    };
    Ok(text.map_or(Symbol::EMPTY, |text| strings.intern(&text.text())))
}

/// The string that the program registered under `handle` in an `NvtxDomainInfo`.
fn registered(domain: Message<'_>, handle: u64) -> Result<Option<Message<'_>>, Damage> {
    for entry in domain.all(3) {
        let entry = entry?;
        if entry.id("registered NVTX string")? == handle
            && let Some(text) = entry.message(2)?
        {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// The domain of an `NvtxPushPopDomain` or `NvtxStartEndDomain`.
struct Domain<'a> {
    /// Its `NvtxDomainInfo`.
    info: Option<Message<'a>>,
    name: Symbol,
}

impl<'a> Domain<'a> {
    fn new(
        opened: Message<'_>,
        domains: &[(u64, Message<'a>)],
        strings: &mut Strings,
    ) -> Result<Self, Damage> {
        let id = opened.id("NVTX domain")?;
        let info = domains.iter().find(|(known, _)| *known == id).map(|&(_, info)| info);
        let name = match info {
            Some(info) => match info.message(2)? {
                Some(name) if name.bytes != DEFAULT_DOMAIN => strings.intern(&name.text()),
                _ => Symbol::EMPTY,
            },
            // NVTX's default domain is number 0; any other must differ from it.
            None if id == 0 => Symbol::EMPTY,
            None => strings.intern(&format!("domain {id}")),
        };
        Ok(Domain { info, name })
    }
}
