//! GPU work without communication, in which a GPU may wait for others.

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{DeviceId, GpuWork, Launched, Recording, WorkKind};
use rustc_hash::FxHashMap;

use crate::error::Error;

/// Which kinds of work communicate, where several GPUs or processes are compared.
pub(crate) struct Computing {
    /// By the places of kinds.
    communicates: Vec<bool>,
}

impl Computing {
    /// Nothing where one process did all on one GPU.
    pub(crate) fn read(trace: &dyn Recording, launched: &Launched) -> Result<Option<Computing>, Error> {
        let mut first = None;
        let mut several = false;
        launched.each(|process, device, _| {
            several |= *first.get_or_insert((process, device)) != (process, device);
        });
        if !several {
            return Ok(None);
        }
        let classifier = Classifier::new();
        let mut known: FxHashMap<i64, bool> = FxHashMap::default();
        trace.each_operation(false, &mut |operation| {
            if operation.work.kind == WorkKind::Kernel {
                known
                    .entry(operation.name_id)
                    .or_insert_with(|| classifier.get(operation.name).class == KernelClass::Communication);
            }
        })?;
        let communicates = launched.kinds().all().iter().map(|(kind, id)| {
            *kind == WorkKind::Kernel && id.is_some_and(|id| known.get(&id).copied().unwrap_or_default())
        });
        Ok(Some(Computing { communicates: communicates.collect() }))
    }

    /// The work of ranges on each GPU that does not communicate.
    pub(crate) fn work(
        &self,
        launched: &Launched,
        ranges: &[usize],
    ) -> Vec<(DeviceId, Vec<Option<GpuWork>>)> {
        launched.work_by_gpu_of(ranges, |kind| !self.communicates[kind as usize])
    }
}
