//! `flopgap example`: recordings to try the answers on.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use flopgap_cli::Failure;

use crate::PROGRAM;
use crate::answer::in_shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write to this directory
    #[arg(short, long, value_name = "DIR", default_value = "flopgap-example")]
    output: PathBuf,
}

/// Recordings of the repository, by their paths below `data/example`.
macro_rules! bundled {
    ($($path:literal)*) => {
        &[$(($path, include_bytes!(concat!("../data/example/", $path)))),*]
    };
}

const BUNDLED: &[(&str, &[u8])] = bundled! {
    "calibration.jsonl.zst"
    "compiled.json.gz"
    "eager.json.gz"
    "forward.csv"
    "kernels.ncu-rep"
    "llama-3-8b.json"
    "mlp.onnx"
    "rank0.json.zst"
    "rank1.json.zst"
    "resnet50.pt2"
    "run/raw/n4_d1024_m192.counts.json.zst"
    "run/raw/n4_d1536_m192.counts.json.zst"
    "run/raw/n4_d2048_m192.counts.json.zst"
    "run/raw/n4_d512_m192.counts.json.zst"
    "training-step.sqlite.zst"
};

/// A question about some of the files.
struct Try {
    /// What the answer is about.
    about: &'static str,
    /// The command, where `@` stands for the directory.
    command: &'static str,
    /// Whether this executable answers it.
    is_built: bool,
}

const fn ask(about: &'static str, command: &'static str) -> Try {
    Try { about, command, is_built: true }
}

const ESTIMATES: bool = cfg!(feature = "calibrate");

const TRIES: &[Try] = &[
    ask("two training steps by torch.profiler: what limits them", "flopgap @/eager.json.gz"),
    ask("the same network without torch.compile and with it", "flopgap @/eager.json.gz @/compiled.json.gz"),
    ask("both ranks of a job: who waits for whom", "flopgap @/rank0.json.zst @/rank1.json.zst"),
    Try {
        about: "training steps by Nsight Systems, as a page",
        command: "flopgap gap @/training-step.sqlite.zst -o @/step.html",
        is_built: cfg!(feature = "pages"),
    },
    ask("their longest kernels", "flopgap nsys kernels @/training-step.sqlite.zst --top 5"),
    ask("a report by Nsight Compute", "flopgap @/kernels.ncu-rep"),
    ask("FLOPs of a forward pass by counters, as CSV", "flopgap ncu kernels @/forward.csv --format csv"),
    Try {
        about: "FLOPs of MLPs by counters and by theory",
        command: "flopgap @/run",
        is_built: cfg!(feature = "profile"),
    },
    Try {
        about: "FLOPs of a network by layer, and its time on an H200",
        command: "flopgap @/mlp.onnx",
        is_built: ESTIMATES,
    },
    Try {
        about: "a larger network on another GPU and in another precision",
        command: "flopgap calibrate estimate @/resnet50.pt2 --machine h100 --precision fp16",
        is_built: ESTIMATES,
    },
    Try { about: "a language model on an H200", command: "flopgap @/llama-3-8b.json", is_built: ESTIMATES },
    Try {
        about: "measured networks of an H200",
        command: "flopgap @/calibration.jsonl.zst",
        is_built: ESTIMATES,
    },
];

/// Writes the recordings and prints the commands. Files with other contents stay, and nothing is
/// written then.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.output;
    let mut missing = Vec::new();
    for (name, bytes) in BUNDLED {
        let path = directory.join(name);
        match fs::read(&path) {
            Ok(found) if found == *bytes => {}
            Ok(_) => {
                let message = format!("{}: exists and is not the example", path.display());
                return Err(Failure::new(message).hint("write to another directory: -o DIR"));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => missing.push((path, bytes)),
            Err(error) => {
                return Err(Failure::new(format!("{}: cannot be read: {error}", path.display())));
            }
        }
    }
    for (path, bytes) in &missing {
        if let Some(parent) = path.parent() {
            flopgap_files::create_folder(parent)?;
        }
        flopgap_files::write_atomic(path, bytes)?;
    }
    let kb = BUNDLED.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() / 1000;
    let count = BUNDLED.len();
    flopgap_cli::note(PROGRAM, format_args!("{count} files ({kb} kB) in {}", directory.display()));
    let place = in_shell(&directory.to_string_lossy());
    let tries = TRIES.iter().filter(|it| it.is_built);
    let lines: Vec<String> =
        tries.map(|it| format!("# {}\n{}", it.about, it.command.replace('@', &place))).collect();
    flopgap_cli::print(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_small_and_each_is_in_a_command() {
        let bytes: usize = BUNDLED.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
        for (name, _) in BUNDLED {
            let first = name.split('/').next().unwrap_or_default();
            let is_used = |it: &Try| it.command.contains(&format!("@/{first}"));
            assert!(TRIES.iter().any(is_used), "{name}");
        }
    }
}
