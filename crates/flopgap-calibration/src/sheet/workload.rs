//! Reconstructs workloads from the columns of tables of networks, products and convolutions.

use flopgap_flops::Activation;
use flopgap_graph::op::{Conv, Gemm};
use flopgap_graph::{Epilogue, MlpSpec, Op, Step, Workload};

use super::SheetError;
use super::cells::Cells;

/// The workload of a row; `None` where its columns do not tell, or the row leaves them empty.
pub(super) fn workload(cells: &Cells<'_>) -> Result<Option<Workload>, SheetError> {
    if let Some(mlp) = mlp(cells)? {
        return Ok(Some(Workload::Mlp(mlp)));
    }
    let op = match gemm(cells)? {
        Some(gemm) => Op::Gemm(gemm),
        None => match conv(cells)? {
            Some(conv) => Op::Conv(conv),
            None => return Ok(None),
        },
    };
    Ok(Some(Workload::Step(Step { op, epilogue: Epilogue::default() })))
}

/// `input_dim`, `hidden_dims` as `[512, 512]`, `output_dim`, `batch_size`. Tables do not name the
/// activation, which is taken to be `ReLU`.
fn mlp(cells: &Cells<'_>) -> Result<Option<MlpSpec>, SheetError> {
    let (Some(input), Some(output), Some(batch), Some(hidden)) = (
        cells.integer("input_dim")?,
        cells.integer("output_dim")?,
        cells.integer("batch_size")?,
        cells.text("hidden_dims"),
    ) else {
        return Ok(None);
    };
    let widths = hidden.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let widths = widths.and_then(|widths| {
        let parts = widths.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| part.parse::<u64>().ok().filter(|&width| width > 0)).collect()
    });
    match widths {
        Some(hidden) => Ok(Some(MlpSpec { input, hidden, output, batch, activation: Activation::Relu })),
        None => Err(cells.wrong("hidden_dims", "expected a list of widths: [512, 512]")),
    }
}

/// `M`, `N`, `K`, and `batch_size` products of operands of their own.
fn gemm(cells: &Cells<'_>) -> Result<Option<Gemm>, SheetError> {
    let (Some(m), Some(n), Some(k)) = (cells.integer("M")?, cells.integer("N")?, cells.integer("K")?) else {
        return Ok(None);
    };
    Ok(Some(Gemm { batch: cells.integer("batch_size")?.unwrap_or(1), m, n, k }))
}

/// `in_channels`, `out_channels`, `spatial_size`, `kernel_size`, `stride`, `groups`, `batch_size`:
/// square, and padded so that a stride of 1 keeps the size.
fn conv(cells: &Cells<'_>) -> Result<Option<Conv>, SheetError> {
    let (Some(inputs), Some(outputs), Some(size), Some(kernel), Some(batch)) = (
        cells.integer("in_channels")?,
        cells.integer("out_channels")?,
        cells.integer("spatial_size")?,
        cells.integer("kernel_size")?,
        cells.integer("batch_size")?,
    ) else {
        return Ok(None);
    };
    let stride = cells.integer("stride")?.unwrap_or(1);
    Ok(Some(Conv {
        groups: cells.integer("groups")?.unwrap_or(1),
        ..Conv::new(batch, [inputs, outputs], &[size; 2], kernel, stride)
    }))
}
