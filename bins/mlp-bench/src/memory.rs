//! Checks that CPU work fits in memory: a failed allocation would end the program without a
//! message.

use std::fs;

use flopgap_cli::{Exit, Failure};
use flopgap_mlp::Network;

/// Bytes that the system, or the container if it has a limit, can still provide; `None` if neither
/// is known.
fn available() -> Option<u64> {
    let of_system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse(&text));
    of_system.into_iter().chain(of_container()).min()
}

/// Bytes that this container's control group (version 2) can still provide.
fn of_container() -> Option<u64> {
    let read = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok();
    within(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
}

/// What is left of a limit. Files that nobody has read for long count as used, but make room. A
/// limit of `max` is none.
fn within(limit: &str, used: &str, statistics: &str) -> Option<u64> {
    let (limit, used): (u64, u64) = (limit.trim().parse().ok()?, used.trim().parse().ok()?);
    let files = statistics.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok());
    Some(limit.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

/// The line `MemAvailable:  7654321 kB`.
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

/// Bytes of the 64-bit reference of a network on every thread, and of its parameters.
fn of_reference(network: &Network, threads: usize) -> u64 {
    // Parameters as they are drawn, rounded and found; those of the reference, and its gradients,
    // of every thread and summed, twice.
    network.parameters() as u64 * (4 * 4 + 8 * (threads as u64 + 4))
}

/// Bytes of the passes on cores with so many samples.
fn of_passes(network: &Network, batch: usize, threads: usize) -> u64 {
    // Inputs, gradients by them and a copy of these; outputs, gradients by them, and a copy of the
    // outputs or, earlier, the gradients that are zero for the samples that are not checked; the
    // tape.
    let sample = 3 * network.inputs() + 3 * network.outputs() + network.widths()[1..].iter().sum::<usize>();
    4 * (sample as u64 * batch as u64 + network.parameters() as u64 * (threads as u64 + 4))
}

fn check(what: &str, needed: u64, available: Option<u64>) -> Result<(), Failure> {
    match available {
        Some(available) if needed > available => {
            let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
            Err(Failure::new(format!(
                "{what} takes {:.1} GiB of this machine's memory, {:.1} GiB are free",
                gib(needed),
                gib(available)
            ))
            .exit(Exit::Absent))
        }
        _ => Ok(()),
    }
}

/// Refuses a network whose 64-bit reference does not fit.
///
/// # Errors
/// With the memory that it needs and the memory that is available.
pub(crate) fn check_reference(name: &str, network: &Network) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    check(&format!("checking {name} against 64 bits"), of_reference(network, threads), available())
        .map_err(|failure| failure.hint("narrower or fewer layers"))
}

/// Refuses a batch that does not fit, on cores.
///
/// # Errors
/// As [`check_reference`].
pub(crate) fn check_passes(name: &str, network: &Network, batch: usize) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let needed = of_reference(network, threads) + of_passes(network, batch, threads);
    check(&format!("{name} on {batch} samples"), needed, available())
        .map_err(|failure| failure.hint("a smaller --batch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_says_how_much_is_missing() {
        assert_eq!(parse("MemTotal: 16 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse("MemTotal: 16 kB\n"), None);
        let statistics = "anon 700\nactive_file 50\ninactive_file 200\n";
        assert_eq!(within("1000\n", "950\n", statistics), Some(250));
        assert_eq!((within("1000\n", "950\n", ""), within("10\n", "950\n", "")), (Some(50), Some(0)));
        assert_eq!(within("max\n", "950\n", statistics), None);
        let network = Network::new(&[64, 64, 16]).unwrap();
        let needed = of_passes(&network, 1 << 30, 2);
        // And a hidden layer of 64 and the outputs on the tape.
        assert!(needed > (4 * (3 * (64 + 16) + 64 + 16)) << 30);
        let failure = check("small", needed, Some(1 << 30)).unwrap_err().to_string();
        assert!(failure.contains("GiB of this machine's memory, 1.0 GiB are free"), "{failure}");
        assert!(check("small", needed, None).is_ok());
    }
}
