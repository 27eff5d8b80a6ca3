//! Language models: weights against what their authors publish, work against arithmetic of its own.

use flopgap_graph::language::{
    Division, Format, Kernel, LanguageError, LanguageModel, Part, Pass, Phase, Routing, is_language_model,
};
use serde_json::{Value, json};

/// Configurations as published, without what sizes do not depend on, and the numbers of parameters
/// that the pages of the models state.
fn published() -> Vec<(&'static str, Value, u64)> {
    let of = |kind: &str, sizes: [u64; 6], more: Value| {
        let [hidden, inner, layers, heads, kv_heads, vocabulary] = sizes;
        let mut config = json!({
            "model_type": kind, "architectures": ["ForCausalLM"], "hidden_size": hidden,
            "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "vocab_size": vocabulary, "torch_dtype": "bfloat16",
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let tied = json!({"tie_word_embeddings": true});
    vec![
        ("Llama-3-8B", of("llama", [4096, 14336, 32, 32, 8, 128_256], json!({})), 8_030_261_248),
        ("Llama-3.2-1B", of("llama", [2048, 8192, 16, 32, 8, 128_256], tied.clone()), 1_235_814_400),
        ("Llama-3.2-3B", of("llama", [3072, 8192, 28, 24, 8, 128_256], tied.clone()), 3_212_749_824),
        (
            "Mistral-7B",
            of("mistral", [4096, 14336, 32, 32, 8, 32000], json!({"sliding_window": 4096})),
            7_241_732_096,
        ),
        ("Qwen2.5-7B", of("qwen2", [3584, 18944, 28, 28, 4, 152_064], json!({})), 7_615_616_512),
        ("Qwen2.5-0.5B", of("qwen2", [896, 4864, 24, 14, 2, 151_936], tied.clone()), 494_032_768),
        ("Qwen3-8B", of("qwen3", [4096, 12288, 36, 32, 8, 151_936], json!({"head_dim": 128})), 8_190_735_360),
        (
            "Qwen3-30B-A3B",
            of(
                "qwen3_moe",
                [2048, 6144, 48, 32, 4, 151_936],
                json!({"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                    "decoder_sparse_step": 1, "mlp_only_layers": []}),
            ),
            30_532_122_624,
        ),
        (
            "Qwen1.5-MoE-A2.7B",
            of(
                "qwen2_moe",
                [2048, 5632, 24, 16, 16, 151_936],
                json!({"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                    "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1}),
            ),
            14_315_784_192,
        ),
        (
            "Mixtral-8x7B",
            of(
                "mixtral",
                [4096, 14336, 32, 32, 8, 32000],
                json!({"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null}),
            ),
            46_702_792_704,
        ),
        ("Gemma-2B", of("gemma", [2048, 16384, 18, 8, 1, 256_000], json!({"head_dim": 256})), 2_506_172_416),
        (
            "Gemma-2-9B",
            of("gemma2", [3584, 14336, 42, 16, 8, 256_000], json!({"head_dim": 256})),
            9_241_705_984,
        ),
        (
            "Gemma-3-1B",
            of(
                "gemma3_text",
                [1152, 6912, 26, 4, 1, 262_144],
                json!({"head_dim": 256, "sliding_window": 512}),
            ),
            999_885_952,
        ),
        ("Phi-4", of("phi3", [5120, 17920, 40, 40, 10, 100_352], json!({})), 14_659_507_200),
        (
            "Phi-3-mini",
            of("phi3", [3072, 8192, 32, 32, 32, 32064], json!({"sliding_window": 2047})),
            3_821_079_552,
        ),
        (
            "DeepSeek-V2-Lite",
            of("deepseek_v2", [2048, 10944, 27, 16, 16, 102_400], v2_lite()),
            15_706_484_224,
        ),
        ("DeepSeek-V3", of("deepseek_v3", [7168, 18432, 61, 128, 128, 129_280], v3()), 671_026_419_200),
        ("gpt-oss-20b", of("gpt_oss", [2880, 2880, 24, 64, 8, 201_088], oss(32)), 20_914_757_184),
        ("gpt-oss-120b", of("gpt_oss", [2880, 2880, 36, 64, 8, 201_088], oss(128)), 116_829_156_672),
    ]
}

fn v2_lite() -> Value {
    json!({"q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
        "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1})
}

fn v3() -> Value {
    json!({"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
        "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})
}

fn oss(experts: u64) -> Value {
    json!({"head_dim": 64, "num_local_experts": experts, "num_experts_per_tok": 4, "sliding_window": 128,
        "attention_bias": true, "quantization_config": {"quant_method": "mxfp4"}})
}

fn of(name: &str) -> LanguageModel {
    let (_, config, _) = published().into_iter().find(|(other, ..)| *other == name).unwrap();
    LanguageModel::parse(&config.to_string(), name).unwrap()
}

const ONE: Division = Division { tensor: 1, experts: 1 };

fn pass(phase: Phase, batch: u64, tokens: u64) -> Pass {
    Pass { phase, batch, tokens, cache: Format::Bf16, routing: Routing::Balanced }
}

#[test]
fn parameters_are_those_that_are_published() {
    for (name, config, parameters) in published() {
        let model = LanguageModel::parse(&config.to_string(), name).unwrap();
        assert_eq!(model.parameters(), parameters, "{name}");
    }
}

#[test]
fn a_token_uses_the_experts_that_it_is_routed_to() {
    let model = of("Mixtral-8x7B");
    let idle = 32 * 6 * 3 * 4096 * 14336;
    assert_eq!(model.active_parameters(), 46_702_792_704 - idle);
}

/// Two FLOPs for each weight of a product and token, and four for each pair, head and width.
#[test]
fn flops_are_closed_forms() {
    let model = of("Llama-3-8B");
    let flops = |pass| -> u64 {
        model.launches(pass, ONE).unwrap().iter().map(|launch| launch.count * launch.kernel.flops()).sum()
    };
    let layers = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336);
    let head = 4096 * 128_256;
    let (batch, tokens) = (3, 1000);
    let pairs = tokens * (tokens + 1) / 2;
    let prefill = 2 * batch * tokens * layers + 2 * batch * head + 4 * 32 * batch * 4096 * pairs;
    assert_eq!(flops(pass(Phase::Prefill, batch, tokens)), prefill);
    let decode = 2 * batch * (layers + head) + 4 * 32 * batch * 4096 * tokens;
    assert_eq!(flops(pass(Phase::Decode, batch, tokens)), decode);
}

#[test]
fn latent_attention_keeps_one_vector_of_a_token() {
    let model = of("DeepSeek-V3");
    assert_eq!(model.cache_bytes(1000, Format::Bf16, ONE), 61 * 1000 * 576 * 2);
    let launches = model.launches(pass(Phase::Decode, 2, 1000), ONE).unwrap();
    let attention: Vec<_> = launches.iter().filter(|launch| launch.part == Part::Attention).collect();
    let flops: u64 = attention.iter().map(|launch| launch.count * launch.kernel.flops()).sum();
    assert_eq!(flops, 61 * 2 * 2 * 128 * 1000 * (576 + 512));
    // The vector is read once for all heads; queries and outputs are 16-bit.
    let [launch, ..] = attention[..] else { panic!("no attention") };
    assert_eq!(launch.kernel.bytes(), 2 * 1000 * 576 * 2 + 2 * 2 * 128 * (576 + 512));
}

#[test]
fn weights_and_cache_are_divided() {
    let model = of("Llama-3-8B");
    let norms = 2 * 65 * 4096;
    assert_eq!(model.weight_bytes(ONE), 2 * 8_030_261_248);
    let four = Division { tensor: 4, experts: 1 };
    assert_eq!(model.weight_bytes(four), (2 * 8_030_261_248 - norms) / 4 + norms);
    assert_eq!(model.cache_bytes(100, Format::Bf16, ONE), 32 * 100 * 2 * 1024 * 2);
    // Eight heads of keys on sixteen GPUs are repeated.
    let sixteen = Division { tensor: 16, experts: 1 };
    assert_eq!(model.cache_bytes(100, Format::Fp8, sixteen), 32 * 100 * 2 * 128);
    let launches = model.launches(pass(Phase::Decode, 5, 100), four).unwrap();
    let sums = launches.iter().filter(|launch| {
        matches!(launch.kernel, Kernel::Collective { elements, gpus: 4, width: 2, .. } if elements == 5 * 4096)
    });
    assert_eq!(sums.map(|launch| launch.count).sum::<u64>(), 64);
    let error = model.launches(pass(Phase::Decode, 5, 100), Division { tensor: 3, experts: 1 }).unwrap_err();
    assert_eq!(error.to_string(), "32 heads of attention cannot be divided over 3 GPUs");
}

#[test]
fn windows_bound_the_cache() {
    let model = of("Gemma-3-1B");
    // Every sixth of 26 layers sees everything.
    assert_eq!(model.cache_bytes(2000, Format::Bf16, ONE), (22 * 512 + 4 * 2000) * 2 * 256 * 2);
    let oss = of("gpt-oss-20b");
    assert_eq!(oss.cache_bytes(2000, Format::Bf16, ONE), (12 * 128 + 12 * 2000) * 2 * 8 * 64 * 2);
    assert_eq!((oss.linear, oss.experts), (Format::Bf16, Format::Mxfp4));
}

#[test]
fn configurations_are_recognized_and_unknown_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    for (text, is) in [
        (r#" {"model_type": "mamba", "architectures": ["MambaForCausalLM"]}"#, true),
        (r#"{"model_type": "llama"}"#, false),
        ("{\"traceEvents\": []}", false),
        ("model_type architectures", false),
    ] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(is_language_model(&path).unwrap(), is, "{text}");
    }
    assert!(!is_language_model(dir.path()).unwrap());
    let parse = |text: &str| LanguageModel::parse(text, "config.json").unwrap_err();
    let error = parse(r#"{"model_type": "mamba", "architectures": []}"#);
    assert!(matches!(error, LanguageError::Unknown { .. }));
    assert_eq!(error.to_string(), "config.json: the architecture `mamba` is not known");
    assert_eq!(parse(r#"{"model_type": "llama"}"#).to_string(), "config.json: `hidden_size` is missing");
    let heads = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 6, "num_hidden_layers": 1,
        "vocab_size": 8, "num_key_value_heads": 4}"#;
    assert_eq!(parse(heads).to_string(), "config.json: 6 heads are not a multiple of 4 heads of keys");
}
