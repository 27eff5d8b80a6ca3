//! A reader so simple that it is plainly right on clean files: what the fast one must agree with.

use crate::support::{parse, plains, text};

/// The rows of a clean, fully quoted CSV.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('"')) {
        let inner = line.strip_prefix('"').unwrap().trim_end_matches(',').strip_suffix('"').unwrap();
        rows.push(inner.split("\",\"").map(|field| field.replace("\"\"", "\"")).collect());
    }
    rows
}

/// A number in `en_US`: whole, or a float as Rust prints it.
fn number(text: &str) -> String {
    let plain = text.replace(',', "");
    match plain.parse::<u64>() {
        Ok(whole) => whole.to_string(),
        Err(_) => format!("{:?}f", plain.parse::<f64>().unwrap()),
    }
}

/// Every row of a long file must come out once, in order, with the same text and number.
fn agrees(name: &str) {
    let text = text(name);
    let rows = rows(&text);
    let column = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    let (id, kernel, section) = (column("ID"), column("Kernel Name"), column("Section Name"));
    let expected: Vec<_> = rows[1..]
        .iter()
        .filter(|row| row[section + 3] != "n/a")
        .map(|row| {
            let metric = (row[section].clone(), row[section + 1].clone(), row[section + 2].clone());
            (row[id].clone(), row[kernel].clone(), metric, number(&row[section + 3]))
        })
        .collect();
    let report = parse(text.clone()).unwrap();
    let mut found = Vec::new();
    for launch in plains(&report) {
        for (section, metric, unit, value) in launch.metrics {
            found.push((launch.id.unwrap().to_string(), launch.name.clone(), (section, metric, unit), value));
        }
    }
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn long_files_agree_row_by_row() {
    agrees("n4_d512_m64_forward.csv");
    agrees("n10_d1024_m128_forward_backward.csv.zst");
    agrees("lm_details.csv.zst");
    agrees("phases_nvtx_details.csv.zst");
}
