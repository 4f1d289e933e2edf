"""Networks of timm, torchvision and our own, small, with the number of joins that their modules have.

`NETWORKS[name]` is (make, input, joins): `make()` returns the module, `input` is an image's side, ("tokens", length) or
("sequence", length, width); `joins(module)` counts its blocks. -1: not counted.
"""

import functools

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10
NETWORKS = {}


def timm_model(name, **options):
    import timm

    return timm.create_model(name, pretrained=False, num_classes=CLASSES, **options)


def blocks(module, *kinds):
    return sum(type(child).__name__ in kinds for child in module.modules())


def with_flag(module, flag):
    return sum(getattr(child, flag, False) is True for child in module.modules())


def add(name, make, size, joins):
    NETWORKS[name] = (make, size, joins)


def add_timm(key, name, size, joins, **options):
    add(key, functools.partial(timm_model, name, **options), size, joins)


def per_block(*kinds, times=2):
    return lambda module: times * blocks(module, *kinds)


_VIT = dict(img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3)
_STAGES = dict(dims=(16, 24, 32, 48), depths=(1, 1, 2, 1))
_two_each = lambda module: 2 * len(module.blocks)  # noqa: E731

add_timm("vit", "vit_tiny_patch16_224", 32, _two_each, **_VIT)
add_timm("vit_dropout", "vit_tiny_patch16_224", 32, _two_each, **_VIT, drop_rate=0.1, drop_path_rate=0.2)
add_timm("vit_registers_swiglu", "vit_small_patch14_reg4_dinov2", 32, _two_each, **_VIT)
add_timm("vit_parallel", "vit_small_patch16_18x2_224", 32, _two_each, **_VIT)
add_timm("deit3", "deit3_small_patch16_224", 32, _two_each, **_VIT)
add_timm("deit_distilled", "deit_tiny_distilled_patch16_224", 32, _two_each, **_VIT)
add_timm("beit", "beit_base_patch16_224", 32, _two_each, **_VIT)
add_timm("eva02", "eva02_tiny_patch14_224", 32, _two_each, **_VIT)
add_timm("cait", "cait_xxs24_224", 32, lambda m: 2 * (len(m.blocks) + len(m.blocks_token_only)), **_VIT)
add_timm(
    "xcit",
    "xcit_nano_12_p8_224",
    32,
    lambda m: 3 * len(m.blocks) + 2 * len(m.cls_attn_blocks),
    img_size=32,
    embed_dim=48,
    depth=2,
    num_heads=3,
)
add_timm("naflexvit", "naflexvit_base_patch16_gap", 64, _two_each, embed_dim=48, depth=2, num_heads=3)
add_timm(
    "swin",
    "swin_tiny_patch4_window7_224",
    64,
    per_block("SwinTransformerBlock"),
    img_size=64,
    window_size=4,
    embed_dim=24,
    depths=(2, 2),
    num_heads=(1, 2),
)
add_timm(
    "swinv2",
    "swinv2_tiny_window8_256",
    64,
    per_block("SwinTransformerV2Block"),
    img_size=64,
    window_size=4,
    embed_dim=24,
    depths=(2, 2),
    num_heads=(1, 2),
)
add_timm("pvt_v2", "pvt_v2_b0", 64, per_block("Block"), depths=(1, 1, 1, 1), embed_dims=(16, 32, 40, 64))
add_timm(
    "twins",
    "twins_pcpvt_small",
    64,
    lambda m: 2 * blocks(m, "Block") + blocks(m, "PosConv"),
    img_size=64,
    embed_dims=(16, 32, 40, 64),
    depths=(1, 1, 1, 1),
)
add_timm("convnext", "convnext_atto", 64, per_block("ConvNeXtBlock", times=1), **_STAGES)
add_timm("convnextv2", "convnextv2_atto", 64, per_block("ConvNeXtBlock", times=1), **_STAGES)
add_timm("poolformer", "poolformer_s12", 64, per_block("MetaFormerBlock"))
add_timm("caformer", "caformer_s18", 64, per_block("MetaFormerBlock"))
add_timm("regnetx", "regnetx_002", 64, per_block("Bottleneck", times=1))
add_timm("regnety", "regnety_002", 64, per_block("Bottleneck", times=1))
add_timm("resnet18", "resnet18", 64, per_block("BasicBlock", times=1))
add_timm("resnetv2", "resnetv2_50", 64, per_block("PreActBottleneck", "PreActBasic", times=1), layers=(1, 1, 1, 1))
add_timm("densenet", "densenet121", 64, lambda m: 0, block_config=(2, 2, 2, 2), growth_rate=8)
add_timm("mobilenetv3", "mobilenetv3_small_050", 64, lambda m: with_flag(m, "has_skip"))
add_timm("efficientnet", "efficientnet_lite0", 64, lambda m: with_flag(m, "has_skip"))
add_timm(
    "coatnet",
    "coatnet_nano_rw_224",
    64,
    lambda m: blocks(m, "MbConvBlock", "ConvNeXtBlock") + 2 * blocks(m, "TransformerBlock2d"),
    img_size=64,
)
add_timm(
    "maxvit",
    "maxvit_pico_rw_256",
    64,
    lambda m: blocks(m, "MbConvBlock", "ConvNeXtBlock") + 2 * blocks(m, "PartitionAttentionCl", "PartitionAttention2d"),
    img_size=64,
)
add_timm("pit", "pit_ti_224", 64, per_block("Block"), img_size=64)
add_timm("levit", "levit_128s", 64, lambda m: 2 * blocks(m, "LevitBlock") + blocks(m, "LevitDownsample"), img_size=64)
add_timm("volo", "volo_d1_224", 64, per_block("Outlooker", "Transformer", "ClassBlock"), img_size=64)
add_timm(
    "mambaout", "mambaout_femto", 64, per_block("GatedConvBlock", times=1), depths=(1, 1, 1, 1), dims=(16, 24, 32, 48)
)
add_timm(
    "hiera",
    "hiera_tiny_224",
    64,
    per_block("HieraBlock"),
    img_size=(64, 64),
    embed_dim=24,
    num_heads=1,
    stages=(1, 1, 1, 1),
)
add_timm("edgenext", "edgenext_xx_small", 64, lambda m: blocks(m, "ConvBlock") + 2 * blocks(m, "SplitTransposeBlock"))
add_timm("nfnet", "test_nfnet", 64, per_block("NormFreeBlock", times=1))
add_timm("fastvit", "fastvit_t8", 64, lambda m: -1)
add_timm("davit", "davit_tiny", 64, per_block("SpatialBlock", "ChannelBlock", times=4))
add_timm("res2net", "res2net50_26w_4s", 64, per_block("Bottle2neck", times=1))
add_timm("densely_gated", "gcresnext26ts", 64, lambda m: blocks(m, "BottleneckBlock"))


def _mixer(**options):
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(num_classes=CLASSES, img_size=32, patch_size=8, num_blocks=2, embed_dim=48, **options)


def _resmlp():
    from timm.models import mlp_mixer

    return _mixer(mlp_ratio=4, block_layer=mlp_mixer.ResBlock, norm_layer=mlp_mixer.Affine)


def _gmlp():
    from timm.layers import GatedMlp
    from timm.models import mlp_mixer

    return _mixer(mlp_ratio=6, block_layer=mlp_mixer.SpatialGatingBlock, mlp_layer=GatedMlp)


add("mixer", _mixer, 32, _two_each)
add("resmlp", _resmlp, 32, _two_each)
add("gmlp", _gmlp, 32, lambda m: len(m.blocks))


def torchvision_model(name, *arguments, **options):
    import torchvision.models

    return getattr(torchvision.models, name)(*arguments, num_classes=CLASSES, **options)


def _tv_swin_v2():
    from torchvision.models import swin_transformer as swin

    return swin.SwinTransformer(
        [4, 4],
        24,
        [2, 2],
        [1, 2],
        [4, 4],
        num_classes=CLASSES,
        block=swin.SwinTransformerBlockV2,
        downsample_layer=swin.PatchMergingV2,
    )


def _tv_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(16, 24, 1), CNBlockConfig(24, None, 2)], num_classes=CLASSES)


add(
    "tv_vit",
    functools.partial(torchvision_model, "VisionTransformer", 32, 8, 2, 3, 48, 96),
    32,
    per_block("EncoderBlock"),
)
add("tv_resnet18", functools.partial(torchvision_model, "resnet18"), 64, per_block("BasicBlock", times=1))
add("tv_resnet50", functools.partial(torchvision_model, "resnet50"), 64, per_block("Bottleneck", times=1))
add("tv_convnext", _tv_convnext, 64, per_block("CNBlock", times=1))
add(
    "tv_efficientnet_v2",
    functools.partial(torchvision_model, "efficientnet_v2_s"),
    64,
    lambda m: with_flag(m, "use_res_connect"),
)
add(
    "tv_mobilenet_v2",
    functools.partial(torchvision_model, "mobilenet_v2", width_mult=0.25),
    64,
    lambda m: with_flag(m, "use_res_connect"),
)
add("tv_shufflenet", functools.partial(torchvision_model, "shufflenet_v2_x0_5"), 64, lambda m: 0)
add("tv_swin_v2", _tv_swin_v2, 64, per_block("SwinTransformerBlockV2"))


class _Attention(nn.Module):
    """Causal attention; rotated and normalised with fewer key heads if `key_heads` is given."""

    def __init__(self, width, heads, key_heads=None, bias=True):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads or heads, width // heads
        self.rotates = key_heads is not None
        self.query = nn.Linear(width, width, bias=bias)
        self.key_value = nn.Linear(width, 2 * self.key_heads * self.size, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        if self.rotates:
            self.query_norm, self.key_norm = nn.RMSNorm(self.size), nn.RMSNorm(self.size)
            angle = torch.outer(torch.arange(64.0), 1e4 ** -(torch.arange(0, self.size, 2) / self.size)).repeat(1, 2)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

    def rotated(self, x):
        half, length = self.size // 2, x.shape[-2]
        return x * self.cos[:length] + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin[:length]

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (-1, self.size)).transpose(1, 2)  # noqa: E731
        q = split(self.query(x))
        k, v = map(split, self.key_value(x).chunk(2, -1))
        if self.rotates:
            q, k = self.rotated(self.query_norm(q)), self.rotated(self.key_norm(k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.rotates)
        return self.out(y.transpose(1, 2).flatten(2))


class _GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), _Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class _Gpt(nn.Module):
    """nanoGPT's shape: learned places, the head's weight is the embedding's."""

    def __init__(self, tokens=65, length=32, width=48, heads=3, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(_GptBlock(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class _LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = _Attention(width, heads, key_heads, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class _Llama(nn.Module):
    def __init__(self, tokens=65, width=48, heads=4, key_heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(_LlamaBlock(width, heads, key_heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _post_norm():
    layer = nn.TransformerEncoderLayer(48, 3, 96, activation="gelu", batch_first=True, norm_first=False)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


add("gpt", _Gpt, ("tokens", 32), lambda m: 2 * len(m.h))
add("llama", _Llama, ("tokens", 32), lambda m: 2 * len(m.layers))
add("post_norm_encoder", _post_norm, ("sequence", 16, 48), lambda m: 2 * len(m.layers))


def example(size, batch, seed=0):
    """Returns a batch of inputs."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(size, int):
        return torch.randn(batch, 3, size, size, generator=generator)
    if size[0] == "tokens":
        return torch.randint(0, 65, (batch, size[1]), generator=generator)
    return torch.randn(batch, *size[1:], generator=generator)


def made(name, seed=0):
    """Returns the network with weights and running statistics away from their usual first values, so that none cancels."""
    make, _, _ = NETWORKS[name]
    torch.manual_seed(seed)
    module = make().eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
        for buffer_name, buffer in module.named_buffers():
            if buffer_name.endswith("running_mean"):
                buffer.add_(torch.randn(buffer.shape, generator=generator) * 0.1)
    return module
