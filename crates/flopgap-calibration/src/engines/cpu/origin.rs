//! Identifies the CPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use crate::Origin;

/// Instructions that decide how fast networks are computed, by Linux's names.
const FLAGS: [&str; 27] = [
    // x86
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx_vnni_int8",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    // Arm
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "svei8mm",
    "sme",
    "sme2",
];

/// This machine's CPU: its model, and in the properties what a prediction depends on. Values that
/// the system does not report are left out.
///
/// `family`, `model` and `stepping` distinguish CPUs to which a virtual machine gives the same
/// name; `cores` are those that this process may use; `L1d`, `L2` and `L3` are bytes of one cache,
/// and after `x` the number of them; `governor` is how clocks are chosen.
pub fn origin() -> Origin {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut origin = parse(&cpuinfo);
    if let Ok(cores) = thread::available_parallelism() {
        origin.properties.insert("cores".to_owned(), cores.to_string());
    }
    let system = Path::new("/sys/devices/system/cpu");
    origin.properties.extend(caches(system));
    if let Ok(governor) = fs::read_to_string(system.join("cpu0/cpufreq/scaling_governor")) {
        origin.properties.insert("governor".to_owned(), governor.trim().to_owned());
    }
    origin
}

fn parse(cpuinfo: &str) -> Origin {
    // Of the first CPU.
    let first = cpuinfo.split("\n\n").next().unwrap_or_default();
    let fields: BTreeMap<&str, &str> = first
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let mut properties = BTreeMap::new();
    let names = [
        ("vendor_id", "vendor"),
        ("cpu family", "family"),
        ("model", "model"),
        ("stepping", "stepping"),
        ("CPU implementer", "vendor"),
        ("CPU part", "model"),
        ("CPU variant", "stepping"),
    ];
    for (field, property) in names {
        if let Some(value) = fields.get(field) {
            properties.insert(property.to_owned(), (*value).to_owned());
        }
    }
    if let Some(flags) = fields.get("flags").or(fields.get("Features")) {
        let there: Vec<&str> = flags.split_whitespace().collect();
        let known: Vec<&str> = FLAGS.into_iter().filter(|flag| there.contains(flag)).collect();
        properties.insert("flags".to_owned(), known.join(" "));
    }
    let model = fields.get("model name").map(|name| (*name).to_owned());
    // Arm kernels report only numbers.
    let numbered = || Some(format!("CPU {} {}", fields.get("CPU implementer")?, fields.get("CPU part")?));
    let device = model.or_else(numbered).unwrap_or_else(|| format!("CPU ({})", std::env::consts::ARCH));
    Origin { device, kind: "cpu".to_owned(), properties, versions: BTreeMap::new() }
}

/// `L1d`, `L2`, `L3`: bytes of a cache, and the number of such caches.
fn caches(system: &Path) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let folders = |folder: &Path, prefix: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let numbered = |name: &str| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
        };
        let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(numbered));
        named.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    for cpu in folders(system, "cpu") {
        for cache in folders(&cpu.join("cache"), "index") {
            let read = |name: &str| Some(fs::read_to_string(cache.join(name)).ok()?.trim().to_owned());
            let fields = || Some((read("level")?, read("type")?, read("size")?, read("shared_cpu_list")?));
            let Some((level, kind, size, sharing)) = fields() else { continue };
            let name = match (level.as_str(), kind.as_str()) {
                (_, "Instruction") => continue,
                ("1", _) => "L1d".to_owned(),
                (level, _) => format!("L{level}"),
            };
            let (_, shared) = found.entry(name).or_insert((size, Vec::new()));
            if !shared.contains(&sharing) {
                shared.push(sharing);
            }
        }
    }
    found.into_iter().map(|(name, (size, shared))| (name, format!("{size} x {}", shared.len()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_x86_machine_is_described() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\
                    stepping\t: 1\nflags\t\t: fpu avx avx2 fma avx512f avx512_vnni flush_l1d\n\n\
                    processor\t: 1\nvendor_id\t: Other\n";
        let origin = parse(text);
        assert_eq!((origin.device.as_str(), origin.kind.as_str()), ("AMD EPYC", "cpu"));
        let property = |name: &str| origin.properties.get(name).map(String::as_str);
        assert_eq!(property("flags"), Some("avx avx2 fma avx512f avx512_vnni"));
        assert_eq!(property("vendor"), Some("AuthenticAMD"));
        assert_eq!(
            (property("family"), property("model"), property("stepping")),
            (Some("26"), Some("2"), Some("1"))
        );
    }

    #[test]
    fn an_arm_machine_has_numbers_alone() {
        let text = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        let origin = parse(text);
        assert_eq!(origin.device, "CPU 0x41 0xd40");
        assert_eq!(origin.properties["flags"], "asimd asimddp i8mm bf16");
    }

    #[test]
    fn a_system_that_says_nothing_has_no_properties() {
        let origin = parse("");
        assert!(origin.device.starts_with("CPU ("), "{}", origin.device);
        assert!(origin.properties.is_empty());
        let folder = tempfile::tempdir().unwrap();
        assert!(caches(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn caches_are_counted_once_for_each_group_that_shares_them() {
        let folder = tempfile::tempdir().unwrap();
        for cpu in 0..2 {
            let shared = [
                ("0", "1", "Data", "48K", cpu.to_string()),
                ("1", "1", "Instruction", "32K", cpu.to_string()),
                ("3", "3", "Unified", "32768K", "0-1".to_owned()),
            ];
            for (index, level, kind, size, sharing) in shared {
                let cache = folder.path().join(format!("cpu{cpu}/cache/index{index}"));
                fs::create_dir_all(&cache).unwrap();
                for (name, text) in
                    [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", &sharing)]
                {
                    fs::write(cache.join(name), format!("{text}\n")).unwrap();
                }
            }
        }
        fs::create_dir_all(folder.path().join("cpufreq/cache/index0")).unwrap();
        let found: Vec<(String, String)> = caches(folder.path()).into_iter().collect();
        let expected = [("L1d", "48K x 2"), ("L3", "32768K x 1")];
        assert_eq!(found, expected.map(|(name, size)| (name.to_owned(), size.to_owned())));
    }

    #[test]
    fn this_machine_is_described() {
        let origin = origin();
        assert_eq!(origin.kind, "cpu");
        assert!(!origin.device.is_empty());
        assert_eq!(origin, super::origin(), "the same at every call");
    }
}
