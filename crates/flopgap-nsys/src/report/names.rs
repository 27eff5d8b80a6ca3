//! The names that reports print.

use std::sync::Arc;

use crate::{Dim3, Error, StringId, Trace};

/// The name of an API call without a version suffix of exactly four digits: nsys cuts `_v7000` but
/// not `_v10000`.
pub(super) fn without_version(name: &Arc<str>) -> Arc<str> {
    match name.rfind("_v") {
        Some(at) if name.len() - at == 6 => name[..at].into(),
        _ => name.clone(),
    }
}

/// The text of an API name id, without its version.
pub(super) fn api(trace: &Trace, id: StringId) -> Result<Arc<str>, Error> {
    Ok(without_version(&trace.string_or_id(id)?))
}

/// Three sizes as nsys prints a grid or block.
pub(super) fn shape(Dim3 { x, y, z }: Dim3) -> Arc<str> {
    format!("{x:4} {y:4} {z:4}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_cut() {
        for (full, short) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
            ("cudaGraphLaunch_v10000", "cudaGraphLaunch_v10000"),
            ("cudaMemcpyAsync_ptsz", "cudaMemcpyAsync_ptsz"),
            ("_v12", "_v12"),
            ("cuInit", "cuInit"),
        ] {
            assert_eq!(without_version(&full.into()).as_ref(), short);
        }
    }
}
