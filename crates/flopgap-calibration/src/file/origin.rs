//! Compares the machine and software of two calibrations.

use std::collections::BTreeMap;
use std::fmt;

use crate::row::Origin;

/// One way in which two origins differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginDifference {
    /// What differs: `the device`, `flags`, `cudnn`.
    pub part: String,
    /// The value on one side; `None` where it is not recorded.
    pub theirs: Option<String>,
    /// The value on the other side.
    pub ours: Option<String>,
}

impl fmt::Display for OriginDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| match value {
            Some(value) => format!("`{value}`"),
            None => "not recorded".to_owned(),
        };
        write!(f, "{} is {} there and {} here", self.part, value(&self.theirs), value(&self.ours))
    }
}

impl Origin {
    /// How another machine differs from this one: device, kind, and every property. Empty: it is
    /// the same, as far as is known.
    pub fn machine_differences(&self, ours: &Origin) -> Vec<OriginDifference> {
        let mut differences = Vec::new();
        for (part, theirs, ours) in
            [("the device", &self.device, &ours.device), ("the kind", &self.kind, &ours.kind)]
        {
            if theirs != ours {
                differences.push(OriginDifference {
                    part: part.to_owned(),
                    theirs: Some(theirs.clone()),
                    ours: Some(ours.clone()),
                });
            }
        }
        compare(&self.properties, &ours.properties, &mut differences);
        differences
    }

    /// How the versions of other software differ from these.
    pub fn version_differences(&self, ours: &Origin) -> Vec<OriginDifference> {
        let mut differences = Vec::new();
        compare(&self.versions, &ours.versions, &mut differences);
        differences
    }
}

fn compare(
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    into: &mut Vec<OriginDifference>,
) {
    let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (theirs, ours) = (theirs.get(name).cloned(), ours.get(name).cloned());
        if theirs != ours {
            into.push(OriginDifference { part: name.clone(), theirs, ours });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_named() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let one = Origin {
            device: "EPYC".to_owned(),
            kind: "cpu".to_owned(),
            properties: map(&[("cores", "2"), ("flags", "avx2")]),
            versions: map(&[("onnxruntime", "1.30.0")]),
        };
        let mut other = one.clone();
        assert!(one.machine_differences(&other).is_empty());
        other.device = "Xeon".to_owned();
        other.properties = map(&[("cores", "2")]);
        other.versions = map(&[("onnxruntime", "1.31.1")]);
        let messages: Vec<String> = one.machine_differences(&other).iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            ["the device is `EPYC` there and `Xeon` here", "flags is `avx2` there and not recorded here"]
        );
        assert_eq!(
            one.version_differences(&other)[0].to_string(),
            "onnxruntime is `1.30.0` there and `1.31.1` here"
        );
    }
}
