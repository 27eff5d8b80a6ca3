//! Traces, and exports that may be compressed.

use std::path::Path;
use std::sync::Arc;

use flopgap_trace::Recording;

use crate::Error;
use crate::decompressed::{Compression, Unpacked};
use crate::kind::compression_of;

/// A trace, by whichever profiler.
#[derive(Clone, Debug)]
pub enum Trace {
    /// An export of Nsight Systems.
    Nsys(Arc<flopgap_nsys::Trace>),
    /// Exports of the ranks of a job.
    Exports(Arc<flopgap_nsys::Job>),
    /// A trace of `torch.profiler`, or those of all ranks of a job.
    Kineto(Arc<flopgap_kineto::Job>),
}

impl Trace {
    /// What `flopgap-timings` answers questions of.
    pub fn recording(&self) -> &dyn Recording {
        match self {
            Trace::Nsys(trace) => &**trace,
            Trace::Exports(job) => &**job,
            Trace::Kineto(job) => &**job,
        }
    }

    /// The export of Nsight Systems, if it is one alone.
    pub fn nsys(&self) -> Option<&flopgap_nsys::Trace> {
        match self {
            Trace::Nsys(trace) => Some(trace),
            Trace::Exports(_) | Trace::Kineto(_) => None,
        }
    }
}

/// An open export of Nsight Systems. A clone is another view of the same.
///
/// ```
/// use flopgap_table::Export;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let export = Export::open(path)?;
/// assert!(export.trace().schema().table("CUPTI_ACTIVITY_KIND_KERNEL").is_some());
/// # Ok::<(), flopgap_table::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Export {
    path: Arc<Path>,
    trace: Arc<flopgap_nsys::Trace>,
    /// The unpacked file, if the given one is compressed: it lives as long as its last reader.
    #[cfg_attr(not(feature = "tables"), expect(dead_code, reason = "it is only kept"))]
    pub(crate) unpacked: Option<Arc<Unpacked>>,
}

impl Export {
    /// Opens an export. One that is compressed with gzip or Zstandard is unpacked into a temporary
    /// file.
    ///
    /// # Errors
    /// When the file is not an export, cannot be read, or cannot be unpacked.
    pub fn open(path: impl AsRef<Path>) -> Result<Export, Error> {
        let path: Arc<Path> = path.as_ref().into();
        let compression = compression_of(&path)?;
        Export::packed(&path, compression)
    }

    /// Opens an export that is compressed so.
    pub(crate) fn packed(path: &Arc<Path>, compression: Option<Compression>) -> Result<Export, Error> {
        let unpacked = compression.map(|compression| Unpacked::new(path, compression)).transpose()?;
        let file = unpacked.as_ref().map_or(&**path, |unpacked| &unpacked.path);
        let trace = Arc::new(flopgap_nsys::Trace::open_unpacked(file, path)?);
        Ok(Export { path: path.clone(), trace, unpacked: unpacked.map(Arc::new) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The trace.
    pub fn trace(&self) -> &Arc<flopgap_nsys::Trace> {
        &self.trace
    }
}
