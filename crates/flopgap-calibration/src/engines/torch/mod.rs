//! PyTorch, in a separate Python process.

mod worker;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::env;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Check, Origin, Timing};
use flopgap_flops::Precision;
use flopgap_graph::{FileSpec, Mode, Op, Workload};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::engines::cpu::{self, CpuSettings, Elapsed, References, Stopwatch};
use crate::engines::engine::{Engine, Repetition, Session};
use crate::engines::error::EngineError;
use crate::engines::ort::{ALL_ZERO, ModelFile};
use crate::engines::repeat::repeat;
use crate::engines::smallest::smallest;
use worker::{Failure, HINT, Worker};

/// How networks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TorchMode {
    /// Operation by operation, as Python says.
    Eager,
    /// Compiled by `torch.compile` with its default settings.
    Compile,
    /// Captured in a CUDA graph; on a GPU alone.
    Graph,
}

/// Settings of [`Torch`].
#[derive(Debug, Clone, PartialEq)]
pub struct TorchSettings {
    /// How networks are run.
    pub mode: TorchMode,
    /// The number of the GPU, or `None` for the CPU.
    pub gpu: Option<usize>,
    /// Threads, the seed, and on a CPU the unit of times.
    pub cpu: CpuSettings,
    /// The Python that has PyTorch. `None`: the one of the variable `FLOPGAP_PYTHON`, of
    /// `VIRTUAL_ENV`, or `python3`.
    pub python: Option<PathBuf>,
}

impl TorchSettings {
    fn python(&self) -> PathBuf {
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let virtual_environment = || named("VIRTUAL_ENV").map(|folder| folder.join("bin/python3"));
        let python = self.python.clone().or_else(|| named("FLOPGAP_PYTHON")).or_else(virtual_environment);
        python.unwrap_or_else(|| PathBuf::from("python3"))
    }
}

/// PyTorch on a CPU or a GPU: all families in fp32, and on a GPU in tf32, fp16 and bf16; users'
/// models that `torch.export.save` wrote.
///
/// A worker in Python builds the networks from submodules of `torch.nn` and runs them under
/// `inference_mode`. If its process dies, the next workload gets another.
///
/// ```no_run
/// use flopgap_calibration::engines::cpu::CpuSettings;
/// use flopgap_calibration::engines::{Engine as _, Torch, TorchMode, TorchSettings};
///
/// let settings =
///     TorchSettings { mode: TorchMode::Eager, gpu: None, cpu: CpuSettings::default(), python: None };
/// let torch = Torch::new(&settings)?;
/// println!("{}", torch.origin().versions["torch"]);
/// # Ok::<(), flopgap_calibration::engines::EngineError>(())
/// ```
#[derive(Debug)]
pub struct Torch {
    settings: TorchSettings,
    origin: Origin,
    /// On a CPU.
    references: Option<References>,
    worker: RefCell<Option<Worker>>,
    /// The number of the worker, so that sessions of an earlier one are not asked for.
    workers: Cell<u64>,
    sessions: Cell<u64>,
    /// Users' models by their SHA-256.
    files: HashMap<String, ModelFile>,
}

/// The worker's description of itself.
#[derive(Deserialize)]
struct Hello {
    protocol: u32,
    python: String,
    torch: String,
    cuda: Option<String>,
    cudnn: Option<u64>,
    device: Option<String>,
}

/// The worker's protocol that this crate speaks.
const PROTOCOL: u32 = 1;

impl Torch {
    /// Starts Python and imports PyTorch, which takes seconds.
    ///
    /// # Errors
    /// [`EngineError::Missing`] where there is no Python, no PyTorch, or no such GPU.
    pub fn new(settings: &TorchSettings) -> Result<Self, EngineError> {
        let mut torch = Torch {
            settings: settings.clone(),
            origin: Origin::default(),
            references: None,
            worker: RefCell::new(None),
            workers: Cell::new(0),
            sessions: Cell::new(0),
            files: HashMap::new(),
        };
        let hello = torch.start()?;
        let mut origin = match settings.gpu {
            None => cpu::origin(),
            Some(gpu) => {
                let device = flopgap_gpu::Device::get(gpu)?;
                crate::engines::cuda::origin_of(&device)?
            }
        };
        // What PyTorch calls the device is what computed.
        origin.device = hello.device.unwrap_or(origin.device);
        let versions = [
            ("torch", Some(hello.torch)),
            ("python", Some(hello.python)),
            ("torch cuda", hello.cuda),
            ("torch cudnn", hello.cudnn.map(|version| version.to_string())),
        ];
        for (name, version) in versions {
            origin.versions.extend(version.map(|version| (name.to_owned(), version)));
        }
        torch.origin = origin;
        if settings.gpu.is_none() {
            torch.references = Some(References::new(settings.cpu.references.as_ref()));
        }
        Ok(torch)
    }

    /// Lets workloads of files with this SHA-256 ([`FileSpec::sha256`]) run from this file.
    #[must_use]
    pub fn with_file(mut self, sha256: impl Into<String>, file: ModelFile) -> Self {
        self.files.insert(sha256.into(), file);
        self
    }

    fn start(&self) -> Result<Hello, EngineError> {
        let mut worker = Worker::start(&self.settings.python())?;
        let device = self.settings.gpu.map_or_else(|| "cpu".to_owned(), |gpu| format!("cuda:{gpu}"));
        let request = json!({"do": "hello", "device": device, "threads": self.settings.cpu.threads.get()});
        let hello: Hello = worker
            .ask(request)
            .map_err(|failure| self.failed("starting PyTorch", &Workload::Step(smallest()), failure))?;
        if hello.protocol != PROTOCOL {
            return Err(EngineError::Failed {
                action: "starting PyTorch".to_owned(),
                message: format!("the worker speaks protocol {}, not {PROTOCOL}", hello.protocol),
            });
        }
        *self.worker.borrow_mut() = Some(worker);
        self.workers.set(self.workers.get() + 1);
        Ok(hello)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        action: &str,
        workload: &Workload,
        request: Value,
    ) -> Result<T, EngineError> {
        if self.worker.borrow().is_none() {
            self.start()?;
        }
        let mut worker = self.worker.borrow_mut();
        let Some(running) = worker.as_mut() else { return Err(lost_session(action)) };
        running.ask(request).map_err(|failure| {
            if matches!(failure, Failure::Lost(_)) {
                *worker = None;
            }
            self.failed(action, workload, failure)
        })
    }

    fn failed(&self, action: &str, workload: &Workload, failure: Failure) -> EngineError {
        let action = action.to_owned();
        match failure {
            Failure::Lost(message) => EngineError::Failed { action, message },
            Failure::Refused(refusal) => match refusal.kind.as_str() {
                "missing" => EngineError::Missing { what: "PyTorch", reason: refusal.message, hint: HINT },
                "unsupported" => EngineError::Unsupported {
                    engine: self.name(),
                    what: workload.label(),
                    reason: refusal.message,
                },
                "memory" => {
                    EngineError::Failed { action, message: format!("not enough memory: {}", refusal.message) }
                }
                _ => EngineError::Failed { action, message: refusal.message },
            },
        }
    }

    fn file(&self, spec: &FileSpec) -> Result<&ModelFile, EngineError> {
        let missing = |reason: String, hint| EngineError::Missing { what: "the model's file", reason, hint };
        let file = self.files.get(&spec.sha256).ok_or_else(|| {
            let reason = format!("no file of this session has the recorded contents of {}", spec.name);
            missing(reason, "pass the model's file again; it may have changed since")
        })?;
        if file.path.extension().is_some_and(|extension| extension == "onnx") {
            return Err(EngineError::Unsupported {
                engine: self.name(),
                what: spec.name.clone(),
                reason:
                    "PyTorch does not run ONNX; export the model with torch.export.save to a .pt2 file file file"
                        .to_owned(),
            });
        }
        Ok(file)
    }
}

fn lost_session(action: &str) -> EngineError {
    EngineError::Failed {
        action: action.to_owned(),
        message: "the process that held the network has ended".to_owned(),
    }
}

impl Engine for Torch {
    fn name(&self) -> &'static str {
        match self.settings.mode {
            TorchMode::Eager => "torch-eager",
            TorchMode::Compile => "torch-compile",
            TorchMode::Graph => "torch-graph",
        }
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn modes(&self) -> &[Mode] {
        match (self.settings.gpu, self.settings.mode) {
            (None, TorchMode::Graph) => &[],
            (None, _) => &[Mode::Call],
            (Some(_), TorchMode::Graph) => &[Mode::Graph],
            (Some(_), _) => &[Mode::Stream],
        }
    }

    fn threads(&self) -> u32 {
        match self.settings.gpu {
            None => u32::try_from(self.settings.cpu.threads.get()).unwrap_or(u32::MAX),
            Some(_) => 0,
        }
    }

    fn references(&self) -> BTreeMap<String, f64> {
        self.references.as_ref().map(References::best).unwrap_or_default()
    }

    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError> {
        let refuse = |reason: String| {
            Err(EngineError::Unsupported { engine: self.name(), what: workload.label(), reason })
        };
        let known = match self.settings.gpu {
            None => &[Precision::Fp32, Precision::Bf16][..],
            Some(_) => &[Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16],
        };
        if !known.contains(&precision) {
            return refuse(format!("it does not support {precision} here"));
        }
        if let Workload::File(spec) = workload {
            return self.file(spec).map(|_| ());
        }
        match workload.graph() {
            Ok(_) => Ok(()),
            Err(_) if is_empty(workload) => Ok(()),
            Err(error) => refuse(flopgap_files::chain(&error).to_string()),
        }
    }

    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        self.supports(workload, precision)?;
        if !self.modes().contains(&mode) {
            return Err(EngineError::Unsupported {
                engine: self.name(),
                what: workload.label(),
                reason: format!("it does not support {mode:?} there").to_lowercase(),
            });
        }
        let number = self.sessions.get() + 1;
        self.sessions.set(number);
        let mut request = json!({
            "do": "open",
            "session": number,
            "how": self.name().trim_start_matches("torch-"),
            "precision": precision,
            "seed": self.settings.cpu.seed,
        });
        let mut remarks = Vec::new();
        if let Workload::File(spec) = workload {
            let file = self.file(spec)?;
            request["file"] = json!(file.path);
            request["shapes"] = json!(file.shapes);
        } else {
            let shown = if is_empty(workload) {
                remarks.push("a call is measured by the smallest one: one element".to_owned());
                Workload::Step(smallest())
            } else {
                workload.clone()
            };
            let graph = shown.graph().map_err(|error| EngineError::Failed {
                action: "writing the network".to_owned(),
                message: error.to_string(),
            })?;
            request["graph"] = json!(graph);
        }
        let opened: OpenAnswer = self.ask("opening a network with PyTorch", workload, request)?;
        let stopwatch =
            self.references.as_ref().map(|best| Stopwatch::new(best, self.settings.cpu.threads.get()));
        let worker = self.workers.get();
        Ok(Box::new(Opened {
            torch: self,
            workload: workload.clone(),
            number,
            worker,
            stopwatch,
            answer: opened,
            remarks,
        }))
    }
}

fn is_empty(workload: &Workload) -> bool {
    matches!(workload, Workload::Step(step) if step.op == Op::Empty)
}

/// The worker's description of an open session.
#[derive(Deserialize)]
struct OpenAnswer {
    memory: Option<u64>,
    device_memory: Option<u64>,
}

struct Opened<'a> {
    torch: &'a Torch,
    workload: Workload,
    number: u64,
    /// The worker that holds it.
    worker: u64,
    /// On a CPU.
    stopwatch: Option<Stopwatch<'a>>,
    answer: OpenAnswer,
    remarks: Vec<String>,
}

impl Opened<'_> {
    fn ask<T: DeserializeOwned>(&self, action: &str, mut request: Value) -> Result<T, EngineError> {
        if self.torch.workers.get() != self.worker || self.torch.worker.borrow().is_none() {
            return Err(lost_session(action));
        }
        request["session"] = json!(self.number);
        self.torch.ask(action, &self.workload, request)
    }

    /// Nanoseconds of so many runs on the device.
    fn device_ns(&self, runs: u64) -> Result<f64, EngineError> {
        #[derive(Deserialize)]
        struct Time {
            device_ns: f64,
        }
        let time: Time = self.ask("timing a network with PyTorch", json!({"do": "run", "runs": runs}))?;
        Ok(time.device_ns)
    }
}

/// A sample on a GPU takes at least this long.
const SAMPLE_NS: f64 = 3e6;

impl Session for Opened<'_> {
    fn check(&mut self) -> Result<Check, EngineError> {
        #[derive(Deserialize)]
        struct Compared {
            reference: String,
            /// Absent where it is not a number.
            error: Option<f64>,
            bound: f64,
            #[serde(default)]
            zeros: bool,
        }
        let Compared { reference, error, bound, zeros } =
            self.ask("checking a network with PyTorch", json!({"do": "check"}))?;
        if zeros {
            self.remarks.push(ALL_ZERO.to_owned());
        }
        Ok(Check { reference, error: error.unwrap_or(f64::NAN), bound })
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        #[derive(Deserialize)]
        struct Time {
            wall_ns: f64,
            thread_ns: f64,
        }
        if let Some(stopwatch) = self.stopwatch {
            return stopwatch.time_many(limit, |runs| {
                let request = json!({"do": "run", "runs": runs});
                let Time { wall_ns, thread_ns } = self.ask("timing a network with PyTorch", request)?;
                Ok(Elapsed { thread: thread_ns, wall: wall_ns })
            });
        }
        let once = self.device_ns(limit.warmup.max(1))? / limit.warmup.max(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, limited")]
        let runs = ((SAMPLE_NS / once.max(1.0)).ceil() as u64).clamp(1, 10_000);
        repeat(limit, |samples| (0..samples).map(|_| Ok(self.device_ns(runs)? / runs as f64)).collect())
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        #[derive(Deserialize)]
        struct Ran {
            runs: u64,
        }
        let request = json!({"do": "run_for", "seconds": duration.as_secs_f64()});
        let Ran { runs } = self.ask("running a network with PyTorch", request)?;
        Ok(runs)
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.answer.memory
    }

    fn device_memory_bytes(&self) -> Option<u64> {
        self.answer.device_memory
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // A worker that has ended holds nothing; its reply to the last message is irrelevant.
        let _ = self.ask::<Value>("closing a network with PyTorch", json!({"do": "close"}));
    }
}
