//! Launches within ranges, by process.

use std::fmt::Write as _;
use std::path::Path;

use flopgap_kernels::Classifier;
use flopgap_ncu::{NvtxRange, Reader, Strings};
use flopgap_phases::{Phase, Profile};

use crate::fixture;

fn within(reader: Reader, name: &str) -> Profile {
    let matches =
        |ranges: &[NvtxRange], strings: &Strings| ranges.iter().any(|range| strings.get(range.name) == name);
    Profile::read_within(reader, Path::new("ranges.csv"), &Classifier::new(), Some(&matches), |_| Ok(true))
        .unwrap()
}

/// Launches of one process, each with its ranges from the outermost; `-` has none.
fn report(stacks: &[&str]) -> Reader {
    let mut csv =
        "\"ID\",\"Process ID\",\"Host Name\",\"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:\
                   Msg_Type:Msg\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
            .to_owned();
    for (id, stack) in stacks.iter().enumerate() {
        let (thread, names) = stack.split_once(':').unwrap_or(("7", stack));
        let items = names.split('/').filter(|name| *name != "-");
        let items: Vec<String> = items
            .map(|name| format!("\"\"<default domain>:{name}:none:none:none:none:none:none\"\""))
            .collect();
        let cell = if items.is_empty() { String::new() } else { format!("{thread}  {} ", items.join("  ")) };
        let time = 1_u64 << id;
        let _ = writeln!(
            csv,
            "\"{id}\",\"7\",\"h\",\"{cell}\",\"f\",\"gpu__time_duration.sum\",\"ns\",\"{time}\""
        );
    }
    Reader::from_reader(std::io::Cursor::new(csv), "ranges.csv").unwrap()
}

/// The launches within a range and those that may be, as sets: each launch takes a power of two.
fn found(stacks: &[&str], name: &str) -> (Vec<usize>, u64) {
    let profile = within(report(stacks), name);
    let time = profile.totals.complete(profile.totals.duration_ns).unwrap_or_default();
    let inside = (0..stacks.len()).filter(|id| time >> id & 1 == 1).collect();
    (inside, profile.whole.undecided.map_or(0, |missing| missing.launches))
}

/// A step of PyTorch: autograd's thread launches 60 of 61 kernels of the backward pass and has no
/// ranges. The counts are those of Python's `csv` over ids 44 to 104, and 1 to 140.
#[test]
fn autograds_launches_belong_to_the_range_that_waits_for_them() {
    let of = |name| within(Reader::open(fixture("ncu/lm_raw_base.csv.zst")).unwrap(), name);
    let sums = |profile: &Profile| {
        let totals = &profile.totals;
        let products: u64 = profile
            .by_class()
            .unwrap()
            .iter()
            .filter(|(class, _)| class.as_str() == "matmul")
            .map(|(_, totals)| totals.launches)
            .sum();
        let sum = |sum| totals.complete(sum).unwrap();
        (totals.launches, products, sum(totals.flops), sum(totals.dram_bytes), sum(totals.duration_ns))
    };
    let backward = of("backward");
    assert_eq!(sums(&backward), (61, 18, 7_232_496_448, 112_410_880, 300_000));
    assert_eq!(backward.whole.by_process.as_ref().map(|missing| missing.launches), Some(60));
    assert_eq!((backward.whole.launches, backward.whole.products), (141, 27));
    assert_eq!(sums(&of("step_0")), (140, 27, 11_126_125_960, 483_871_744, 759_168));
    let forward = of("forward");
    assert_eq!(sums(&forward), (40, 9, 3_602_673_152, 36_645_120, 149_760));
    assert_eq!((forward.whole.by_process, forward.whole.undecided), (None, None));
}

#[test]
fn a_range_that_stayed_open_holds_what_carries_no_range() {
    let step = ["-", "step/forward", "-", "step/loss", "step/backward", "-", "-", "step/optimizer", "-"];
    assert_eq!(found(&step, "step"), (vec![1, 2, 3, 4, 5, 6, 7], 1));
    assert_eq!(found(&step, "backward"), (vec![4, 5, 6], 0));
    // Whether it was launched in `forward` or after it.
    assert_eq!(found(&step, "forward"), (vec![1], 1));
    assert_eq!(found(&step, "optimizer"), (vec![7], 1));
}

/// Two ranges of one name may be one or two: then nothing is known of what lies between them.
#[test]
fn ranges_that_may_have_been_opened_again_decide_nothing() {
    assert_eq!(found(&["forward", "-", "-", "forward"], "forward"), (vec![0, 3], 2));
    let steps = ["step/forward", "step/optimizer", "-", "step/forward", "step/optimizer"];
    assert_eq!(found(&steps, "step"), (vec![0, 1, 3, 4], 1));
    // Autograd's thread in the second step, too, and what lies between the steps.
    let steps = [
        "step/forward",
        "step/backward",
        "-",
        "step/optimizer",
        "-",
        "step/forward",
        "step/backward",
        "-",
        "step/optimizer",
    ];
    assert_eq!(found(&steps, "step"), (vec![0, 1, 2, 3, 5, 6, 7, 8], 1));
    // No range is around `backward`, so it may have ended before.
    assert_eq!(found(&["forward", "backward", "-", "-", "optimizer"], "backward"), (vec![1], 2));
}

#[test]
fn another_threads_ranges_close_nothing() {
    let threads = ["7:step/forward", "9:prefetch", "7:step/backward", "9:prefetch", "7:step/optimizer"];
    assert_eq!(found(&threads, "step"), (vec![0, 1, 2, 3, 4], 0));
    assert_eq!(found(&threads, "backward"), (vec![2, 3], 0));
    assert_eq!(found(&threads, "prefetch"), (vec![1, 3], 0));
}

/// The binary report and the CSV have every range on the launching thread: nothing is by process.
#[test]
fn launches_with_ranges_of_their_own_need_no_process() {
    for name in ["ncu/phases_nvtx.ncu-rep.zst", "ncu/phases_nvtx_details.csv.zst"] {
        let backward = within(Reader::open(fixture(name)).unwrap(), Phase::Backward.as_str());
        assert_eq!((backward.totals.launches, backward.whole.launches), (16, 33), "{name}");
        assert_eq!((backward.whole.by_process, backward.whole.undecided), (None, None), "{name}");
    }
}
