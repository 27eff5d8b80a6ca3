//! The `ncu` backend: Nsight Compute over this program's hidden command `run-one`
//! ([`crate::run_one`]), one process a configuration.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flopgap_cli::Restart;
use flopgap_files::{Hint as _, Text, chain};
use flopgap_ncu::{Error, Fault, LaunchView, Reader, Value};
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Backend, Config, Meter, MeterError, Origin, Quantity, Record};

use crate::hardware::{Hardware, mark};
use crate::run_one;

/// Where `ncu` is searched for in addition to the search path.
const USUAL_PLACES: [&str; 2] = ["/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute"];

/// Nsight Compute on this machine, and the program that it profiles: this one, which must have the
/// command `run-one`.
pub struct Ncu<'a> {
    hardware: &'a dyn Hardware,
    program: PathBuf,
    version: String,
    runner: PathBuf,
    restart: &'a Restart,
}

impl<'a> Ncu<'a> {
    /// Finds `ncu` and queries its version. `restart` starts the program that it profiles.
    ///
    /// # Errors
    /// [`MeterError::Unavailable`] when it is missing or does not run.
    pub fn find(hardware: &'a dyn Hardware, restart: &'a Restart) -> Result<Ncu<'a>, MeterError> {
        let unavailable = |what, hint: &str| MeterError::Unavailable { what, hint: Some(hint.to_owned()) };
        let ncu = in_path(std::env::var_os("PATH").as_deref()).or_else(usual).ok_or_else(|| {
            let what = format!("ncu is not in PATH, at {} or below {}", USUAL_PLACES[0], USUAL_PLACES[1]);
            unavailable(what, "install Nsight Compute (package nsight-compute of the CUDA repository)")
        })?;
        let broken = |what: String| unavailable(what, "check the installation of Nsight Compute");
        let output = Command::new(&ncu).arg("--version").output();
        let output = output.map_err(|error| broken(format!("{}: {error}", ncu.display())))?;
        let version = version(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| broken(format!("{} --version printed no version", ncu.display())))?;
        let runner = restart.program().map_err(|failure| broken(failure.message()))?;
        Ok(Ncu { hardware, program: ncu, version, runner, restart })
    }

    /// Where it is, and its version.
    pub(crate) fn found(&self) -> String {
        format!("{}: Nsight Compute {}", self.program.display(), self.version)
    }
}

/// The program, searched for in a path.
fn in_path(path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?).map(|folder| folder.join("ncu")).find(|ncu| ncu.is_file())
}

/// The program in the places of NVIDIA's installers; the newest if there are several.
fn usual() -> Option<PathBuf> {
    let [cuda, versions] = USUAL_PLACES.map(Path::new);
    if cuda.is_file() {
        return Some(cuda.to_owned());
    }
    let numbers = |path: &Path| -> Vec<u64> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let mut folders: Vec<PathBuf> =
        fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(numbers(folder)));
    folders.into_iter().map(|folder| folder.join("ncu")).find(|ncu| ncu.is_file())
}

/// `2025.3.1.0` of `Version 2025.3.1.0 (build 36398880) (public-release)`.
fn version(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("Version "))?;
    line.split_whitespace().next().map(str::to_owned)
}

impl Backend for Ncu<'_> {
    fn origin(&self, device: u32) -> Result<Origin, MeterError> {
        let profiler = format!("Nsight Compute {}", self.version);
        Ok(self.hardware.device(device)?.origin(profiler, "hyper-profile new --backend ncu"))
    }

    fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
        let quantities = Quantity::fp32(self.hardware.device(device)?.compute_capability);
        let folder = tempfile::tempdir()
            .map_err(|error| MeterError::Lost { message: format!("no temporary directory: {error}") })?;
        Ok(Box::new(OverNcu { ncu: self, device, quantities, folder }))
    }
}

/// `ncu` over one device.
struct OverNcu<'a> {
    ncu: &'a Ncu<'a>,
    device: u32,
    quantities: &'static [Quantity],
    /// Where `ncu` writes its report.
    folder: tempfile::TempDir,
}

impl OverNcu<'_> {
    fn profile(&self, config: Config, report: &Path) -> std::io::Result<Output> {
        let metrics: Vec<&str> = self.quantities.iter().map(|quantity| quantity.metric()).collect();
        Command::new(&self.ncu.program)
            .env("LC_ALL", "C")
            .args(["--csv", "--clock-control", "none", "--metrics", &metrics.join(","), "--log-file"])
            .arg(report)
            .arg(&self.ncu.runner)
            .args(self.ncu.restart.arguments(run_one::arguments(self.device, config)))
            .output()
    }
}

impl Meter for OverNcu<'_> {
    fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
        let report = self.folder.path().join(format!("{config}.csv"));
        let output = self.profile(config, &report).map_err(|error| MeterError::Lost {
            message: format!("{}: {error}", self.ncu.program.display()),
        })?;
        if let Some(error) = run_one::error_in(&String::from_utf8_lossy(&output.stdout)) {
            return Err(error);
        }
        let result = read(config, &report, self.quantities);
        let _ = fs::remove_file(&report);
        let record = result?;
        if !output.status.success() {
            return Err(MeterError::Failed { message: format!("ncu ended with {}", output.status) });
        }
        Ok(record)
    }
}

/// The report of a marked run as a record.
fn read(config: Config, report: &Path, quantities: &[Quantity]) -> Result<Record, MeterError> {
    let failed = |message| MeterError::Failed { message };
    let of_reader = |error: Error| match error.what {
        Fault::CounterPermission => MeterError::Unavailable {
            what: "ncu is not permitted to read the GPU's performance counters (ERR_NVGPUCTRPERM)".to_owned(),
            hint: error.hint().map(Text::into_owned),
        },
        _ => MeterError::Failed { message: chain(&error).to_string() },
    };
    let mut reader = Reader::open(report).map_err(of_reader)?;
    let mut record = Record::new(config, quantities);
    let mut phases = Phase::ALL.into_iter().peekable();
    let mut phase = None;
    while let Some(launch) = reader.next_launch().map_err(of_reader)? {
        let name = launch.kernel_name();
        if phases.peek().is_some_and(|&next| is_mark(name, next)) {
            phase = phases.next();
            continue;
        }
        let Some(phase) = phase else {
            return Err(failed(format!("`{name}` was launched before the first phase was marked")));
        };
        let values =
            quantities.iter().map(|&quantity| count(launch, quantity)).collect::<Result<Vec<u64>, _>>();
        let (Some(grid), Some(block)) = (launch.grid, launch.block) else {
            return Err(failed(format!("the report has no grid and block of `{name}`")));
        };
        record.push(phase, name, grid, block, &values.map_err(failed)?);
    }
    if let Some(line) = reader.lost_at() {
        return Err(failed(format!("ncu's report is cut off or damaged at line {line}")));
    }
    match phases.next() {
        Some(missing) => Err(failed(format!("phase {missing} was not marked: the program ended before it"))),
        None => Ok(record),
    }
}

/// Whether a kernel is the mark of a phase; its name may come with its (empty) parameter list.
fn is_mark(name: &str, phase: Phase) -> bool {
    name.split('(').next().is_some_and(|name| name.trim() == mark(phase))
}

fn count(launch: LaunchView<'_>, quantity: Quantity) -> Result<u64, String> {
    let metric = quantity.metric();
    match launch.metric_named(metric).map(|metric| metric.value) {
        Some(Value::U64(count)) => Ok(count),
        Some(_) => Err(format!("{metric} of `{}` is not a whole number", launch.kernel_name())),
        None => Err(format!("{metric} of `{}` was not measured", launch.kernel_name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let text = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\n\
                    Version 2025.3.1.0 (build 36398880) (public-release)\n";
        assert_eq!(version(text).as_deref(), Some("2025.3.1.0"));
        assert_eq!(version("command not found"), None);
    }

    fn csv(rows: &[(&str, [u64; 3])]) -> String {
        let head = "==PROF== Connected to process 7\n\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\
                    \"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
        let lines = rows.iter().enumerate().flat_map(|(id, (name, values))| {
            Quantity::FP32.iter().zip(values).map(move |(quantity, value)| {
                let metric = quantity.metric();
                format!(
                    "\"{id}\",\"{name}\",\"(32, 1, 1)\",\"(4, 2, 1)\",\"{metric}\",\"inst\",\"{value}\"\n"
                )
            })
        });
        head.to_owned() + &lines.collect::<String>()
    }

    const CONFIG: Config = Config { n: 1, d: 8, m: 8 };

    fn read_text(text: &str) -> Result<Record, MeterError> {
        let (_dir, [path]) = flopgap_testing::paths(["n1_d8_m8.csv"]);
        fs::write(&path, text).unwrap();
        read(CONFIG, &path, &Quantity::FP32)
    }

    #[test]
    fn a_marked_report_is_cut_at_its_marks() {
        let record = read_text(&csv(&[
            ("flopgap_mark_setup()", [0, 0, 0]),
            ("flopgap_mark_forward", [0, 0, 0]),
            ("sgemm", [1, 2, 3]),
            ("flopgap_mark_backward()", [0, 0, 0]),
            ("sgemm", [4, 5, 6]),
        ]))
        .unwrap();
        let mut expected = Record::new(CONFIG, &Quantity::FP32);
        expected.push(Phase::Forward, "sgemm", [4, 2, 1], [32, 1, 1], &[1, 2, 3]);
        expected.push(Phase::Backward, "sgemm", [4, 2, 1], [32, 1, 1], &[4, 5, 6]);
        assert_eq!(record, expected);
    }

    #[test]
    fn reports_that_would_give_a_wrong_record_are_refused() {
        let message = |text: &str| read_text(text).unwrap_err().to_string();
        let marks = |phases: &[&'static str]| -> Vec<(&'static str, [u64; 3])> {
            phases.iter().map(|&phase| (phase, [0; 3])).collect()
        };
        assert_eq!(
            message(&csv(&[("sgemm", [1, 2, 3])])),
            "`sgemm` was launched before the first phase was marked"
        );
        assert_eq!(
            message(&csv(&marks(&["flopgap_mark_setup", "flopgap_mark_forward"]))),
            "phase backward was not marked: the program ended before it"
        );
        let whole =
            csv(&[&marks(&["flopgap_mark_setup", "flopgap_mark_forward"])[..], &[("sgemm", [1, 2, 3])]]
                .concat());
        let unmeasured = whole.replace("\"inst\",\"3\"", "\"inst\",\"n/a\"");
        assert_eq!(
            message(&unmeasured),
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum of `sgemm` was not measured"
        );
        let refused =
            read_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n").unwrap_err();
        assert!(matches!(refused, MeterError::Unavailable { hint: Some(_), .. }), "{refused}");
    }
}
