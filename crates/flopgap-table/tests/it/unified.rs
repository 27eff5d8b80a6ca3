//! Tables as a data set has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_table::arrow_schema::DataType;
use flopgap_table::{Kind, Source, Table};

use crate::{Cell, column, counts, fixtures, maybe_ints, open, texts};

/// A trace of `torch.profiler` with work on a GPU.
fn torch_trace(folder: &Path) -> PathBuf {
    let path = folder.join("torch.json");
    let event = |category: &str, name: &str, arguments: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":5,"dur":2,"args":{{{arguments}}}}}"#
        )
    };
    let events = [
        event("kernel", "ampere_sgemm_128x64_nn", r#""device":0,"stream":7,"registers per thread":32"#),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", r#""bytes":64"#),
        event("gpu_memset", "Memset (Device)", r#""bytes":16"#),
        event("cpu_op", "aten::mm", r#""Input Dims":[[2,3],[3,4]]"#),
    ];
    fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    path
}

fn below(folder: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(fixtures().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Every source among the fixtures.
fn sources(folder: &Path) -> Vec<Source> {
    let mut paths = vec![torch_trace(folder)];
    for folder in ["nsys", "ncu", "kineto", "runs", "public"] {
        paths.extend(below(folder));
    }
    paths.iter().filter_map(|path| Source::open(path).ok()).collect()
}

/// Name, type, and whether it may be null.
type Column = (String, DataType, bool);

fn columns(table: &Table) -> Vec<Column> {
    let schema = table.schema();
    let column = |field: &std::sync::Arc<flopgap_table::arrow_schema::Field>| {
        (field.name().clone(), field.data_type().clone(), field.is_nullable())
    };
    schema.fields().iter().map(column).collect()
}

#[test]
fn a_table_has_the_same_columns_whatever_wrote_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen: BTreeMap<String, (Vec<Column>, Vec<Kind>)> = BTreeMap::new();
    for source in sources(folder.path()) {
        for info in source.tables() {
            let Ok(table) = source.table(&info.name) else { continue };
            let unified = table.unified();
            let found = columns(&unified);
            unified.first(10).unwrap_or_else(|error| panic!("{}: {error:?}", source.path().display()));
            for (name, kind, nullable) in &found {
                assert!(*nullable && *kind != DataType::UInt64, "{}: {name}", info.name);
            }
            let (known, kinds) =
                seen.entry(info.name.to_string()).or_insert_with(|| (found.clone(), Vec::new()));
            assert_eq!(*known, found, "{}: {}", source.path().display(), info.name);
            if !kinds.contains(&source.kind()) {
                kinds.push(source.kind());
            }
            // Nothing is left out but what another column or table says.
            for field in table.schema().fields() {
                let said = match (source.kind(), info.name.as_ref(), field.name().as_str()) {
                    (Kind::Ncu, "launches", "time_ns") | (Kind::Kineto, "copies" | "memsets", "name") => true,
                    (Kind::Ncu, "launches", _) => field.metadata().contains_key("metric"),
                    _ => false,
                };
                let kept = found.iter().any(|(name, ..)| name == field.name());
                assert!(kept || said, "{}: {}", info.name, field.name());
            }
        }
    }
    let shared: Vec<&str> =
        seen.iter().filter(|(_, (_, kinds))| kinds.len() > 1).map(|(name, _)| name.as_str()).collect();
    assert_eq!(shared, ["api_calls", "copies", "kernels", "launches", "memsets", "ranges"]);
}

#[test]
fn values_are_those_of_the_source() {
    let source = open("ncu/full_raw.csv.zst");
    let (table, unified) = (source.table("launches").unwrap(), source.table("launches").unwrap().unified());
    let signed = |counts: Vec<Option<u64>>| -> Vec<Option<i64>> {
        counts.into_iter().map(|count| count.map(|count| i64::try_from(count).unwrap())).collect()
    };
    assert_eq!(maybe_ints(&unified, "flops"), signed(counts(&table, "flops")));
    assert_eq!(maybe_ints(&unified, "duration_ns"), signed(counts(&table, "time_ns")));
    assert!(maybe_ints(&unified, "duration_ns").iter().any(Option::is_some));
    assert_eq!(texts(&unified, "class"), texts(&table, "class"));
    assert!(column(&unified, "n").iter().all(|cell| *cell == Cell::Absent));
}

#[test]
fn ends_and_shared_memory_come_from_recorded_columns() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::open(torch_trace(folder.path())).unwrap();
    let kernels = source.table("kernels").unwrap().unified();
    assert_eq!(maybe_ints(&kernels, "end_ns"), [Some(2000)]);
    // Also where no column of the source is asked for.
    assert_eq!(maybe_ints(&kernels, "green_context"), [None]);

    let kernels = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap().unified();
    let [fixed, dynamic, all] = ["static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"]
        .map(|name| maybe_ints(&kernels, name));
    assert!(all.iter().any(|bytes| bytes.is_some_and(|bytes| bytes > 0)));
    for ((fixed, dynamic), all) in fixed.iter().zip(&dynamic).zip(&all) {
        assert_eq!(fixed.zip(*dynamic).map(|(a, b)| a + b), *all);
    }
}
