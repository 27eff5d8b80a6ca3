"""Times prefill and decode of language models with random weights as CUDA graphs, and exports them, for `judge.py`.

    python3 benches/pytorch/language.py --out OUT                      OUT/rows.jsonl, a row for each model and batch
    python3 benches/pytorch/language.py --out OUT --export             OUT/LABEL.pt2 of each row, without weights and without a GPU
    python3 benches/pytorch/language.py --out OUT --device cpu --tiny  a trial run without a GPU

Models of Hugging Face in bf16 with a static cache and PyTorch's fused attention; `compiled_us` is the same under `torch.compile`.
Written for PyTorch 2.11 and transformers 5.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
import zipfile

import torch
from torch._export.serde import serialize
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache
from transformers.initialization import no_init_weights

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
WORK = [("decode", batch, 1, context) for batch, context in DECODE] + [("prefill", batch, tokens, 0) for batch, tokens in PREFILL]


def label(name, kind, batch, tokens, context):
    return f"{name}-{kind}-b{batch}-t{tokens}-c{context}"


def model_of(sizes, device, initialize=True):
    config = AutoConfig.for_model(**sizes, dtype="bfloat16")
    config._attn_implementation = "sdpa"
    with torch.device(device), contextlib.nullcontext() if initialize else no_init_weights():
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
        if device.type == "cuda":
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
    for kind, batch, tokens, context in WORK:
        row = {"model": name, "label": label(name, kind, batch, tokens, context), "batch": batch, "kind": "bfloat16", "tf32": False}
        for time_of, forward in [("graph_us", model), ("compiled_us", compiled)]:
            if forward is None or time.monotonic() > arguments.ends:
                continue
            try:
                step = Step(model, config, batch, tokens, context)
                if arguments.device == "cpu":
                    step.reset()
                    print(row["label"], tuple(step(model).shape))
                    continue
                us, spread, count = replayed(lambda: step(forward), step.reset, arguments.seconds)
            except Exception as error:
                print(row["label"], time_of, str(error)[:300], flush=True)
                torch.cuda.empty_cache()
                continue
            row |= {time_of: round(1000 * us, 3), f"spread_of_{time_of}": round(spread, 4), f"replays_of_{time_of}": count}
        if "graph_us" in row:
            write(row)


class Exported(torch.nn.Module):
    """A step as what `torch.export` takes."""

    def __init__(self, step):
        super().__init__()
        self.model, self.cache = step.model, step.cache

    def forward(self, ids, positions):
        return self.model(ids, past_key_values=self.cache, position_ids=positions, use_cache=True, logits_to_keep=1).logits


@torch.no_grad()
def export(name, sizes, out):
    """Writes the graph of each step. Neither weights nor caches are touched, so that they take no memory."""
    model, config = model_of(sizes, "cpu", initialize=False)
    serialize.serialize_torch_artifact = lambda *_, **__: b""
    sys.setrecursionlimit(10_000)
    torch.zeros = torch.empty
    for work in WORK:
        step = Step(model, config, *work[1:])
        arguments = (step.ids, step.positions.expand(step.ids.shape[0], -1).clone())
        program = torch.export.export(Exported(step), arguments, strict=False)
        graph = serialize.ExportedProgramSerializer().serialize(program).exported_program
        text = json.dumps(serialize._dataclass_to_dict(graph), cls=serialize.EnumEncoder)
        path = os.path.join(out, label(name, *work) + ".pt2")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{label(name, *work)}/models/model.json", text)
        print(path, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=300, help="starts nothing after so many seconds")
    parser.add_argument("--compile", nargs="*", default=[], help="the models that are compiled, too")
    arguments = parser.parse_args()
    arguments.ends = time.monotonic() + arguments.limit
    os.makedirs(arguments.out, exist_ok=True)
    if arguments.export:
        for name, sizes in MODELS.items():
            export(name, sizes | (TINY if arguments.tiny else {}), arguments.out)
        return
    with open(os.path.join(arguments.out, "rows.jsonl"), "w", encoding="utf-8") as file:

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
