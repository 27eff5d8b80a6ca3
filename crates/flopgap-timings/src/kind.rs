//! Recognizes the kind of a range by its name.

use serde::{Deserialize, Serialize};

/// Which part of a program a range marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PassKind {
    /// Warming up: compilation, autotuning, first allocations. Not measured.
    WarmUp,
    /// A whole step or iteration, of training or of inference: `step_3`, `iteration 3`,
    /// `train_step`, `train_batch`, `batch_12`, `ProfilerStep#3`, `forward_backward`, `1F1B`,
    /// `execute_model`, `generate`, `inference`.
    Step,
    /// `forward`, `fwd`, `forward_step_3`.
    Forward,
    /// `backward`, `bwd`.
    Backward,
    /// `optimizer`, `optimizer_step`, PyTorch's own `Optimizer.step#AdamW.step`.
    Optimizer,
    /// A range that the user asked for by name.
    Named,
    /// The pass of a language model over its prompt: `prefill`, `prefill_step_0`, that of
    /// a server: `step[EXTEND bs=15 toks=15360]`.
    Prefill,
    /// A pass of a language model that makes the next tokens: `decode`, `decode_step_3`,
    /// `generate_token`, vLLM's `execute_32_context_0(...)_generation_32(...)`.
    Decode,
}

const FORWARD: &[&str] = &["forward", "fwd"];
const BACKWARD: &[&str] = &["backward", "bwd", "backprop"];
// Users spell it both ways.
const OPTIMIZER: &[&str] =
    &["optimizer", "optimiser", "optim", "opt", "adam", "adamw", "sgd", "lion", "muon"];
const PREFILL: &[&str] = &["prefill", "prefilling"];
const DECODE: &[&str] = &["decode", "decoding"];
/// Words for a whole unit of work that is repeated.
const STEP: &[&str] =
    &["step", "steps", "iteration", "iterations", "iter", "timestep", "microstep", "globalstep", "substep"];
const BATCH: &[&str] = &["batch", "minibatch", "microbatch", "ubatch"];
/// Words for a whole run of a model, which may hold steps.
const RUN: &[&str] = &[
    "generate",
    "generation",
    "generating",
    "inference",
    "infer",
    "inferencing",
    "predict",
    "prediction",
    "denoise",
    "denoising",
];
const EXECUTE: &[&str] = &["execute", "execution", "run"];
const TOKEN: &[&str] = &["token", "tokens"];
/// A part of a step that has several.
const PARTS: &[&str] = &["micro", "microbatch", "microstep", "ubatch", "substep", "accumulation"];
/// Steps that are not the program's purpose.
const CHECKS: &[&str] = &["validation", "validate", "val", "eval", "evaluation", "evaluate", "test"];

/// The other words that the names of passes are made of: what runs, on what, how, and what is
/// counted. They say nothing of the kind. A name with any other word marks something within a
/// pass, such as `aten::_softmax_backward_data` or `layer_norm_forward`.
const NEUTRAL: &[&str] = &[
    "accum", "amp", "and", "app", "autocast", "bf", "bs", "call", "causal", "chunk", "chunked", "compiled",
    "compute", "context", "ctx", "cuda", "ddp", "deep", "device", "dp", "eager", "engine", "epoch",
    "executor", "fn", "fp", "fsdp", "full", "function", "gen", "global", "gpu", "grad", "gradient", "graph",
    "hlo", "id", "idx", "index", "jit", "len", "length", "llm", "lm", "loop", "loss", "main", "mb", "mixed",
    "model", "module", "net", "network", "of", "pass", "phase", "pipeline", "pjit", "pl", "pp", "profile",
    "profiler", "program", "rank", "req", "reqs", "request", "requests", "run", "runner", "sampling", "seq",
    "seqlen", "single", "size", "speed", "stage", "strategy", "tp", "train", "trainer", "training", "update",
    "worker", "x", "xla",
];

/// Of such words, kinds of models and what trains them.
const MODELS: &[&str] = &["diffusion", "lightning", "transformer"];

/// All words that the name of a pass may hold.
const VOCABULARY: [&[&str]; 14] = [
    NEUTRAL, MODELS, FORWARD, BACKWARD, OPTIMIZER, PREFILL, DECODE, STEP, BATCH, RUN, EXECUTE, TOKEN, PARTS,
    CHECKS,
];

/// Words that make `execute` and `run` mean a step: `execute_model`, `run_graph`.
const RUNNABLE: &[&str] = &["model", "graph", "batch", "context", "engine", "request", "diffusion"];

/// A name without what `torch.autograd.profiler.emit_nvtx` adds to it:
/// `step, seq = 3, op_id = 17`.
fn without_numbers_of_pytorch(name: &str) -> &str {
    let ends = [", seq = ", ", op_id = "].into_iter().filter_map(|added| name.find(added));
    ends.min().map_or(name, |end| &name[..end])
}

/// How well the name of a step says that it is one: a smaller number is a better claim to be what
/// a trace is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim(u8);

impl PassKind {
    /// The kind of pass that a range of this name (without its domain) marks; `None` when it marks
    /// none.
    ///
    /// A name marks a pass when all its words are words for passes, or for who runs them and how
    /// they are counted. What comes before a colon (`gpu0: forward`) may be anything.
    ///
    /// ```
    /// use flopgap_timings::PassKind;
    ///
    /// assert_eq!(PassKind::of("step_12"), Some(PassKind::Step));
    /// assert_eq!(PassKind::of("ProfilerStep#3, op_id = 17"), Some(PassKind::Step));
    /// assert_eq!(PassKind::of("decode_step_3"), Some(PassKind::Decode));
    /// assert_eq!(PassKind::of("warmup_step 0"), Some(PassKind::WarmUp));
    /// assert_eq!(PassKind::of("aten::_softmax_backward_data"), None);
    /// ```
    pub fn of(name: &str) -> Option<PassKind> {
        let name = without_numbers_of_pytorch(name);
        if name.starts_with("Optimizer.step#") {
            return Some(PassKind::Optimizer);
        }
        if is_interleaved(name) {
            return Some(PassKind::Step);
        }
        if let Some(kind) = of_vllm(name).or_else(|| of_sglang(name)) {
            return Some(kind);
        }
        Self::of_words(&words(name)).or_else(|| {
            let (before, after) = name.split_once(':')?;
            // `namespace::function` is no prefix.
            (!before.is_empty() && !after.starts_with(':')).then(|| Self::of_words(&words(after)))?
        })
    }

    fn of_words(words: &[&str]) -> Option<PassKind> {
        let has = |any: &[&str]| words.iter().any(|word| is_one(word, any));
        let warm_up = |pair: &[&str]| is_one(pair[0], &["warm"]) && is_one(pair[1], &["up"]);
        if has(&["warmup"]) || words.windows(2).any(warm_up) {
            return Some(PassKind::WarmUp);
        }
        if !words.iter().all(|word| VOCABULARY.iter().any(|list| is_one(word, list))) {
            return None;
        }
        // The size of a batch is a parameter.
        let is_size = |at: usize| words.get(at + 1).is_some_and(|next| is_one(next, &["size"]));
        let counts_batches = words.iter().enumerate().any(|(at, word)| is_one(word, BATCH) && !is_size(at));
        let executes = has(EXECUTE) && has(RUNNABLE);
        let runs = has(RUN);
        match (has(FORWARD), has(BACKWARD)) {
            (true, true) => Some(PassKind::Step),
            _ if has(PREFILL) && has(DECODE) => Some(PassKind::Step),
            _ if has(PREFILL) => Some(PassKind::Prefill),
            _ if has(DECODE) || (runs && has(TOKEN)) => Some(PassKind::Decode),
            (true, false) => Some(PassKind::Forward),
            (false, true) => Some(PassKind::Backward),
            (false, false) if has(OPTIMIZER) => Some(PassKind::Optimizer),
            (false, false) => (has(STEP) || counts_batches || executes || runs).then_some(PassKind::Step),
        }
    }

    /// How well the name of a range says that it is the step by which a trace is measured; `None`
    /// when it is none.
    ///
    /// An explicit step or batch comes before what may hold steps (`generate`, `inference`), a
    /// whole one before its parts (`micro_step`), and the program's purpose before checks
    /// (`validation_step`). Where nothing is a step, decoding is, and then prefilling.
    pub(crate) fn claim(name: &str) -> Option<Claim> {
        let name = without_numbers_of_pytorch(name);
        // Every iteration of a server is a step, whatever it does: the one that takes the most
        // time is what the trace is measured by.
        if of_vllm(name).is_some() {
            return Some(Claim(1));
        }
        if is_interleaved(name) {
            return Some(Claim(4));
        }
        if of_sglang(name).is_some() {
            return Some(Claim(0));
        }
        let words = words(name.rsplit_once(": ").map_or(name, |(_, name)| name));
        let has = |any: &[&str]| words.iter().any(|word| is_one(word, any));
        Some(Claim(match PassKind::of(name)? {
            PassKind::Step => {
                let base = match () {
                    () if has(STEP) || has(BATCH) => 0,
                    () if has(FORWARD) || has(EXECUTE) => 1,
                    () if has(&["generate", "generation", "generating"]) => 3,
                    () => 2,
                };
                base + 4 * u8::from(has(PARTS)) + 8 * u8::from(has(CHECKS))
            }
            PassKind::Decode => 16,
            PassKind::Prefill => 17,
            _ => return None,
        }))
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
            PassKind::Prefill => "prefill",
            PassKind::Decode => "decode",
        }
    }
}

/// The kind of an iteration of vLLM by what it says to compute:
/// `execute_32_context_0(...)_generation_32(...)` are no requests to read and 32 to continue. Both
/// in one iteration are a step.
fn of_vllm(name: &str) -> Option<PassKind> {
    let (_, rest) = name.strip_prefix("execute_")?.split_once("context_")?;
    let (context, rest) = rest.split_once('(')?;
    let (_, rest) = rest.split_once(")_generation_")?;
    let (generation, _) = rest.split_once('(')?;
    let [context, generation]: [u64; 2] = [context.parse().ok()?, generation.parse().ok()?];
    Some(match (context, generation) {
        (0, 1..) => PassKind::Decode,
        (1.., 0) => PassKind::Prefill,
        _ => PassKind::Step,
    })
}

/// The kind of an iteration of a server that runs `SGLang`, by its forward mode:
/// `step[EXTEND bs=15 toks=15360]`.
fn of_sglang(name: &str) -> Option<PassKind> {
    let mode = name.strip_prefix("step[")?.split([' ', ']']).next()?;
    Some(match mode {
        "EXTEND" | "PREFILL" => PassKind::Prefill,
        "DECODE" => PassKind::Decode,
        _ => PassKind::Step,
    })
}

/// Whether a name counts passes of micro-batches that run interleaved: `1F1B`.
pub(crate) fn is_interleaved(name: &str) -> bool {
    let count = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let passes = name.strip_suffix('B').and_then(|name| name.split_once('F'));
    passes.is_some_and(|(forward, backward)| count(forward) && count(backward))
}

/// Whether a word is one of some, in upper or lower case.
fn is_one(word: &str, of: &[&str]) -> bool {
    of.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// The words of a name: `ProfilerStep#3` is `Profiler`, `Step`, and `DDPStrategy` is `DDP`,
/// `Strategy`.
fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = None;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        let after = name[at + c.len_utf8()..].chars().next();
        let ends_acronym = before.is_uppercase() && after.is_some_and(char::is_lowercase);
        let begins = c.is_uppercase() && (before.is_lowercase() || ends_acronym);
        if !c.is_alphabetic() || begins {
            words.extend(begin.take().map(|begin| &name[begin..at]));
        }
        if c.is_alphabetic() && begin.is_none() {
            begin = Some(at);
        }
        before = c;
    }
    words.extend(begin.map(|begin| &name[begin..]));
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
            ("prefill", PassKind::Prefill),
            ("Prefill[bs=4, seqlen=512]", PassKind::Prefill),
            ("prefill_forward", PassKind::Prefill),
            ("PREFILL 3", PassKind::Prefill),
            ("decode", PassKind::Decode),
            ("decode_step_3", PassKind::Decode),
            ("decodeStep3", PassKind::Decode),
            ("llm/decode/17", PassKind::Decode),
            ("generate_token_4", PassKind::Decode),
            ("generate", PassKind::Step),
            ("model.generate", PassKind::Step),
            ("execute_model", PassKind::Step),
            ("execute_context_2(128)_generation_4(4)", PassKind::Step),
            ("inference", PassKind::Step),
            ("Inference #4", PassKind::Step),
            ("predict_step", PassKind::Step),
            ("train_batch", PassKind::Step),
            ("batch_12", PassKind::Step),
            ("Batch 12", PassKind::Step),
            ("[pl][profile]run_training_batch", PassKind::Step),
            ("micro_step", PassKind::Step),
            ("micro-batch 3", PassKind::Step),
            ("global_step", PassKind::Step),
            ("global_step=12", PassKind::Step),
            ("epoch 1 step 3", PassKind::Step),
            ("validation_step", PassKind::Step),
            ("val_step_2", PassKind::Step),
            ("jit_train_step", PassKind::Step),
            ("DeepSpeedEngine.forward", PassKind::Forward),
            ("gpu_model_runner: forward", PassKind::Forward),
            ("rank3:backward", PassKind::Backward),
            ("[Executor] _forward_step 12: 1 ctx reqs, 2 gen reqs", PassKind::Forward),
            ("optimiser", PassKind::Optimizer),
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
            "decode_attention",
            "tokenizer.decode",
            "decoder",
            "batch_norm",
            "batch size 4",
            "load_batch",
            "generate_inputs",
            "execute",
            "run",
            "request 12",
            "validation",
            "train",
            "epoch 3",
            "aten::forward",
            "next_token",
            "PjitFunction(matmul)",
            "DDPStrategy.batch_to_device",
            "F1B",
            "1F1B1",
            "attn(F)",
            "capture_32_FULL",
        ] {
            assert_eq!(PassKind::of(name), None, "{name}");
        }
    }

    /// As vLLM, `SGLang`, JAX, Lightning and `DualPipe` mark them.
    #[test]
    fn names_as_frameworks_mark_them() {
        for (name, kind) in [
            (
                "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
                PassKind::Decode,
            ),
            (
                "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)",
                PassKind::Prefill,
            ),
            (
                "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
                PassKind::Step,
            ),
            ("execute_context_1(888_788544)_generation_0(0)", PassKind::Prefill),
            ("execute_diffusion_1_1024x1024", PassKind::Step),
            ("step[EXTEND bs=15 toks=15360]", PassKind::Prefill),
            ("step[DECODE bs=32]", PassKind::Decode),
            ("step[TARGET_VERIFY bs=8]", PassKind::Step),
            ("PjitFunction(train_step)", PassKind::Step),
            ("PjitFunction(forward)", PassKind::Forward),
            ("DDPStrategy.training_step", PassKind::Step),
            ("[pl][profile][Strategy]DDPStrategy.training_step", PassKind::Step),
            ("[pl][profile][Strategy]SingleDeviceStrategy.validation_step", PassKind::Step),
            ("FSDPStrategy.backward", PassKind::Backward),
            ("1F1B", PassKind::Step),
            ("2F2B", PassKind::Step),
        ] {
            assert_eq!(PassKind::of(name), Some(kind), "{name}");
        }
    }

    #[test]
    fn the_best_claim_to_be_the_step() {
        for names in [
            &["step_3", "micro_step", "validation_step", "decode_step_0", "prefill"][..],
            &["train_batch", "generate", "val_batch"],
            &["iteration 4", "inference"],
            &["execute_model", "inference", "generate", "micro_batch 2"],
        ] {
            let claims: Vec<Claim> = names.iter().map(|name| PassKind::claim(name).unwrap()).collect();
            assert!(claims.is_sorted() && claims[0] < claims[claims.len() - 1], "{names:?}: {claims:?}");
        }
        assert_eq!(PassKind::claim("forward"), None);
        // What a server does in an iteration is no better or worse a claim.
        let iterations = ["execute_4_context_1(4)_generation_0(0)", "execute_4_context_0(0)_generation_4(4)"];
        assert_eq!(PassKind::claim(iterations[0]), PassKind::claim(iterations[1]));
        assert_eq!(PassKind::claim("step[EXTEND bs=1]"), PassKind::claim("step[DECODE bs=1]"));
        assert!(PassKind::claim("ProfilerStep#3") < PassKind::claim("1F1B"));
    }
}
