//! Whether this user may read the hardware counters.

use std::fs;
use std::path::Path;

use super::{Finding, State};

/// Where the driver says whom it lets read counters.
const PARAMS: &str = "proc/driver/nvidia/params";

/// The number of `CAP_SYS_ADMIN` in `linux/capability.h`.
const SYS_ADMIN: u32 = 21;

const REMEDY: &str = "run as root or with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN), or let all users read counters: \
    `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then reload the driver";

pub(super) fn finding(state: State) -> Finding {
    let item = "permission for counters".to_owned();
    Finding { item, state, enables: "executed FLOPs: flopgap profile, validate, and ncu" }
}

/// What the driver's setting and the capabilities of this process say.
pub(super) fn by_setting(root: &Path) -> State {
    let path = root.join(PARAMS);
    let Ok(params) = fs::read_to_string(&path) else {
        return State::missing(
            format!("unknown: {} cannot be read, so no driver of NVIDIA is loaded", path.display()),
            "see the NVIDIA driver",
        );
    };
    let setting = params.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    match setting.map(str::trim) {
        Some("0") => State::Found("all users may read them (RmProfilingAdminOnly: 0)".to_owned()),
        Some("1") if is_admin(&root.join("proc/self/status")) => {
            State::Found("administrators alone may read them, and this process has CAP_SYS_ADMIN".to_owned())
        }
        Some("1") => State::missing(
            format!("administrators alone may read them (RmProfilingAdminOnly: 1 in {})", path.display()),
            REMEDY,
        ),
        _ => State::missing(format!("unknown: {} has no RmProfilingAdminOnly", path.display()), REMEDY),
    }
}

/// Whether the process of a status file has `CAP_SYS_ADMIN`.
fn is_admin(status: &Path) -> bool {
    let status = fs::read_to_string(status).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> SYS_ADMIN & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_and_the_capabilities_decide() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let of = |params: &str, capabilities: &str| {
            for (file, text) in [(PARAMS, params), ("proc/self/status", capabilities)] {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            by_setting(root)
        };
        let State::Missing { why, .. } = by_setting(root) else { panic!("nothing is there") };
        assert!(why.starts_with("unknown: ") && why.contains("driver/nvidia/params"), "{why}");

        // As driver 580 writes them.
        let (all, few) =
            ("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n", "RmProfilingAdminOnly: 1\n");
        let (root_user, user) = ("Name:\tcat\nCapEff:\t000001ffffffffff\n", "CapEff:\t00000000a80425fb\n");
        assert!(matches!(of(all, user), State::Found(_)));
        assert!(matches!(of(few, root_user), State::Found(_)));
        let State::Missing { why, remedy } = of(few, user) else { panic!("a container has no such right") };
        assert!(why.contains("RmProfilingAdminOnly: 1"), "{why}");
        assert!(remedy.contains("NVreg_RestrictProfilingToAdminUsers=0"), "{remedy}");
        assert!(matches!(of("", user), State::Missing { .. }));
    }
}
