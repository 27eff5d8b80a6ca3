//! Real kernel names with what each must be read as, written by hand: `fixtures/kernels/names.tsv`.

use std::fmt::Write;
use std::path::Path;

use flopgap_kernels::{KernelClass, base_name, classify, simple_kernel};

/// One line of the table; `-` stands for "the name does not tell".
pub(crate) struct Row {
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) class: String,
    library: String,
    precision: String,
    tile: String,
    base: String,
    short: String,
    simple: String,
    tensor: String,
    instruction: String,
    half: String,
}

pub(crate) fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kernels/names.tsv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let [
                source,
                name,
                class,
                library,
                precision,
                tile,
                base,
                short,
                simple,
                tensor,
                instruction,
                half,
            ] = fields.try_into().unwrap_or_else(|fields| panic!("twelve fields: {fields:?}"));
            Row {
                source,
                name,
                class,
                library,
                precision,
                tile,
                base,
                short,
                simple,
                tensor,
                instruction,
                half,
            }
        })
        .collect()
}

#[test]
fn every_name_is_read_as_written_down() {
    let rows = rows();
    assert!(rows.len() >= 680, "{} rows", rows.len());
    let mut wrong = String::new();
    for row in &rows {
        let info = classify(&row.name);
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let yes_no = |answer: bool| if answer { "yes" } else { "no" }.to_owned();
        let [m, n, k] = info.instruction.unwrap_or_default();
        for (what, found, expected) in [
            ("class", info.class.to_string(), &row.class),
            ("library", info.library.to_string(), &row.library),
            ("precision", or_dash(info.precision.map(|p| p.to_string())), &row.precision),
            ("tile", or_dash(info.tile.map(|t| t.to_string())), &row.tile),
            ("tensor cores", or_dash(info.tensor_cores.map(yes_no)), &row.tensor),
            ("instruction", or_dash(info.instruction.map(|_| format!("{m}x{n}x{k}"))), &row.instruction),
            ("half arithmetic", or_dash(info.half_arithmetic.map(yes_no)), &row.half),
            ("base", info.base, &row.base),
            ("base_name", base_name(&row.name).into_owned(), &row.base),
            ("short", info.short, &row.short),
            ("simple", or_dash(simple_kernel(&row.name).map(str::to_owned)), &row.simple),
        ] {
            if found != *expected {
                writeln!(wrong, "{what}: `{found}`, expected `{expected}`: {}", row.name).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{wrong}", wrong.lines().count());
}

#[test]
fn every_class_is_covered() {
    let rows = rows();
    for class in KernelClass::ALL {
        assert!(rows.iter().any(|row| row.class == class.as_str()), "no name of class {class}");
    }
}

#[test]
fn no_recorded_name_of_a_library_is_unclassified() {
    // What may be `other` in the recordings: kernels of users whose names say nothing, bare
    // launcher names, and Inductor's first, which list the kinds of their arguments alone.
    for row in rows().iter().filter(|row| row.class == "other") {
        let bare =
            ["Kernel2", "_kernel_agent"].contains(&row.name.as_str()) || row.name.starts_with("triton__0d1d");
        assert!(row.library == "unknown" || bare || row.name.ends_with("vectorized_elem"), "{}", row.name);
    }
}

/// Without counters, only names that exclude the tensor cores, or say nothing of products at all,
/// leave no doubt.
#[test]
fn a_name_that_leaves_products_open_may_multiply() {
    for (name, tensor_cores, may_multiply) in [
        ("nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT", Some(true), true),
        ("ampere_sgemm_128x64_nn", Some(false), true),
        ("_fwd_kernel", None, true),
        ("_bwd_kernel", None, true),
        ("kernel_mha", None, true),
        ("_chunk_scan_fwd_kernel", None, true),
        ("_attn_fwd", None, true),
        ("Kernel2", None, true),
        ("fused_experts_kernel", None, true),
        ("wmma_kernel_v2", Some(true), true),
        ("softmax_matmul_kernel", None, true),
        ("rms_norm_linear_kernel", None, true),
        ("softmax_kernel", Some(false), false),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
            Some(false),
            false,
        ),
        ("mathKernel1", None, false),
        ("kernel", None, false),
        ("spin", None, false),
    ] {
        let info = classify(name);
        assert_eq!((info.tensor_cores, info.may_multiply), (tensor_cores, may_multiply), "{name}");
    }
}
