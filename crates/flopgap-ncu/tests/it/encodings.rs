//! Encodings, line ends and compression around the same bytes.

use std::io::{ErrorKind, Read as _, Write};

use flopgap_files::Hint as _;
use flopgap_ncu::Fault;

use crate::support::{bytes, parse, plains, text};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn every_wrapping_gives_the_same_report() {
    for name in ["n4_d512_m64_forward.csv", "nvtx_names/details_fr_FR.csv.zst", "lm_summary.csv.zst"] {
        let text = text(name);
        let expected = plains(&parse(text.clone()).unwrap());
        let crlf = text.replace('\n', "\r\n");
        let marked = format!("\u{feff}{text}");
        let windows = format!("\u{feff}{crlf}");
        let zst = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
        let mut two_members = gzip(&text.as_bytes()[..1000]);
        two_members.extend(gzip(&text.as_bytes()[1000..]));
        let wrappings: Vec<(&str, Vec<u8>)> = vec![
            ("CRLF", crlf.clone().into()),
            ("BOM", marked.clone().into()),
            ("BOM and CRLF", windows.clone().into()),
            ("UTF-16LE with BOM", utf16(&windows, u16::to_le_bytes)),
            ("UTF-16BE with BOM", utf16(&marked, u16::to_be_bytes)),
            ("UTF-16LE without BOM", utf16(&text, u16::to_le_bytes)),
            ("gzip", gzip(text.as_bytes())),
            ("gzip in two members", two_members),
            ("zstd", zst(text.as_bytes())),
            ("gzip of zstd", gzip(&zst(text.as_bytes()))),
            ("zstd of UTF-16 with CRLF", zst(&utf16(&windows, u16::to_le_bytes))),
            ("no line feed at the end", text.trim_end().into()),
        ];
        for (wrapping, bytes) in wrappings {
            let report = parse(bytes).unwrap_or_else(|error| panic!("{name}, {wrapping}: {error}"));
            assert_eq!(report.lost_at, None, "{name}, {wrapping}: {:?}", report.warnings);
            assert_eq!(plains(&report), expected, "{name}, {wrapping}");
        }
    }
}

#[test]
fn unquoted_fields_are_read() {
    // What a CSV library writes: quotes only where needed.
    let text = text("lm_details.csv.zst");
    let mut unquoted = String::new();
    for row in crate::naive::rows(&text) {
        let fields = row.iter().map(|field| {
            if field.contains(['"', ',']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field.clone()
            }
        });
        unquoted += &(fields.collect::<Vec<_>>().join(",") + "\n");
    }
    assert_eq!(plains(&parse(unquoted).unwrap()), plains(&parse(text).unwrap()));
}

#[test]
fn a_cut_archive_gives_what_came_before() {
    let whole = plains(&parse(bytes("lm_details.csv.zst")).unwrap());
    let archives = [
        gzip(&bytes("lm_details.csv.zst")),
        std::fs::read(crate::support::path("lm_details.csv.zst")).unwrap(),
    ];
    for archive in archives {
        let report = parse(&archive[..archive.len() * 9 / 10]);
        // A zstd frame holds few blocks: nothing of the table may have been decoded.
        let Ok(report) = report else { continue };
        assert!(report.lost_at.is_some(), "{:?}", report.warnings);
        let found = plains(&report);
        assert!(found.len() < whole.len());
        assert_eq!(found[..found.len() - 1], whole[..found.len() - 1]);
    }
}

#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    let mut bytes = bytes("nvtx_names/stdout.csv");
    let at = bytes.windows(5).rposition(|window| window == b"axpy(").unwrap();
    bytes[at] = 0xff;
    let report = parse(bytes).unwrap();
    assert!(
        report.iter().any(|launch| launch.kernel_name().starts_with("\u{fffd}xpy"))
            || report.launches.len() == 5
    );
}

#[test]
fn a_small_file_that_unpacks_without_end_is_refused() {
    // 16 MiB of one line, a hundred times.
    let frame = zstd::stream::encode_all(std::io::repeat(b'x').take(16 << 20), 1).unwrap();
    let table = zstd::stream::encode_all(text("n4_d512_m64_forward.csv").as_bytes(), 1).unwrap();
    let packed = [table, frame.repeat(100)].concat();
    assert!(packed.len() < 200_000, "{}", packed.len());
    let Err(error) = parse(packed) else { panic!("1.6 GB were read") };
    assert!(
        matches!(&error.what, Fault::Io { source } if source.kind() == ErrorKind::FileTooLarge),
        "{error}"
    );
    assert!(error.hint().is_some());
}
