//! Reads `config.json` of Hugging Face: the architectures that are known, and their sizes.

use std::path::Path;

use serde_json::{Map, Value};

use super::error::LanguageError;
use super::kernel::Format;
use super::model::{Attention, Feed, LanguageModel, Latent, Layer, Routed};

/// `model_type` of what is read.
pub(super) const KNOWN: &[&str] = &[
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "phi3",
    "deepseek_v2",
    "deepseek_v3",
    "gpt_oss",
];

/// The configuration with its name, for messages.
struct Config<'a> {
    name: &'a str,
    values: &'a Map<String, Value>,
}

impl Config<'_> {
    fn fail(&self, what: String) -> LanguageError {
        LanguageError::Config { name: self.name.to_owned(), what }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str) -> Result<Option<u64>, LanguageError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| *number < 1 << 32);
        let number = number.ok_or_else(|| self.fail(format!("`{key}` is {value}; expected a size")))?;
        Ok(Some(number))
    }

    /// A size of at least 1.
    fn size(&self, key: &str) -> Result<u64, LanguageError> {
        match self.number(key)? {
            Some(0) => Err(self.fail(format!("`{key}` is 0; expected a size"))),
            Some(size) => Ok(size),
            None => Err(self.fail(format!("`{key}` is missing"))),
        }
    }

    /// A size that older files leave to the default of the architecture.
    fn size_or(&self, key: &str, default: u64) -> Result<u64, LanguageError> {
        if self.get(key).is_some() { self.size(key) } else { Ok(default) }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, LanguageError> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.fail(format!("`{key}` is {other}; expected true or false"))),
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

/// Whether a file is the configuration of a language model, known or not: an object with
/// `model_type` and `architectures`.
pub fn is_language_model(path: &Path) -> std::io::Result<bool> {
    const LARGEST: u64 = 4 << 20;
    let file = std::fs::metadata(path)?;
    if !file.is_file() || file.len() > LARGEST {
        return Ok(false);
    }
    let bytes = std::fs::read(path)?;
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let value = || serde_json::from_slice::<Value>(&bytes).ok();
    Ok(is_object
        && value().is_some_and(|value| value["model_type"].is_string() && value["architectures"].is_array()))
}

impl LanguageModel {
    /// Reads a configuration from a file.
    ///
    /// # Errors
    /// When it cannot be read, is of an architecture that is not known, or lacks a size.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, LanguageError> {
        let path = path.as_ref();
        let read = |source| LanguageError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(read)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a configuration; `name` is what errors call it.
    ///
    /// ```
    /// use flopgap_graph::language::LanguageModel;
    ///
    /// let config = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    ///     "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    ///     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}"#;
    /// let model = LanguageModel::parse(config, "Llama 3 8B")?;
    /// assert_eq!(model.parameters(), 8_030_261_248);
    /// # Ok::<(), flopgap_graph::language::LanguageError>(())
    /// ```
    ///
    /// # Errors
    /// As of [`LanguageModel::read`].
    pub fn parse(text: &str, name: &str) -> Result<Self, LanguageError> {
        let fail = |what: String| LanguageError::Config { name: name.to_owned(), what };
        let value: Value = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        let outer = value.as_object().ok_or_else(|| fail("expected an object".to_owned()))?;
        let outer = Config { name, values: outer };
        let kind = outer.text("model_type").ok_or_else(|| fail("`model_type` is missing".to_owned()))?;
        if !KNOWN.contains(&kind) {
            return Err(LanguageError::Unknown {
                name: name.to_owned(),
                kind: kind.to_owned(),
                known: KNOWN,
            });
        }
        // Models that also see images have the language model inside.
        let inner = outer.get("text_config").and_then(Value::as_object);
        let config = Config { name, values: inner.unwrap_or(outer.values) };
        let mut model = of(kind, &config)?;
        model.text_alone = inner.is_some();
        if let Some(quantization) = outer.get("quantization_config") {
            (model.linear, model.experts) = quantized(&outer, quantization)?;
        }
        let dtype =
            ["dtype", "torch_dtype"].into_iter().find_map(|key| config.text(key).or_else(|| outer.text(key)));
        dtype.unwrap_or("bfloat16").clone_into(&mut model.dtype);
        Ok(model)
    }
}

/// The formats of linear layers and experts.
fn quantized(config: &Config<'_>, value: &Value) -> Result<(Format, Format), LanguageError> {
    let method = value["quant_method"].as_str().unwrap_or_default();
    let text = value.to_string().to_lowercase();
    let format = match method {
        "fp8" | "fbgemm_fp8" if value["weight_block_size"].is_array() => Format::Fp8Block,
        "fp8" | "fbgemm_fp8" => Format::Fp8,
        "mxfp4" => return Ok((Format::Bf16, Format::Mxfp4)),
        "gptq" | "awq" if value["bits"].as_u64().or(value["w_bit"].as_u64()) == Some(4) => Format::Int4,
        "modelopt" | "compressed-tensors" if text.contains("nvfp4") => Format::Nvfp4,
        "modelopt" if text.contains("fp8") => Format::Fp8,
        "compressed-tensors" if text.contains("float-quantized") => Format::Fp8,
        _ => {
            let what = format!("`quantization_config` with the method `{method}` is not known");
            return Err(config.fail(what));
        }
    };
    Ok((format, format))
}

/// The sizes of an architecture.
fn of(kind: &str, config: &Config<'_>) -> Result<LanguageModel, LanguageError> {
    let gemma = kind.starts_with("gemma");
    let gemma3 = kind.starts_with("gemma3");
    let hidden = if gemma3 { config.size_or("hidden_size", 2304)? } else { config.size("hidden_size")? };
    let count =
        if gemma3 { config.size_or("num_hidden_layers", 26)? } else { config.size("num_hidden_layers")? };
    let vocabulary = match kind {
        "gemma3" | "gemma3_text" => config.size_or("vocab_size", 262_208)?,
        _ => config.size("vocab_size")?,
    };
    let attention = if kind.starts_with("deepseek") {
        Attention { latent: Some(latent(config)?), ..grouped(kind, config, hidden)? }
    } else {
        grouped(kind, config, hidden)?
    };
    let mut layers: Vec<Layer> = Vec::new();
    for place in 0..count {
        let window = window(kind, config, place, count)?;
        let layer = Layer {
            attention: Attention { window, ..attention },
            feed: feed(kind, config, place)?,
            count: 1,
        };
        match layers.iter_mut().find(|other| other.attention == layer.attention && other.feed == layer.feed) {
            Some(other) => other.count += 1,
            None => layers.push(layer),
        }
    }
    Ok(LanguageModel {
        name: config.name.to_owned(),
        kind: kind.to_owned(),
        dtype: String::new(),
        text_alone: false,
        hidden,
        vocabulary,
        tied: config.flag("tie_word_embeddings", gemma)?,
        norms: if matches!(kind, "gemma2" | "gemma3" | "gemma3_text") { 4 } else { 2 },
        layers,
        linear: Format::Bf16,
        experts: Format::Bf16,
    })
}

fn grouped(kind: &str, config: &Config<'_>, hidden: u64) -> Result<Attention, LanguageError> {
    let gemma3 = kind.starts_with("gemma3");
    let heads = if gemma3 {
        config.size_or("num_attention_heads", 8)?
    } else {
        config.size("num_attention_heads")?
    };
    let kv_heads = config.size_or("num_key_value_heads", if gemma3 { 4 } else { heads })?;
    let head_width = match config.number("head_dim")? {
        Some(width) => width,
        None if kind.starts_with("gemma") => 256,
        None if kind == "qwen3" || kind == "qwen3_moe" => 128,
        None => hidden / heads,
    };
    if heads % kv_heads != 0 {
        return Err(config.fail(format!("{heads} heads are not a multiple of {kv_heads} heads of keys")));
    }
    let own = config.flag("attention_bias", kind == "gpt_oss")?;
    Ok(Attention {
        heads,
        kv_heads,
        head_width,
        qkv_bias: own || kind == "qwen2" || (kind == "qwen2_moe" && config.flag("qkv_bias", true)?),
        output_bias: own,
        head_norms: gemma3 || kind == "qwen3" || kind == "qwen3_moe",
        sinks: kind == "gpt_oss",
        window: None,
        latent: None,
    })
}

fn latent(config: &Config<'_>) -> Result<Latent, LanguageError> {
    Ok(Latent {
        query_rank: config.number("q_lora_rank")?.filter(|rank| *rank > 0),
        rank: config.size("kv_lora_rank")?,
        plain: config.size("qk_nope_head_dim")?,
        rotary: config.size("qk_rope_head_dim")?,
        value: config.size("v_head_dim")?,
    })
}

/// How far a layer sees: `None` for everything.
fn window(kind: &str, config: &Config<'_>, place: u64, count: u64) -> Result<Option<u64>, LanguageError> {
    let window = match kind {
        "gemma3" | "gemma3_text" | "gemma2" => Some(config.size_or("sliding_window", 4096)?),
        "gpt_oss" => Some(config.size_or("sliding_window", 128)?),
        _ => config.number("sliding_window")?,
    };
    if let Some(types) = config.get("layer_types").and_then(Value::as_array) {
        if types.len() as u64 != count {
            return Err(config.fail(format!("`layer_types` has {} entries for {count} layers", types.len())));
        }
        let slides = types[usize::try_from(place).unwrap_or(0)].as_str() == Some("sliding_attention");
        return Ok(window.filter(|_| slides));
    }
    let slides = match kind {
        "gemma2" | "gpt_oss" => place.is_multiple_of(2),
        "gemma3" | "gemma3_text" => !(place + 1).is_multiple_of(config.size_or("sliding_window_pattern", 6)?),
        "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe" => {
            config.flag("use_sliding_window", false)?
                && place >= config.size_or("max_window_layers", count)?
        }
        "mistral" | "mixtral" | "phi3" => true,
        _ => false,
    };
    Ok(window.filter(|_| slides))
}

/// What follows attention in a layer.
fn feed(kind: &str, config: &Config<'_>, place: u64) -> Result<Feed, LanguageError> {
    let dense = || -> Result<Feed, LanguageError> {
        let default = if kind.starts_with("gemma3") { 9216 } else { 0 };
        let inner = if default > 0 {
            config.size_or("intermediate_size", default)?
        } else {
            config.size("intermediate_size")?
        };
        Ok(Feed::Dense { inner, bias: config.flag("mlp_bias", false)? })
    };
    let routed = |experts: &str, inner: &str| -> Result<Routed, LanguageError> {
        Ok(Routed {
            experts: config.size(experts)?,
            chosen: config.size("num_experts_per_tok")?,
            inner: config.size(inner)?,
            shared: 0,
            shared_gate: false,
            router_bias: false,
            bias: false,
        })
    };
    let routed = match kind {
        "mixtral" => routed("num_local_experts", "intermediate_size")?,
        "gpt_oss" => {
            Routed { router_bias: true, bias: true, ..routed("num_local_experts", "intermediate_size")? }
        }
        "qwen2_moe" | "qwen3_moe" => {
            let alone = config.get("mlp_only_layers").and_then(Value::as_array);
            let alone = alone.is_some_and(|list| list.iter().any(|layer| layer.as_u64() == Some(place)));
            if alone || !(place + 1).is_multiple_of(config.size_or("decoder_sparse_step", 1)?) {
                return dense();
            }
            let shared =
                if kind == "qwen2_moe" { config.size("shared_expert_intermediate_size")? } else { 0 };
            Routed { shared, shared_gate: shared > 0, ..routed("num_experts", "moe_intermediate_size")? }
        }
        "deepseek_v2" | "deepseek_v3" => {
            let every = config.size_or("moe_layer_freq", 1)?;
            if place < config.number("first_k_dense_replace")?.unwrap_or(0) || !place.is_multiple_of(every) {
                return dense();
            }
            let routed = routed("n_routed_experts", "moe_intermediate_size")?;
            let shared = config.number("n_shared_experts")?.unwrap_or(0) * routed.inner;
            // The correction that balances loads without a loss is a bias of the router.
            Routed { shared, router_bias: kind == "deepseek_v3", ..routed }
        }
        _ => return dense(),
    };
    if routed.chosen > routed.experts {
        return Err(config.fail(format!("{} of {} experts are chosen", routed.chosen, routed.experts)));
    }
    Ok(Feed::Routed(routed))
}
