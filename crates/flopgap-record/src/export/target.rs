//! What the programs ran on: devices, contexts and streams.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rusqlite::{Connection, params};
use rustc_hash::FxHashMap;

use super::MACHINE;
use crate::reader::{Device, Stream};

/// All of them, each once.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// By UUID, with the name and the number that the first process gave it.
    devices: BTreeMap<[u8; 16], (Device, Option<String>)>,
    /// A process's number of a device.
    ordinals: BTreeSet<(u64, u32, [u8; 16])>,
    /// By process and number: the device and its null stream.
    contexts: FxHashMap<(u64, u32), (u32, u16)>,
    streams: Vec<(u64, Stream)>,
}

impl Targets {
    pub(super) fn device(&mut self, device: Device, name: Option<String>, pid: u64) {
        self.ordinals.insert((pid, device.id, device.uuid));
        self.devices.entry(device.uuid).or_insert((device, name));
    }

    pub(super) fn context(&mut self, pid: u64, id: u32, device: u32, null_stream: u16) {
        self.contexts.insert((pid, id), (device, null_stream));
    }

    pub(super) fn stream(&mut self, pid: u64, stream: Stream) {
        self.streams.push((pid, stream));
    }

    /// The device of a context; 0 where it was not recorded.
    pub(super) fn device_of(&self, pid: u64, context: u32) -> u32 {
        self.contexts.get(&(pid, context)).map_or(0, |&(device, _)| device)
    }

    /// The compute capability of the first device of a process.
    pub(super) fn capability(&self, pid: u64) -> Option<(u32, u32)> {
        let (_, _, uuid) = self.ordinals.iter().find(|(process, ..)| *process == pid)?;
        self.devices.get(uuid).map(|(device, _)| device.capability)
    }

    /// The numbers of devices in `TARGET_INFO_GPU`, by UUID.
    fn numbers(&self) -> impl Iterator<Item = (&[u8; 16], i64)> {
        self.devices.keys().zip(0..)
    }

    /// The same, by the UUID as it is written there.
    pub(super) fn numbers_by_text(&self) -> FxHashMap<String, i64> {
        self.numbers().map(|(uuid, number)| (text(uuid), number)).collect()
    }

    pub(super) fn write(&self, database: &Connection) -> rusqlite::Result<()> {
        let numbers: BTreeMap<&[u8; 16], i64> = self.numbers().collect();
        let mut gpu = database.prepare(
            "INSERT INTO TARGET_INFO_GPU (vmId, id, name, isDiscrete, l2CacheSize, totalMemory, memoryBandwidth,
             clockRate, smCount, uuid, cuDevice, threadsPerWarp, computeMajor, computeMinor, smMajor, smMinor)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?12, ?13)",
        )?;
        for (uuid, (device, name)) in &self.devices {
            gpu.execute(params![
                MACHINE,
                numbers[uuid],
                name,
                device.l2,
                device.memory.cast_signed(),
                // CUPTI has kilobytes per second and kilohertz.
                device.bandwidth.cast_signed().saturating_mul(1000),
                i64::from(device.clock) * 1000,
                device.multiprocessors,
                text(uuid),
                device.id,
                device.warp,
                device.capability.0,
                device.capability.1,
            ])?;
        }
        let mut ordinal =
            database.prepare("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (pid, id, uuid) in &self.ordinals {
            let multiprocessors = self.devices[uuid].0.multiprocessors;
            ordinal.execute(params![numbers[uuid], id, pid.cast_signed(), text(uuid), multiprocessors])?;
        }
        self.write_contexts(database)
    }

    fn write_contexts(&self, database: &Connection) -> rusqlite::Result<()> {
        let mut context = database
            .prepare("INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (?1, 0, 1, ?2, ?3, ?4, 0, 0)")?;
        let mut contexts: Vec<_> = self.contexts.iter().collect();
        contexts.sort();
        for ((pid, id), (device, null_stream)) in contexts {
            context.execute(params![null_stream, pid.cast_signed(), device, id])?;
        }
        let mut row =
            database.prepare("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?1, 0, 1, ?2, ?3, ?4, ?5)")?;
        for (pid, stream) in &self.streams {
            row.execute(params![stream.id, pid.cast_signed(), stream.context, stream.priority, stream.flag])?;
        }
        Ok(())
    }
}

/// A UUID as it is usually written.
fn text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
