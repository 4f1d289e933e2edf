"""The float64 reference of the detection transformer (Carion et al., ECCV 2020), with the names of its authors' code
(facebookresearch/detr) and PyTorch's own MultiheadAttention, and its goldens: goldens/detr_BACKBONE.safetensors, as
generate.py writes those of the ViT. The second image of the batch is padded. The loss is the mean square of logits and of
boxes, so no objective of detection is needed.

    detr.py             writes them
    detr.py --check     compares the transformer with Hugging Face's Detr layers, whose code follows the authors'
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import FrozenBatchNorm2d

from generate import float32_values, gradients_of, perturbed
from pvt import Block as PyramidBlock
from pvt import PatchEmbed, write_golden
from reference import Join, Memory, Mlp, Place

COMMON = dict(image_height=64, image_width=96, channels=1, dim=8, heads=2, encoder_depth=1, decoder_depth=2, mlp_hidden=7,
              queries=4, classes=3, dropout=0.0)
MODELS = {
    "deit": dict(COMMON, backbone="deit_small", backbone_dims=[9], backbone_depths=[2], backbone_heads=[3]),
    "pvt": dict(COMMON, backbone="pvt_small", backbone_dims=[3, 4, 6, 8], backbone_depths=[1, 1, 2, 1],
                backbone_heads=[1, 2, 3, 2]),
    "resnet": dict(COMMON, image_width=64, backbone="resnet50", backbone_dims=[2], backbone_depths=[1, 1, 1, 1], backbone_heads=[]),
}
PADDED = {"deit": (40, 64), "pvt": (40, 64), "resnet": (40, 32)}  # the second image; 40 ends within a patch of 16
SEEDS = {"pvt": 20261130}  # where float32 is too near a corner of ReLU


class MaskedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, seen):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class DeitBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), MaskedAttention(dim, heads)
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=1e-6), Mlp(dim, 4 * dim, "gelu")

    def forward(self, x, seen):
        x = x + self.attn(self.norm1(x), seen)
        return x + self.mlp(self.norm2(x))


class DeitPatches(nn.Module):
    def __init__(self, channels, dim):
        super().__init__()
        self.proj = nn.Conv2d(channels, dim, 16, 16)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Deit(nn.Module):
    """The patches' tokens; none sees a key that is padding."""
    stride = 16

    def __init__(self, sides, channels, dims, depths, heads):
        super().__init__()
        self.patch_embed = DeitPatches(channels, dims[0])
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dims[0]))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + sides[0] * sides[1] // 16**2, dims[0]))
        self.blocks = nn.ModuleList([DeitBlock(dims[0], heads[0]) for _ in range(depths[0])])
        self.norm = nn.LayerNorm(dims[0], eps=1e-6)
        self.width = dims[0]

    def forward(self, image, seen):
        x = torch.cat([self.cls_token.expand(len(image), -1, -1), self.patch_embed(image)], 1) + self.pos_embed
        seen = F.pad(seen.flatten(1), (1, 0), value=True)
        for block in self.blocks:
            x = block(x, seen)
        return self.norm(x)[:, 1:]


class Pyramid(nn.Module):
    stride = 32

    def __init__(self, sides, channels, dims, depths, heads):
        super().__init__()
        self.sides, self.width, memory = [], dims[-1], Memory()
        for i, (dim, depth) in enumerate(zip(dims, depths)):
            patch, last = (4, 2, 2, 2)[i], i == 3
            sides = [side // patch for side in sides]
            self.sides.append(sides)
            setattr(self, f"patch_embed{i + 1}", PatchEmbed(channels, dim, patch))
            if last:
                self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
            setattr(self, f"pos_embed{i + 1}", nn.Parameter(torch.zeros(1, sides[0] * sides[1] + last, dim)))
            joins = [[Join([], Place(0, 2, 0, 1, dim, site), memory) for site in ("attn", "mlp")] for _ in range(depth)]
            setattr(self, f"block{i + 1}", nn.ModuleList(
                [PyramidBlock(dim, heads[i], (8, 8, 4, 4)[i] * dim, (8, 4, 2, 1)[i], *two) for two in joins]))
            channels = dim
        self.norm = nn.LayerNorm(dims[-1], eps=1e-6)

    def forward(self, x, seen):
        for i, sides in enumerate(self.sides):
            x = getattr(self, f"patch_embed{i + 1}")(x)
            if i == 3:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
            x = x + getattr(self, f"pos_embed{i + 1}")
            for block in getattr(self, f"block{i + 1}"):
                x = block(x, sides)
            if i < 3:
                x = x.transpose(1, 2).reshape(len(x), -1, *sides)
        return self.norm(x)[:, 1:]


class FrozenResNet(ResNet):
    """torchvision's network as the authors' code has it, with other widths; conv1 and layer1 do not train."""
    stride = 32

    def __init__(self, sides, channels, dims, depths, heads):
        super().__init__(Bottleneck, [1, 1, 1, 1], norm_layer=FrozenBatchNorm2d)
        self.inplanes = dims[0]
        self.conv1 = nn.Conv2d(channels, dims[0], 7, 2, 3, bias=False)
        self.bn1 = FrozenBatchNorm2d(dims[0])
        for i, depth in enumerate(depths):
            setattr(self, f"layer{i + 1}", self._make_layer(Bottleneck, dims[0] << i, depth, stride=1 if i == 0 else 2))
        del self.fc
        self.width = 4 * dims[0] << 3
        for name, weight in self.named_parameters():
            weight.requires_grad_(name.startswith(("layer2", "layer3", "layer4")))

    def forward(self, x, seen):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).flatten(2).transpose(1, 2)


class Backbone(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body


def sine_positions(seen, width):
    """[B, h w, width] of the mask [B, h, w]: PositionEmbeddingSine, normalised, of scale 2 pi and temperature 10000."""
    y, x = seen.double().cumsum(1), seen.double().cumsum(2)
    y, x = (2 * math.pi * y / (y[:, -1:] + 1e-6), 2 * math.pi * x / (x[:, :, -1:] + 1e-6))
    half = width // 2
    wave = 10000.0 ** (2 * (torch.arange(half, dtype=torch.float64) // 2) / half)
    parts = []
    for place in (y, x):
        angle = place[..., None] / wave
        parts.append(torch.stack([angle[..., 0::2].sin(), angle[..., 1::2].cos()], 4).flatten(3))
    return torch.cat(parts, 3).flatten(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, hidden, positions):
        q = x + positions
        x = self.norm1(x + self.self_attn(q, q, x, key_padding_mask=hidden, need_weights=False)[0])
        return self.norm2(x + self.linear2(F.relu(self.linear1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, y, memory, hidden, positions, queries):
        q = y + queries
        y = self.norm1(y + self.self_attn(q, q, y, need_weights=False)[0])
        y = self.norm2(y + self.multihead_attn(y + queries, memory + positions, memory, key_padding_mask=hidden,
                                               need_weights=False)[0])
        return self.norm3(y + self.linear2(F.relu(self.linear1(y))))


class Transformer(nn.Module):
    def __init__(self, dim, heads, hidden, encoder_depth, decoder_depth):
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.layers = nn.ModuleList([EncoderLayer(dim, heads, hidden) for _ in range(encoder_depth)])
        self.decoder.layers = nn.ModuleList([DecoderLayer(dim, heads, hidden) for _ in range(decoder_depth)])
        self.decoder.norm = nn.LayerNorm(dim)

    def forward(self, x, hidden, positions, queries):
        for layer in self.encoder.layers:
            x = layer(x, hidden, positions)
        queries = queries.expand(len(x), -1, -1)
        y, outputs = torch.zeros_like(queries), []
        for layer in self.decoder.layers:
            y = layer(y, x, hidden, positions, queries)
            outputs.append(self.decoder.norm(y))
        return torch.stack(outputs)


class BoxMlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 4)])

    def forward(self, x):
        return self.layers[2](F.relu(self.layers[1](F.relu(self.layers[0](x)))))


class Detr(nn.Module):
    def __init__(self, backbone, backbone_dims, backbone_depths, backbone_heads, image_height, image_width, channels, dim,
                 heads, encoder_depth, decoder_depth, mlp_hidden, queries, classes, dropout):
        super().__init__()
        assert dropout == 0
        body = {"deit_small": Deit, "pvt_small": Pyramid, "resnet50": FrozenResNet}[backbone](
            (image_height, image_width), channels, backbone_dims, backbone_depths, backbone_heads)
        self.backbone = nn.ModuleList([Backbone(body)])
        self.input_proj = nn.Conv2d(body.width, dim, 1)
        self.query_embed = nn.Embedding(queries, dim)
        self.transformer = Transformer(dim, heads, mlp_hidden, encoder_depth, decoder_depth)
        self.class_embed = nn.Linear(dim, classes + 1)
        self.bbox_embed = BoxMlp(dim)

    def draw(self, seed, step):
        pass

    def forward(self, image, mask):
        body = self.backbone[0].body
        sides = [side // body.stride for side in image.shape[2:]]
        seen = F.interpolate(mask[None], size=sides)[0].bool()
        x = body(image, seen).transpose(1, 2).reshape(len(image), -1, *sides)
        x = self.input_proj(x).flatten(2).transpose(1, 2)
        positions = sine_positions(seen, x.shape[2]).to(x.dtype)
        y = self.transformer(x, ~seen.flatten(1), positions, self.query_embed.weight[None])
        return self.class_embed(y), self.bbox_embed(y).sigmoid()

    def loss(self, image, mask):
        logits, boxes = self(image, mask)
        return logits, logits.square().mean() + boxes.square().mean()


def scatter_frozen(model, generator):
    for name, buffer in model.named_buffers():
        noise = 0.3 * torch.randn(buffer.shape, generator=generator, dtype=torch.float64)
        buffer.copy_(float32_values(noise.abs() + 0.5 if name.endswith("var") else
                                    1 + noise if name.endswith("weight") else noise))


def make_case(name):
    options = MODELS[name]
    generator = torch.Generator().manual_seed(SEEDS.get(name, 20261129))
    model = Detr(**options).double()
    perturbed(model, generator)
    scatter_frozen(model, generator)
    shape = (1, 2, options["channels"], options["image_height"], options["image_width"])
    images = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = torch.ones(1, 2, *shape[3:], dtype=torch.float64)
    mask[0, 1, PADDED[name][0]:] = 0
    mask[0, 1, :, PADDED[name][1]:] = 0
    images = float32_values(images * mask[:, :, None])  # padding is zeros
    logits, boxes = model.eval()(images[0], mask[0])
    _, loss, gradients = gradients_of(model, images[0], mask[0])
    tensors = {"images": images.float(), "input/image_mask": mask.byte(), "logits": logits.detach(),
               "boxes": boxes.detach(), "loss": loss}
    for key, p in model.named_parameters():
        tensors[("weight/" if p.requires_grad else "frozen/") + key] = p.detach().float()
    for key, buffer in model.named_buffers():
        tensors["frozen/" + key] = buffer.float()
    for key, gradient in gradients.items():
        tensors["gradient/" + key] = gradient
    model.float()
    got = gradients_of(model, images[0].float(), mask[0].float())[2]
    whole = torch.stack([want.norm() for want in gradients.values()]).norm()

    def scale(want):  # the first queries see equal values, so their weights have no gradient but rounding
        return whole if want.norm() < 1e-12 * whole else max(want.norm(), 1e-6 * whole)
    worst, where = max((((got[key] - want).norm() / scale(want)).item(), key) for key, want in gradients.items())
    assert worst < 3e-5, f"PyTorch's own gradient of {where} in float32 is {worst:.1e} off, take another seed"
    case = {"family": "detr", "model": options, "objective": {"name": "mean_squares"}, "plugins": [], "runs": {},
            "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def check_against_hugging_face():
    """The transformer at dim 32, 4 heads, 3 + 3 layers, 7 x 9 tokens of which images lack some, 11 queries."""
    from transformers import DetrConfig, ResNetConfig
    from transformers.models.detr import modeling_detr

    config = DetrConfig(d_model=32, encoder_attention_heads=4, decoder_attention_heads=4, encoder_layers=3, decoder_layers=3,
                        encoder_ffn_dim=48, decoder_ffn_dim=48, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
                        num_queries=11, use_timm_backbone=False, use_pretrained_backbone=False,
                        backbone_config=ResNetConfig(), attn_implementation="eager")
    encoder, decoder = modeling_detr.DetrEncoder(config).double().eval(), modeling_detr.DetrDecoder(config).double().eval()
    own = Transformer(32, 4, 48, 3, 3).double().eval()
    generator = torch.Generator().manual_seed(1)
    perturbed(own, generator)

    def copy(theirs, ours, pairs):
        for their_name, our_name in pairs:
            theirs.get_submodule(their_name).load_state_dict(ours.get_submodule(our_name).state_dict())

    def copy_attention(theirs, ours):
        for part, weight, bias in zip("qkv", ours.in_proj_weight.chunk(3), ours.in_proj_bias.chunk(3)):
            layer = theirs.get_submodule(f"{part}_proj")
            layer.weight.data, layer.bias.data = weight.data, bias.data
        theirs.o_proj.load_state_dict(ours.out_proj.state_dict())

    mlp = [("mlp.fc1", "linear1"), ("mlp.fc2", "linear2"), ("self_attn_layer_norm", "norm1")]
    for theirs, ours in zip(encoder.layers, own.encoder.layers):
        copy(theirs, ours, mlp + [("final_layer_norm", "norm2")])
        copy_attention(theirs.self_attn, ours.self_attn)
    for theirs, ours in zip(decoder.layers, own.decoder.layers):
        copy(theirs, ours, mlp + [("encoder_attn_layer_norm", "norm2"), ("final_layer_norm", "norm3")])
        copy_attention(theirs.self_attn, ours.self_attn)
        copy_attention(theirs.encoder_attn, ours.multihead_attn)
    copy(decoder, own.decoder, [("layernorm", "norm")])

    x = torch.randn(3, 63, 32, generator=generator, dtype=torch.float64)
    queries = torch.randn(11, 32, generator=generator, dtype=torch.float64)
    seen = torch.zeros(3, 7, 9, dtype=torch.bool)
    for image, (rows, columns) in enumerate([(7, 9), (4, 9), (5, 2)]):
        seen[image, :rows, :columns] = True
    positions = sine_positions(seen, 32)
    theirs = modeling_detr.DetrSinePositionEmbedding(16, normalize=True)(
        (3, 32, 7, 9), "cpu", torch.float64, seen).flatten(2).transpose(1, 2)
    print(f"sine positions: {(positions - theirs).abs().max():.1e}")
    mask = seen.flatten(1)
    memory = encoder(x, mask, positions).last_hidden_state
    layers = decoder.layers
    for depth in (1, 2, 3):
        decoder.layers = layers[:depth]
        y = decoder(torch.zeros(3, 11, 32, dtype=torch.float64), None, memory, mask, positions,
                    queries.expand(3, -1, -1)).last_hidden_state
        difference = (own(x, ~mask, positions, queries[None])[depth - 1] - y).abs().max()
        print(f"output of decoder layer {depth}: {difference:.1e}, of values up to {y.abs().max():.1f}")


def main():
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--check"]:
        return check_against_hugging_face()
    for name in MODELS:
        write_golden(f"detr_{name}", *make_case(name))


if __name__ == "__main__":
    main()
