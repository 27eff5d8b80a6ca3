"""What attention is called with outside of exports and graphs: attention.py SEED COUNT [LABELS].

Prints a line for each model of transformers that draw.py draws, as JSON: its name, and for each call of PyTorch's
`scaled_dot_product_attention` whether it has a mask, whether it is causal, and its heads of keys. Without a GPU.
LABELS is a file with the labels of the models to run; all are run without it.
"""

import json
import pathlib
import sys

import torch

import draw


def calls(build, inputs):
    found, original = [], torch.nn.functional.scaled_dot_product_attention

    def recorded(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **others):
        found.append([attn_mask is not None, bool(is_causal), key.shape[1]])
        return original(query, key, value, attn_mask, dropout_p, is_causal, **others)

    torch.nn.functional.scaled_dot_product_attention = recorded
    try:
        with torch.no_grad():
            build().eval()(*inputs())
    finally:
        torch.nn.functional.scaled_dot_product_attention = original
    return found


def main():
    labels = pathlib.Path(sys.argv[3]).read_text().split() if len(sys.argv) > 3 else None
    torch.manual_seed(0)
    for name, batch, kind, build, inputs in draw.drawn(int(sys.argv[1]), int(sys.argv[2])):
        label = f"{name}_b{batch}"
        if "transformer" in build.__qualname__ and (labels is None or label in labels):
            print(json.dumps([label, calls(build, inputs)]), flush=True)


if __name__ == "__main__":
    main()
