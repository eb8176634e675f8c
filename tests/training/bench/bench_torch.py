#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same GPT in PyTorch, for bench_train.sh, and with NUMBERS on a GPU, for tests/gpu/train.sh.

usage: bench_torch.py LAYERS CHANNELS HEADS CONTEXT VOCABULARY BATCH STEPS [NUMBERS]

NUMBERS are float32, tf32 or bfloat16 (autocast): each step's milliseconds are printed then.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, CHANNELS, HEADS, CONTEXT, VOCABULARY, BATCH, STEPS = map(int, sys.argv[1:8])
NUMBERS = sys.argv[8] if len(sys.argv) > 8 else None
DEVICE = "cuda" if NUMBERS else "cpu"


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.proj = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.fc1, self.fc2 = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)
        self.register_buffer("hidden", torch.ones(CONTEXT, CONTEXT).tril() == 0)

    def attention(self, x):
        parts = self.qkv(x).split(CHANNELS, dim=2)
        q, k, v = (part.view(BATCH, CONTEXT, HEADS, -1).transpose(1, 2) for part in parts)
        if hasattr(functional, "scaled_dot_product_attention"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            y = scores.masked_fill(self.hidden, float("-inf")).softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(BATCH, CONTEXT, CHANNELS))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.fc2(functional.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.lnf = nn.LayerNorm(CHANNELS)
        self.head = nn.Linear(CHANNELS, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        return self.head(self.lnf(self.layers(self.wte(tokens) + self.wpe.weight)))


torch.set_num_threads(1)
torch.backends.cuda.matmul.allow_tf32 = NUMBERS in ("tf32", "bfloat16")
model = Model().to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                              **({"fused": True} if NUMBERS else {}))
text = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), device=DEVICE)
for _ in range(STEPS):
    begun = time.perf_counter()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=NUMBERS == "bfloat16"):
        scores = model(text[:, :-1])
    loss = functional.cross_entropy(scores.reshape(-1, VOCABULARY).float(), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if NUMBERS:
        torch.cuda.synchronize()
        print((time.perf_counter() - begun) * 1000, flush=True)
