//! Submission with `sbatch`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{SlurmError, Written};

/// The program that submits jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sbatch {
    program: PathBuf,
}

/// The number of a job, as `sbatch --parsable` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobId {
    number: u64,
    /// The cluster, where several have one Slurm.
    cluster: Option<String>,
}

/// Two jobs that were submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The job array.
    pub array: JobId,
    /// The job that waits for it.
    pub aggregate: JobId,
}

impl JobId {
    /// Reads `12` or `12;cluster`, in the last line: sites print notices before it.
    fn parse(printed: &str) -> Option<JobId> {
        let line = printed.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        let (number, cluster) = match line.split_once(';') {
            Some((number, cluster)) => (number, Some(cluster.to_owned())),
            None => (line, None),
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(JobId { number: number.parse().ok().filter(|&number| number > 0)?, cluster })
    }

    /// What makes a job wait until all tasks of this one have ended, however they ended.
    fn dependency(&self) -> Vec<String> {
        let cluster = self.cluster.iter().map(|cluster| format!("--clusters={cluster}"));
        cluster.chain([format!("--dependency=afterany:{}", self.number)]).collect()
    }

    /// The same for a command line, with a space at the end.
    pub(super) fn dependency_arguments(&self) -> String {
        self.dependency().into_iter().map(|argument| argument + " ").collect()
    }
}

/// `12`, or `12 on cluster`.
impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            None => write!(f, "{}", self.number),
            Some(cluster) => write!(f, "{} on {cluster}", self.number),
        }
    }
}

impl Sbatch {
    /// `sbatch` of the `PATH`.
    ///
    /// # Errors
    /// [`SlurmError::Missing`], [`SlurmError::Start`].
    pub fn find() -> Result<Sbatch, SlurmError> {
        Sbatch::at("sbatch")
    }

    /// This program.
    ///
    /// # Errors
    /// [`SlurmError::Missing`], [`SlurmError::Start`].
    pub fn at(program: impl Into<PathBuf>) -> Result<Sbatch, SlurmError> {
        let sbatch = Sbatch { program: program.into() };
        // Asks no controller: whether there is one becomes apparent with the first job.
        sbatch.run(&["--version".to_owned()], None)?;
        Ok(sbatch)
    }

    /// Submits the array, and the job that waits for it.
    ///
    /// # Errors
    /// [`SlurmError::Rejected`], [`SlurmError::NotAJob`]; [`SlurmError::NotAggregated`] when only
    /// the second job could not be submitted.
    pub fn submit(&self, written: &Written) -> Result<Submitted, SlurmError> {
        let array = self.submit_one(&written.array, Vec::new())?;
        match self.submit_one(&written.aggregate, array.dependency()) {
            Ok(aggregate) => Ok(Submitted { array, aggregate }),
            Err(error) => Err(SlurmError::NotAggregated {
                array,
                aggregate: written.aggregate.clone(),
                source: Box::new(error),
            }),
        }
    }

    fn submit_one(&self, script: &Path, options: Vec<String>) -> Result<JobId, SlurmError> {
        let arguments: Vec<String> = [vec!["--parsable".to_owned()], options].concat();
        let Output { status, stdout, stderr } = self.run(&arguments, Some(script))?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            let said = if said.is_empty() { "no reason given".to_owned() } else { said };
            return Err(SlurmError::Rejected { script: script.to_owned(), status: status.to_string(), said });
        }
        let printed = String::from_utf8_lossy(&stdout);
        JobId::parse(&printed).ok_or_else(|| SlurmError::NotAJob {
            script: script.to_owned(),
            printed: printed.trim().to_owned(),
        })
    }

    fn run(&self, arguments: &[String], script: Option<&Path>) -> Result<Output, SlurmError> {
        let program = || self.program.clone();
        let output = Command::new(&self.program).args(arguments).args(script).stdin(Stdio::null()).output();
        output.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SlurmError::Missing { program: program() },
            _ => SlurmError::Start { program: program(), source },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use flopgap_hint::Hint as _;

    use super::*;

    #[test]
    fn numbers_of_jobs() {
        let job = |text: &str| JobId::parse(text).map(|job| (job.to_string(), job.dependency_arguments()));
        let plain = |text: &str, arguments: &str| Some((text.to_owned(), arguments.to_owned()));
        assert_eq!(job("12\n"), plain("12", "--dependency=afterany:12 "));
        assert_eq!(job("Welcome!\n\n12\n\n"), plain("12", "--dependency=afterany:12 "));
        assert_eq!(job("7;far\n"), plain("7 on far", "--clusters=far --dependency=afterany:7 "));
        for odd in ["", "Submitted batch job 12", "-3", "+3", "0", "12 13", "99999999999999999999"] {
            assert_eq!(job(odd), None, "{odd}");
        }
    }

    /// A program of this text in place of `sbatch`.
    fn stub(directory: &Path, text: &str) -> Result<Sbatch, SlurmError> {
        let path = directory.join("sbatch");
        fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && exit\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            match Sbatch::at(&path) {
                // Another test's thread was starting a program while this file was being written.
                Err(SlurmError::Start { source, .. })
                    if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
                started => return started,
            }
        }
    }

    fn submitted(text: &str) -> Result<Submitted, SlurmError> {
        let dir = tempfile::tempdir().unwrap();
        let written = Written { array: "/r/array.sbatch".into(), aggregate: "/r/aggregate.sbatch".into() };
        stub(dir.path(), text)?.submit(&written)
    }

    #[test]
    fn the_second_job_waits_for_the_first() {
        // Accepts what it should get, and nothing else.
        let text = r#"case "$*" in
            "--parsable /r/array.sbatch") echo 41 ;;
            "--parsable --dependency=afterany:41 /r/aggregate.sbatch") echo 42 ;;
            *) exit 9 ;;
        esac"#;
        let Submitted { array, aggregate } = submitted(text).unwrap();
        assert_eq!((array.to_string(), aggregate.to_string()), ("41".to_owned(), "42".to_owned()));
    }

    #[test]
    fn what_sbatch_says_is_passed_on() {
        let error = submitted("echo 'sbatch: error: invalid partition: gpuu' >&2; exit 1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "sbatch rejected /r/array.sbatch (exit status: 1): sbatch: error: invalid partition: gpuu"
        );
        let error = submitted("exit 1").unwrap_err();
        assert!(error.to_string().ends_with("(exit status: 1): no reason given"), "{error}");
        let error = submitted("echo Submitted batch job 41").unwrap_err();
        assert_eq!(
            error.to_string(),
            "sbatch printed `Submitted batch job 41` for /r/array.sbatch: expected the number of a job"
        );
        assert!(error.hint().unwrap().contains("squeue --me"));
    }

    #[test]
    fn an_array_without_its_aggregation_is_named() {
        let error = submitted("[ $# = 2 ] && echo 41 || exit 1").unwrap_err();
        assert_eq!(error.to_string(), "job array 41 is submitted, but the job that aggregates it is not");
        assert_eq!(
            error.hint().unwrap(),
            "submit it with: sbatch --dependency=afterany:41 '/r/aggregate.sbatch'"
        );
    }

    #[test]
    fn without_sbatch_there_is_an_error_and_not_a_job() {
        let error = Sbatch::at("/nowhere/sbatch").unwrap_err();
        assert_eq!(error.to_string(), "`/nowhere/sbatch`: not found");
        assert!(error.is_absence());
    }
}
