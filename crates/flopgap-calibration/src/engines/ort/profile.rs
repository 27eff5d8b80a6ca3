//! Nodes and memory from ONNX Runtime's profile. Times are not taken from it, since profiling slows
//! nodes down.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The nodes of the last run, and the memory they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// `FusedConv`, `Gemm`, …, in the order in which they ran.
    pub(super) operators: Vec<String>,
    /// Bytes in use of the CPU's arena at most: activations, and parameters that kernels have
    /// packed. `None` where it is unknown.
    arena_bytes: Option<u64>,
    /// Bytes of parameters that the nodes read as they were stored. They are not in the arena.
    stored_bytes: u64,
}

#[derive(Deserialize)]
struct Event {
    cat: String,
    name: String,
    #[serde(default)]
    args: BTreeMap<String, serde_json::Value>,
}

impl Profile {
    /// Reads a profile: a JSON array of events.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let events: Vec<Event> = serde_json::from_str(text)?;
        let mut profile = Profile::default();
        for event in events {
            if event.cat == "Session" && event.name == "model_run" {
                // It is written behind the nodes of its run: those of the last run stay.
                profile.operators.push(String::new());
            }
            if event.cat != "Node" || !event.name.ends_with("_kernel_time") {
                continue;
            }
            if profile.operators.last().is_some_and(String::is_empty) {
                profile.operators.clear();
                profile.stored_bytes = 0;
            }
            let text = |key: &str| event.args.get(key).and_then(serde_json::Value::as_str);
            profile.operators.extend(text("op_name").map(str::to_owned));
            let bytes = |key: &str| text(key).and_then(|bytes| bytes.parse::<u64>().ok());
            profile.arena_bytes = profile.arena_bytes.max(bytes("mem_in_use_peak"));
            profile.stored_bytes += bytes("parameter_size").unwrap_or(0);
        }
        profile.operators.retain(|operator| !operator.is_empty());
        Ok(profile)
    }

    /// Bytes that ONNX Runtime holds at most: activations and parameters, stored or packed.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.arena_bytes?.checked_add(self.stored_bytes)
    }

    /// `FusedConv x 20, Gemm`: how often each operator runs.
    pub(super) fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for operator in &self.operators {
            *counts.entry(operator).or_default() += 1;
        }
        let each = counts.into_iter().map(|(operator, count)| {
            if count == 1 { operator.to_owned() } else { format!("{operator} x {count}") }
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ONNX Runtime 1.30.0, cut to what is read.
    const RECORDED: &str = r#"[
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 1290, "ts": 4, "ph": "X", "name": "model_loading_uri", "args": {}},
        {"cat": "Node", "pid": 1, "tid": 1, "dur": 261, "ts": 5610, "ph": "X", "name": "fused _kernel_time",
         "args": {"op_name": "FusedGemm", "mem_in_use_peak": "8716288", "parameter_size": "4096", "provider": "CPUExecutionProvider"}},
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 530, "ts": 5592, "ph": "X", "name": "model_run", "args": {}},
        {"cat": "Node", "pid": 1, "tid": 1, "dur": 158, "ts": 5876, "ph": "X", "name": "fused _kernel_time",
         "args": {"op_name": "FusedGemm", "mem_in_use_peak": "8781824", "parameter_size": "4096"}},
        {"cat": "Node", "pid": 1, "tid": 1, "dur": 158, "ts": 5876, "ph": "X", "name": "fused _token_0_kernel_time",
         "args": {"op_name": "FusedGemm", "mem_in_use_peak": "8781824", "parameter_size": "4096"}},
        {"cat": "Node", "pid": 1, "tid": 1, "dur": 23, "ts": 6039, "ph": "X", "name": "Gemm_4_kernel_time",
         "args": {"op_name": "Gemm", "mem_in_use_peak": "8785920", "parameter_size": "256"}},
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 530, "ts": 5592, "ph": "X", "name": "model_run", "args": {}}
    ]"#;

    #[test]
    fn the_last_run_and_the_peak_are_read() {
        let profile = Profile::parse(RECORDED).unwrap();
        assert_eq!(profile.operators, ["FusedGemm", "FusedGemm", "Gemm"]);
        // 1024-1024-1024-64, batch 16: all weights and biases, and the outputs of all layers.
        let parameters = 4 * (1024 * 1024 * 2 + 1024 * 64 + 1024 + 1024 + 64);
        assert_eq!(profile.bytes(), Some(parameters + 4 * 16 * (1024 + 1024 + 64)));
        assert_eq!(profile.summary(), "FusedGemm x 2, Gemm");
    }

    #[test]
    fn a_profile_without_memory_has_none() {
        let profile =
            Profile::parse(r#"[{"cat":"Node","name":"a_kernel_time","args":{"op_name":"Relu"}}]"#).unwrap();
        assert_eq!((profile.operators.len(), profile.bytes()), (1, None));
        assert!(Profile::parse("[{").is_err());
    }
}
