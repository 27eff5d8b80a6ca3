//! Profilers, the compiler and PyTorch: programs that say their versions.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nsys_analyze::find;

use super::{Finding, Machine, State};

/// Where installers put ncu and nvcc, as patterns of `nsys_analyze::find`.
const NCU: [&str; 2] = ["usr/local/cuda/bin", "opt/nvidia/nsight-compute/*"];
const NVCC: [&str; 2] = ["usr/local/cuda/bin", "usr/local/cuda-*/bin"];

/// What Python says about PyTorch: on lines, so that warnings around them do no harm.
const TORCH: &str = "\
import sys
print('python', sys.version.split()[0], sys.executable)
try:
    import torch
    print('torch', torch.__version__, 'CUDA', torch.version.cuda, 'GPUs', torch.cuda.device_count())
except ImportError as error:
    print('absent', error)";

/// All programs, which are started at the same time.
pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    std::thread::scope(|scope| {
        let all: [fn(&Machine) -> Vec<Finding>; 4] = [nsys, ncu, nvcc, python];
        let running = all.map(|of| scope.spawn(move || of(machine)));
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn nsys(machine: &Machine) -> Vec<Finding> {
    let place = find::nsys(machine.path.as_deref(), &machine.root);
    let version = |text: &str| after(text, "version ");
    let state = program(
        machine,
        place,
        version,
        "install Nsight Systems (package nsight-systems-cli of the CUDA repository)",
    );
    let enables = "recording and reading .nsys-rep: flopgap nsys capture, flopgap TRACE.nsys-rep";
    vec![Finding { item: "nsys".to_owned(), state, enables }]
}

fn ncu(machine: &Machine) -> Vec<Finding> {
    let place = find::program("ncu", &NCU, machine.path.as_deref(), &machine.root);
    let version = |text: &str| text.lines().find_map(|line| after(line.strip_prefix("Version")?, " "));
    let state = program(
        machine,
        place,
        version,
        "install Nsight Compute (package nsight-compute of the CUDA repository)",
    );
    let enables = "reports of any program (.ncu-rep), and flopgap profile new --backend ncu";
    vec![Finding { item: "ncu".to_owned(), state, enables }]
}

fn nvcc(machine: &Machine) -> Vec<Finding> {
    let place = find::program("nvcc", &NVCC, machine.path.as_deref(), &machine.root);
    let version = |text: &str| after(text, ", V");
    let state =
        program(machine, place, version, "nothing for flopgap; else install the CUDA toolkit (cuda-nvcc)");
    let enables = "programs of your own: flopgap compiles with NVRTC";
    vec![Finding { item: "nvcc".to_owned(), state, enables }]
}

fn python(machine: &Machine) -> Vec<Finding> {
    const INSTALL: &str = "install it with `pip install torch`, and name the Python that has it in FLOPGAP_PYTHON if it is not `python3`";
    let finding = |item: &str, state, enables| Finding { item: item.to_owned(), state, enables };
    let enables = "the Python package, and what runs PyTorch";
    // A path is taken as it is, a name is searched for.
    let place = if machine.python.components().count() > 1 {
        Ok(machine.python.clone())
    } else {
        let name = machine.python.to_string_lossy();
        find::program(&name, &["usr/bin"], machine.path.as_deref(), &machine.root)
    };
    let said = place.map_err(|searched| not_found(&searched)).and_then(|python| {
        printed(Command::new(&python).args(["-c", TORCH]), machine.limit)
            .map_err(|why| format!("{}: {why}", python.display()))
    });
    let line =
        |text: &str, word: &str| text.lines().find_map(|line| line.strip_prefix(word)).map(str::to_owned);
    let text = match said {
        Ok(text) => text,
        Err(why) => {
            let torch = State::missing("not asked: Python does not run", "see python3");
            let python = State::missing(why, "install Python 3.10 or newer, or name it in FLOPGAP_PYTHON");
            return vec![finding("python3", python, enables), finding("torch", torch, TORCH_ENABLES)];
        }
    };
    let version = line(&text, "python ").map_or_else(
        || State::missing(format!("printed no version: {}", first_line(&text)), "check the installation"),
        |found| State::Found(found.replacen(' ', " (", 1) + ")"),
    );
    let torch = match (line(&text, "torch "), line(&text, "absent ")) {
        (Some(found), _) => State::Found(found.replace(" CUDA", ", CUDA").replace(" GPUs", ", GPUs")),
        (None, Some(why)) => State::missing(why, INSTALL),
        (None, None) => State::missing(format!("cannot be imported: {}", first_line(&text)), INSTALL),
    };
    vec![finding("python3", version, enables), finding("torch", torch, TORCH_ENABLES)]
}

const TORCH_ENABLES: &str =
    "traces of torch.profiler, flopgap.observe, and the PyTorch engines of flopgap calibrate sweep";

/// What a program at a place says about its version.
fn program(
    machine: &Machine,
    place: Result<PathBuf, Vec<String>>,
    version: impl Fn(&str) -> Option<String>,
    install: &str,
) -> State {
    let place = match place {
        Ok(place) => place,
        Err(searched) => return State::missing(not_found(&searched), install),
    };
    let broken = |why: &str| {
        State::missing(
            format!("{}: {why}", place.display()),
            "check the installation, or remove it from PATH",
        )
    };
    match printed(Command::new(&place).arg("--version"), machine.limit) {
        Ok(text) => match version(&text) {
            Some(version) => State::Found(format!("{version} ({})", place.display())),
            None => broken(&format!("--version printed no version: {}", first_line(&text))),
        },
        Err(why) => broken(&why),
    }
}

fn not_found(searched: &[String]) -> String {
    format!("not found in {}", searched.join(", "))
}

/// The word after the first place of `before`.
fn after(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing")
}

/// What a program prints on both streams, if it succeeds within a time.
fn printed(command: &mut Command, limit: Duration) -> Result<String, String> {
    // A file and no pipe: what the program starts may keep a pipe open.
    let failed = |error: std::io::Error| format!("cannot be run: {error}");
    let mut file = tempfile::tempfile().map_err(failed)?;
    let stream = || file.try_clone().map(Stdio::from).map_err(failed);
    let (stdout, stderr) = (stream()?, stream()?);
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().map_err(failed)?;
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", limit.as_secs_f64()));
            }
        }
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() {
        return Ok(text);
    }
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Err(format!("ended with {status}, after printing: {last}"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A machine without NVIDIA's programs, but with these scripts in its `PATH`.
    fn machine(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let (root, [bin]) = flopgap_testing::paths(["bin"]);
        fs::create_dir(&bin).unwrap();
        for (name, script) in scripts {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let machine = Machine {
            root: root.path().to_owned(),
            path: Some(bin.into()),
            python: "python3".into(),
            limit: Duration::from_secs(20),
        };
        (root, machine)
    }

    /// The states of nsys, ncu, nvcc, python3 and torch, with the place of the scripts cut out.
    fn states(scripts: &[(&str, &str)], limit: Option<Duration>) -> Vec<Result<String, String>> {
        let (root, mut machine) = machine(scripts);
        machine.limit = limit.unwrap_or(machine.limit);
        let found = findings(&machine);
        assert_eq!(
            found.iter().map(|it| it.item.as_str()).collect::<Vec<_>>(),
            ["nsys", "ncu", "nvcc", "python3", "torch"]
        );
        let root = root.path().display().to_string();
        let states = found.into_iter().map(|it| match it.state {
            State::Found(what) => Ok(what.replace(&root, "")),
            State::Missing { why, remedy } => {
                assert!(!remedy.is_empty());
                Err(why.replace(&root, ""))
            }
        });
        states.collect()
    }

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        let found = states(
            &[
                ("nsys", "echo NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0"),
                (
                    "ncu",
                    "printf 'NVIDIA (R) Nsight Compute Command Line Profiler\\nCopyright (c) 2018-2025 NVIDIA Corporation\\n\
                    Version 2025.3.1.0 (build 36398880) (public-release)\\n'",
                ),
                (
                    "nvcc",
                    "printf 'nvcc: NVIDIA (R) Cuda compiler driver\\nCuda compilation tools, release 13.0, V13.0.88\\n\
                    Build cuda_13.0.r13.0/compiler.36424714_0\\n'",
                ),
                (
                    "python3",
                    "echo a warning >&2; echo python 3.12.3 /usr/bin/python3; echo torch 2.11.0+cu130 CUDA 13.0 GPUs 2",
                ),
            ],
            None,
        );
        let expected = [
            "2025.3.2.474-253236389321v0 (/bin/nsys)",
            "2025.3.1.0 (/bin/ncu)",
            "13.0.88 (/bin/nvcc)",
            "3.12.3 (/usr/bin/python3)",
            "2.11.0+cu130, CUDA 13.0, GPUs 2",
        ];
        assert_eq!(found, expected.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn what_is_missing_or_broken_is_said() {
        let nothing = states(&[], None);
        let whys: Vec<&String> = nothing.iter().map(|state| state.as_ref().unwrap_err()).collect();
        assert!(whys[0].starts_with("not found in the folders of PATH, /usr/local/cuda/bin, "), "{whys:?}");
        assert!(whys[1].ends_with("/opt/nvidia/nsight-compute/*"), "{whys:?}");
        assert_eq!(whys[4], "not asked: Python does not run");

        let broken = states(
            &[
                ("nsys", "echo libdw.so.1 is missing >&2; exit 3"),
                ("ncu", "echo hello"),
                ("nvcc", "true"),
                ("python3", "echo python 3.11.7 /p; echo \"absent No module named 'torch'\""),
            ],
            None,
        );
        let texts: Vec<&str> =
            broken.iter().map(|state| state.as_ref().unwrap_or_else(|why| why).as_str()).collect();
        assert_eq!(
            texts,
            [
                "/bin/nsys: ended with exit status: 3, after printing: libdw.so.1 is missing",
                "/bin/ncu: --version printed no version: hello",
                "/bin/nvcc: --version printed no version: nothing",
                "3.11.7 (/p)",
                "No module named 'torch'"
            ]
        );
    }

    #[test]
    fn what_hangs_is_ended() {
        let start = Instant::now();
        let found =
            states(&[("nsys", "sleep 60"), ("python3", "sleep 60")], Some(Duration::from_millis(300)));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(found[0], Err("/bin/nsys: did not end within 0.3 s".to_owned()));
        assert_eq!(found[3], Err("/bin/python3: did not end within 0.3 s".to_owned()));
    }
}
