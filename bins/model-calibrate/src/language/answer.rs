//! What is known of a language model on a machine.

use flopgap_cli::Failure;
use flopgap_graph::language::{Division, Format, LanguageModel, Pass, Phase, Routing};
use flopgap_report::numbers;
use flopgap_roofline::machines::{Machine, PassEstimate};

use super::Request;

/// A pass and its time, or why there is none.
pub(super) struct Run {
    pub(super) pass: Pass,
    pub(super) estimate: Result<PassEstimate, String>,
}

impl Run {
    fn new(
        model: &LanguageModel,
        machine: &Machine,
        pass: Pass,
        division: Division,
    ) -> Result<Self, Failure> {
        let launches = model.launches(pass, division).map_err(|error| Failure::of(&error))?;
        let estimate = machine.pass(&launches).map_err(|missing| {
            let names: Vec<String> =
                missing.iter().map(|class| format!("{} in {}", class.kind(), class.variant())).collect();
            format!("{} has no arithmetic for {}", machine.device, names.join(", "))
        });
        Ok(Self { pass, estimate })
    }

    /// Tokens that a pass reads or makes.
    pub(super) fn tokens(&self) -> u64 {
        match self.pass.phase {
            Phase::Prefill => self.pass.batch.saturating_mul(self.pass.tokens),
            Phase::Decode => self.pass.batch,
        }
    }

    pub(super) fn tokens_per_second(&self) -> Option<f64> {
        let estimate = self.estimate.as_ref().ok()?;
        Some(self.tokens() as f64 / (estimate.nanoseconds * 1e-9))
    }
}

/// What a GPU has to hold.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) weights: u64,
    pub(super) cache: u64,
    pub(super) capacity: u64,
}

impl Memory {
    fn of(model: &LanguageModel, machine: &Machine, pass: Pass, division: Division) -> Self {
        let cache = model.cache_bytes(pass.tokens, pass.cache, division).saturating_mul(pass.batch);
        Self { weights: model.weight_bytes(division), cache, capacity: machine.peaks.memory_bytes }
    }

    pub(super) fn fits(&self) -> bool {
        self.weights.saturating_add(self.cache) <= self.capacity
    }
}

/// A point of the curve.
pub(super) struct Point {
    pub(super) run: Run,
    pub(super) fits: bool,
}

/// Everything that is said.
pub(super) struct Answer<'a> {
    pub(super) model: &'a LanguageModel,
    pub(super) machine: &'a Machine,
    pub(super) division: Division,
    pub(super) memory: Memory,
    /// The least number of GPUs in whose memory it fits; `None` if no node has enough.
    pub(super) enough: Option<u64>,
    pub(super) prefill: Option<Run>,
    pub(super) decode: Option<Run>,
    /// Decode with other numbers of sequences.
    pub(super) curve: Vec<Point>,
}

impl<'a> Answer<'a> {
    pub(super) fn of(
        model: &'a LanguageModel,
        machine: &'a Machine,
        request: &Request<'_>,
    ) -> Result<Self, Failure> {
        let division = request.division();
        let [prompt, context] = request.tokens();
        let of =
            |phase, batch, tokens| Run::new(model, machine, request.pass(phase, batch, tokens), division);
        let prefill = prompt.map(|tokens| of(Phase::Prefill, request.batch, tokens)).transpose()?;
        let decode = context.map(|tokens| of(Phase::Decode, request.batch, tokens)).transpose()?;
        let longest = prompt.max(context).unwrap_or_default();
        let largest = request.pass(Phase::Decode, request.batch, longest);
        let memory = Memory::of(model, machine, largest, division);
        let enough = [1, 2, 4, 8].into_iter().filter(|gpus| *gpus <= machine.peaks.gpus).find(|&tensor| {
            let other = Division { tensor, experts: 1 };
            model.launches(largest, other).is_ok() && Memory::of(model, machine, largest, other).fits()
        });
        let mut curve = Vec::new();
        if let Some(tokens) = context {
            for batch in (0..10).map(|power| 1 << power) {
                let run = of(Phase::Decode, batch, tokens)?;
                let fits = Memory::of(model, machine, run.pass, division).fits();
                curve.push(Point { run, fits });
            }
        }
        Ok(Self { model, machine, division, memory, enough, prefill, decode, curve })
    }

    /// The run whose time stands for the whole: decode, if it was asked for.
    pub(super) fn first(&self) -> Option<&Run> {
        self.decode.as_ref().or(self.prefill.as_ref())
    }

    /// Why it does not fit, and what would.
    pub(super) fn misfit(&self) -> Option<String> {
        let Memory { weights, cache, capacity } = self.memory;
        let bytes = |bytes: u64| numbers::si_with_unit(bytes as f64, "B");
        let needed = bytes(weights.saturating_add(cache));
        let enough = match self.enough {
            Some(gpus) => format!("{gpus} would be enough"),
            None => format!("nor in a node of {}", self.machine.peaks.gpus),
        };
        (!self.memory.fits()).then(|| {
            format!(
                "{needed} do not fit in the {} of each {}; {enough}",
                bytes(capacity),
                self.machine.device
            )
        })
    }

    /// What a reader must not miss.
    pub(super) fn warnings(&self) -> Vec<String> {
        let runs = [&self.prefill, &self.decode];
        let mut all: Vec<String> =
            runs.into_iter().flatten().filter_map(|run| run.estimate.as_ref().err().cloned()).collect();
        all.dedup();
        let node = self.machine.peaks.gpus;
        if self.division.tensor > node {
            all.push(format!(
                "a node of {} has {node} GPUs: collectives are extrapolated",
                self.machine.device
            ));
        }
        all.extend(self.misfit());
        all
    }

    /// What the numbers take for granted.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let model = self.model;
        let mut all = vec![format!("weights in {}", model.linear.name())];
        if model.experts != model.linear {
            all.push(format!("experts in {}", model.experts.name()));
        }
        if model.linear != Format::Bf16 {
            all.push("router, first and last matrix in bf16".to_owned());
        }
        if let Some(run) = self.first() {
            all.push(format!("keys and values in {}", run.pass.cache.name()));
            if model.layers.iter().any(|layer| matches!(layer.feed, flopgap_graph::language::Feed::Routed(_)))
            {
                all.push(match run.pass.routing {
                    Routing::Balanced => "the same load on each expert".to_owned(),
                    Routing::Skewed => "loads of experts by a power law with exponent 1.01".to_owned(),
                    Routing::VerySkewed => "loads of experts by a power law with exponent 1.2".to_owned(),
                });
            }
        }
        if self.division.tensor > 1 {
            all.push("sums between GPUs by NCCL, not overlapped".to_owned());
        }
        if model.text_alone {
            all.push("the text model alone".to_owned());
        }
        all.push(format!(
            "kernels of {}, one after the other as in a CUDA graph",
            self.machine.software.join(", ")
        ));
        all.push("no scheduling, sampling, tokenizer or network".to_owned());
        all.push("memory of activations and of the runtime not counted".to_owned());
        all
    }
}
