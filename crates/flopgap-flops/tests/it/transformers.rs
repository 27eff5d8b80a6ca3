//! Published parameter counts, and the totals that rules of thumb approximate.

use flopgap_flops::transformer::{Attention, AttentionMask, Block, BlockMlp, Linear, Operation, Transformer};
use flopgap_flops::{Activation, Convention, ElementType, FlopError, Pass, Ratio};
use proptest::prelude::*;

const GPT2: Transformer = Transformer {
    layers: 12,
    block: Block::gpt2(768, 12),
    vocabulary: 50_257,
    learned_positions: Some(1_024),
    tied_head: true,
};

const LLAMA2_7B: Transformer = Transformer {
    layers: 32,
    block: Block::llama(4_096, 32, 32, 11_008),
    vocabulary: 32_000,
    learned_positions: None,
    tied_head: false,
};

const LLAMA3_8B: Transformer = Transformer {
    layers: 32,
    block: Block::llama(4_096, 32, 8, 14_336),
    vocabulary: 128_256,
    learned_positions: None,
    tied_head: false,
};

#[test]
fn published_parameter_counts() {
    assert_eq!(GPT2.parameters(), Ok(124_439_808));
    let xl = Transformer { layers: 48, block: Block::gpt2(1_600, 25), ..GPT2 };
    assert_eq!(xl.parameters(), Ok(1_557_611_200));
    assert_eq!(LLAMA2_7B.parameters(), Ok(6_738_415_616));
    assert_eq!(LLAMA3_8B.parameters(), Ok(8_030_261_248));
}

#[test]
fn scores_and_softmax_of_a_small_model() {
    let attention = Attention::self_attention(4, 12, 512, 64);
    let scores = attention.scores(ElementType::Fp32).unwrap();
    let softmax = attention.softmax(ElementType::Fp32).unwrap();
    assert_eq!((scores.flops, softmax.flops), (1_610_612_736, 62_914_560));
    assert_eq!(attention.weighted_sum(ElementType::Fp32).unwrap().flops, scores.flops);
    assert_eq!(format!("{:.1}", Ratio::of_counts(scores.flops, softmax.flops).unwrap()), "25.6");
    // 5 FLOPs per 8 bytes: bound by memory on every GPU.
    assert_eq!(softmax.intensity().unwrap(), Some(Ratio::new(5, 8).unwrap()));
}

/// Every weight matrix is used once per token: the products are `2 * weights * tokens` plus
/// attention.
#[test]
fn matmul_flops_follow_the_weights() {
    for model in [LLAMA2_7B, LLAMA3_8B] {
        let (batch, length) = (2, 300);
        let block = model.block;
        let vectors = 2 * block.width * model.layers + block.width;
        let embedding = model.vocabulary * block.width;
        let weights = model.parameters().unwrap() - vectors - embedding;
        let attention = 2 * 2 * batch * block.heads * length * length * block.head_width * model.layers;
        let forward = 2 * weights * batch * length + attention;
        for (pass, factor) in [(Pass::Forward, 1), (Pass::Backward, 2)] {
            let list = model.count(pass, batch, length, &Convention::ARITHMETIC, ElementType::Bf16).unwrap();
            assert_eq!(list.matmul().unwrap().flops, factor * forward);
        }
    }
}

#[test]
fn a_model_is_its_blocks_and_its_ends() {
    let count = |pass| GPT2.count(pass, 3, 77, &Convention::ARITHMETIC, ElementType::Fp16).unwrap();
    for pass in Pass::ALL {
        let model = count(pass);
        let block = GPT2.block.count(pass, 3, 77, &Convention::ARITHMETIC, ElementType::Fp16).unwrap();
        let ends =
            [Operation::Embedding, Operation::PositionEmbedding, Operation::FinalNorm, Operation::LmHead];
        let mut sum = block.total().unwrap().checked_repeat(12).unwrap();
        for end in ends {
            sum = sum.checked_add(&model.of(end).unwrap()).unwrap();
        }
        assert_eq!(model.total(), Ok(sum), "{pass}");
    }
    // A gather computes nothing; its gradient adds one value per element of the residual stream.
    assert_eq!(count(Pass::Forward).of(Operation::Embedding).unwrap().flops, 0);
    assert_eq!(count(Pass::Backward).of(Operation::Embedding).unwrap().flops, 3 * 77 * 768);
    assert_eq!(count(Pass::Forward).of(Operation::Rotary).unwrap().flops, 0);
}

#[test]
fn limits_are_errors() {
    let error = GPT2.count(Pass::Forward, 1, 1_025, &Convention::ARITHMETIC, ElementType::Fp32).unwrap_err();
    assert_eq!(error.to_string(), "sequence length 1025 exceeds the 1024 learned positions of the model");
    let none = Transformer { layers: 0, ..GPT2 };
    let error = none.count(Pass::Forward, 1, 1, &Convention::ARITHMETIC, ElementType::Fp32).unwrap_err();
    assert_eq!(error, FlopError::ZeroSize { name: "layers".into() });
    let deep = Transformer { layers: u64::MAX, ..GPT2 };
    let error = deep.count(Pass::Forward, 1, 1, &Convention::ARITHMETIC, ElementType::Fp32).unwrap_err();
    assert_eq!(error.to_string().split(" overflows").next(), Some("attention_norm: total FLOPs"));
}

#[test]
fn models_survive_json() {
    for model in [GPT2, LLAMA3_8B] {
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Transformer>(&json).unwrap(), model);
        let misspelt = json.replace("\"layers\"", "\"depth\"");
        assert!(serde_json::from_str::<Transformer>(&misspelt).is_err());
    }
}

proptest! {
    /// A causal mask costs between half of and all of the full one, and decoding token by token
    /// costs exactly the same pairs as one causal pass.
    #[test]
    fn decoding_adds_up_to_a_causal_pass(heads in 1_u64..5, length in 1_u64..60, width in 1_u64..20) {
        let full = Attention::self_attention(2, heads, length, width);
        let causal = Attention { mask: AttentionMask::Causal, ..full };
        let flops = |attention: Attention| attention.scores(ElementType::Fp16).unwrap().flops;
        prop_assert!(2 * flops(causal) >= flops(full) && flops(causal) <= flops(full));
        let decoded: u64 = (1..=length).map(|keys| flops(Attention { queries: 1, keys, ..full })).sum();
        prop_assert_eq!(decoded, flops(causal));
    }

    /// Nothing panics on any sizes.
    #[test]
    fn nothing_panics(sizes in any::<[u64; 8]>(), shift in 0_u32..64, gated: bool, rotary: bool) {
        let [width, heads, kv_heads, head_width, hidden, batch, length, outputs] = sizes.map(|size| size >> shift);
        let activation = Activation::GeluTanh;
        let mlp = if gated { BlockMlp::Gated { hidden, activation } } else { BlockMlp::Plain { hidden, activation } };
        let block = Block { width, heads, kv_heads, head_width, mlp, rotary, mask: AttentionMask::Causal, ..GPT2.block };
        let model = Transformer { block, ..GPT2 };
        let _ = model.parameters();
        for pass in Pass::ALL {
            if let Ok(list) = model.count(pass, batch, length, &Convention::ARITHMETIC, ElementType::Fp64) {
                let _ = list.total();
            }
        }
        let linear = Linear { tokens: batch, inputs: width, outputs, bias: rotary };
        let _ = linear.forward(ElementType::Fp32).and_then(|_| linear.backward(ElementType::Fp32, gated));
    }
}
