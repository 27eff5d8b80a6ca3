//! Demangled names: those that Nsight Systems stored beside the mangled ones, and any text.

use std::path::Path;

use flopgap_kernels::{demangle, demangle_nvidia};
use proptest::prelude::*;

/// Longest text that a name may become.
const LIMIT: usize = 64 * 1024;

#[test]
fn names_are_those_that_nsight_systems_stored() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/names/nsys.tsv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut count = 0;
    for line in text.lines().skip(1) {
        let [mangled, full, short] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let name = demangle_nvidia(mangled).unwrap_or_else(|| panic!("{mangled}"));
        assert_eq!((&*name.full, &*name.short), (full, short), "{mangled}");
        count += 1;
    }
    assert_eq!(count, 131);
}

/// A mangled name made of the pieces that mangled names are made of, in any order.
fn mangled() -> impl Strategy<Value = String> {
    let short = [
        "N", "E", "I", "J", "L", "X", "Z", "P", "R", "O", "K", "V", "F", "A", "M", "T_", "T0_", "S_", "S0_",
        "S1_", "S9_", "St", "Sa", "Ss", "Ul", "Ut", "_", "0_", "Dp", "DT", "Do", "Dv4_", "v", "i", "f", "z",
        "1a", "3foo", "C1", "D1", "cv", "cl", "pl", "sr", "sZ", "fp", "fL", "dt", "qu", "B1x", "Li1E",
        "Lb0E", "L_Z", "u3foo", "U3AS1", "d", "n", "ü",
    ];
    let long = ["12_GLOBAL__N_1", "Ld3ff0000000000000E"];
    let pieces = prop::sample::select([&short[..], &long].concat());
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| format!("_Z{}", pieces.concat()))
}

/// A function whose parameters each refer to those before: many of them can be read.
fn referring() -> impl Strategy<Value = String> {
    let types = prop::sample::select(vec![
        "1pIS_S_E",
        "1pIS0_S0_E",
        "1pIS1_S2_E",
        "PS2_",
        "KS3_",
        "FS4_S5_E",
        "A3_S3_",
        "MS1_S2_",
        "Dv2_S4_",
        "S5_IS6_S7_E",
        "N1q1rIS8_E1sE",
        "PFS9_SA_E",
        "DpSB_",
        "i",
    ]);
    prop::collection::vec(types, 1..40).prop_map(|types| format!("_Z1f1pIiiE{}", types.concat()))
}

proptest! {
    #[test]
    fn no_name_panics_and_results_are_bounded(name in prop_oneof![mangled(), referring(), any::<String>()]) {
        if let Some(demangled) = demangle_nvidia(&name) {
            prop_assert!(demangled.full.len() <= LIMIT.max(name.len()));
            prop_assert!(demangled.short.len() <= LIMIT.max(name.len()));
        }
        demangle(&name);
    }

    #[test]
    fn a_name_that_is_not_mangled_stands_for_itself(name in "[a-zA-Y_][a-zA-Y0-9_]{0,40}") {
        let demangled = demangle_nvidia(&name).expect("not mangled");
        prop_assert_eq!(&*demangled.full, &name);
        prop_assert_eq!(&*demangled.short, &name);
    }
}
