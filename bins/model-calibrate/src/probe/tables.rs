//! Ceilings as tables.

use flopgap_cli::Failure;
use flopgap_report::ReportError;
use flopgap_report::numbers::binary_bytes;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions, terminal_width};
use flopgap_roofline::{Bandwidth, Ceilings, Instruction, Peak, Quantity};

/// The ceilings in this format; JSON is the text of their file.
pub(super) fn render(ceilings: &Ceilings, format: Format) -> Result<String, Failure> {
    let tables = match format {
        Format::Json => return ceilings.to_json().map_err(|error| Failure::from_error(&error)),
        Format::Csv | Format::CsvEscaped => list(ceilings).map(|list| vec![list]),
        Format::Table | Format::Markdown => for_readers(ceilings),
    };
    let options = TextOptions { width: terminal_width(), ..TextOptions::default() };
    let render = |table: Table| table.render(format, &options);
    let rendered: Result<Vec<String>, ReportError> =
        tables.and_then(|tables| tables.into_iter().map(render).collect());
    Ok(rendered.map_err(|error| Failure::from_error(&error))?.join("\n"))
}

fn for_readers(ceilings: &Ceilings) -> Result<Vec<Table>, ReportError> {
    let mut tables = vec![peaks(ceilings)?, levels(ceilings)?, costs(ceilings)?];
    let title = if ceilings.kind == "cuda" {
        "Bandwidth over a working set that all multiprocessors read, past L1 (GB/s)"
    } else {
        "Bandwidth, all threads, each with its part of the working set (GB/s)"
    };
    tables.push(bandwidth(title, &ceilings.bandwidth)?);
    if !ceilings.details.own_slices.is_empty() {
        let title = "Bandwidth, each multiprocessor with its part of the working set (GB/s)";
        tables.push(bandwidth(title, &ceilings.details.own_slices)?);
    }
    if let Some(one) = &ceilings.details.one_thread {
        tables.push(bandwidth("Bandwidth of one thread (GB/s)", &one.bandwidth)?);
    }
    Ok(tables)
}

fn peaks(ceilings: &Ceilings) -> Result<Table, ReportError> {
    let clock = ceilings
        .details
        .clock_khz
        .map_or(String::new(), |clock| format!(", {} MHz while measured", (clock.value / 1000.0).round()));
    let what = if ceilings.kind == "cuda" { "multiprocessors" } else { "threads" };
    let mut table = Table::new(
        format!("Peaks of {}, {} {what}{clock}", ceilings.device, ceilings.units),
        [
            Column::text("precision", "precision"),
            Column::text("instruction", "instruction").rank(0),
            Column::number("peak", "peak").unit("TFLOP/s").rank(0),
            Column::number("spread", "spread").rank(3),
            Column::number("ridge", "ridge").unit("FLOP/B").rank(1),
            Column::number("one_thread", "one thread").unit("TFLOP/s").rank(2),
        ],
    )?;
    let memory = ceilings.levels.last().map(|level| level.read);
    for peak in &ceilings.peaks {
        let one = ceilings.details.one_thread.iter().flat_map(|one| &one.peaks);
        let one =
            one.clone().find(|one| one.precision == peak.precision && one.instruction == peak.instruction);
        table.push([
            Cell::text(peak.precision.name()),
            Cell::optional(peak.instruction, |instruction| Cell::text(named(instruction))),
            tera(peak.ops_per_second.value),
            Cell::percent(peak.ops_per_second.spread, 1),
            Cell::optional(memory, |memory| Cell::float(peak.ops_per_second.value / memory, 1)),
            Cell::optional(one, |one| tera(one.ops_per_second.value)),
        ])?;
    }
    Ok(table)
}

/// Small peaks, those of one thread, have more digits.
fn tera(value: f64) -> Cell {
    let value = value / 1e12;
    Cell::float(value, if value < 1.0 { 3 } else { 1 })
}

fn named(instruction: Instruction) -> &'static str {
    match instruction {
        Instruction::Fma => "FFMA",
        Instruction::MmaSync => "mma.sync",
        Instruction::Wgmma => "wgmma",
        Instruction::Vector128 => "128-bit vectors",
        Instruction::Avx2 => "AVX2 FMA",
        Instruction::Avx512 => "AVX-512 FMA",
        Instruction::AvxVnni => "AVX-VNNI",
        Instruction::Avx512Vnni => "AVX-512 VNNI",
        Instruction::Avx512Bf16 => "AVX-512 BF16",
        Instruction::Amx => "AMX",
        _ => "other",
    }
}

fn levels(ceilings: &Ceilings) -> Result<Table, ReportError> {
    let columns = [
        Column::text("level", "level"),
        Column::text("size", "size"),
        Column::number("read", "read").unit("GB/s"),
        Column::number("copy", "copy").unit("GB/s"),
    ];
    let mut table = Table::new("Levels of the memory", columns)?;
    for level in &ceilings.levels {
        table.push([
            Cell::text(level.name.as_str()),
            Cell::optional(level.bytes, |bytes| Cell::text(binary_bytes(bytes))),
            Cell::float(level.read / 1e9, 0),
            Cell::float(level.copy / 1e9, 0),
        ])?;
    }
    Ok(table)
}

fn costs(ceilings: &Ceilings) -> Result<Table, ReportError> {
    let columns = [
        Column::text("what", "what"),
        Column::number("time", "time").unit("ns"),
        Column::number("spread", "spread"),
    ];
    let mut table = Table::new("What costs time without computing", columns)?;
    let launch = if ceilings.kind == "cuda" { "a launch on a stream" } else { "a parallel region" };
    let all = [(launch, Some(ceilings.launch_ns)), ("a node of a CUDA graph", ceilings.graph_node_ns)];
    for (what, quantity) in all.into_iter().filter_map(|(what, quantity)| Some((what, quantity?))) {
        table.push([Cell::text(what), Cell::float(quantity.value, 0), Cell::percent(quantity.spread, 1)])?;
    }
    Ok(table)
}

fn bandwidth(title: &str, curve: &[Bandwidth]) -> Result<Table, ReportError> {
    let column = |key: &str, name: &str| Column::number(key, name);
    let mut table = Table::new(
        title,
        [
            column("bytes", "working set"),
            column("read", "read"),
            column("read_spread", "±").rank(2),
            column("write", "write"),
            column("write_spread", "±").rank(2),
            column("copy", "copy"),
            column("copy_spread", "±").rank(2),
        ],
    )?;
    for point in curve {
        let cells = [point.read, point.write, point.copy]
            .into_iter()
            .flat_map(|rate| [Cell::float(rate.value / 1e9, 0), Cell::percent(rate.spread, 1)]);
        table.push(std::iter::once(Cell::text(binary_bytes(point.bytes))).chain(cells))?;
    }
    Ok(table)
}

/// One row for each measured number.
fn list(ceilings: &Ceilings) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "",
        [
            Column::text("what", "what"),
            Column::text("of", "of"),
            Column::number("bytes", "working set").unit("B"),
            Column::number("value", "value"),
            Column::text("unit", "unit"),
            Column::number("spread", "spread"),
        ],
    )?;
    let mut push = |what: &str, of: &str, bytes: Option<u64>, unit: &str, quantity: Quantity| {
        table.push([
            Cell::text(what),
            Cell::text(of),
            Cell::optional(bytes, Cell::from),
            Cell::float(quantity.value, 0),
            Cell::text(unit),
            Cell::percent(quantity.spread, 1),
        ])
    };
    let one = ceilings.details.one_thread.as_ref();
    let of_one: &[Peak] = one.map_or(&[], |one| &one.peaks);
    for (what, peaks) in [("peak", ceilings.peaks.as_slice()), ("peak of one thread", of_one)] {
        for peak in peaks {
            let of = peak.instruction.map_or(String::new(), |by| format!(" {}", named(by)));
            push(what, &format!("{}{of}", peak.precision), None, "op/s", peak.ops_per_second)?;
        }
    }
    let curves = [
        ("bandwidth", ceilings.bandwidth.as_slice()),
        ("bandwidth of own slices", &ceilings.details.own_slices),
        ("bandwidth of one thread", one.map_or(&[], |one| &one.bandwidth)),
    ];
    for (what, curve) in curves {
        for point in curve {
            for (of, quantity) in [("read", point.read), ("write", point.write), ("copy", point.copy)] {
                push(what, of, Some(point.bytes), "B/s", quantity)?;
            }
        }
    }
    push("launch", "", None, "ns", ceilings.launch_ns)?;
    if let Some(node) = ceilings.graph_node_ns {
        push("graph node", "", None, "ns", node)?;
    }
    Ok(table)
}
