//! The files of a Slurm.

use std::fs;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The directory with all files of a Slurm.
#[derive(Debug)]
pub(crate) struct Settings {
    directory: PathBuf,
}

impl Settings {
    /// Writes what the daemons read.
    pub(crate) fn write(directory: &Path) -> io::Result<Settings> {
        for name in ["state", "spool"] {
            fs::create_dir(directory.join(name))?;
        }
        let mut key = vec![0; 1024];
        fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        let path = directory.join("munge.key");
        fs::write(&path, key)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;

        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let host = host.trim().split('.').next().unwrap_or("localhost");
        let (controller, node) = two_ports()?;
        fs::write(directory.join("slurm.conf"), configuration(directory, host, controller, node))?;
        // Nothing opens the files of these GPUs: the tasks only get their numbers.
        fs::write(directory.join("gres.conf"), "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")?;
        Ok(Settings { directory: directory.to_owned() })
    }

    /// What `SLURM_CONF` names.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }

    /// The daemons and their arguments, in the order of their start.
    pub(crate) fn daemons(&self) -> [(&'static str, Vec<String>); 3] {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let conf = path("slurm.conf");
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let munged = [
            ("--key-file", "munge.key"),
            ("--socket", "munge.sock"),
            ("--pid-file", "munged.pid"),
            ("--log-file", "munged.log"),
            ("--seed-file", "munged.seed"),
        ];
        let munged = munged.map(|(option, name)| format!("{option}={}", path(name)));
        let munged = ["--foreground", "--force"].map(str::to_owned).into_iter().chain(munged);
        [
            ("munged", munged.collect()),
            ("slurmctld", words(&["-D", "-i", "-f", &conf])),
            ("slurmd", words(&["-D", "-f", &conf])),
        ]
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let end = |name: &str| {
            let text = crate::text(&self.directory.join(name)).unwrap_or_else(|error| error.to_string());
            let lines: Vec<&str> = text.lines().collect();
            format!("{name}:\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        ["munged.log", "slurmctld.log", "slurmd.log"].map(end).concat()
    }
}

/// Two ports that were free a moment ago.
fn two_ports() -> io::Result<(u16, u16)> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (bind()?, bind()?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
}

fn configuration(directory: &Path, host: &str, controller: u16, node: u16) -> String {
    let directory = directory.display();
    format!(
        "\
ClusterName=flopgap
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its credential has expired: 120 s by default.
AuthInfo=socket={directory}/munge.sock,cred_expire=5
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
MessageTimeout=5
KillWait=10
ReturnToService=2
GresTypes=gpu
# Four cores, however many there are.
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"
    )
}
