//! Parameters in safetensors files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_files::{Hint, Text, WriteError};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

use crate::{Activation, Element as _, MlpError, Network, Parameters, Precision};

/// The key of our entry in a file's metadata.
const KEY: &str = "flopgap";
/// Of that entry.
const VERSION: u32 = 1;
/// In that entry, what precedes the layers that have biases, where not all have.
const BIAS: &str = "bias";
/// Instead of layers, where none has.
const NONE: &str = "none";

/// Why parameters could not be read from a file or written to one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It is no safetensors file, or a broken one.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// One of its tensors is not what a fully connected network has.
    #[error("{}: tensor {tensor:?}: {problem}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// Its tensors fit each other, but there is no such network.
    #[error("{}: unsupported network", path.display())]
    Network {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: MlpError,
    },
    /// The file does not say what the activations are.
    #[error("{}: its metadata has no activations", path.display())]
    NoActivations {
        /// The file.
        path: PathBuf,
    },
}

impl Hint for FileError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            FileError::Write(error) => error.hint(),
            FileError::Network { source, .. } => source.hint(),
            FileError::NoActivations { .. } => Some(
                "give the activations of a file of another program (Parameters::load_with_activations)"
                    .into(),
            ),
            _ => None,
        }
    }
}

impl Parameters {
    /// Writes them to a safetensors file, rounded to `precision`: `layers.0.weight` (`out x in`),
    /// `layers.0.bias`, `layers.1.weight` and so on, the activations in the metadata. A layer
    /// without biases has its weights alone. The same parameters make the same bytes.
    ///
    /// ```
    /// use flopgap_mlp::{Parameters, Precision, Size};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("small.safetensors");
    /// let parameters = Parameters::he(&Size::Small.network(), 42);
    /// parameters.save(&path, Precision::F32)?;
    /// assert_eq!(Parameters::load(&path)?, parameters);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError::Write`]; [`FileError::Tensor`] when a number is beyond the range of
    /// `precision`; [`FileError::Network`] for widths of [`Network::of_any_widths`], which
    /// [`Parameters::load`] refuses.
    pub fn save(&self, path: impl AsRef<Path>, precision: Precision) -> Result<(), FileError> {
        let path = path.as_ref();
        let refused = |source| FileError::Network { path: path.to_owned(), source };
        self.network().check_for_gpu().map_err(refused)?;
        let network = self.network();
        let mut tensors = Vec::new();
        for layer in 0..network.layers() {
            let (inputs, outputs) = (network.widths()[layer], network.widths()[layer + 1]);
            tensors.push((format!("layers.{layer}.weight"), vec![outputs, inputs], self.weights(layer)));
            if network.has_bias(layer) {
                tensors.push((format!("layers.{layer}.bias"), vec![outputs], self.biases(layer)));
            }
        }
        let mut stored = Vec::new();
        for (name, shape, values) in tensors {
            if let Some(index) = values.iter().position(|&value| !precision.round(value.into()).is_finite()) {
                let problem =
                    format!("number {index} is {:e}, beyond the range of {precision}", values[index]);
                return Err(FileError::Tensor { path: path.to_owned(), tensor: name, problem });
            }
            stored.push((name, shape, encode(values, precision)));
        }
        let broken = |error: SafeTensorError| format(path, error.to_string());
        let views = stored.iter().map(|(name, shape, bytes)| {
            Ok((name.as_str(), TensorView::new(dtype(precision), shape.clone(), bytes).map_err(broken)?))
        });
        let views = views.collect::<Result<Vec<_>, FileError>>()?;
        // One entry alone: the order of several would change from run to run.
        let metadata = HashMap::from([(KEY.to_owned(), describe(network))]);
        let bytes = safetensors::serialize(views, Some(metadata)).map_err(broken)?;
        Ok(flopgap_files::write_atomic(path, &bytes)?)
    }

    /// Reads a file that [`Parameters::save`] wrote. Numbers of 16 bits are widened.
    ///
    /// # Errors
    /// [`FileError`], which names the file and the tensor; [`FileError::NoActivations`] for files
    /// of other programs.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::read(path.as_ref(), None)
    }

    /// Reads a file of any program whose tensors are named like those of PyTorch's `nn.Sequential`:
    /// `0.weight` (`out x in`), `0.bias`, `2.weight` and so on, all after one prefix, if any;
    /// a layer without `N.bias` has no biases. The numbers say the order of the
    /// layers; they need not follow each other. The activations of the hidden layers and of the
    /// output are given: most files do not say them.
    ///
    /// # Errors
    /// [`FileError`], which names the file and the tensor.
    pub fn load_with_activations(
        path: impl AsRef<Path>,
        hidden: Activation,
        output: Activation,
    ) -> Result<Self, FileError> {
        Self::read(path.as_ref(), Some((hidden, output)))
    }

    fn read(path: &Path, activations: Option<(Activation, Activation)>) -> Result<Self, FileError> {
        let bytes = fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let (_, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|error| not_whole(path, &bytes, error))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| not_whole(path, &bytes, error))?;
        let layers = layers(path, &file)?;
        let widths = widths(path, &layers)?;
        let biases: Vec<bool> = layers.iter().map(|layer| layer.bias.is_some()).collect();
        let entry = Entry::of(path, &metadata);
        if let Some(entry) = &entry {
            entry.check(&biases)?;
        }
        let (hidden, output) = match (activations, entry) {
            (Some(given), _) => given,
            (None, Some(entry)) => entry.activations()?,
            (None, None) => return Err(FileError::NoActivations { path: path.to_owned() }),
        };
        let network = Network::new(&widths)
            .and_then(|network| network.with_biases(&biases))
            .map_err(|source| FileError::Network { path: path.to_owned(), source })?
            .with_activation(hidden)
            .with_output_activation(output);
        let mut values = Vec::with_capacity(network.parameters());
        for layer in &layers {
            for (name, tensor) in [&layer.weight].into_iter().chain(&layer.bias) {
                let start = values.len();
                decode(tensor, &mut values);
                if let Some(index) = values[start..].iter().position(|value| !value.is_finite()) {
                    let problem = format!("number {index} is {}", values[start + index]);
                    return Err(FileError::Tensor { path: path.to_owned(), tensor: name.clone(), problem });
                }
            }
        }
        Parameters::from_values(&network, values)
            .map_err(|source| FileError::Network { path: path.to_owned(), source })
    }
}

/// The tensors of a layer, with their names.
struct Layer<'a> {
    weight: (String, TensorView<'a>),
    bias: Option<(String, TensorView<'a>)>,
}

fn format(path: &Path, problem: String) -> FileError {
    FileError::Format { path: path.to_owned(), problem }
}

fn tensor_error(path: &Path, tensor: &str, problem: String) -> FileError {
    FileError::Tensor { path: path.to_owned(), tensor: tensor.to_owned(), problem }
}

/// The layers of a file, in order.
fn layers<'a>(path: &Path, file: &SafeTensors<'a>) -> Result<Vec<Layer<'a>>, FileError> {
    // By name, so that of several errors the same one is reported each time.
    let tensors: BTreeMap<String, TensorView<'a>> = file.tensors().into_iter().collect();
    let mut prefix: Option<(String, String)> = None;
    let mut found: BTreeMap<u64, [Option<(String, TensorView<'a>)>; 2]> = BTreeMap::new();
    for (name, tensor) in tensors {
        let Some((before, number, part)) = split(&name) else {
            let problem = "not of a layer: names end in NUMBER.weight or NUMBER.bias".to_owned();
            return Err(tensor_error(path, &name, problem));
        };
        if let Some((expected, of)) = &prefix
            && expected != before
        {
            let problem = format!("of another network than {of:?}: what precedes the number differs");
            return Err(tensor_error(path, &name, problem));
        }
        if !matches!(tensor.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let problem = format!("stored as {}: F32, F16 and BF16 can be read", tensor.dtype());
            return Err(tensor_error(path, &name, problem));
        }
        prefix.get_or_insert_with(|| (before.to_owned(), name.clone()));
        let slot = &mut found.entry(number).or_default()[usize::from(part == "bias")];
        if let Some((other, _)) = slot {
            return Err(tensor_error(path, &name, format!("the same layer as {other:?}")));
        }
        *slot = Some((name, tensor));
    }
    let before = prefix.map(|(before, _)| before).unwrap_or_default();
    let whole = found.into_iter().map(|(number, parts)| match parts {
        [Some(weight), bias] => Ok(Layer { weight, bias }),
        [None, _] => Err(tensor_error(path, &format!("{before}{number}.weight"), "missing".to_owned())),
    });
    let whole = whole.collect::<Result<Vec<_>, FileError>>()?;
    if whole.is_empty() {
        return Err(format(path, "it holds no tensors".to_owned()));
    }
    Ok(whole)
}

/// `decoder.2.weight` is `decoder.`, 2 and `weight`.
fn split(name: &str) -> Option<(&str, u64, &str)> {
    let (rest, part) = name.rsplit_once('.')?;
    if !matches!(part, "weight" | "bias") {
        return None;
    }
    let number = rest.rsplit('.').next()?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((&rest[..rest.len() - number.len()], number.parse().ok().filter(|_| digits)?, part))
}

/// Inputs, hidden layers, outputs, from shapes that must fit each other.
fn widths(path: &Path, layers: &[Layer<'_>]) -> Result<Vec<usize>, FileError> {
    let mut widths = Vec::new();
    for Layer { weight: (name, weight), bias } in layers {
        let &[outputs, inputs] = weight.shape() else {
            let problem = format!("its shape is {:?}, where [outputs, inputs] is needed", weight.shape());
            return Err(tensor_error(path, name, problem));
        };
        if let Some(&below) = widths.last()
            && below != inputs
        {
            let problem =
                format!("its shape is {:?}, but the layer below has {below} outputs", weight.shape());
            return Err(tensor_error(path, name, problem));
        }
        if let Some((bias_name, bias)) = bias
            && bias.shape() != [outputs]
        {
            let problem = format!("its shape is {:?}, where [{outputs}] fits {name:?}", bias.shape());
            return Err(tensor_error(path, bias_name, problem));
        }
        if widths.is_empty() {
            widths.push(inputs);
        }
        widths.push(outputs);
    }
    Ok(widths)
}

/// Our entry in the metadata.
fn describe(network: &Network) -> String {
    let output = network.activation(network.layers() - 1);
    let biases: Vec<bool> = (0..network.layers()).map(|layer| network.has_bias(layer)).collect();
    let bias = describe_biases(&biases).map(|layers| format!(" {BIAS}={layers}")).unwrap_or_default();
    format!("version={VERSION} activation={} output_activation={output}{bias}", network.activation(0))
}

/// The layers that have biases, such as `0,2`; nothing where all have.
fn describe_biases(biases: &[bool]) -> Option<String> {
    let with: Vec<String> =
        (0..biases.len()).filter(|&layer| biases[layer]).map(|layer| layer.to_string()).collect();
    match with.len() {
        0 => Some(NONE.to_owned()),
        all if all == biases.len() => None,
        _ => Some(with.join(",")),
    }
}

/// Our entry in the metadata of a file.
struct Entry<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Entry<'a> {
    /// Nothing in a file of another program.
    fn of(path: &'a Path, metadata: &'a Metadata) -> Option<Self> {
        let text = metadata.metadata().as_ref()?.get(KEY)?;
        Some(Entry { path, text })
    }

    fn broken(&self, what: &str) -> FileError {
        format(self.path, format!("in its metadata, {KEY:?} is {:?}: {what}", self.text))
    }

    fn find(&self, key: &str) -> Option<&'a str> {
        self.text.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }

    fn value(&self, key: &str) -> Result<&'a str, FileError> {
        self.find(key).ok_or_else(|| self.broken(&format!("there is no {key}")))
    }

    /// Refuses another version, and layers whose biases are not those that it names: a tensor that
    /// was lost is not a layer without biases. `biases`: for each layer whether there is a tensor.
    fn check(&self, biases: &[bool]) -> Result<(), FileError> {
        if self.value("version")? != VERSION.to_string() {
            return Err(self.broken(&format!("version {VERSION} can be read")));
        }
        let found = describe_biases(biases);
        if self.find(BIAS) == found.as_deref() {
            return Ok(());
        }
        Err(self.broken(&match found {
            None => "all layers have biases".to_owned(),
            Some(layers) if layers == NONE => "no layer has biases".to_owned(),
            Some(layers) => format!("of its layers, {layers} have biases"),
        }))
    }

    /// Those of the hidden layers and of the output.
    fn activations(&self) -> Result<(Activation, Activation), FileError> {
        let activation =
            |key| self.value(key)?.parse::<Activation>().map_err(|error| self.broken(&error.to_string()));
        Ok((activation("activation")?, activation("output_activation")?))
    }
}

/// Why the bytes are not a whole safetensors file: 8 bytes that give the length of a header, the
/// header, the numbers.
fn not_whole(path: &Path, bytes: &[u8], error: SafeTensorError) -> FileError {
    let header = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let problem = match error {
        SafeTensorError::HeaderTooSmall => {
            format!(
                "not a safetensors file: it has {} bytes, and the length of its header takes 8",
                bytes.len()
            )
        }
        SafeTensorError::InvalidHeaderLength => {
            format!(
                "cut short, or not a safetensors file: {} bytes, and its header should take {header}",
                bytes.len()
            )
        }
        SafeTensorError::HeaderTooLarge => {
            format!("not a safetensors file: its first 8 bytes would be a header of {header} bytes")
        }
        SafeTensorError::MetadataIncompleteBuffer => {
            let end = usize::try_from(header).ok().and_then(|header| {
                let metadata: Metadata = serde_json::from_slice(bytes.get(8..8 + header)?).ok()?;
                Some(8 + header + metadata.data_len())
            });
            match end {
                Some(end) if end > bytes.len() => {
                    format!("cut short: {} bytes, and its tensors end after {end}", bytes.len())
                }
                Some(end) => format!("{} bytes after the tensors, which end after {end}", bytes.len() - end),
                None => "its length is not that of its tensors".to_owned(),
            }
        }
        SafeTensorError::InvalidHeader(error) => {
            format!("not a safetensors file: its header is no UTF-8: {error}")
        }
        SafeTensorError::InvalidHeaderDeserialization(error) | SafeTensorError::JsonError(error) => {
            format!("not a safetensors file: its header cannot be read: {error}")
        }
        SafeTensorError::InvalidOffset(tensor) => {
            return tensor_error(
                path,
                &tensor,
                "it does not begin where the tensor before it ends".to_owned(),
            );
        }
        other => format!("a broken safetensors file: {other}"),
    };
    format(path, problem)
}

fn dtype(precision: Precision) -> Dtype {
    match precision {
        Precision::F32 => Dtype::F32,
        Precision::F16 => Dtype::F16,
        Precision::Bf16 => Dtype::BF16,
    }
}

fn encode(values: &[f32], precision: Precision) -> Vec<u8> {
    match precision {
        Precision::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Precision::F16 => values.iter().flat_map(|&value| f16::narrow(value).to_le_bytes()).collect(),
        Precision::Bf16 => values.iter().flat_map(|&value| bf16::narrow(value).to_le_bytes()).collect(),
    }
}

/// Adds the numbers of a tensor, whose type was checked.
fn decode(tensor: &TensorView<'_>, values: &mut Vec<f32>) {
    let (pairs, _) = tensor.data().as_chunks::<2>();
    match tensor.dtype() {
        Dtype::F16 => values.extend(pairs.iter().map(|&pair| f16::from_le_bytes(pair).to_f32())),
        Dtype::BF16 => values.extend(pairs.iter().map(|&pair| bf16::from_le_bytes(pair).to_f32())),
        _ => values.extend(tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_prefix_a_number_and_a_part() {
        assert_eq!(split("layers.0.weight"), Some(("layers.", 0, "weight")));
        assert_eq!(split("12.bias"), Some(("", 12, "bias")));
        assert_eq!(split("a.b.7.bias"), Some(("a.b.", 7, "bias")));
        for name in [
            "weight",
            "0.scale",
            "layers.weight",
            "layers.+1.weight",
            "x1.weight",
            "99999999999999999999.bias",
            "",
        ] {
            assert_eq!(split(name), None, "{name}");
        }
    }
}
