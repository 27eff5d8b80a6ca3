//! The command line.

use std::fmt::{self, Display};
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use flopgap_calibration::engines::Repetition;
use flopgap_calibration::grid::{Family, SEED, Scenario, Size};
use flopgap_calibration::{mode_by_name, mode_name};
use flopgap_cli::Device;
use flopgap_flops::Precision;
use flopgap_graph::{Mode, StatedShape};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  flopgap calibrate sweep --quick --ceilings ceilings.json -o run
  flopgap calibrate sweep --device cuda:1 --model fixtures/models/resnet50.pt2 --precision fp16
  flopgap calibrate sweep --full --limit 30m -o run")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Write to this run directory, the rows to calibration.jsonl [default: named after the time
    /// and the device]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Continue the run in --output
    #[arg(long)]
    pub(crate) resume: bool,
    /// Stop after this time, such as 8m; --resume continues. Rows are in random order of size, so
    /// that any part covers all sizes
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) limit: Option<Duration>,
    /// Ceilings of the machine, as `flopgap calibrate probe --output` writes them, to store with
    /// the rows
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) ceilings: Option<PathBuf>,
    /// Do nothing but show the plan
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Measure only the I-th of K equal parts (from 1) of the run in --output, while other
    /// processes measure the others; --resume then joins them. `slurm` takes I and K from the task
    /// of a job array
    #[arg(long, value_name = "I/K", requires = "output")]
    pub(crate) shard: Option<String>,
}

/// Options that decide the plan, and how each row is measured.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Measure 150 rows of each family, in two minutes on a CPU (the default)
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Measure everything on which accuracy is judged
    #[arg(long)]
    pub(crate) full: bool,
    /// Device: cpu, cuda, or a GPU by its number (1 or cuda:1) [default: cuda if there is a GPU,
    /// otherwise cpu]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Device>,
    /// Engine, or several: native, ort on a CPU; cuda, fused on a GPU; torch-eager, torch-compile,
    /// torch-graph [default: native, in a full sweep also ort if installed; cuda on a GPU]
    #[arg(long, value_name = "ENGINE", value_delimiter = ',')]
    pub(crate) engine: Vec<String>,
    /// Families: mlp (layers, products and whole networks), conv, resnet, memory (element-wise
    /// functions, softmax, norms, copies) [default: mlp; in a full sweep all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) family: Vec<Family>,
    /// Model to measure, ONNX or .pt2, in fp32 unless --precision is given; only models unless
    /// --family is given. Can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Vec<PathBuf>,
    /// Sizes that the model leaves open: `input=8x3x224x224` for an input, `batch=8` for a
    /// dimension. Can be repeated
    #[arg(long, value_name = "NAME=SIZES", requires = "model")]
    pub(crate) shape: Vec<StatedShape>,
    /// Widths of a fully connected network from inputs to outputs, such as 784,512,512,10, with
    /// `ReLU` between them; in fp32 unless --precision is given, of one sample unless --batch is.
    /// Only networks and models unless --family is given. Can be repeated
    #[arg(long, value_name = "WIDTHS")]
    pub(crate) widths: Vec<Widths>,
    /// Samples in a batch, or several numbers of them, such as 1,16,64 [default: those of the
    /// design]
    #[arg(long, value_name = "SAMPLES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) batch: Vec<u64>,
    /// Precision, or several: fp32, tf32, fp16, bf16, int8 [default: fp32 on a CPU, in a full sweep
    /// also int8; fp32 and fp16 on a GPU, in a full sweep all]
    #[arg(long, value_name = "PRECISION", value_delimiter = ',')]
    pub(crate) precision: Vec<Precision>,
    /// Measure only working sets that fit this level of memory and none below: `L1_fit`, `L2_fit`,
    /// `L3_fit`, `DRAM_spill`
    #[arg(long)]
    pub(crate) scenario: Option<Scenario>,
    /// Launch mode of a GPU, or several: graph, stream [default: both]
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = mode)]
    pub(crate) mode: Vec<Mode>,
    /// CPU threads [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Maximum number of rows of each engine, from the beginning of the plan [default: all]
    #[arg(long, value_name = "ROWS")]
    pub(crate) rows: Option<NonZero<usize>>,
    /// Seed of the plan [default: 14]
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Number of rows whose energy is measured, over windows of 2 s [default: 60 in a full sweep,
    /// otherwise 0]
    #[arg(long, value_name = "ROWS")]
    pub(crate) energy: Option<usize>,
    /// Number of rows whose FLOPs are counted by hardware counters [default: 40 in a full sweep,
    /// otherwise 0]
    #[arg(long, value_name = "ROWS")]
    pub(crate) count: Option<usize>,
    /// Number of rows that are measured twice, to estimate repeatability [default: 10, in a full
    /// sweep 100]
    #[arg(long, value_name = "ROWS")]
    pub(crate) repeats: Option<usize>,
    /// Maximum time for the repetitions of a row, such as 200ms [default: 200ms on a CPU, in a full
    /// sweep 500ms; 60ms on a GPU]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) row_limit: Option<Duration>,
}

/// Widths of a network, from inputs to outputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Widths {
    pub(crate) input: u64,
    pub(crate) hidden: Vec<u64>,
    pub(crate) output: u64,
}

impl FromStr for Widths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let width = |text: &str| text.trim().parse().ok().filter(|&width: &u64| width > 0);
        let widths: Option<Vec<u64>> = text.split(',').map(width).collect();
        match widths.as_deref() {
            Some([input, hidden @ .., output]) => {
                Ok(Self { input: *input, hidden: hidden.to_vec(), output: *output })
            }
            _ => Err("expected two or more widths, such as 784,512,10".to_owned()),
        }
    }
}

impl Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.input)?;
        self.hidden.iter().chain([&self.output]).try_for_each(|width| write!(f, ",{width}"))
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    mode_by_name(text).ok_or_else(|| format!("unknown mode `{text}`; expected graph or stream"))
}

impl Options {
    /// The options that were given, as on a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        self.pairs().into_iter().flat_map(|(name, value)| [Some(name.to_owned()), value]).flatten().collect()
    }

    /// Parses the options that [`Options::words`] returned.
    ///
    /// # Errors
    /// Errors of clap.
    pub(crate) fn of_words(words: &[String]) -> Result<Options, clap::Error> {
        /// The options alone.
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        let all = ["sweep"].into_iter().chain(words.iter().map(String::as_str));
        Alone::try_parse_from(all).map(|alone| alone.options)
    }

    /// An option that differs from `planned`, or is not in it.
    pub(crate) fn beyond(&self, planned: &Options) -> Option<String> {
        let planned = planned.pairs();
        let other = self.pairs().into_iter().find(|pair| !planned.contains(pair));
        other.map(|(name, value)| value.map_or(name.to_owned(), |value| format!("{name} {value}")))
    }

    fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        fn list<T: Display>(all: &[T]) -> Option<String> {
            let all: Vec<String> = all.iter().map(T::to_string).collect();
            (!all.is_empty()).then(|| all.join(","))
        }
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        let modes: Vec<&str> = self.mode.iter().copied().map(mode_name).collect();
        let mut pairs = Vec::new();
        let sizes = [("--quick", self.quick), ("--full", self.full)];
        pairs.extend(sizes.into_iter().filter(|(_, given)| *given).map(|(name, _)| (name, None)));
        let valued = [
            ("--device", self.device.map(|device| device.to_string())),
            ("--engine", list(&self.engine)),
            ("--family", list(&self.family)),
            ("--batch", list(&self.batch)),
            ("--precision", list(&self.precision)),
            ("--scenario", self.scenario.map(|scenario| scenario.to_string())),
            ("--mode", list(&modes)),
            ("--threads", self.threads.map(|threads| threads.to_string())),
            ("--rows", self.rows.map(|rows| rows.to_string())),
            ("--seed", self.seed.map(|seed| seed.to_string())),
            ("--energy", self.energy.map(|rows| rows.to_string())),
            ("--count", self.count.map(|rows| rows.to_string())),
            ("--repeats", self.repeats.map(|rows| rows.to_string())),
            ("--row-limit", self.row_limit.map(time)),
        ];
        pairs.extend(valued.into_iter().filter(|(_, value)| value.is_some()));
        pairs.extend(self.model.iter().map(|path| ("--model", Some(path.display().to_string()))));
        pairs.extend(self.widths.iter().map(|widths| ("--widths", Some(widths.to_string()))));
        pairs.extend(self.shape.iter().map(|shape| {
            let sizes: Vec<String> = shape.sizes.iter().map(u64::to_string).collect();
            ("--shape", Some(format!("{}={}", shape.name, sizes.join("x"))))
        }));
        pairs
    }

    /// Whether the plan is drawn, or all that is measured are networks and models.
    pub(crate) fn is_drawn(&self) -> bool {
        self.model.is_empty() && self.widths.is_empty() || !self.family.is_empty()
    }

    /// The amount of measurements.
    pub(crate) fn size(&self) -> Size {
        if self.full { Size::Full } else { Size::Quick }
    }

    /// The seed of the plan.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(SEED)
    }

    /// The requested modes of an engine.
    pub(crate) fn modes(&self, offered: &[Mode]) -> Vec<Mode> {
        let is_asked = |mode: &Mode| self.mode.is_empty() || self.mode.contains(mode);
        offered.iter().copied().filter(is_asked).collect()
    }

    /// Rows whose energy is measured.
    pub(crate) fn energy(&self) -> usize {
        self.energy.unwrap_or(if self.full { 60 } else { 0 })
    }

    /// Rows whose FLOPs are counted.
    pub(crate) fn count(&self) -> usize {
        self.count.unwrap_or(if self.full { 40 } else { 0 })
    }

    /// Rows that are measured twice.
    pub(crate) fn repeats(&self) -> usize {
        self.repeats.unwrap_or(if self.full { 100 } else { 10 })
    }

    /// When the timing of a row ends.
    pub(crate) fn repetition(&self, device: Device) -> Repetition {
        let limit = match device {
            Device::Cuda(_) => Duration::from_millis(60),
            Device::Cpu if self.full => Duration::from_millis(500),
            Device::Cpu => Duration::from_millis(200),
        };
        // Ten samples of a short run pass in a moment, and what other programs do to the caches of
        // a CPU lasts longer.
        let least = if device == Device::Cpu && self.full { 24 } else { Repetition::default().least };
        Repetition { limit: self.row_limit.unwrap_or(limit), least, ..Repetition::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Options {
        Options::of_words(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn options_come_back_from_their_words() {
        let all = "--full --device cuda:1 --engine cuda,fused --family mlp,conv --batch 1,16 \
                   --precision fp16,int8 --scenario L2_fit --mode graph --threads 2 --rows 99 --seed 7 --energy 5 \
                   --count 6 --repeats 7 --row-limit 1s500ms --model a.onnx --model b.pt2 --widths 784,512,10 --widths 8,8 \
                   --shape x=8x3";
        let options = parse(all);
        assert_eq!(options.words().join(" "), all.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(Options::of_words(&options.words()).unwrap(), options);
        assert_eq!(parse(""), Options::default());
    }

    #[test]
    fn a_resumed_run_may_be_asked_for_again_but_not_for_more() {
        let planned = parse("--quick --device cpu --batch 1,16");
        assert_eq!(parse("").beyond(&planned), None);
        assert_eq!(parse("--quick --batch 1,16").beyond(&planned), None);
        assert_eq!(parse("--batch 1").beyond(&planned), Some("--batch 1".to_owned()));
        assert_eq!(parse("--full").beyond(&planned), Some("--full".to_owned()));
    }

    #[test]
    fn invalid_values_are_refused() {
        for wrong in [
            "--batch 0",
            "--family gan",
            "--scenario L4_fit",
            "--quick --full",
            "--threads 0",
            "--widths 8",
            "--widths 8,0",
        ] {
            let words: Vec<String> = wrong.split_whitespace().map(str::to_owned).collect();
            assert!(Options::of_words(&words).is_err(), "{wrong}");
        }
    }
}
