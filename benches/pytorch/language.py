"""Times prefill and decode of language models with random weights as CUDA graphs, for `estimate config.json`.

    python3 benches/pytorch/language.py --out OUT                      OUT/language.jsonl, a row for each model and batch
    python3 benches/pytorch/language.py --out OUT --device cpu --tiny  a trial run without a GPU

Models of Hugging Face in bf16 with a static cache and PyTorch's fused attention; `compile` is the same under `torch.compile`.
Written for PyTorch 2.11 and transformers 5.
"""

import argparse
import json
import os
import statistics
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

MODELS = {
    "qwen2.5-1.5b": {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 1536, "intermediate_size": 8960,
        "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
        "tie_word_embeddings": True, "max_position_embeddings": 32768,
    },
    "llama-3.2-3b": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
        "tie_word_embeddings": True, "max_position_embeddings": 32768,
    },
    "llama-3-8b": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "tie_word_embeddings": False, "max_position_embeddings": 8192,
    },
}  # fmt: skip
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 256}  # fmt: skip
# Sequences and tokens.
PREFILL = [(1, 512), (1, 2048), (8, 1024)]
DECODE = [(1, 1024), (8, 1024), (32, 1024), (32, 4096), (128, 1024)]


def model_of(sizes, device):
    config = AutoConfig.for_model(**sizes, dtype="bfloat16")
    config._attn_implementation = "sdpa"
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        model = AutoModelForCausalLM.from_config(config).eval()
        torch.set_default_dtype(torch.float32)
    return model, config


class Step:
    """A forward pass over a static cache: `tokens` new ones of `batch` sequences after `context` others."""

    def __init__(self, model, config, batch, tokens, context):
        device = model.device
        self.model = model
        self.cache = StaticCache(config=config, max_cache_len=context + tokens)
        self.context = context
        self.ids = torch.randint(config.vocab_size, (batch, tokens), device=device)
        self.positions = torch.arange(context, context + tokens, device=device)
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(batch, heads, width, torch.bfloat16, device)
        for layer in self.cache.layers:
            layer.keys.normal_()
            layer.values.normal_()

    def reset(self):
        """The next token goes where the context ends, also in the next replay."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.context)

    def __call__(self, forward):
        return forward(
            self.ids, past_key_values=self.cache, position_ids=self.positions.expand(self.ids.shape[0], -1), use_cache=True,
            logits_to_keep=1,
        ).logits  # fmt: skip


def replayed(step, reset, seconds):
    """Median time of a replay, by events around each; how far its quarters are apart."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            reset()
            step()
    torch.cuda.synchronize()
    reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or len(times) < 5:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        reset()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    quarters = statistics.quantiles(times, n=4)
    return statistics.median(times), (quarters[2] - quarters[0]) / quarters[1], len(times)


@torch.no_grad()
def measure(name, sizes, arguments, write):
    begin = time.monotonic()
    model, config = model_of(sizes, arguments.device)
    parameters = sum(own.numel() for own in model.parameters())
    print(f"{name}: {parameters:,} parameters, {time.monotonic() - begin:.1f} s", flush=True)
    compiled = torch.compile(model, dynamic=False) if name in arguments.compile else None
    work = [("decode", batch, 1, context) for batch, context in DECODE]
    work += [("prefill", batch, tokens, 0) for batch, tokens in PREFILL]
    for kind, batch, tokens, context in work:
        for run_as, forward in [("graph", model), ("compile", compiled)]:
            if forward is None or time.monotonic() > arguments.ends:
                continue
            try:
                step = Step(model, config, batch, tokens, context)
                if arguments.device == "cpu":
                    step.reset()
                    print(kind, batch, tokens, context, tuple(step(model).shape))
                    continue
                ms, spread, count = replayed(lambda: step(forward), step.reset, arguments.seconds)
            except Exception as error:
                print(name, kind, batch, tokens, context, run_as, str(error)[:300], flush=True)
                torch.cuda.empty_cache()
                continue
            row = {"model": name, "kind": kind, "run_as": run_as, "batch": batch, "tokens": tokens, "context": context,
                   "ms": round(ms, 6), "spread": round(spread, 4), "replays": count}  # fmt: skip
            write(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=300, help="starts nothing after so many seconds")
    parser.add_argument("--compile", nargs="*", default=[], help="the models that are compiled, too")
    arguments = parser.parse_args()
    arguments.ends = time.monotonic() + arguments.limit
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "language.jsonl"), "w", encoding="utf-8") as file:

        def write(row):
            print(json.dumps(row), flush=True)
            file.write(json.dumps(row) + "\n")
            file.flush()

        if arguments.device == "cuda":
            write({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__})
        for name, sizes in MODELS.items():
            if time.monotonic() > arguments.ends:
                break
            measure(name, sizes | (TINY if arguments.tiny else {}), arguments, write)
            if arguments.device == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
