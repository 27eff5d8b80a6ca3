//! Parameters in files: round trips, files of other programs, files that are wrong.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_files::Hint as _;
use flopgap_mlp::reference::{self, Rounding, relative_error};
use flopgap_mlp::{Activation, Cpu, FileError, Network, Parameters, Precision};
use half::{bf16, f16};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/dense")).join(name)
}

fn activation() -> impl Strategy<Value = Activation> {
    proptest::sample::select(Activation::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_written_is_read_again(
        widths in proptest::collection::vec((1_usize..=5).prop_map(|eighths| 8 * eighths), 3..6),
        (hidden, output) in (activation(), activation()),
        seed in any::<u64>(),
        precision in proptest::sample::select(Precision::ALL.to_vec()),
    ) {
        let network = Network::new(&widths).unwrap().with_activation(hidden).with_output_activation(output);
        let parameters = Parameters::he(&network, seed);
        let stored = match precision {
            Precision::F32 => parameters.clone(),
            Precision::F16 => parameters.rounded::<f16>(),
            Precision::Bf16 => parameters.rounded::<bf16>(),
        };
        let folder = tempfile::tempdir().unwrap();
        let (path, again) = (folder.path().join("a.safetensors"), folder.path().join("b.safetensors"));
        parameters.save(&path, precision).unwrap();
        let read = Parameters::load(&path).unwrap();
        prop_assert_eq!(&read, &stored);
        read.save(&again, precision).unwrap();
        prop_assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
    }
}

/// A file of PyTorch computes what PyTorch computed.
#[test]
fn files_of_pytorch_are_read() {
    let text = fs::read_to_string(fixture("sequential.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let numbers = |key: &str| -> Vec<f64> {
        expected[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    #[expect(clippy::cast_possible_truncation, reason = "written from 32 bits")]
    let x: Vec<f32> = numbers("x").into_iter().map(|number| number as f32).collect();
    let read = |name: &str| {
        Parameters::load_with_activations(fixture(name), Activation::Tanh, Activation::Sigmoid).unwrap()
    };
    let parameters = read("sequential.safetensors");
    assert_eq!(parameters.network().to_string(), "8-24-16-8 tanh/sigmoid");
    let truth = reference::run(&parameters, &x, &[0.0; 40], Rounding::None).unwrap();
    assert!(reference::relative_error(&truth.outputs, &numbers("y")) < 1e-12);
    let mut y = vec![0.0; 40];
    Cpu::new(&parameters).forward(&x, &mut y).unwrap();
    assert!(relative_error(&y, &numbers("y")) < 1e-6);

    let narrow = read("sequential_16_bits.safetensors");
    for layer in 0..3 {
        let weights: Vec<f32> =
            parameters.weights(layer).iter().map(|&weight| bf16::from_f32(weight).to_f32()).collect();
        let biases: Vec<f32> =
            parameters.biases(layer).iter().map(|&bias| f16::from_f32(bias).to_f32()).collect();
        assert_eq!((narrow.weights(layer), narrow.biases(layer)), (&weights[..], &biases[..]));
    }

    let error = Parameters::load(fixture("sequential.safetensors")).unwrap_err();
    assert!(matches!(error, FileError::NoActivations { .. }), "{error}");
    assert!(error.hint().unwrap().contains("load_with_activations"));
}

/// A file with these tensors: name, type, shape; all numbers are zero.
fn file_of(tensors: &[(&str, Dtype, &[usize])], metadata: Option<&str>) -> Vec<u8> {
    let zeros = vec![0; 100_000];
    let views = tensors.iter().map(|&(name, dtype, shape)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (name, TensorView::new(dtype, shape.to_vec(), &zeros[..bytes]).unwrap())
    });
    let metadata = metadata.map(|entry| HashMap::from([("flopgap".to_owned(), entry.to_owned())]));
    safetensors::serialize(views, metadata).unwrap()
}

/// What reading these bytes says, without the path that it begins with.
fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.safetensors");
    fs::write(&path, bytes).unwrap();
    let error = Parameters::load(&path).unwrap_err();
    let message = flopgap_files::chain(&error).to_string();
    message.strip_prefix(&format!("{}: ", path.display())).unwrap_or_else(|| panic!("{message}")).to_owned()
}

const ENTRY: &str = "version=1 activation=relu output_activation=identity";
const GOOD: [(&str, Dtype, &[usize]); 4] = [
    ("layers.0.weight", Dtype::F32, &[16, 8]),
    ("layers.0.bias", Dtype::F32, &[16]),
    ("layers.1.weight", Dtype::F32, &[8, 16]),
    ("layers.1.bias", Dtype::F32, &[8]),
];

/// The good file with one tensor replaced by others.
fn with(index: usize, others: &[(&'static str, Dtype, &'static [usize])]) -> String {
    let mut tensors = GOOD.to_vec();
    tensors.splice(index..=index, others.iter().copied());
    refusal(&file_of(&tensors, Some(ENTRY)))
}

#[test]
fn wrong_tensors_are_named() {
    assert_eq!(
        with(2, &[("layers.1.weight", Dtype::F64, &[8, 16])]),
        "tensor \"layers.1.weight\": stored as F64: F32, F16 and BF16 can be read"
    );
    assert!(
        with(1, &[("layers.0.bias", Dtype::I64, &[16])])
            .starts_with("tensor \"layers.0.bias\": stored as I64")
    );
    assert_eq!(
        with(2, &[("layers.1.weight", Dtype::F32, &[8, 24])]),
        "tensor \"layers.1.weight\": its shape is [8, 24], but the layer below has 16 outputs"
    );
    assert_eq!(
        with(0, &[("layers.0.weight", Dtype::F32, &[128])]),
        "tensor \"layers.0.weight\": its shape is [128], where [outputs, inputs] is needed"
    );
    assert_eq!(
        with(3, &[("layers.1.bias", Dtype::F32, &[16])]),
        "tensor \"layers.1.bias\": its shape is [16], where [8] fits \"layers.1.weight\""
    );
    assert_eq!(
        with(3, &[]),
        format!("in its metadata, \"flopgap\" is {ENTRY:?}: of its layers, 0 have biases")
    );
    assert_eq!(with(0, &[]), "tensor \"layers.0.weight\": missing");
    assert_eq!(
        with(3, &[GOOD[3], ("scale", Dtype::F32, &[1])]),
        "tensor \"scale\": not of a layer: names end in NUMBER.weight or NUMBER.bias"
    );
    assert_eq!(
        with(3, &[GOOD[3], ("other.2.bias", Dtype::F32, &[1])]),
        "tensor \"other.2.bias\": of another network than \"layers.0.bias\": what precedes the number differs"
    );
    assert_eq!(
        with(3, &[GOOD[3], ("layers.01.bias", Dtype::F32, &[8])]),
        "tensor \"layers.1.bias\": the same layer as \"layers.01.bias\""
    );
    let wide = [("0.weight", Dtype::F32, &[1, 20_000][..]), ("1.weight", Dtype::F32, &[8, 1])];
    assert_eq!(
        refusal(&file_of(&wide, Some(&format!("{ENTRY} bias=none")))),
        "unsupported network: invalid widths 20000, 1, 8: number 1 is 20000: from 1 to 16384"
    );
    assert_eq!(
        refusal(&file_of(&[GOOD[0], GOOD[2]], Some(ENTRY))),
        format!("in its metadata, \"flopgap\" is {ENTRY:?}: no layer has biases")
    );
    let entry = format!("{ENTRY} bias=none");
    let biased = refusal(&file_of(&GOOD, Some(&entry)));
    assert!(biased.ends_with("all layers have biases"), "{biased}");
    assert!(refusal(&file_of(&GOOD[..2], Some(ENTRY))).contains("at least three are needed"));
    assert_eq!(refusal(&file_of(&[], None)), "it holds no tensors");
}

/// What `torch.nn.Sequential(Linear(3, 64), ReLU(), Linear(64, 3))` saves, with and without biases.
#[test]
fn a_network_of_pytorch_with_odd_widths_loads_and_runs() {
    for bias in [true, false] {
        let all: [(&str, Dtype, &[usize]); 4] = [
            ("0.weight", Dtype::F32, &[64, 3]),
            ("0.bias", Dtype::F32, &[64]),
            ("2.weight", Dtype::F32, &[3, 64]),
            ("2.bias", Dtype::F32, &[3]),
        ];
        let tensors: Vec<_> = all.into_iter().filter(|(name, ..)| bias || name.ends_with("weight")).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("color.safetensors");
        fs::write(&path, file_of(&tensors, None)).unwrap();
        let zeros = Parameters::load_with_activations(&path, Activation::Relu, Activation::Identity).unwrap();
        let network = Network::new(&[3, 64, 3]).unwrap().with_activation(Activation::Relu).with_bias(bias);
        assert_eq!(zeros.network(), &network);

        // Ours, there and back.
        let parameters = Parameters::he(&network, 7);
        parameters.save(&path, Precision::F32).unwrap();
        assert_eq!(Parameters::load(&path).unwrap(), parameters);
        let x: Vec<f32> = (0..30).map(|index| index as f32 / 15.0 - 1.0).collect();
        let mut y = vec![f32::NAN; 30];
        Cpu::new(&parameters).forward(&x, &mut y).unwrap();
        let truth = reference::run(&parameters, &x, &[0.0; 30], Rounding::None).unwrap();
        assert!(relative_error(&y, &truth.outputs) < 1e-6);
    }
}

#[test]
fn numbers_that_are_not_finite_are_named() {
    let network = Network::new(&[8, 16, 8]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.safetensors");
    Parameters::he(&network, 1).save(&path, Precision::F32).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // Sorted by name: the last tensor is `layers.1.weight`.
    let place = bytes.len() - (8 * 16 - 5) * 4;
    bytes[place..place + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert_eq!(refusal(&bytes), "tensor \"layers.1.weight\": number 5 is NaN");

    let mut values = vec![0.0; network.parameters()];
    values[network.biases(0).start + 2] = 1e5;
    let parameters = Parameters::from_values(&network, values).unwrap();
    parameters.save(&path, Precision::Bf16).unwrap();
    let error = parameters.save(&path, Precision::F16).unwrap_err().to_string();
    assert!(
        error.ends_with("tensor \"layers.0.bias\": number 2 is 1e5, beyond the range of fp16"),
        "{error}"
    );
    assert_eq!(
        Parameters::load(&path).unwrap(),
        parameters.rounded::<bf16>(),
        "the file before is untouched"
    );
}

#[test]
fn broken_files_are_refused() {
    let whole = file_of(&GOOD, Some(ENTRY));
    assert!(refusal(&whole[..5]).starts_with("not a safetensors file: it has 5 bytes"));
    assert!(refusal(&whole[..50]).starts_with("cut short, or not a safetensors file: 50 bytes"));
    let cut = refusal(&whole[..whole.len() - 7]);
    let end = whole.len();
    assert_eq!(cut, format!("cut short: {} bytes, and its tensors end after {end}", end - 7));
    let longer = [&whole[..], b"12"].concat();
    assert_eq!(refusal(&longer), format!("2 bytes after the tensors, which end after {end}"));
    assert!(refusal(b"{\"weights\": [1, 2, 3, 4]}").starts_with("not a safetensors file"));
    assert!(refusal(b"\x02\0\0\0\0\0\0\0[]").contains("its header cannot be read"));
    for cut in 0..whole.len() {
        refusal(&whole[..cut]);
    }

    let entry = |entry: &str| refusal(&file_of(&GOOD, Some(entry)));
    assert!(entry("version=2 activation=relu output_activation=relu").ends_with("version 1 can be read"));
    assert!(entry("version=1 activation=relu").ends_with("there is no output_activation"));
    assert!(entry("version=1 activation=swoosh output_activation=relu").contains("swoosh"));
    let missing = Parameters::load(Path::new("no/such.safetensors")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.safetensors: cannot be read"), "{missing}");
}

#[test]
fn widths_that_could_not_be_loaded_are_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.safetensors");
    let network = Network::of_any_widths(&[8, 8]).unwrap();
    let error = Parameters::he(&network, 1).save(&path, Precision::F32).unwrap_err();
    assert!(error.to_string().contains("odd.safetensors"), "{error}");
    assert!(!path.exists());
}
