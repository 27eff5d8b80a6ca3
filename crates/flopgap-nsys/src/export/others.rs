//! Other events on the host and in unified memory.

use std::io::Write;

use super::perfetto::{Track, Writer};
use super::rows;
use super::window::in_order;
use crate::{CpuPageFault, Error, GpuPageFault, OsCall, OsClass, ProfilerOverhead, Trace};

impl<W: Write> Writer<'_, '_, W> {
    /// Draws calls of the operating system, what the profiler itself did, and page faults.
    pub(super) fn others(&mut self, trace: &Trace) -> Result<(), Error> {
        for call in in_order(rows(trace.os_calls())?, |call| (call.start, call.end)) {
            self.os_call(&call?)?;
        }
        for work in in_order(rows(trace.profiler_overheads())?, |work| (work.start, work.end)) {
            self.overhead(&work?)?;
        }
        for fault in in_order(rows(trace.cpu_page_faults())?, |fault| (fault.time, fault.time)) {
            self.cpu_fault(&fault?)?;
        }
        for fault in in_order(rows(trace.gpu_page_faults())?, |fault| (fault.start, fault.end)) {
            self.gpu_fault(&fault?)?;
        }
        Ok(())
    }

    fn os_call(&mut self, call: &OsCall) -> Result<(), Error> {
        let name = self.strings.get(call.name)?;
        self.slice(Track::Os(call.thread), (None, &name), "os_runtime", call.start, call.end)?;
        self.event.maybe("class", call.class.map(OsClass::code)).maybe("result", call.result);
        self.counts.os_calls += 1;
        self.put()
    }

    fn overhead(&mut self, overhead: &ProfilerOverhead) -> Result<(), Error> {
        let name = self.strings.get(overhead.name)?;
        let track = Track::Overhead(overhead.thread);
        self.slice(track, (None, &name), "profiler_overhead", overhead.start, overhead.end)?;
        self.counts.overheads += 1;
        self.put()
    }

    fn cpu_fault(&mut self, fault: &CpuPageFault) -> Result<(), Error> {
        let place = self.place(Track::CpuFaults(fault.process), fault.time, fault.time)?;
        self.event
            .begin('i', "CPU page fault", place)
            .category("page_fault")
            .time("ts", fault.time.into())
            .field("s", "\"t\"")
            .number("address", fault.address);
        for (key, id) in [("instruction", fault.instruction), ("module", fault.module)] {
            if let Some(id) = id {
                let text = self.strings.get(id)?;
                self.event.text(key, &text);
            }
        }
        self.counts.cpu_faults += 1;
        self.put()
    }

    fn gpu_fault(&mut self, fault: &GpuPageFault) -> Result<(), Error> {
        let gpu = self.labels.gpu(fault.process, fault.device);
        let track = Track::GpuFaults { gpu, process: fault.process };
        self.slice(track, (None, "GPU page faults"), "page_fault", fault.start, fault.end)?;
        self.event.number("address", fault.address).number("faults", fault.faults);
        match fault.access.map(|access| (access.label(), access.code())) {
            Some((Some(label), _)) => self.event.text("access", label),
            Some((None, code)) => self.event.number("access", code),
            None => &mut self.event,
        };
        self.counts.gpu_faults += 1;
        self.put()
    }
}
