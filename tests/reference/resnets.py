"""The float64 reference of the convolutional networks, written from their equations with our parameter names: the
pre-activation network in the orthogonal paper's form and in timm's, which is held to timm's own module first, and the
post-activation ResNet-18 of the paper on decayed shortcuts, held to torchvision's. Goldens:
goldens/{resnetv2,resnet}_MODEL_OPTION.safetensors, as generate.py writes those of the ViT; logits are of evaluation, by
running statistics; training_logits, loss, gradients and runs are of training, and RUN/statistics/NAME are the running
ones after three steps.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from generate import FEW_BATCHES, NESTEROV, check_conditioned, float32_values, gradients_of, perturbed, train
from pvt import write_golden
from reference import Join, Memory, Place

PAPER = dict(form="paper", stem="conv3", head_norm=False)
TIMM = dict(form="timm", stem="auto", head_norm=False)
MODELS = {
    "basic": ("resnetv2", dict(PAPER, image=9, channels=2, classes=5, width=4, depths=[1, 2], block="basic"), 3),
    "neck": ("resnetv2", dict(PAPER, image=7, channels=3, classes=3, width=3, depths=[2, 1], block="bottleneck",
                              head_norm=True), 2),
    "large": ("resnetv2", dict(PAPER, image=21, channels=1, classes=4, width=5, depths=[1, 1], block="basic",
                               stem="conv7_pool"), 2),
    "large_neck": ("resnetv2", dict(PAPER, image=19, channels=2, classes=3, width=3, depths=[1, 1], block="bottleneck",
                                    stem="conv7_pool"), 3),
    "timm": ("resnetv2", dict(TIMM, image=19, channels=2, classes=4, width=8, depths=[1, 1], block="bottleneck"), 2),
    "timm_basic": ("resnetv2", dict(TIMM, image=17, channels=1, classes=3, width=8, depths=[1, 1], block="basic"), 3),
    "post": ("resnet", dict(image=21, channels=1, classes=5, width=3, depths=[1, 2, 1], stem="conv7_pool"), 3),
    "small": ("resnet", dict(image=9, channels=1, classes=3, width=4, depths=[2, 1], stem="conv3"), 3),
}
# augment's
BLOCKS = {"basic": 2, "neck": 3, "large": 5, "large_neck": 3, "timm": 4, "timm_basic": 4, "post": 3, "small": 2}
# Other weights and images, where float32 cannot hold those of 0: a pixel's stream of few channels nearly vanishes, and
# after 20 steps PyTorch's own float32 is 1e-2 of the way off; an alpha's gradient cancels to 3e-4 of all; or a ReLU's
# input comes as near to 0 as rounding errors are.
SEEDS = {("neck", "orthogonal"): 1, ("post", "skipless"): 1, ("basic", "orthogonal"): 2, ("small", "orthogonal"): 5, ("timm_basic", "decay_learnable"): 4}
RUNS = {"nesterov": NESTEROV | {"decay": "all"}}
OPTIONS = {
    "plain": [],
    "orthogonal": ["orthogonal"],
    "orthogonal_global": ["orthogonal:mode=global"],
    "decay": ["decay:alpha_min=0.8"],
    "decay_learnable": ["decay:learnable=true"],
    "augment": ["augment:blocks=B,input=stream"],
    "skipless": ["skipless:reinit=false"],
}

WITHOUT_SHORTCUTS = ("basic", "neck", "post", "small")


NEAREST = []  # how near to 0 a ReLU's inputs came, call by call, in float64


def relu(x):
    if x.dtype == torch.float64:
        NEAREST.append(x.detach().abs().min().item())
    return F.relu(x)


def tokens(maps):
    return maps.flatten(2).transpose(1, 2)


class Joined(nn.Module):
    """A block whose join sees a map as tokens."""

    def __init__(self, plugins, index, count, width, memory):
        super().__init__()
        self.join_conv = Join(plugins, Place(index, count, index, count, width, "conv"), memory)

    def joined(self, stream, f, u):
        y = self.join_conv(tokens(stream), tokens(f), tokens(u) if u.shape == f.shape else None, None)
        return y.transpose(1, 2).reshape(f.shape)


class Projection(nn.Module):
    def __init__(self, inputs, outputs, stride, bias):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=bias)

    def forward(self, x):
        return self.conv(x)


class PreActivationBlock(Joined):
    def __init__(self, inputs, width, stride, bottleneck, timm, plugins, index, count, memory):
        outputs = 4 * width if bottleneck else width
        super().__init__(plugins, index, count, outputs, memory)
        self.timm = timm
        shapes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if bottleneck:
            shapes = [(inputs, width, 1, 1 if timm else stride), (width, width, 3, stride if timm else 1),
                      (width, outputs, 1, 1)]
        self.count = len(shapes)
        for i, (a, b, kernel, step) in enumerate(shapes):
            setattr(self, f"norm{i + 1}", nn.BatchNorm2d(a))
            setattr(self, f"conv{i + 1}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=not timm))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = Projection(inputs, outputs, stride, not timm)

    def forward(self, x):
        u = relu(self.norm1(x))
        f = self.conv1(u)
        for i in range(2, self.count + 1):
            f = getattr(self, f"conv{i}")(relu(getattr(self, f"norm{i}")(f)))
        stream = x if self.downsample is None else self.downsample(u if self.timm else x)
        return self.joined(stream, f, u)


class Network(nn.Module):
    def draw(self, seed, step):
        pass


class Stem(nn.Module):
    def __init__(self, channels, width, pooled, norm, bias):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, *((7, 2, 3) if pooled else (3, 1, 1)), bias=bias)
        self.norm = nn.BatchNorm2d(width) if norm else None
        self.pooled = pooled

    def forward(self, x):
        x = self.conv(x)
        x = x if self.norm is None else relu(self.norm(x))
        return F.max_pool2d(x, 3, 2, 1) if self.pooled else x


class Head(nn.Module):
    def __init__(self, inputs, classes, norm, as_conv):
        super().__init__()
        self.norm = nn.LayerNorm(inputs) if norm else None
        self.fc = nn.Conv2d(inputs, classes, 1) if as_conv else nn.Linear(inputs, classes)
        self.as_conv = as_conv

    def forward(self, x):
        x = x.mean((2, 3))
        x = x if self.norm is None else self.norm(x)
        return self.fc(x[:, :, None, None]).flatten(1) if self.as_conv else self.fc(x)


class ResNetV2(Network):
    def __init__(self, image, channels, classes, width, depths, block, form, stem, head_norm, plugins=()):
        super().__init__()
        timm, bottleneck, memory = form == "timm", block == "bottleneck", Memory()
        self.stem = Stem(channels, width, timm or stem == "conv7_pool", not timm, not timm)
        self.stages, inputs, index = nn.ModuleList(), width, 0
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(PreActivationBlock(inputs, width << stage, stride, bottleneck, timm, plugins, index,
                                                 sum(depths), memory))
                inputs, index = (width << stage) * (4 if bottleneck else 1), index + 1
            self.stages.append(nn.ModuleDict({"blocks": nn.ModuleList(blocks)}))
        self.norm = nn.BatchNorm2d(inputs) if timm else None
        self.head = Head(inputs, classes, head_norm, timm)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            for block in stage["blocks"]:
                x = block(x)
        return self.head(x if self.norm is None else relu(self.norm(x)))


class PostActivationBlock(Joined):
    def __init__(self, inputs, width, stride, plugins, index, count, memory):
        super().__init__(plugins, index, count, width, memory)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        f = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
        stream = x if self.downsample is None else self.downsample(x)
        return relu(self.joined(stream, f, x))


class ResNet(Network):
    """Stages of depths blocks each; decay counts the blocks."""

    def __init__(self, image, channels, classes, width, depths, stem, plugins=()):
        super().__init__()
        self.pooled, memory, inputs, index = stem == "conv7_pool", Memory(), width, 0
        self.conv1 = nn.Conv2d(channels, width, *((7, 2, 3) if self.pooled else (3, 1, 1)), bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stages = len(depths)
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                blocks.append(PostActivationBlock(inputs, width << stage, 2 if stage > 0 and i == 0 else 1, plugins,
                                                  index, sum(depths), memory))
                inputs, index = width << stage, index + 1
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, 2, 1) if self.pooled else x
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def scatter_statistics(model, generator):
    """Running statistics that no evaluation could do without, and weights of norms around 1."""
    for name, p in model.named_parameters():
        if p.ndim == 1 and ("bn" in name or "downsample.1" in name):
            noise = 0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
            p.data = float32_values(noise + (1.0 if name.endswith("weight") else 0.0))
    for name, buffer in model.named_buffers():
        noise = torch.randn(buffer.shape, generator=generator, dtype=torch.float64)
        if name.endswith("running_mean"):
            buffer.copy_(float32_values(0.5 * noise))
        if name.endswith("running_var"):
            buffer.copy_(float32_values(0.5 + noise.square()))


def statistics(model):
    return {name: buffer.clone() for name, buffer in model.named_buffers() if "running_" in name}


def check_against_peer(model, peer, images):
    peer = peer.double()
    missing = peer.load_state_dict(model.state_dict(), strict=True)
    assert not missing.missing_keys and not missing.unexpected_keys
    for mode in (False, True):
        own, theirs = model.train(mode)(images), peer.train(mode)(images)
        assert torch.allclose(own, theirs, rtol=1e-12, atol=1e-12), (own - theirs).abs().max()
    for name, buffer in model.named_buffers():
        assert torch.allclose(buffer, dict(peer.named_buffers())[name], rtol=1e-12, atol=1e-12), name


def peer_of(model, options):
    if options.get("form") == "timm":
        from timm.layers import BatchNormAct2d, create_conv2d
        from timm.models.resnetv2 import ResNetV2 as Peer
        width, basic = options["width"], options["block"] == "basic"
        first = width if basic else 4 * width
        return Peer(layers=options["depths"], channels=[first << i for i in range(len(options["depths"]))],
                    num_classes=options["classes"], in_chans=options["channels"], stem_chs=width, basic=basic,
                    bottle_ratio=1.0 if basic else 0.25, conv_layer=create_conv2d, norm_layer=BatchNormAct2d)
    if model == "post":
        from torchvision.models.resnet import BasicBlock, ResNet as Peer
        peer = Peer(BasicBlock, [1] * 4, num_classes=options["classes"])
        peer.layer4 = nn.Identity()  # it has four stages
        width = options["width"]
        peer.inplanes = width
        peer.conv1 = nn.Conv2d(options["channels"], width, 7, 2, 3, bias=False)
        peer.bn1 = nn.BatchNorm2d(width)
        for i, depth in enumerate(options["depths"]):
            setattr(peer, f"layer{i + 1}", peer._make_layer(BasicBlock, width << i, depth, stride=1 if i == 0 else 2))
        peer.fc = nn.Linear(width << len(options["depths"]) - 1, options["classes"])
        return peer
    return None


def make_case(name, option):
    family, options, batch = MODELS[name]
    plugins = [spec.replace("=B", f"={BLOCKS[name]}") for spec in OPTIONS[option]]
    generator = torch.Generator().manual_seed(20241124 + SEEDS.get((name, option), 0))
    model = {"resnetv2": ResNetV2, "resnet": ResNet}[family](**options, plugins=plugins).double()
    perturbed(model, generator)
    scatter_statistics(model, generator)
    shape = (FEW_BATCHES, batch, options["channels"], options["image"], options["image"])
    images = float32_values(torch.randn(shape, generator=generator, dtype=torch.float64))
    labels = torch.randint(0, options["classes"], shape[:2], generator=generator)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    if option == "plain" and (peer := peer_of(name, options)) is not None:
        check_against_peer(model, peer, images[0])
        model.load_state_dict(start)
    logits = model.eval()(images[0])
    training_logits, loss, gradients = gradients_of(model, images[0], labels[0])
    tensors = {"images": images.float(), "labels": labels, "logits": logits.detach(), "loss": loss,
               "training_logits": training_logits}
    for key, gradient in gradients.items():
        tensors["weight/" + key] = start[key].float()
        tensors["gradient/" + key] = gradient
    for key in statistics(model):
        tensors["frozen/" + key] = start[key].float()
    for run, o in RUNS.items():
        model.load_state_dict(start)
        train(model, images, labels, o, 0, 3)
        for key, value in statistics(model).items():
            tensors[f"{run}/statistics/{key}"] = value
        model.load_state_dict(start)
        NEAREST.clear()
        losses, norms, rates = train(model, images, labels, o, 0)
        # Nearer, float32 may come to the other side, where the gradient is another one.
        assert min(NEAREST) > 1e-6, f"a ReLU's input is {min(NEAREST):.1e}, take another seed"
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key, p in model.named_parameters():
            tensors[f"{run}/weight/{key}"] = p.detach().float()
    check_conditioned(model, start, images, labels, tensors, RUNS)
    case = {"family": family, "model": options, "plugins": plugins, "runs": RUNS, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    for name, (family, _, _) in MODELS.items():
        for option in OPTIONS:
            golden = f"{family}_{name}_{option}"
            asked = not sys.argv[1:] or any(golden.startswith(prefix) for prefix in sys.argv[1:])
            if asked and (option != "skipless" or name in WITHOUT_SHORTCUTS):
                write_golden(golden, *make_case(name, option))


if __name__ == "__main__":
    main()
