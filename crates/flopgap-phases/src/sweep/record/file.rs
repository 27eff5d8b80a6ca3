//! The file of a record: JSON, one launch a line, compressed with zstd and its checksum.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::Phase;
use flopgap_files::{WriteError, run::FormatFault, write_atomic_unsynced};
use serde::{Deserialize, Serialize};

use super::error::{RecordError, RecordFault};
use super::format::{FIXED, FORMAT, RECORD_ENDING};
use super::{Quantity, Record};
use crate::sweep::Config;

/// A file that unpacks to more than this is rejected: a configuration of a thousand layers has
/// about a megabyte.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Contents {
    config: Config,
    #[serde(default)]
    taken_over: u64,
    columns: Vec<String>,
    kernels: Vec<String>,
    launches: BTreeMap<String, Vec<Vec<u64>>>,
}

impl Record {
    /// The name of its file: `n2_d256_m16.counts.json.zst`.
    pub fn file_name(&self) -> String {
        file_name(self.config())
    }

    /// Writes the record, whole or not at all. Equal records give equal bytes.
    ///
    /// The disk is not waited for, which would take longer than the measurement: what a power
    /// failure leaves of the file does not pass for a record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let packed = pack(self.to_json().as_bytes());
        let bytes = packed.map_err(|source| WriteError::new(path, source))?;
        write_atomic_unsynced(path, &bytes)
    }

    /// Reads a record, compressed or not, and checks it against the configuration that its file is
    /// named after.
    ///
    /// # Errors
    /// [`RecordError`]: also for damage that leaves valid JSON, which the checksum finds.
    pub fn read(path: &Path) -> Result<Record, RecordError> {
        let bytes =
            fs::read(path).map_err(|source| RecordFault::from(FormatFault::Io { source }).at(path))?;
        let bytes = match bytes.first() {
            None => return Err(RecordFault::Empty.at(path)),
            Some(b'{') => bytes,
            Some(_) => unpack(&bytes).map_err(|source| RecordFault::Damaged { source }.at(path))?,
        };
        let record = Record::from_json(&bytes, path)?;
        let named = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
        if let Some(named) = named.and_then(Config::from_name).filter(|&named| named != record.config) {
            return Err(RecordFault::OtherName { named, found: record.config }.at(path));
        }
        Ok(record)
    }

    /// The record as JSON with one launch a line.
    pub fn to_json(&self) -> String {
        let columns: Vec<&str> =
            FIXED.into_iter().chain(self.quantities.iter().map(|quantity| quantity.name())).collect();
        let mut text = format!(
            "{{\"format\":{},\"version\":{},\n\"config\":{},\n",
            json(FORMAT.name),
            FORMAT.version,
            json(&self.config)
        );
        if self.taken_over > 0 {
            let _ = writeln!(text, "\"taken_over\":{},", self.taken_over);
        }
        let _ = write!(text, "\"columns\":{},\n\"kernels\":[", json(&columns));
        for (index, kernel) in self.kernels.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n{}", json(kernel));
        }
        text.push_str("],\n\"launches\":{");
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n\"{phase}\":[");
            let mut first = true;
            for (launch, entry) in
                self.launches().zip(&self.launches).filter(|(launch, _)| launch.phase == phase)
            {
                text.push_str(if first { "\n[" } else { ",\n[" });
                first = false;
                let _ = write!(text, "{}", entry.kernel);
                for value in launch.grid.iter().chain(&launch.block).chain(launch.values) {
                    let _ = write!(text, ",{value}");
                }
                text.push(']');
            }
            text.push(']');
        }
        text.push_str("}}\n");
        text
    }

    /// Reads what [`Record::to_json`] wrote; `path` names it in messages.
    ///
    /// # Errors
    /// All [`RecordFault`]s of contents.
    pub fn from_json(json: &[u8], path: &Path) -> Result<Record, RecordError> {
        Record::parse(json).map_err(|fault| fault.at(path))
    }

    fn parse(json: &[u8]) -> Result<Record, RecordFault> {
        let contents: Contents = FORMAT.parse(json)?;
        let quantities = quantities(&contents.columns)?;
        let mut record = Record::new(contents.config, &quantities).with_taken_over(contents.taken_over);
        for name in contents.launches.keys() {
            if !Phase::ALL.iter().any(|phase| phase.as_str() == name) {
                return Err(RecordFault::UnknownPhase { name: name.clone() });
            }
        }
        for phase in Phase::ALL {
            let rows = contents.launches.get(phase.as_str()).map_or(&[][..], Vec::as_slice);
            for (launch, row) in rows.iter().enumerate() {
                let (fixed, values) = match row.split_first_chunk::<7>() {
                    Some((fixed, values)) if values.len() == quantities.len() => (*fixed, values),
                    _ => {
                        let (found, expected) = (row.len(), contents.columns.len());
                        return Err(RecordFault::Values { phase, launch, found, expected });
                    }
                };
                let [kernel, gx, gy, gz, bx, by, bz] = fixed;
                let name = usize::try_from(kernel).ok().and_then(|kernel| contents.kernels.get(kernel));
                let name = name.ok_or(RecordFault::UnlistedKernel { phase, launch, kernel })?;
                record.push(phase, name, [gx, gy, gz], [bx, by, bz], values);
            }
        }
        let (found, launches) = (record.taken_over, record.launches.len());
        if found > launches as u64 {
            return Err(RecordFault::TakenOver { found, launches });
        }
        Ok(record)
    }
}

/// The name of the file that holds the record of a configuration.
pub(crate) fn file_name(config: Config) -> String {
    format!("{config}.{RECORD_ENDING}")
}

/// The quantities behind the fixed columns.
fn quantities(columns: &[String]) -> Result<Vec<Quantity>, RecordFault> {
    let names = match columns.split_at_checked(FIXED.len()) {
        Some((fixed, names)) if fixed == FIXED => names,
        _ => return Err(RecordFault::Columns),
    };
    let mut quantities = Vec::new();
    for name in names {
        let Some(quantity) = Quantity::from_name(name) else {
            return Err(RecordFault::UnknownColumn { name: name.clone() });
        };
        if quantities.contains(&quantity) {
            return Err(RecordFault::RepeatedColumn { name: name.clone() });
        }
        quantities.push(quantity);
    }
    match Quantity::FP32.into_iter().find(|quantity| !quantities.contains(quantity)) {
        Some(quantity) => Err(RecordFault::MissingColumn { quantity }),
        None => Ok(quantities),
    }
}

fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 9)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    zstd::stream::Decoder::with_buffer(bytes)?.take(MAX_BYTES + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > MAX_BYTES {
        let message = format!("it unpacks to more than {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(unpacked)
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|error| unreachable!("numbers and text are always JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use flopgap_files::{Hint as _, chain};
    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        let mut record = Record::new(Config { n: 1, d: 128, m: 16 }, &Quantity::FP32);
        record.push(Phase::Setup, "fill(float *)", [1, 1, 1], [256, 1, 1], &[0, 0, 0]);
        record.push(Phase::Forward, "sgemm<\"128x64\", é>", [4, 1, 2], [128, 1, 1], &[0, 1, u64::MAX]);
        record.push(Phase::Backward, "fill(float *)", [1, 1, 1], [256, 1, 1], &[7, 0, 0]);
        record
    }

    #[test]
    fn the_format_stays() {
        let expected = r#"{"format":"flopgap-counts","version":1,
"config":{"n":1,"d":128,"m":16},
"columns":["kernel","grid_x","grid_y","grid_z","block_x","block_y","block_z","fadd","fmul","ffma"],
"kernels":[
"fill(float *)",
"sgemm<\"128x64\", é>"],
"launches":{
"setup":[
[0,1,1,1,256,1,1,0,0,0]],
"forward":[
[1,4,1,2,128,1,1,0,1,18446744073709551615]],
"backward":[
[0,1,1,1,256,1,1,7,0,0]]}}
"#;
        assert_eq!(record().to_json(), expected);
        assert_eq!(Record::from_json(expected.as_bytes(), Path::new("x")).unwrap(), record());
    }

    /// A record holds FADD, FMUL and FFMA, which for a product on tensor cores are only the
    /// remainder.
    #[test]
    fn work_on_tensor_cores_is_refused() {
        let classifier = flopgap_kernels::Classifier::new();
        let product = "nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT";
        let mut record = Record::new(Config { n: 1, d: 128, m: 16 }, &Quantity::FP32);
        record.push(Phase::Forward, "ampere_sgemm_128x64_nn", [4, 1, 1], [128, 1, 1], &[0, 0, 7]);
        assert!(record.recording(Path::new("raw/x"), &classifier).is_ok());
        record.push(Phase::Backward, product, [4, 1, 1], [128, 1, 1], &[0, 0, 0]);
        let error = record.recording(Path::new("raw/x"), &classifier).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "raw/x: a backward launch of `{product}` ran on the tensor cores, whose operations a record does not count"
            )
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let whole = record().to_json();
        let message = |from: &str, to: &str| {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole);
            chain(&Record::from_json(text.as_bytes(), Path::new("raw/x")).unwrap_err()).to_string()
        };
        for (from, to, expected) in [
            (
                "\"version\":1",
                "\"version\":2",
                "raw/x: unsupported format `flopgap-counts` version 2; supported: flopgap-counts version 1",
            ),
            (
                "[0,1,1,1,256,1,1,7,0,0]",
                "[0,1,1,1,256,1,1,7,0]",
                "raw/x: backward launch 0 has 9 of 10 values",
            ),
            ("[1,4,", "[2,4,", "raw/x: forward launch 0 is of kernel 2, which is not listed"),
            ("\"setup\"", "\"warmup\"", "raw/x: unknown phase `warmup`: expected setup, forward or backward"),
            ("\"columns\"", "\"taken_over\":4,\"columns\"", "raw/x: `taken_over` is 4, of 3 launches"),
            ("\"ffma\"", "\"hfma\"", "raw/x: unknown column `hfma`"),
            ("\"ffma\"", "\"fmul\"", "raw/x: two columns `fmul`"),
            ("\"ffma\"", "\"duration_ns\"", "raw/x: no column `ffma`, which FLOPs need"),
            (
                "\"grid_x\"",
                "\"grid\"",
                "raw/x: its columns do not begin with kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z",
            ),
            (
                "[1,4,",
                "[1,-4,",
                "raw/x: not a record of counts: invalid value: integer `-4`, expected u64 at line 11 column 5",
            ),
        ] {
            assert_eq!(message(from, to), expected);
        }
    }

    #[test]
    fn any_damage_to_the_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(record().file_name());
        record().write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(Record::read(&path).is_err(), "cut to {length} of {}", whole.len());
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            // Some bits of the frame's header have no meaning; flipping one leaves the record
            // unchanged.
            if let Ok(read) = Record::read(&path) {
                assert_eq!(read, record(), "byte {place}");
            }
        }
    }

    #[test]
    fn an_empty_and_a_cut_file_say_what_they_are_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(record().file_name());
        record().write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for (length, expected) in
            [(0, "the file is empty"), (whole.len() / 2, "cut off or damaged: incomplete frame")]
        {
            fs::write(&path, &whole[..length]).unwrap();
            let error = Record::read(&path).unwrap_err();
            assert_eq!(chain(&error).to_string(), format!("{}: {expected}", path.display()));
            assert!(error.hint().unwrap().contains("resume the run"));
        }
    }

    #[test]
    fn a_record_that_unpacks_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(record().file_name());
        fs::write(&path, zstd::encode_all(io::repeat(b' ').take(MAX_BYTES + 1), 1).unwrap()).unwrap();
        let error = Record::read(&path).unwrap_err();
        let text = chain(&error).to_string();
        assert!(text.ends_with("it unpacks to more than 67108864 bytes"), "{text}");
    }

    #[test]
    fn a_launch_of_more_flops_than_there_can_be_is_named() {
        let mut record = Record::new(Config { n: 1, d: 8, m: 8 }, &Quantity::FP32);
        record.push(Phase::Forward, "sgemm", [1; 3], [32, 1, 1], &[0, 0, u64::MAX]);
        let error = record.recording(Path::new("raw/x"), &flopgap_kernels::Classifier::new()).unwrap_err();
        assert_eq!(error.to_string(), "raw/x: the FLOPs of a forward launch of `sgemm` exceed 64 bits");
    }

    #[test]
    fn a_record_under_another_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n2_d128_m16.counts.json.zst");
        record().write(&path).unwrap();
        let error = Record::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("the file is named after n2_d128_m16, but contains n1_d128_m16"), "{error}");
    }

    prop_compose! {
        fn launches()(launches in proptest::collection::vec(
            (0..3usize, "[a-z<>, \"\\\\\u{e9}]{0,8}", any::<[u64; 3]>(), any::<[u64; 3]>(), any::<[u64; 4]>()), 0..20,
        )) -> Vec<(usize, String, [u64; 3], [u64; 3], [u64; 4])> { launches }
    }

    proptest! {
        #[test]
        fn round_trip(mut launches in launches(), n in 1u64.., d in 1u64.., m in 1u64.., taken in 0..3u64) {
            launches.sort_by_key(|launch| launch.0);
            let quantities = [Quantity::DurationNs, Quantity::Ffma, Quantity::Fadd, Quantity::Fmul];
            let mut record = Record::new(Config { n, d, m }, &quantities).with_taken_over(taken.min(launches.len() as u64));
            for (phase, name, grid, block, values) in &launches {
                record.push(Phase::ALL[*phase], name, *grid, *block, values);
            }
            prop_assert_eq!(Record::from_json(record.to_json().as_bytes(), Path::new("x")).unwrap(), record);
        }
    }
}
