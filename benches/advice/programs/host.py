"""Programs that the host limits: launches, blocking calls, its own work, and allocations."""

import torch
from experiment import experiment
from networks import Perceptron, Transformer

from .training import adam, training


@experiment(
    "launch-training",
    cause="a deep and narrow network with a small batch: each kernel is shorter than its launch",
    change="the step is captured once and replayed as a CUDA graph",
    limit="launch",
    advice="cuda-graphs",
)
def launch_training(setup, after):
    width = setup.size(256, 16)
    model = Perceptron(width, 8).to(setup.device)
    x, y = setup.randn(64, width), setup.classes(64)
    step = training(model, adam(model.parameters(), fused=True, capturable=setup.gpu), lambda: (x, y))
    return setup.captured(step) if after else step


@experiment(
    "launch-inference",
    cause="a transformer infers one short sample at a time",
    change='torch.compile(mode="reduce-overhead")',
    limit="launch",
    advice="cuda-graphs",
    also=("fuse-elementwise",),
    marks=False,
)
def launch_inference(setup, after):
    width = setup.size(512, 16)
    model = Transformer(width, 8, setup.size(4, 1)).to(setup.device, torch.bfloat16).eval()
    x = setup.randn(1, setup.size(64, 4), width, dtype=torch.bfloat16)
    if after:
        model = setup.compiled(model, "reduce-overhead")

    def step():
        with torch.no_grad():
            return model(x)

    return step


@experiment(
    "generate",
    cause="Hugging Face's generate with a growing cache launches its kernels one by one",
    change='cache_implementation="static", with which generate compiles the decoding into a CUDA graph',
    limit="launch",
    limit_after="launch",
    advice="cuda-graphs",
    # What generate does between two tokens stays on the host, also with a static cache.
    also=("fuse-elementwise", "blocking-call", "cuda-graphs"),
    steps=1,
    marks=False,
)
def generate(setup, after):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=setup.size(512, 32), intermediate_size=setup.size(1024, 64), num_hidden_layers=1,
        num_attention_heads=8, num_key_value_heads=8, vocab_size=setup.size(1024, 64), max_position_embeddings=256,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(setup.device, torch.bfloat16).eval()
    prompt = torch.randint(config.vocab_size, (1, 16), device=setup.device)
    options = {"cache_implementation": "static"} if after else {}

    def step():
        return model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, min_new_tokens=6, do_sample=False,
            pad_token_id=0, **options,
        )  # fmt: skip

    return step


def perceptron(setup, width, depth, samples, attach=lambda _: None):
    """Training of a network in bfloat16 on one batch; `attach` may add hooks to its layers."""
    width, samples = setup.size(width, 16), setup.size(samples, 8)
    model = Perceptron(width, depth).to(setup.device, torch.bfloat16)
    for layer in model.layers:
        attach(layer)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


@experiment(
    "item-per-layer",
    cause="a hook logs four statistics of every layer's output with .item()",
    change="the hook keeps the numbers on the GPU",
    limit="gpu",
    advice="blocking-call",
)
def item_per_layer(setup, after):
    kept = {}

    def observe(layer, _, output):
        output = output.detach()
        statistics = [output.amin(), output.amax(), output.mean(), output.norm()]
        kept[layer] = statistics if after else [number.item() for number in statistics]

    return perceptron(setup, 2048, 6, 32768, lambda layer: layer.register_forward_hook(observe))


@experiment(
    "layer-timers",
    cause="torch.cuda.synchronize() before and after every layer, forward and backward, for timers",
    change="no timers",
    limit="sync",
    advice="blocking-call",
)
def layer_timers(setup, after):
    def attach(layer):
        if not after:
            layer.register_forward_pre_hook(lambda *_: setup.synchronize())
            layer.register_forward_hook(lambda *_: setup.synchronize())
            layer.register_full_backward_hook(lambda *_: setup.synchronize())

    return perceptron(setup, 2048, 6, 32768, attach)


@experiment(
    "stream-synchronize",
    cause="the loop waits for its stream after forward, backward and optimizer: a small loss",
    change="the loop does not wait",
    limit="sync",
    advice="blocking-call",
)
def stream_synchronize(setup, after):
    width, samples = setup.size(2048, 16), setup.size(16384, 8)
    model = Perceptron(width, 6).to(setup.device, torch.bfloat16)
    optimizer = adam(model.parameters(), fused=True)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)

    def wait():
        if setup.gpu and not after:
            torch.cuda.current_stream().synchronize()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        wait()
        loss.backward()
        wait()
        optimizer.step()
        wait()
        return loss.detach()

    return step


@experiment(
    "python-metric",
    cause="the loop computes a metric in Python between two steps, while the GPU is idle",
    change="the metric is computed after the loop",
    limit="host",
    advice="host-code",
)
def python_metric(setup, after):
    step = perceptron(setup, 1024, 4, 8192)
    words = [number * 7919 % 251 for number in range(setup.size(30_000, 300))]

    def loop():
        loss = step()
        if not after:
            counts = {}
            for pair in zip(words, words[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        return loss

    return loop


@experiment(
    "empty-cache",
    cause="torch.cuda.empty_cache() in every iteration: all memory is returned and allocated again",
    change="no empty_cache",
    limit="allocation",
    advice="allocations",
    # cudaFree waits for the GPU as well.
    also=("blocking-call",),
)
def empty_cache(setup, after):
    step = perceptron(setup, 2048, setup.size(24, 2), 4096)

    def loop():
        loss = step()
        if setup.gpu and not after:
            torch.cuda.empty_cache()
        return loss

    return loop
