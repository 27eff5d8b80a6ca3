//! Commands that are not run, and why.

/// A command of a document, or several that begin alike.
pub(super) struct NotRun {
    /// How the path of the document begins.
    pub(super) document: &'static str,
    /// How the command begins.
    pub(super) command: &'static str,
    pub(super) reason: &'static str,
}

const INSTALLS: &str = "installs, or compiles for minutes";
const NEEDS_GPU: &str = "needs a GPU";
const NEEDS_FILES: &str = "the names stand for files of the reader";
const MEASURES: &str = "measures for minutes, with other programs or a GPU; the pages say where each was run";

/// Every entry must match a command, so that none outlives its document.
pub(super) const NOT_RUN: &[NotRun] = &[
    NotRun {
        document: "docs/measurements/calibration.md",
        command: "cargo run --release -p flopgap-benches --bin machine-tables",
        reason: NEEDS_FILES,
    },
    NotRun { document: "README.md", command: "cargo install", reason: INSTALLS },
    NotRun { document: "README.md", command: "maturin build", reason: INSTALLS },
    NotRun { document: "README.md", command: "cargo test", reason: "runs this test" },
    NotRun { document: "bins/flopgap/", command: "flopgap record", reason: NEEDS_GPU },
    NotRun { document: "crates/flopgap-record/", command: "flopgap record", reason: NEEDS_GPU },
    NotRun { document: "bins/hyper-profile/", command: "flopgap profile new", reason: NEEDS_GPU },
    NotRun { document: "bins/hyper-profile/", command: "flopgap profile resume", reason: NEEDS_GPU },
    NotRun {
        document: "bins/hyper-profile/",
        command: "flopgap profile compare cupti ncu",
        reason: "compares what the GPU counted",
    },
    NotRun {
        document: "bins/hyper-profile/",
        command: "flopgap profile analyze fixtures/runs/h200-pytorch",
        reason: "draws for a minute in a debug build; the program's own tests hold the table and the files",
    },
    NotRun { document: "bins/mlp-bench/", command: "flopgap bench --", reason: NEEDS_GPU },
    NotRun { document: "bins/mlp-bench/", command: "flopgap bench   ", reason: NEEDS_GPU },
    NotRun { document: "bins/mlp-bench/", command: "flopgap bench diff before.json", reason: NEEDS_FILES },
    NotRun {
        document: "bins/mlp-bench/",
        command: "flopgap bench kernels",
        reason: "registers depend on the version of NVRTC; the program's own tests compile the kernels",
    },
    NotRun {
        document: "bins/hyper-profile/",
        command: "flopgap validate sweep --kineto-dir traces",
        reason: NEEDS_GPU,
    },
    NotRun {
        document: "bins/model-calibrate/",
        command: "flopgap calibrate probe",
        reason: "measures for seconds",
    },
    NotRun {
        document: "bins/model-calibrate/",
        command: "flopgap calibrate sweep",
        reason: "measures for minutes",
    },
    NotRun {
        document: "bins/model-calibrate/",
        command: "flopgap calibrate fit run",
        reason: "fits what was swept",
    },
    NotRun {
        document: "bins/model-calibrate/",
        command: "flopgap calibrate report --empirical run",
        reason: "reports what was swept",
    },
    NotRun {
        document: "bins/model-calibrate/",
        command: "flopgap calibrate estimate --calibration run",
        reason: "estimates from what was swept",
    },
    NotRun { document: "bins/nsys-analyze/", command: "nsys export", reason: "needs nsys" },
    NotRun {
        document: "bins/nsys-analyze/",
        command: "flopgap nsys capture",
        reason: "needs nsys and a GPU",
    },
    NotRun {
        document: "bins/nsys-analyze/",
        command: "flopgap nsys diff before.json.gz",
        reason: NEEDS_FILES,
    },
    NotRun {
        document: "bins/nsys-analyze/",
        command: "flopgap nsys batch profiles",
        reason: "the directory stands for one of the reader",
    },
    NotRun { document: "crates/flopgap-nsys/docs/", command: "", reason: MEASURES },
    NotRun { document: "docs/CLUSTER.md", command: "", reason: "needs a cluster" },
    NotRun { document: "docs/FORMATS.md", command: "LC_ALL=C ncu", reason: "needs ncu and a GPU" },
    NotRun { document: "docs/FORMATS.md", command: "find manifest.json", reason: NEEDS_FILES },
    NotRun { document: "docs/GUIDE.md", command: "flopgap bench", reason: NEEDS_GPU },
    NotRun { document: "docs/GUIDE.md", command: "flopgap calibrate probe", reason: "measures for seconds" },
    NotRun { document: "docs/GUIDE.md", command: "flopgap calibrate sweep", reason: "measures for minutes" },
    NotRun { document: "docs/GUIDE.md", command: "ncu --csv", reason: "needs ncu and a GPU" },
    NotRun { document: "docs/measurements/", command: "", reason: MEASURES },
    NotRun { document: "fixtures/", command: "", reason: "recorded on a GPU" },
    NotRun { document: "fuzz/", command: "", reason: "runs until it is stopped, and needs cargo-fuzz" },
    NotRun { document: "python/README.md", command: "maturin build", reason: INSTALLS },
    NotRun {
        document: "bins/run-table/",
        command: "ballista-",
        reason: "services of another project, shown from its documentation",
    },
];
