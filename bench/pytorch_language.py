"""The peers of the families gpt2 and llama, plainly written as nanoGPT and Hugging Face write them: fused causal attention, a tied
or own head, cross-entropy over all tokens. Each has `inputs`, which draws a step's, `loss` of them, and `after_step`. A join and
a strategy over several are pytorch_step.py's and pytorch_strategies.py's, which know of a block norm1, attn, norm2 and mlp.
"""
import torch
import torch.nn.functional as F
from torch import nn

from pytorch_strategies import JoinedBlock


def make(family, shape, join, strategy):
    """`join` makes a block's joins of (dim, index, joins); `strategy`, where it is one, runs all blocks."""
    return LanguageModel({"gpt2": GptBlock, "llama": LlamaBlock}[family], join, strategy, **shape)


class GptAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mix=lambda v: v):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.c_attn(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, mix(v), is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, d))


class GptMlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class LlamaAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, context):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads or heads, dim // heads
        self.q_proj, self.o_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(dim, self.kv_heads * self.width, bias=False) for _ in range(2))
        angles = torch.arange(context)[:, None] * 1e4 ** (-torch.arange(0, self.width, 2) / self.width)
        angles = torch.cat((angles, angles), 1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def rotated(self, y):
        first, second = y.chunk(2, -1)
        return y * self.cosine + torch.cat((-second, first), -1) * self.sine

    def forward(self, x, mix=lambda v: v):
        b, t, d = x.shape

        def heads(y, count):
            return y.view(b, t, count, self.width).transpose(1, 2)

        q, k = self.rotated(heads(self.q_proj(x), self.heads)), self.rotated(heads(self.k_proj(x), self.kv_heads))
        v = mix(heads(self.v_proj(x), self.kv_heads))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, d))


class LlamaMlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class GptBlock(JoinedBlock):
    norm = staticmethod(lambda dim: nn.LayerNorm(dim, eps=1e-5))
    places = True

    def __init__(self, dim, heads, context, **rest):
        super().__init__(dim, (self.norm(dim), self.norm(dim)), GptAttention(dim, heads), GptMlp(dim), **rest)


class LlamaBlock(JoinedBlock):
    norm = staticmethod(lambda dim: nn.RMSNorm(dim, eps=1e-6))
    places = False

    def __init__(self, dim, heads, context, kv_heads, mlp_hidden, **rest):
        super().__init__(dim, (self.norm(dim), self.norm(dim)), LlamaAttention(dim, heads, kv_heads, context),
                         LlamaMlp(dim, mlp_hidden), **rest)


class LanguageModel(nn.Module):
    def __init__(self, block, join, strategy, vocab, context, dim, depth, tied, **more):
        super().__init__()
        self.vocab, self.context, self.strategy = vocab, context, strategy
        self.words = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(context, dim) if block.places else None
        self.blocks = nn.ModuleList(block(dim, context=context, join=join, index=index, depth=depth, **more) for index in range(depth))
        self.norm = block.norm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        if tied:
            self.head.weight = self.words.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def inputs(self, batch, device):
        return tuple(torch.randint(self.vocab, (batch, self.context), device=device) for _ in range(2))

    def loss(self, tokens, targets):
        x = self.words(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        if self.strategy is not None:
            x = self.strategy(self.blocks, x)
        else:
            for block in self.blocks:
                x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten(), ignore_index=-1)

    def after_step(self):
        pass
