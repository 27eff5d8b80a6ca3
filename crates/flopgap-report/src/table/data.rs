//! Raw values for machines: CSV and JSON.

use std::io::Write as _;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Cell, Column, Table, WithoutFormulas};
use crate::ReportError;

impl Table {
    /// CSV: a line of column keys, then one line a row. Raw values; absent ones are empty fields.
    pub fn to_csv(&self) -> Result<String, ReportError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(Column::key)).map_err(ReportError::csv)?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::raw)).map_err(ReportError::csv)?;
        }
        let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
        String::from_utf8(bytes).map_err(|error| std::io::Error::other(error).into())
    }

    /// As [`Table::to_csv`], [`WithoutFormulas`].
    pub(super) fn to_escaped_csv(&self) -> Result<String, ReportError> {
        let mut writer = WithoutFormulas::new(Vec::new());
        writer.write_all(self.to_csv()?.as_bytes())?;
        String::from_utf8(writer.finish()?).map_err(|error| std::io::Error::other(error).into())
    }

    /// JSON: an array with one object for each row, keyed by column key in column order. Absent
    /// values are `null`.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self).map_err(ReportError::json)?;
        text.push('\n');
        Ok(text)
    }
}

/// A table serializes as its rows, so that a caller can nest several tables in one JSON document.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.rows.len()))?;
        for cells in &self.rows {
            rows.serialize_element(&Row { columns: &self.columns, cells })?;
        }
        rows.end()
    }
}

struct Row<'a> {
    columns: &'a [Column],
    cells: &'a [Cell],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.cells.len()))?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            map.serialize_entry(column.key(), cell)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            Column::text("kernel", "Kernel"),
            Column::number("flops", "Work").unit("FLOP"),
            Column::number("epsilon", "ε"),
        ];
        let mut table = Table::new("Kernels", columns).unwrap();
        let rows = [
            [Cell::from("gemm<128, \"f32\">"), Cell::from(u64::MAX), Cell::signed_percent(0.012_5, 1)],
            [Cell::from("line\nbreak"), Cell::from(-3_i64), Cell::Absent],
        ];
        for row in rows {
            table.push(row).unwrap();
        }
        table
    }

    #[test]
    fn csv_is_raw_and_quoted() {
        assert_eq!(
            table().to_csv().unwrap(),
            "kernel,flops,epsilon\n\"gemm<128, \"\"f32\"\">\",18446744073709551615,0.0125\n\"line\nbreak\",-3,\n"
        );
    }

    #[test]
    fn csv_reads_back() {
        let csv = table().to_csv().unwrap();
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        assert_eq!(reader.headers().unwrap(), vec!["kernel", "flops", "epsilon"]);
        let rows: Vec<Vec<String>> =
            reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect();
        let expected: Vec<Vec<String>> =
            table().rows().iter().map(|row| row.iter().map(Cell::raw).collect()).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn json_reads_back_with_keys_in_column_order() {
        let json = table().to_json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            value,
            serde_json::json!([
                {"kernel": "gemm<128, \"f32\">", "flops": u64::MAX, "epsilon": 0.0125},
                {"kernel": "line\nbreak", "flops": -3, "epsilon": null},
            ])
        );
        let order = ["kernel", "flops", "epsilon"].map(|key| json.find(&format!("\"{key}\"")).unwrap());
        assert!(order.is_sorted(), "{json}");
    }

    #[test]
    fn one_column_of_absent_values_keeps_its_rows() {
        let mut table = Table::new("", [Column::number("x", "x")]).unwrap();
        table.push([Cell::Absent]).unwrap();
        table.push([Cell::from(1_u64)]).unwrap();
        let csv = table.to_csv().unwrap();
        assert_eq!(csv, "x\n\"\"\n1\n");
        assert_eq!(csv::Reader::from_reader(csv.as_bytes()).records().count(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_text_survives_csv_and_json(words in proptest::collection::vec(".*", 1..8)) {
            let mut table = Table::new("t", [Column::text("w", "w"), Column::text("v", "v")]).unwrap();
            for word in &words {
                table.push([Cell::text(word), Cell::text(word)]).unwrap();
            }
            let csv = table.to_csv().unwrap();
            let back: Vec<String> =
                csv::Reader::from_reader(csv.as_bytes()).records().map(|r| r.unwrap()[1].to_owned()).collect();
            proptest::prop_assert_eq!(&back, &words);
            let json: Vec<std::collections::BTreeMap<String, String>> =
                serde_json::from_str(&table.to_json().unwrap()).unwrap();
            let back: Vec<String> = json.into_iter().map(|row| row["w"].clone()).collect();
            proptest::prop_assert_eq!(&back, &words);
        }
    }
}
