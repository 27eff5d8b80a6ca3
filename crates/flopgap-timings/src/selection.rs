//! What an answer is about: which ranges, without which of their instances, and whose work.

use serde::{Deserialize, Serialize};

/// Which ranges an answer is about, and which of their instances were left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// The ranges that mark warming up: what lies in them is left out.
    pub warm_up: Vec<String>,
    /// What else is left out because it came first; nothing where `warm_up` is all.
    pub first: Option<LeftOutFirst>,
    /// Which steps were chosen, where several ranges that are not part of each other are steps.
    pub steps: Option<ChosenSteps>,
    /// How many of the ranges lie within others of them, and so count with those.
    pub nested: u64,
}

/// What was left out because it came first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutFirst {
    /// The first step of this name in each process, and the passes outside of the steps.
    Step(String),
    /// So many first instances of each pass in each process.
    Instances(u64),
}

/// The steps by which a trace is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenSteps {
    /// Those that are measured, by folded name.
    pub name: String,
    /// Ranges that are steps by their names, too, and are not measured.
    pub others: Vec<OtherSteps>,
}

/// Ranges that are steps by their name and are not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherSteps {
    /// Their folded name.
    pub name: String,
    /// How many there are.
    pub instances: u64,
}
