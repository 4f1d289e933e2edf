"""The peers of the families gpt2 and llama, plainly written as nanoGPT and Hugging Face write them: fused causal attention, a tied
or own head, cross-entropy over all tokens. Each has `inputs`, which draws a step's, `loss` of them, and `after_step`. `block` and
the joins are not theirs: their joins are sums.
"""
import torch
import torch.nn.functional as F
from torch import nn


def make(family, shape):
    return LanguageModel({"gpt2": GptBlock, "llama": LlamaBlock}[family], **shape)


class GptBlock(nn.Module):
    norm = staticmethod(lambda dim: nn.LayerNorm(dim, eps=1e-5))
    places = True

    def __init__(self, dim, heads, **_):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = self.norm(dim), self.norm(dim)
        self.c_attn, self.attn_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.c_fc, self.mlp_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, rotation):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    norm = staticmethod(lambda dim: nn.RMSNorm(dim, eps=1e-6))
    places = False

    def __init__(self, dim, heads, kv_heads, mlp_hidden):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads or heads, dim // heads
        self.norm_1, self.norm_2 = self.norm(dim), self.norm(dim)
        self.q_proj, self.o_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(dim, self.kv_heads * self.width, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(dim, mlp_hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(mlp_hidden, dim, bias=False)

    def forward(self, x, rotation):
        b, t, d = x.shape
        z = self.norm_1(x)

        def heads(y, count):
            return y.view(b, t, count, self.width).transpose(1, 2)

        def rotated(y):
            first, second = y.chunk(2, -1)
            return y * rotation[0] + torch.cat((-second, first), -1) * rotation[1]
        q, k = rotated(heads(self.q_proj(z), self.heads)), rotated(heads(self.k_proj(z), self.kv_heads))
        v = heads(self.v_proj(z), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        x = x + self.o_proj(y.transpose(1, 2).reshape(b, t, d))
        z = self.norm_2(x)
        return x + self.down_proj(F.silu(self.gate_proj(z)) * self.up_proj(z))


class LanguageModel(nn.Module):
    def __init__(self, block, vocab, context, dim, depth, heads, tied, **more):
        super().__init__()
        self.vocab, self.context = vocab, context
        self.words = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(context, dim) if block.places else None
        self.blocks = nn.ModuleList(block(dim, heads, **more) for _ in range(depth))
        self.norm = block.norm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        if tied:
            self.head.weight = self.words.weight
        width = dim // heads
        angles = torch.arange(context)[:, None] * 1e4 ** (-torch.arange(0, width, 2) / width)
        angles = torch.cat((angles, angles), 1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        for weight in self.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=0.02)

    def inputs(self, batch, device):
        return tuple(torch.randint(self.vocab, (batch, self.context), device=device) for _ in range(2))

    def loss(self, tokens, targets):
        x = self.words(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, (self.cosine, self.sine))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten(), ignore_index=-1)

    def after_step(self):
        pass
