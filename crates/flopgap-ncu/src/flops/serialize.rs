//! What was counted as data for other programs, with the feature `serde`: maps by the labels of
//! precisions and instructions. What was not measured has no entry.

use serde::ser::{Serialize, SerializeMap as _, SerializeStruct as _, Serializer};

use super::{Count, Counters, Flops, Instruction, Instructions, Measurement, Precision, Unknown};

impl Serialize for Precision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

impl Serialize for Instruction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

/// The full names.
impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut count = serializer.serialize_struct("Count", 2)?;
        count.serialize_field("value", &self.value)?;
        count.serialize_field("rounded", &self.rounded)?;
        count.end()
    }
}

/// Its kind, with what belongs to it.
impl Serialize for Measurement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = "Measurement";
        match self {
            Measurement::NotMeasured => serializer.serialize_unit_variant(name, 0, "not_measured"),
            Measurement::Incomplete(missing) => {
                serializer.serialize_newtype_variant(name, 1, "incomplete", missing)
            }
            Measurement::Conflicting(counters) => {
                serializer.serialize_newtype_variant(name, 2, "conflicting", counters)
            }
            Measurement::Counted(count) => serializer.serialize_newtype_variant(name, 3, "counted", count),
            Measurement::Artifact(count) => serializer.serialize_newtype_variant(name, 4, "artifact", count),
            Measurement::Undecided(count) => {
                serializer.serialize_newtype_variant(name, 5, "undecided", count)
            }
            Measurement::Overflow => serializer.serialize_unit_variant(name, 6, "overflow"),
        }
    }
}

/// Its kind, with what belongs to it.
impl Serialize for Unknown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = "Unknown";
        match self {
            Unknown::NotRecorded => serializer.serialize_unit_variant(name, 0, "not_recorded"),
            Unknown::TensorCores(precision) => {
                serializer.serialize_newtype_variant(name, 1, "tensor_cores", precision)
            }
            Unknown::PerhapsTensorCores => serializer.serialize_unit_variant(name, 2, "perhaps_tensor_cores"),
            Unknown::NotCounted(precision) => {
                serializer.serialize_newtype_variant(name, 3, "not_counted", precision)
            }
            Unknown::Incomplete(missing) => {
                serializer.serialize_newtype_variant(name, 4, "incomplete", missing)
            }
            Unknown::Conflicting(counters) => {
                serializer.serialize_newtype_variant(name, 5, "conflicting", counters)
            }
            Unknown::HalfPrecision => serializer.serialize_unit_variant(name, 6, "half_precision"),
            Unknown::Overflow => serializer.serialize_unit_variant(name, 7, "overflow"),
        }
    }
}

impl Serialize for Instructions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// The measurements of [`Flops::iter`], by precision.
struct ByPrecision<'a>(&'a Flops);

impl Serialize for ByPrecision<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}

/// `work` or `unknown`, then what it was computed from.
impl Serialize for Flops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.work {
            Ok(work) => map.serialize_entry("work", &work)?,
            Err(unknown) => map.serialize_entry("unknown", &unknown)?,
        }
        map.serialize_entry("precisions", &ByPrecision(self))?;
        map.serialize_entry("instructions", &self.instructions)?;
        for (name, count) in [
            ("dram_bytes", self.dram_bytes),
            ("dram_read_bytes", self.dram_read_bytes),
            ("dram_write_bytes", self.dram_write_bytes),
            ("l2_bytes", self.l2_bytes),
            ("l1_bytes", self.l1_bytes),
            ("duration_ns", self.duration_ns),
        ] {
            if let Some(count) = count {
                map.serialize_entry(name, &count)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exact(value: u64) -> Count {
        Count { value, rounded: false }
    }

    #[test]
    fn what_was_not_measured_has_no_entry() {
        let nothing = serde_json::to_value(Flops::default()).unwrap();
        assert_eq!(nothing, json!({ "unknown": "not_recorded", "precisions": {}, "instructions": {} }));

        let mut flops = Flops { work: Ok(exact(12)), l2_bytes: Some(exact(64)), ..Flops::default() };
        flops.by_precision[Precision::Fp32.index()] = Measurement::Counted(exact(12));
        flops.by_precision[Precision::TensorBf16.index()] = Measurement::Overflow;
        let value = serde_json::to_value(flops).unwrap();
        assert_eq!(
            value,
            json!({
                "work": { "value": 12, "rounded": false },
                "precisions": {
                    "fp32": { "counted": { "value": 12, "rounded": false } },
                    "tensor bf16": "overflow",
                },
                "instructions": {},
                "l2_bytes": { "value": 64, "rounded": false },
            })
        );
    }

    #[test]
    fn missing_counters_are_named() {
        let missing = Counters(1 << super::super::counters::FFMA);
        let name = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
        let value = serde_json::to_value(Measurement::Incomplete(missing)).unwrap();
        assert_eq!(value, json!({ "incomplete": [name] }));
        let value = serde_json::to_value(Unknown::NotCounted(Precision::Fp64)).unwrap();
        assert_eq!(value, json!({ "not_counted": "fp64" }));
    }
}
