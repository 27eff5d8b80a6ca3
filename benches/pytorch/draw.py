"""Models drawn at random from timm, transformers and torchvision, as (name, build, inputs)."""

import random

import torch
from torch import nn


class Last(nn.Module):
    """The first tensor that a model of transformers gives."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs, return_dict=False)[0]


def perceptron(widths, function):
    layers = [(nn.Linear(a, b), function()) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(*[layer for pair in layers for layer in pair][:-1])


class Recurrent(nn.Module):
    def __init__(self, kind, inputs, hidden, layers):
        super().__init__()
        self.layers = getattr(nn, kind)(inputs, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, inputs)

    def forward(self, x):
        return self.head(self.layers(x)[0])


class Ranking(nn.Module):
    """Embeddings, products of pairs and two networks, as of Facebook's DLRM."""

    def __init__(self, tables, width, dense):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20_000, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((tables + 1) ** 2 + width, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, sparse):
        dense = self.bottom(dense)
        rows = torch.stack([dense] + [table(sparse[:, place]) for place, table in enumerate(self.tables)], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([dense, pairs], 1))


class Denoiser(nn.Module):
    """A U-Net with group norms and transposed convolutions."""

    def __init__(self, width, depth):
        super().__init__()
        widths = [width << level for level in range(depth)]
        block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU())
        self.down = nn.ModuleList(block(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        kept = []
        for place, block in enumerate(self.down):
            x = block(x if place == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for place in reversed(range(len(self.up))):
            x = self.merge[place](torch.cat([self.up[place](x), kept[place]], 1))
        return self.last(x)


def networks(draw):
    """Plain networks, of which collections have few."""
    kind = draw.choice(["perceptron", "recurrent", "ranking", "denoiser", "encoder"])
    if kind == "perceptron":
        widths = [draw.choice([64, 100, 256, 512, 784, 1000, 1024, 2048, 4096]) for _ in range(draw.randint(3, 8))]
        function = draw.choice([nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh])
        batch = draw.choice([1, 16, 64, 256, 1024, 4096, 16384])
        return f"perceptron_{'_'.join(map(str, widths))}", batch, lambda: perceptron(widths, function), lambda: [torch.randn(batch, widths[0])]
    if kind == "recurrent":
        cell, inputs, hidden = draw.choice(["LSTM", "GRU"]), draw.choice([64, 128, 256, 512]), draw.choice([128, 256, 512, 1024])
        layers, length, batch = draw.randint(1, 3), draw.choice([16, 32, 64, 128]), draw.choice([1, 8, 32, 128])
        return f"{cell.lower()}_{inputs}_{hidden}x{layers}_{length}", batch, lambda: Recurrent(cell, inputs, hidden, layers), lambda: [torch.randn(batch, length, inputs)]
    if kind == "ranking":
        tables, width, dense, batch = draw.choice([4, 8, 16, 26]), draw.choice([16, 32, 64, 128]), draw.choice([13, 64, 256]), draw.choice([16, 256, 2048, 8192])
        return f"dlrm_{tables}x{width}", batch, lambda: Ranking(tables, width, dense), lambda: [torch.randn(batch, dense), torch.randint(0, 20_000, (batch, tables))]
    if kind == "denoiser":
        width, depth, size, batch = draw.choice([16, 32, 64]), draw.randint(3, 5), draw.choice([64, 128, 256]), draw.choice([1, 2, 8, 16])
        return f"unet_{width}x{depth}_{size}", batch, lambda: Denoiser(width, depth), lambda: [torch.randn(batch, 3, size, size)]
    width, heads, layers = draw.choice([(256, 4), (512, 8), (768, 12), (1024, 16)]) + (draw.randint(1, 6),)
    length, batch, first = draw.choice([32, 100, 128, 512]), draw.choice([1, 4, 16, 64]), draw.random() < 0.5
    layer = lambda: nn.TransformerEncoderLayer(width, heads, 4 * width, norm_first=first, batch_first=True)
    return f"encoder_{width}x{layers}_{length}", batch, lambda: nn.TransformerEncoder(layer(), layers, enable_nested_tensor=False), lambda: [torch.randn(batch, length, width)]


TEXT = "Bert Roberta DistilBert Electra Albert MPNet GPT2 OPT GPTNeoX GPTNeo Llama Qwen2 Qwen3 Mistral Gemma Phi Phi3 StableLm OlmoModel T5Encoder XLMRoberta Camembert Deberta Funnel MobileBert Nystromformer Bloom Falcon Persimmon".split()
IMAGES = "ViT DeiT Beit Swin Swinv2 ConvNext ConvNextV2 Segformer Dinov2 PoolFormer ResNet RegNet MobileViT CLIPVision SiglipVision Levit Cvt".split()


def transformer(draw):
    import transformers

    if draw.random() < 0.75:
        name = draw.choice(TEXT).removesuffix("Model")
        model = getattr(transformers, name + "Model")
        config = getattr(transformers, (name.removesuffix("Encoder")) + "Config")
        heads = draw.choice([4, 8, 12, 16])
        width, layers = heads * draw.choice([32, 64, 64, 128]), draw.randint(1, 6)
        length, batch = draw.choice([16, 64, 128, 256, 512]), draw.choice([1, 1, 4, 8, 32])
        sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": 32_000, "max_position_embeddings": 1024}
        if name in ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Phi", "Phi3", "StableLm", "Olmo", "Persimmon"):
            sizes |= {"intermediate_size": 4 * width, "num_key_value_heads": heads if name in ("Phi", "Persimmon") else draw.choice([heads, heads // 4]), "pad_token_id": 0}
            sizes |= {"head_dim": width // heads} if name in ("Qwen3", "Gemma") else {}
        elif name in ("Bert", "Roberta", "Electra", "Albert", "MPNet", "XLMRoberta", "Camembert", "Deberta", "MobileBert", "Nystromformer"):
            sizes |= {"intermediate_size": 4 * width}
            sizes |= {"embedding_size": width} if name in ("Electra", "Albert") else {}
        elif name == "T5Encoder":
            sizes = {"d_model": width, "d_kv": width // heads, "d_ff": 4 * width, "num_layers": layers, "num_heads": heads, "vocab_size": 32_000}
        elif name == "OPT":
            sizes |= {"ffn_dim": 4 * width, "word_embed_proj_dim": width}
        elif name == "GPTNeo":
            sizes |= {"num_layers": layers, "num_heads": heads, "attention_types": [[["global"], layers]]}
        sizes = {key: value for key, value in sizes.items() if not (name == "GPTNeo" and key in ("num_hidden_layers", "num_attention_heads"))}
        build = lambda: Last(model(config(**sizes)))
        return f"{name.lower()}_{width}x{layers}_{length}", batch, build, lambda: [torch.randint(3, 30_000, (batch, length))]
    name = draw.choice(IMAGES)
    batch = draw.choice([1, 4, 16, 32])
    model, config = getattr(transformers, name + "Model"), getattr(transformers, name + "Config")
    size = 256 if name in ("Swinv2", "MobileViT") else 224
    return f"hf_{name.lower()}", batch, lambda: Last(model(config())), lambda: [torch.randn(batch, 3, size, size)]


def timm_model(draw):
    import timm

    name = draw.choice(sorted(timm.list_models(exclude_filters=["*_in21k*", "*test_*", "*giant*", "*gigantic*", "*huge*", "*xxlarge*", "*7b*", "*enormous*", "*_xlarge*", "*tnt*", "*so400m*", "*large*", "*nfnet_f*", "*_l2*", "*_b8*", "*naflex*"])))
    batch = draw.choice([1, 2, 8, 16, 32, 64])
    size = timm.models.get_pretrained_cfg_value(name, "input_size") or (3, 224, 224)
    if size[-1] > 300:
        batch = min(batch, 8)
    return name, batch, lambda: timm.create_model(name, pretrained=False), lambda: [torch.randn(batch, *size)]


def vision(draw):
    import torchvision.models as models

    name = draw.choice(sorted(models.list_models(module=models) + ["r3d_18", "mc3_18", "r2plus1d_18", "mvit_v2_s", "swin3d_t", "fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]))
    video = name in ("r3d_18", "mc3_18", "r2plus1d_18", "mvit_v2_s", "swin3d_t")
    shape = (3, 16, 112, 112) if video and "mvit" not in name and "swin" not in name else (3, 16, 224, 224) if video else (3, 299, 299) if name == "inception_v3" else (3, 224, 224)
    batch = draw.choice([1, 2, 4] if video else [1, 2, 8, 16, 32, 64])
    arguments = {"weights_backbone": None} if name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large") else {}
    if name in ("googlenet", "inception_v3"):
        arguments["init_weights"] = False
    return f"tv_{name}", batch, lambda: models.get_model(name, weights=None, **arguments), lambda: [torch.randn(batch, *shape)]


def batches_of(batch):
    """A drawn batch and two others."""
    return (batch, 4 * batch, 16 * batch) if batch < 4 else (batch, batch // 4, batch // 16 if batch >= 64 else 4 * batch)


def of_batch(inputs, batch, other):
    """Inputs of another batch, drawn as those of `batch`."""
    if other == batch:
        return inputs
    drawn = lambda: zip(*(inputs() for _ in range(-(-other // batch))))
    return lambda: [torch.cat(parts)[:other] for parts in drawn()]


def drawn(seed, count, batches=1):
    """So many models, each of another name, in so many batches."""
    draw, seen = random.Random(seed), set()
    while len(seen) < count:
        source = draw.choices([timm_model, transformer, vision, networks], [0.42, 0.26, 0.12, 0.2])[0]
        name, batch, build, inputs = source(random.Random(draw.random()))
        if name not in seen:
            seen.add(name)
            half = draw.choice(["float16", "bfloat16"])
            for other in batches_of(batch)[:batches]:
                yield name, other, half, build, of_batch(inputs, batch, other)
