//! Sets of metrics that a chip counts in one pass, so that the work runs once.

use super::preset::{is_tensor_flops, is_tensor_part};
use super::{Chip, CounterError, Preset};

/// Time and memory traffic, counted with everything but instructions.
const ALWAYS: [&str; 3] = ["gpu__time_duration", "dram__bytes_read", "dram__bytes_write"];

/// Also counted if a pass has room for them.
const IF_ROOM: &str = "lts__t_bytes";

/// Metrics that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `tensor`, `tensor-2`, ..., `sass`, `memory`.
    pub name: String,
    /// The metrics.
    pub metrics: Vec<String>,
    /// How often the work runs for them: once, except for operations that a chip cannot count in
    /// one pass even by themselves (TF32 and 8-bit floats of a B200).
    pub passes: usize,
}

impl Chip {
    /// Sets that together count all floating-point operations, the bytes and the time, each in one
    /// pass where the chip can, as CUPTI plans them:
    ///
    /// - `tensor`: operations of the tensor cores on floats, the most used types first, with time
    ///   and bytes at the memory. What does not fit is in `tensor-2` and so on;
    /// - `sass`: instructions of the shader cores on 64, 32 and 16-bit floats;
    /// - `memory`: bytes at the memory and at both caches, with the time.
    ///
    /// # Errors
    /// As [`Chip::plan`].
    pub fn groups(&self) -> Result<Vec<Group>, CounterError> {
        let mut groups: Vec<Group> = Vec::new();
        let mut rest = self.tensor_parts();
        let mut slow = Vec::new();
        while !rest.is_empty() {
            let before = rest.len();
            let group = self.filled(tensor_name(groups.len()), &mut rest)?;
            if rest.len() < before {
                groups.push(group);
            } else {
                // It fits in no pass.
                slow.push(rest.remove(0));
            }
        }
        if !slow.is_empty() {
            let metrics = [self.having(&ALWAYS), slow].concat();
            groups.push(self.planned(tensor_name(groups.len()), metrics)?);
        }
        let sass = self.preset(Preset::FlopsAll).into_iter().filter(|metric| metric.contains("__sass_"));
        let bytes = self.preset(Preset::Bytes).into_iter().filter(|metric| !metric.starts_with("dram__"));
        let memory = self.having(&ALWAYS).into_iter().chain(bytes);
        for (name, metrics) in [("sass", sass.collect::<Vec<_>>()), ("memory", memory.collect())] {
            if !metrics.is_empty() {
                groups.push(self.planned(name.to_owned(), metrics)?);
            }
        }
        Ok(groups)
    }

    /// One of the [groups](Self::groups), or `None` where the chip has none of this name. `tensor`
    /// is found without making the others.
    ///
    /// # Errors
    /// As [`Chip::plan`].
    pub fn group(&self, name: &str) -> Result<Option<Group>, CounterError> {
        if name == "tensor" {
            let mut rest = self.tensor_parts();
            let group = self.filled(name.to_owned(), &mut rest)?;
            if group.metrics.iter().any(|metric| metric.starts_with("sm__ops_path")) {
                return Ok(Some(group));
            }
        }
        Ok(self.groups()?.into_iter().find(|group| group.name == name))
    }

    /// Takes as many of `rest` as fit into a pass, in their order.
    fn filled(&self, name: String, rest: &mut Vec<String>) -> Result<Group, CounterError> {
        let mut metrics = self.having(&ALWAYS);
        let mut left = Vec::new();
        for metric in std::mem::take(rest) {
            metrics.push(metric);
            if self.plan(&metrics)?.passes() > 1 {
                left.extend(metrics.pop());
            }
        }
        *rest = left;
        for metric in self.having(&[IF_ROOM]) {
            metrics.push(metric);
            if self.plan(&metrics)?.passes() > 1 {
                metrics.pop();
            }
        }
        Ok(Group { name, metrics, passes: 1 })
    }

    fn planned(&self, name: String, metrics: Vec<String>) -> Result<Group, CounterError> {
        let passes = self.plan(&metrics)?.passes();
        Ok(Group { name, metrics, passes })
    }

    /// The metrics of these counters, where the chip has them.
    fn having(&self, counters: &[&str]) -> Vec<String> {
        let has = |name: &&&str| self.counters().binary_search_by(|known| known.as_str().cmp(name)).is_ok();
        counters.iter().filter(has).map(|name| format!("{name}.sum")).collect()
    }

    /// The smallest counters that together have all operations of the tensor cores on floats, those
    /// of the most used types first.
    fn tensor_parts(&self) -> Vec<String> {
        let mut parts = parts(self.counters());
        // Stable: within a type, the order of the names.
        parts.sort_by_key(|name| rank(name));
        parts.into_iter().map(|name| name + ".sum").collect()
    }
}

/// The name of a group of the tensor cores after so many others.
fn tensor_name(before: usize) -> String {
    if before == 0 { "tensor".to_owned() } else { format!("tensor-{}", before + 1) }
}

/// Where chips count an instruction's operations apart (`op_hgmma`, `op_hmma`), the sum over both
/// takes more passes than each.
fn parts(counters: &[String]) -> Vec<String> {
    let instructions: Vec<&str> = counters
        .iter()
        .map(String::as_str)
        .filter(|name| is_tensor_part(name))
        // `op_hmma_src_fp16` is the sum of `op_hmma_src_fp16_dst_fp16` and `_dst_fp32`.
        .filter(|name| !counters.iter().any(|other| is_tensor_part(other) && is_refinement(other, name)))
        .collect();
    let covered = |sum: &str| {
        let source = sum.trim_start_matches("sm__ops_path_tensor_");
        instructions
            .iter()
            .filter_map(|name| name.find("src_").map(|start| &name[start..]))
            .any(|part| part == source || is_refinement(part, source))
    };
    let sums = counters.iter().map(String::as_str).filter(|name| is_tensor_flops(name) && !covered(name));
    sums.chain(instructions.iter().copied()).map(str::to_owned).collect()
}

/// Whether `part` is `whole` with one more word about the result.
fn is_refinement(part: &str, whole: &str) -> bool {
    part.strip_prefix(whole).is_some_and(|rest| rest.starts_with("_dst_"))
}

/// The lower, the more it is used: types by what networks are trained and run in, and of each first
/// the instructions that are the newest.
fn rank(name: &str) -> (bool, usize, bool) {
    let types = ["src_bf16", "src_fp16", "src_tf32", "src_fp8", "src_fp4", "src_fp64"];
    let kind = types.iter().position(|kind| name.contains(kind)).unwrap_or(types.len());
    // Sums in half precision are rare.
    (name.ends_with("_dst_fp16"), kind, name.contains("op_hmma"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_give_way_to_their_parts() {
        let counters = [
            "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32",
            "sm__ops_path_tensor_op_hgmma_src_fp16",
            "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_on",
            "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32",
            "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_realtime",
            "sm__ops_path_tensor_op_hmma_src_fp16",
            "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16",
            "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32",
            "sm__ops_path_tensor_op_imma_src_int8",
            "sm__ops_path_tensor_src_bf16_dst_fp32",
            "sm__ops_path_tensor_src_fp16",
            "sm__ops_path_tensor_src_fp64",
            "sm__ops_path_tensor_src_int8",
        ]
        .map(str::to_owned);
        let mut found = parts(&counters);
        found.sort_by_key(|name| rank(name));
        let short: Vec<_> =
            found.iter().map(|name| name.trim_start_matches("sm__ops_path_tensor_")).collect();
        assert_eq!(
            short,
            [
                "op_hgmma_src_bf16_dst_fp32",
                "op_hmma_src_bf16_dst_fp32",
                "op_hgmma_src_fp16",
                "op_hmma_src_fp16_dst_fp32",
                "src_fp64",
                "op_hmma_src_fp16_dst_fp16",
            ]
        );
    }
}
