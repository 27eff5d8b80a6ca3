"""Models drawn at random, and a step of training of each. As a program, for a profiler around it: ``drawn.py SEED`` trains one step between
``cudaProfilerStart`` and ``cudaProfilerStop``."""

import copy
import random
import sys

import timm
import torch
import transformers

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=128)
GROUPED = dict(SMALL, num_key_value_heads=2)
#: Architectures of text models, with their sizes.
TEXT = {
    "Llama": GROUPED, "Mistral": GROUPED, "Qwen2": GROUPED, "Qwen3": GROUPED | {"head_dim": 16},
    "Gemma": GROUPED | {"head_dim": 16}, "Phi3": GROUPED | {"pad_token_id": 0},
    "Mixtral": GROUPED | {"num_local_experts": 4}, "Qwen2Moe": GROUPED | {"num_experts": 4, "moe_intermediate_size": 32}, "Olmo2": GROUPED,
    "Bert": SMALL, "Roberta": SMALL, "Electra": SMALL, "GPTNeoX": SMALL, "Mamba": dict(hidden_size=64, num_hidden_layers=2, vocab_size=128),
    "GPT2": dict(n_embd=64, n_layer=2, n_head=4, vocab_size=128), "Bloom": dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=128),
    "Falcon": SMALL, "DistilBert": dict(dim=64, n_layers=2, n_heads=4, hidden_dim=96, vocab_size=128), "Albert": SMALL | {"embedding_size": 32},
    "Rwkv": dict(hidden_size=64, num_hidden_layers=2, vocab_size=128), "Deberta": SMALL,
    "XLNet": dict(d_model=64, n_layer=2, n_head=4, d_inner=96, vocab_size=128),
}  # fmt: skip


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = kind(32, 48, num_layers=2, bidirectional=True, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


def text(name, generator, device):
    config = getattr(transformers, name + "Config")(**TEXT[name])
    model = transformers.AutoModel.from_config(config)
    ids = torch.randint(0, 128, (2, 12), generator=generator).to(device)
    return model, lambda model: model(input_ids=ids).last_hidden_state


def image(name, generator, device):
    model = timm.create_model(name, pretrained=False, num_classes=10)
    channels, height, width = model.default_cfg["input_size"]
    x = torch.randn(2, channels, height, width, generator=generator).to(device)
    return model, lambda model: model(x)


def recurrent(name, generator, device):
    x = torch.randn(3, 7, 32, generator=generator).to(device)
    return Recurrent(getattr(torch.nn, name)), lambda model: model(x)


def drawn(seed, device="cpu"):
    """A model, and how it is called."""
    chance = random.Random(seed)
    kind = chance.choice(["text", "text", "image", "image", "image", "recurrent"] if seed else ["text"])
    names = {"text": sorted(TEXT), "image": timm.list_models(), "recurrent": ["LSTM", "GRU", "RNN"]}[kind]
    while True:
        name = chance.choice(names)
        if kind == "image":
            try:
                with torch.device("meta"):
                    shape = timm.create_model(name, pretrained=False)
            except NotImplementedError:
                continue
            # Two cores should do.
            if sum(p.numel() for p in shape.parameters()) > 4e7 or shape.default_cfg["input_size"][1] > 256:
                continue
        break
    torch.manual_seed(seed)
    make = {"text": text, "image": image, "recurrent": recurrent}[kind]
    model, call = make(name, torch.Generator().manual_seed(seed), device)
    dtype = chance.choice([torch.float32, torch.bfloat16]) if kind == "text" else torch.float32
    return name, model.train().to(device, dtype), call


def trained(model, call, around=lambda step: step()):
    """A step of training: loss, gradients, parameters and statistics, the random numbers that come next."""
    model = copy.deepcopy(model)
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    torch.manual_seed(7)
    losses = []

    def step():
        out = call(model)
        out = out[0] if isinstance(out, (list, tuple)) else out
        losses.append(out.float().square().mean())
        losses[-1].backward()
        optimizer.step()

    found = around(step)
    state = [*losses, *(p.grad for p in model.parameters()), *model.state_dict().values(), torch.rand(4), torch.rand(4, device=device)]
    return found, [None if one is None else one.detach().clone() for one in state]


def bits(tensor):
    """What NaNs have in them, too."""
    return None if tensor is None else tensor.new_empty(tensor.numel()).copy_(tensor.reshape(-1)).view(torch.uint8)


def same(a, b):
    pairs = ((bits(x), bits(y)) for x, y in zip(a, b, strict=True))
    return all(x is y is None or x is not None and y is not None and torch.equal(x, y) for x, y in pairs)


def deterministic():
    """Algorithms that give the same bits twice, where there are such."""
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Memory that nobody has written need not be filled: that would be launches more.
    torch.utils.deterministic.fill_uninitialized_memory = False


if __name__ == "__main__":
    deterministic()
    _, model, call = drawn(int(sys.argv[1]), "cuda")
    trained(model, call)

    def profiled(step):
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        step()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()

    trained(model, call, profiled)
