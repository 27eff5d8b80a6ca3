//! The text of job scripts.

use std::path::Path;

use super::{JobArray, Scripts, SlurmError, directory};

/// Options that decide what the two jobs are, in their long and short forms.
const OURS: [(&str, &str, &str); 4] = [
    ("array", "a", "the number of tasks sets the array"),
    ("dependency", "d", "the second job depends on the first"),
    ("wait", "W", "the second job could not be submitted before the first has ended"),
    ("wrap", "", "the job has a script"),
];

/// Both scripts of an array.
pub(super) fn scripts(array: &JobArray) -> Result<Scripts, SlurmError> {
    let run = path("the run directory", &array.run)?;
    if run.contains('\\') {
        // Slurm removes it from paths of logs, and with it the meaning of `%a`.
        let reason = "Slurm does not accept a backslash in the paths of logs";
        return Err(SlurmError::Text { what: "the run directory", text: run.to_owned(), reason });
    }
    let program = path("the program", &array.program)?;
    let evidence = path("the path", &array.evidence)?;
    for argument in array.task.iter().chain(&array.aggregate) {
        text("the argument", argument)?;
    }
    array.options.iter().try_for_each(|option| check(option))?;

    let name = job_name(&array.run);
    let directory = directory(&array.run);
    let logs = path("the run directory", &directory)?;
    let tasks = array.tasks;
    let submit = format!(
        "# Submit both by hand:\n\
         #   cd {directory}\n\
         #   array=$(sbatch --parsable array.sbatch)\n\
         #   sbatch --dependency=afterany:$array aggregate.sbatch\n",
        directory = quoted(logs)
    );
    let body = format!(
        r#"
program={program}
run={run}

# What the program needs on a node goes here, such as: module load cuda

node=${{SLURMD_NODENAME:-$(hostname)}}
if ! [ -x "$program" ]; then
    echo "error: $node: $program does not exist or is not executable" >&2
    echo "  hint: install it under the same path on all nodes, or change the path in this script" >&2
    exit 1
fi
if ! [ -e {evidence} ]; then
    echo "error: $node: $run is not the run directory that was submitted" >&2
    echo "  hint: put the run on a file system that all nodes share" >&2
    exit 1
fi

# The shell is replaced, so that SIGTERM reaches the program, which finishes what it is measuring.
"#,
        program = quoted(program),
        run = quoted(run),
        evidence = quoted(evidence),
    );
    let common = ["--ntasks=1", "--requeue", "--open-mode=append"].map(str::to_owned);
    // Without a GPU, the cores are measured, and nothing else may use them at the same time.
    let device = if array.gpus > 0 { format!("--gres=gpu:{}", array.gpus) } else { "--exclusive".to_owned() };
    let common: Vec<String> =
        [device].into_iter().chain(common).chain(array.options.iter().cloned()).collect();
    let job = |title: &str, own: &[String], command: &str| {
        let directives = own.iter().chain(&common).map(|text| format!("#SBATCH {}\n", directive(text)));
        let directives = directives.collect::<Vec<String>>().concat();
        format!("#!/bin/bash\n{title}{submit}{directives}{body}exec \"$program\" {command}\n")
    };
    let words =
        |arguments: &[String]| arguments.iter().map(|argument| word(argument)).collect::<Vec<_>>().join(" ");
    // The path of a log is a pattern, in which `%` begins a replacement.
    let log = |name: &str| format!("--output={}/{name}", logs.replace('%', "%%"));
    let array_script = job(
        "# Each task measures a part of the run. A task that is requeued, or submitted again, continues\n\
         # where it was.\n",
        &[format!("--job-name={name}"), format!("--array=0-{}", tasks.get() - 1), log("task-%a.log")],
        &format!(r#"{} --shard "$((SLURM_ARRAY_TASK_ID + 1))/{tasks}""#, words(&array.task)),
    );
    let aggregate_script = job(
        "# Runs when all tasks have ended: measures what is missing, then aggregates the run.\n",
        &[format!("--job-name={name}-aggregate"), log("aggregate.log")],
        &words(&array.aggregate),
    );
    Ok(Scripts { array: array_script, aggregate: aggregate_script })
}

/// A path in a script.
fn path<'a>(what: &'static str, path: &'a Path) -> Result<&'a str, SlurmError> {
    let refused =
        |reason| SlurmError::Text { what, text: path.to_string_lossy().escape_debug().to_string(), reason };
    if !path.is_absolute() {
        return Err(refused("it is relative, and jobs start elsewhere"));
    }
    text(what, path.to_str().ok_or_else(|| refused("it is not UTF-8"))?)
}

/// Text in a script.
fn text<'a>(what: &'static str, text: &'a str) -> Result<&'a str, SlurmError> {
    if text.chars().any(char::is_control) {
        let reason = "it contains a line end or another control character";
        return Err(SlurmError::Text { what, text: text.escape_debug().to_string(), reason });
    }
    Ok(text)
}

/// Whether an option for `sbatch` is one option, in one word, and not one that is set here.
fn check(option: &str) -> Result<(), SlurmError> {
    let refused = |reason| Err(SlurmError::Option { text: option.escape_debug().to_string(), reason });
    if option.chars().any(char::is_control) {
        return refused("it contains a line end or another control character");
    }
    let is_ours = |(long, short, _): &&(&str, &str, &str)| match option.strip_prefix("--") {
        // sbatch accepts any unambiguous beginning of a name.
        Some(rest) => {
            let name = rest.split_once('=').map_or(rest, |(name, _)| name);
            !name.is_empty() && long.starts_with(name)
        }
        None => !short.is_empty() && option.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)),
    };
    if let Some((_, _, reason)) = OURS.iter().find(is_ours) {
        return refused(reason);
    }
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_option = match option.strip_prefix("--") {
        Some(rest) => is_name(rest.split_once('=').map_or(rest, |(name, _)| name)),
        None => option.strip_prefix('-').is_some_and(|rest| {
            let mut characters = rest.chars();
            characters.next().is_some_and(|first| first.is_ascii_alphabetic())
                && characters.next() != Some(' ')
        }),
    };
    if is_option { Ok(()) } else { refused("expected `--name=value`, `--name` or `-nvalue`") }
}

/// A word of the shell that stands for this text.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The same, without quotes where the shell needs none.
fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+.,/:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
}

/// An option in a `#SBATCH` line: its value in the quotes of these lines, which differ from the
/// shell's, where it is not plain.
fn directive(option: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+.,/:@%()[]<>|&*".contains(&byte);
    match option.split_once('=') {
        _ if option.bytes().all(plain) => option.to_owned(),
        Some((name, value)) if name.bytes().all(plain) => format!("{name}={}", quoted(value)),
        _ => quoted(option),
    }
}

/// A name for the queue: that of the directory, in letters that every tool of Slurm prints.
fn job_name(run: &Path) -> String {
    let name = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' }
    };
    name.chars().take(64).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::path::PathBuf;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn array() -> JobArray {
        JobArray {
            run: PathBuf::from("/scratch/run 1"),
            evidence: PathBuf::from("/scratch/run 1/manifest.json"),
            program: PathBuf::from("/opt/bin/hyper-profile"),
            tasks: NonZero::new(8).unwrap(),
            gpus: 1,
            task: vec!["resume".into(), "/scratch/run 1".into(), "--no-analysis".into()],
            aggregate: vec!["resume".into(), "/scratch/run 1".into()],
            options: vec!["--partition=gpu".into(), "--comment=two words".into()],
        }
    }

    #[test]
    fn the_array() {
        let expected = r#"#!/bin/bash
# Each task measures a part of the run. A task that is requeued, or submitted again, continues
# where it was.
# Submit both by hand:
#   cd '/scratch/run 1/slurm'
#   array=$(sbatch --parsable array.sbatch)
#   sbatch --dependency=afterany:$array aggregate.sbatch
#SBATCH --job-name=run_1
#SBATCH --array=0-7
#SBATCH --output="/scratch/run 1/slurm/task-%a.log"
#SBATCH --gres=gpu:1
#SBATCH --ntasks=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --comment="two words"

program='/opt/bin/hyper-profile'
run='/scratch/run 1'

# What the program needs on a node goes here, such as: module load cuda

node=${SLURMD_NODENAME:-$(hostname)}
if ! [ -x "$program" ]; then
    echo "error: $node: $program does not exist or is not executable" >&2
    echo "  hint: install it under the same path on all nodes, or change the path in this script" >&2
    exit 1
fi
if ! [ -e '/scratch/run 1/manifest.json' ]; then
    echo "error: $node: $run is not the run directory that was submitted" >&2
    echo "  hint: put the run on a file system that all nodes share" >&2
    exit 1
fi

# The shell is replaced, so that SIGTERM reaches the program, which finishes what it is measuring.
exec "$program" resume '/scratch/run 1' --no-analysis --shard "$((SLURM_ARRAY_TASK_ID + 1))/8"
"#;
        assert_eq!(scripts(&array()).unwrap().array, expected);
    }

    #[test]
    fn the_aggregation_differs_in_name_log_and_command() {
        let Scripts { array, aggregate } = scripts(&array()).unwrap();
        let own = |text: &str, other: &str| -> Vec<String> {
            let other: Vec<&str> = other.lines().collect();
            text.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect()
        };
        assert_eq!(
            own(&aggregate, &array),
            [
                "# Runs when all tasks have ended: measures what is missing, then aggregates the run.",
                "#SBATCH --job-name=run_1-aggregate",
                "#SBATCH --output=\"/scratch/run 1/slurm/aggregate.log\"",
                "exec \"$program\" resume '/scratch/run 1'",
            ]
        );
    }

    #[test]
    fn a_sweep_of_the_cores_asks_for_whole_nodes_and_no_gpu() {
        let text = scripts(&JobArray { gpus: 0, ..array() }).unwrap().array;
        assert!(!text.contains("gres") && text.contains("#SBATCH --exclusive\n"), "{text}");
    }

    #[test]
    fn a_percent_sign_in_the_path_of_a_log_stands_for_itself() {
        let text = scripts(&JobArray { run: "/r/50%/\"a'b\"#".into(), ..array() }).unwrap().array;
        let output = r##"#SBATCH --output="/r/50%%/\"a'b\"#/slurm/task-%a.log""##;
        assert!(text.contains(output), "{text}");
        assert!(text.contains("#SBATCH --job-name=_a_b__\n"), "{text}");
    }

    #[test]
    fn what_cannot_be_in_a_script_is_refused() {
        let message = |array: JobArray| scripts(&array).unwrap_err().to_string();
        assert_eq!(
            message(JobArray { run: "/a\nb".into(), ..array() }),
            r"the run directory `/a\nb` cannot be in a job script: it contains a line end or another control character"
        );
        assert!(message(JobArray { run: "/a\\b".into(), ..array() }).contains("does not accept a backslash"));
        assert_eq!(
            message(JobArray { program: "bin/x".into(), ..array() }),
            "the program `bin/x` cannot be in a job script: it is relative, and jobs start elsewhere"
        );
        assert!(message(JobArray { task: vec!["a\nb".into()], ..array() }).starts_with("the argument `"));
        for (option, reason) in [
            ("--array=0-3", "the number of tasks sets the array"),
            ("--arr=0-3", "the number of tasks sets the array"),
            ("-a0-3", "the number of tasks sets the array"),
            ("-W", "the second job could not be submitted before the first has ended"),
            ("--wrap=true", "the job has a script"),
            ("gpu", "expected `--name=value`, `--name` or `-nvalue`"),
            ("--partition gpu", "expected `--name=value`, `--name` or `-nvalue`"),
            ("-p gpu", "expected `--name=value`, `--name` or `-nvalue`"),
            ("-", "expected `--name=value`, `--name` or `-nvalue`"),
            ("", "expected `--name=value`, `--name` or `-nvalue`"),
            ("--comment=a\nrm -rf /", "it contains a line end or another control character"),
        ] {
            let said = message(JobArray { options: vec![option.into()], ..array() });
            assert!(said.starts_with("invalid option for sbatch `") && said.ends_with(reason), "{said}");
        }
        for option in
            ["-pgpu", "--exclusive", "--time=1-2:00", "--constraint=a100&ib", "-A", "--wait-all-nodes=1"]
        {
            scripts(&JobArray { options: vec![option.into()], ..array() }).unwrap();
        }
    }

    proptest! {
        /// What the shell makes of the words is what went in.
        #[test]
        fn any_text_survives_the_shell(arguments in proptest::collection::vec("[^\\x00-\\x1f\\x7f]{0,12}", 1..4)) {
            let words: Vec<String> = arguments.iter().map(|argument| word(argument)).collect();
            let script = format!("printf '%s\\n' {}", words.join(" "));
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), arguments.join("\n") + "\n");
        }
    }
}
