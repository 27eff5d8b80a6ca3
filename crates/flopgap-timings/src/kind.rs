//! What a range is, told from its name.

use serde::{Deserialize, Serialize};

/// Which part of a program a range marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassKind {
    /// Warming up: compilation, autotuning, first allocations. Not measured.
    WarmUp,
    /// A whole step or iteration: `step_3`, `iteration 3`, `train_step`, `ProfilerStep#3`, `forward_backward`.
    Step,
    /// `forward`, `fwd`, `forward_step_3`.
    Forward,
    /// `backward`, `bwd`.
    Backward,
    /// `optimizer`, `optimizer_step`, PyTorch's own `Optimizer.step#AdamW.step`.
    Optimizer,
    /// A range that the user asked for by name.
    Named,
}

/// The words that the names of passes are made of. A name with any other word marks something within a pass, such as
/// `aten::_softmax_backward_data` or `layer_norm_forward`.
const VOCABULARY: [&str; 27] = [
    "forward",
    "fwd",
    "backward",
    "bwd",
    "optimizer",
    "optimiser",
    "optim",
    "opt",
    "step",
    "steps",
    "iteration",
    "iter",
    "profiler",
    "pass",
    "train",
    "training",
    "inference",
    "eval",
    "evaluation",
    "model",
    "loss",
    "and",
    "warm",
    "up",
    "warmup",
    "batch",
    "update",
];

impl PassKind {
    /// The kind of pass that a range of this name (without its domain) marks; nothing when it marks none.
    ///
    /// ```
    /// use flopgap_timings::PassKind;
    ///
    /// assert_eq!(PassKind::of("step_12"), Some(PassKind::Step));
    /// assert_eq!(PassKind::of("warmup_step 0"), Some(PassKind::WarmUp));
    /// assert_eq!(PassKind::of("aten::_softmax_backward_data"), None);
    /// ```
    pub fn of(name: &str) -> Option<PassKind> {
        if name.starts_with("Optimizer.step#") {
            return Some(PassKind::Optimizer);
        }
        let words = words(name);
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        if has(&["warmup"]) || words.windows(2).any(|pair| pair[0] == "warm" && pair[1] == "up") {
            return Some(PassKind::WarmUp);
        }
        if !words.iter().all(|word| VOCABULARY.contains(&word.as_str())) {
            return None;
        }
        let forward = has(&["forward", "fwd"]);
        let backward = has(&["backward", "bwd"]);
        match (forward, backward) {
            (true, true) => Some(PassKind::Step),
            (true, false) => Some(PassKind::Forward),
            (false, true) => Some(PassKind::Backward),
            (false, false) if has(&["optimizer", "optimiser", "optim", "opt"]) => Some(PassKind::Optimizer),
            (false, false) => has(&["step", "iteration", "iter"]).then_some(PassKind::Step),
        }
    }

    /// As it is printed, and as serde writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PassKind::WarmUp => "warm-up",
            PassKind::Step => "step",
            PassKind::Forward => "forward",
            PassKind::Backward => "backward",
            PassKind::Optimizer => "optimizer",
            PassKind::Named => "named",
        }
    }
}

/// The words of a name in lower case: `ProfilerStep#3` is `profiler`, `step`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if c.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_mark_them() {
        for (name, kind) in [
            ("forward", PassKind::Forward),
            ("Forward pass", PassKind::Forward),
            ("forward_step_3", PassKind::Forward),
            ("fwd", PassKind::Forward),
            ("loss.backward", PassKind::Backward),
            ("backward pass 7", PassKind::Backward),
            ("optimizer_step", PassKind::Optimizer),
            ("Optimizer.step#AdamW.step", PassKind::Optimizer),
            ("step_0", PassKind::Step),
            ("step 0", PassKind::Step),
            ("Iteration 12", PassKind::Step),
            ("iter12", PassKind::Step),
            ("train_step", PassKind::Step),
            ("ProfilerStep#4", PassKind::Step),
            ("forward+backward", PassKind::Step),
            ("warmup", PassKind::WarmUp),
            ("warm-up 3", PassKind::WarmUp),
            ("WarmUp_forward", PassKind::WarmUp),
        ] {
            assert_eq!(PassKind::of(name), Some(kind), "{name}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for name in [
            "",
            "3",
            "aten::linear",
            "autograd::engine::evaluate_function: AddmmBackward0",
            "Optimizer.zero_grad#AdamW.zero_grad",
            "scaled_dot_product_attention",
            "model",
            "computing_softmax",
            "layer_norm_forward",
            "stepper motor",
        ] {
            assert_eq!(PassKind::of(name), None, "{name}");
        }
    }
}
