//! The tables of an export: the one place that knows their columns and codes.
//!
//! Each file has the tables of a family, the rows that the rest of the crate and its callers see,
//! and how they are decoded. A decoder selects its columns by name and gets a [`Field`] for each,
//! so that no row is read by position; a test holds that no other file names a column.
//!
//! [`Field`]: crate::row::Field

pub(crate) mod active;
pub(crate) mod codes;
pub(crate) mod counted;
pub(crate) mod gpu;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod metrics;
pub(crate) mod nvtx;
pub(crate) mod nvtx_kind;
pub(crate) mod placement;
pub(crate) mod row_filter;
pub(crate) mod session;
pub(crate) mod strings;
pub(crate) mod sync;
pub(crate) mod target;
pub(crate) mod unified;

pub use codes::{
    AccessKind, ApiClass, CopyKind, DiagnosticClock, DiagnosticSource, MemoryKind, OsClass, Severity,
    SyncKind,
};
pub use gpu::{Kernel, MemoryCopy, MemorySet};
pub use graph::GraphRun;
pub use host::{ApiCall, OsCall, ProfilerOverhead};
pub use nvtx_kind::NvtxKind;
pub use placement::Placement;
pub use session::{Diagnostic, Metadata, Session};
pub use sync::Synchronization;
pub use target::{CudaDevice, Gpu, Process, ThreadName};
pub use unified::{CpuPageFault, GpuPageFault};

/// A table that nsys may have written.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub(crate) name: &'static str,
    /// What it holds, to complete "does not contain".
    pub(crate) holds: &'static str,
}

impl TableSpec {
    const fn new(name: &'static str, holds: &'static str) -> TableSpec {
        TableSpec { name, holds }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// A column that another file names is a second decoder of its table.
    #[test]
    fn no_other_file_reads_columns() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut open = vec![source.clone()];
        let (mut here, mut elsewhere) = (0, Vec::new());
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                // Unit tests may make tables of their own.
                let code = text.split("#[cfg(test)]").next().unwrap();
                let reads = [".need(\"", ".want(\"", "row.int("].map(|read| code.matches(read).count());
                let reads: usize = reads.iter().sum();
                let name = path.strip_prefix(&source).unwrap();
                if name.starts_with("tables") {
                    here += reads;
                } else if reads > 0 && !["row.rs", "rows.rs"].iter().any(|file| name == Path::new(file)) {
                    elsewhere.push(name.to_owned());
                }
            }
        }
        assert!(here > 100, "only {here} columns are read");
        assert!(elsewhere.is_empty(), "these decode tables, too: {elsewhere:?}");
    }
}
