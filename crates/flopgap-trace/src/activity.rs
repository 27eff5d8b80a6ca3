//! What each GPU did for each process.

use rustc_hash::FxHashMap;

use crate::covered::Covered;
use crate::{DeviceId, GpuActivity, ProcessId, WorkKind};

/// What a GPU did for a process, and from when to when.
type Activity = (GpuActivity, Vec<(i64, i64)>);

/// What each GPU did for each process while it is added up.
#[derive(Debug, Default)]
pub struct Activities(FxHashMap<(Option<ProcessId>, DeviceId), Activity>);

impl Activities {
    /// Adds a piece of work.
    #[inline]
    pub fn add(
        &mut self,
        process: Option<ProcessId>,
        device: DeviceId,
        kind: WorkKind,
        start: i64,
        end: i64,
    ) {
        let (activity, intervals) = self.0.entry((process, device)).or_insert_with(|| {
            let none = GpuActivity {
                process,
                device,
                start,
                end,
                busy: 0,
                kernels: 0,
                kernel_time: 0,
                copies: 0,
                copy_time: 0,
                sets: 0,
                set_time: 0,
                graphs: 0,
                graph_time: 0,
            };
            (none, Vec::new())
        });
        activity.start = activity.start.min(start);
        activity.end = activity.end.max(end);
        let (count, time) = match kind {
            WorkKind::Kernel => (&mut activity.kernels, &mut activity.kernel_time),
            WorkKind::Copy => (&mut activity.copies, &mut activity.copy_time),
            WorkKind::Set => (&mut activity.sets, &mut activity.set_time),
            WorkKind::Graph => (&mut activity.graphs, &mut activity.graph_time),
        };
        *count += 1;
        *time += i128::from(end) - i128::from(start);
        intervals.push((start, end));
    }

    /// By process and GPU.
    pub fn finish(self) -> Vec<GpuActivity> {
        let activities = self.0.into_values().map(|(mut activity, mut intervals)| {
            intervals.sort_unstable();
            let mut covered = Covered::NOTHING;
            let busy = intervals.iter().map(|(start, end)| covered.add(*start, *end).busy);
            activity.busy = busy.fold(0, i64::saturating_add);
            activity
        });
        let mut activities: Vec<GpuActivity> = activities.collect();
        activities.sort_unstable_by_key(|activity| (activity.process, activity.device));
        activities
    }
}
