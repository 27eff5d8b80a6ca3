//! NVTX ranges around launches.

use flopgap_ncu::{NvtxKind, Report, WarningKind};

use crate::support::{parse, plains, read, text};

/// Kind, domain, name and thread.
type Range = (NvtxKind, String, String, Option<u64>);

fn ranges(report: &Report) -> Vec<Vec<Range>> {
    let get = |symbol| report.strings.get(symbol).to_owned();
    let of = |launch: &flopgap_ncu::Launch| {
        launch
            .nvtx
            .iter()
            .map(|range| (range.kind, get(range.domain), get(range.name), range.thread))
            .collect()
    };
    report.launches.iter().map(of).collect()
}

fn push(domain: &str, name: &str, thread: u64) -> Range {
    (NvtxKind::PushPop, domain.to_owned(), name.to_owned(), Some(thread))
}

fn start(domain: &str, name: &str) -> Range {
    (NvtxKind::StartEnd, domain.to_owned(), name.to_owned(), None)
}

#[test]
fn names_with_colons_commas_quotes_and_line_breaks_come_back() {
    let report = read("nvtx_names/stdout.csv");
    let mm = push("", "aten::mm", 2128);
    let comma = push("my:dom", "attr: with, comma", 2128);
    let expected = vec![
        vec![mm.clone()],
        vec![mm.clone(), comma.clone()],
        vec![
            mm,
            comma,
            push("plain", "inner", 2128),
            start("", "def start  end"),
            start("plain", "a:b \"q\""),
        ],
        vec![push("", "line\nbreak", 2128)],
        vec![push("", "", 2128)],
    ];
    assert_eq!(ranges(&report), expected);
    assert_eq!(report.lost_at, None);
    assert!(report.launches.iter().all(|launch| launch.metrics.len() == 6));
}

#[test]
fn csv_and_report_tell_the_same_ranges() {
    let (csv, report) = (read("nvtx_names/metric_name.csv.zst"), read("nvtx_names/names.ncu-rep.zst"));
    let names = |report: &Report| {
        let mut all = ranges(report);
        // The order of start/end ranges is the container's.
        for ranges in &mut all {
            ranges.sort_by_key(|range| (range.0 as u8, range.1.clone()));
        }
        let strip = |range: &Range| (range.0, range.1.clone(), range.2.clone());
        all.iter().map(|ranges| ranges.iter().map(strip).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(names(&csv), names(&report));
}

#[test]
fn a_training_step_has_its_ranges_outermost_first() {
    let report = read("lm_details.csv.zst");
    let deepest = ranges(&report).into_iter().find(|ranges| ranges.len() == 4).unwrap();
    let names: Vec<_> = deepest.iter().map(|range| range.2.as_str()).collect();
    assert_eq!(names, ["step_0", "forward", "scaled_dot_product_attention", "computing_attention_scores"]);
    let without = report.launches.iter().filter(|launch| launch.nvtx.is_empty()).count();
    assert_eq!(without, 61);
}

#[test]
fn a_summary_by_range_names_its_ranges_and_warns_of_overlap() {
    let report = read("nvtx_names/summary_per_nvtx.csv");
    let rows = plains(&report);
    assert_eq!(rows[0].nvtx, [(String::new(), "aten::mm".to_owned())]);
    assert_eq!(rows[0].invocations, 2);
    assert_eq!(rows[2].nvtx[0].1, "line\nbreak");
    assert_eq!(rows[3].nvtx, [("my:dom".to_owned(), "attr: with, comma".to_owned())]);
    assert_eq!(rows[4].nvtx[2], ("plain".to_owned(), "a:b \"q\"".to_owned()));
    assert_eq!(report.warnings[0].kind, WarningKind::RowsByDomain);
}

#[test]
fn a_quote_and_a_comma_in_a_name_do_not_shift_the_columns() {
    // ncu does not double the quotes of a name, so `"q", r` looks like the end of a field.
    let text = text("nvtx_names/stdout.csv").replace("a:b \"q\"", "a:b \"q\", r");
    let report = parse(text).unwrap();
    assert_eq!(report.lost_at, None, "{:?}", report.warnings);
    assert_eq!(ranges(&report)[2][4], start("plain", "a:b \"q\", r"));
}

/// `--print-nvtx-rename kernel` prints the innermost range, a slash and the kernel. The range's
/// name may hold slashes itself.
#[test]
fn a_range_before_a_kernels_name_is_a_range() {
    let names = |report: &Report| -> Vec<String> {
        report.iter().map(|launch| launch.kernel_name().to_owned()).collect()
    };
    let printed = read("nvtx_names/kernel_renamed.csv.zst");
    assert_eq!(names(&printed), ["axpy(float *, const float *, float, int)"; 5]);
    assert_eq!(ranges(&printed), ranges(&read("nvtx_names/metric_name.csv.zst")));

    let details = read("renamed_details.csv.zst");
    assert!(names(&details).iter().all(|name| !name.contains('/')), "{:?}", names(&details));
    assert_eq!(names(&details)[6], "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT");
    assert_eq!(names(&details)[17], "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT");
    assert_eq!(names(&read("renamed_raw.csv.zst")), names(&details));
    let inner = |report: &Report| -> Vec<Option<String>> {
        ranges(report).into_iter().map(|ranges| ranges.last().map(|range| range.2.clone())).collect()
    };
    let functions = read("renamed_raw_function.csv.zst");
    assert_eq!(names(&functions)[7], "vectorized_elementwise_kernel");
    for (launch, range) in
        [(5, None), (6, Some("blocks.0/mlp a/b")), (9, Some("loss (a, b)")), (12, Some("backward"))]
    {
        for report in [&details, &functions] {
            assert_eq!(inner(report)[launch].as_deref(), range);
        }
    }

    // The same table as a summary has it, without columns for ranges.
    for (file, report) in
        [("renamed_details.csv.zst", &details), ("renamed_raw_function.csv.zst", &functions)]
    {
        let without: String = crate::naive::rows(&text(file))
            .iter()
            .map(|row| {
                let cells: Vec<String> =
                    [&row[..4], &row[6..]].concat().iter().map(|cell| format!("\"{cell}\"")).collect();
                cells.join(",") + "\n"
            })
            .collect();
        let bare = parse(without).unwrap();
        assert_eq!(names(&bare), names(report), "{file}");
        assert_eq!(inner(&bare), inner(report), "{file}");
    }
}
