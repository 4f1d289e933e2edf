"""resnet for PyTorch. Written by rewire … export.

    net = Net()
    net.load_state_dict(safetensors.torch.load_file("resnet.safetensors"))

image: f32 [batch, 3, 32, 32]
The weights are those of a file.
"""

from fnmatch import fnmatch

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(4, eps=1e-05, momentum=0.1)
        self.bn2 = nn.BatchNorm2d(4, eps=1e-05, momentum=0.1)
        self.downsample = nn.ModuleList([nn.Conv2d(64, 4, 1, bias=False), nn.BatchNorm2d(4, eps=1e-05, momentum=0.1)])
        self.conv1 = nn.Conv2d(64, 4, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)

    def forward(self, x):
        f = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(self.downsample[1](self.downsample[0](x)) + f)


class Layer2(nn.Module):
    def __init__(self, dim, in_channels):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(dim, eps=1e-05, momentum=0.1)
        self.bn2 = nn.BatchNorm2d(dim, eps=1e-05, momentum=0.1)
        self.downsample = nn.ModuleList([nn.Conv2d(in_channels, dim, 1, stride=2, bias=False), nn.BatchNorm2d(dim, eps=1e-05, momentum=0.1)])
        self.conv1 = nn.Conv2d(in_channels, dim, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(dim, dim, 3, padding=1, bias=False)

    def forward(self, x):
        f = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(self.downsample[1](self.downsample[0](x)) + f)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(64, eps=1e-05, momentum=0.1)
        self.layer1 = nn.ModuleList([Layer()])
        self.layer2 = nn.ModuleList([Layer2(4, 4)])
        self.layer3 = nn.ModuleList([Layer2(8, 4)])
        self.layer4 = nn.ModuleList([Layer2(8, 8)])
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.fc = nn.Linear(8, 10)
        initialise(self)

    def forward(self, image):
        assert image.shape[1:] == (3, 32, 32), f"image: {tuple(image.shape)}"
        y = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, stride=2, padding=1)
        x = self.layer1[0](y)
        x = self.layer2[0](x)
        x = self.layer3[0](x)
        x = self.layer4[0](x)
        return self.fc(x.squeeze((2, 3)))


INITIAL = {
    "bn1.running_mean": (nn.init.zeros_,),
    "bn1.running_var": (nn.init.ones_,),
    "layer1.*.bn1.running_mean": (nn.init.zeros_,),
    "layer1.*.bn1.running_var": (nn.init.ones_,),
    "layer1.*.bn2.running_mean": (nn.init.zeros_,),
    "layer1.*.bn2.running_var": (nn.init.ones_,),
    "layer1.*.downsample.*.running_mean": (nn.init.zeros_,),
    "layer1.*.downsample.*.running_var": (nn.init.ones_,),
    "layer2.*.bn1.running_mean": (nn.init.zeros_,),
    "layer2.*.bn1.running_var": (nn.init.ones_,),
    "layer2.*.bn2.running_mean": (nn.init.zeros_,),
    "layer2.*.bn2.running_var": (nn.init.ones_,),
    "layer2.*.downsample.*.running_mean": (nn.init.zeros_,),
    "layer2.*.downsample.*.running_var": (nn.init.ones_,),
    "layer3.*.bn1.running_mean": (nn.init.zeros_,),
    "layer3.*.bn1.running_var": (nn.init.ones_,),
    "layer3.*.bn2.running_mean": (nn.init.zeros_,),
    "layer3.*.bn2.running_var": (nn.init.ones_,),
    "layer3.*.downsample.*.running_mean": (nn.init.zeros_,),
    "layer3.*.downsample.*.running_var": (nn.init.ones_,),
    "layer4.*.bn1.running_mean": (nn.init.zeros_,),
    "layer4.*.bn1.running_var": (nn.init.ones_,),
    "layer4.*.bn2.running_mean": (nn.init.zeros_,),
    "layer4.*.bn2.running_var": (nn.init.ones_,),
    "layer4.*.downsample.*.running_mean": (nn.init.zeros_,),
    "layer4.*.downsample.*.running_var": (nn.init.ones_,),
    "conv1.weight": (nn.init.normal_, 0.0, 0.032),
    "bn1.weight": (nn.init.ones_,),
    "bn1.bias": (nn.init.normal_, 0.0, 0.02),
    "layer1.*.conv1.weight": (nn.init.normal_, 0.0, 0.24),
    "layer1.*.bn1.weight": (nn.init.ones_,),
    "layer1.*.bn1.bias": (nn.init.uniform_, -0.027, 0.027),
    "layer1.*.conv2.weight": (nn.init.normal_, 0.0, 0.23),
    "layer1.*.bn2.weight": (nn.init.uniform_, -0.057, 0.057),
    "layer1.*.bn2.bias": (nn.init.uniform_, -0.031, 0.031),
    "layer1.*.downsample.*.weight": (nn.init.normal_, 0.0, 0.72),
    "layer1.0.downsample.1.weight": (nn.init.ones_,),
    "layer1.*.downsample.*.bias": (nn.init.normal_, 0.0, 0.023),
    "layer2.*.conv1.weight": (nn.init.normal_, 0.0, 0.22),
    "layer2.*.bn1.weight": (nn.init.ones_,),
    "layer2.*.bn1.bias": (nn.init.uniform_, -0.044, 0.044),
    "layer2.*.conv2.weight": (nn.init.normal_, 0.0, 0.24),
    "layer2.*.bn2.weight": (nn.init.uniform_, -0.046, 0.046),
    "layer2.*.bn2.bias": (nn.init.uniform_, -0.04, 0.04),
    "layer2.*.downsample.*.weight": (nn.init.normal_, 0.0, 0.63),
    "layer2.0.downsample.1.weight": (nn.init.constant_, 0.9900000095367432),
    "layer2.*.downsample.*.bias": (nn.init.uniform_, -0.025, 0.025),
    "layer3.*.conv1.weight": (nn.init.normal_, 0.0, 0.17),
    "layer3.*.bn1.weight": (nn.init.ones_,),
    "layer3.*.bn1.bias": (nn.init.uniform_, -0.028, 0.028),
    "layer3.*.conv2.weight": (nn.init.normal_, 0.0, 0.17),
    "layer3.*.bn2.weight": (nn.init.normal_, 0.0, 0.011),
    "layer3.*.bn2.bias": (nn.init.normal_, 0.0, 0.021),
    "layer3.*.downsample.*.weight": (nn.init.normal_, 0.0, 0.48),
    "layer3.0.downsample.1.weight": (nn.init.ones_,),
    "layer3.*.downsample.*.bias": (nn.init.uniform_, -0.032, 0.032),
    "layer4.*.conv1.weight": (nn.init.normal_, 0.0, 0.18),
    "layer4.*.bn1.weight": (nn.init.ones_,),
    "layer4.*.bn1.bias": (nn.init.uniform_, -0.036, 0.036),
    "layer4.*.conv2.weight": (nn.init.normal_, 0.0, 0.16),
    "layer4.*.bn2.weight": (nn.init.normal_, 0.0, 0.02),
    "layer4.*.bn2.bias": (nn.init.normal_, 0.0, 0.016),
    "layer4.*.downsample.*.weight": (nn.init.normal_, 0.0, 0.5),
    "layer4.0.downsample.1.weight": (nn.init.constant_, 0.9900000095367432),
    "layer4.*.downsample.*.bias": (nn.init.uniform_, -0.027, 0.027),
    "fc.weight": (nn.init.normal_, 0.0, 0.21),
    "fc.bias": (nn.init.uniform_, -0.4, 0.4),
}


def initialise(net):
    """Fills the weights as a run begins: from the same distributions."""
    with torch.no_grad():
        for name, weight in net.state_dict().items():
            rule = INITIAL.get(name) or next((INITIAL[pattern] for pattern in INITIAL if fnmatch(name, pattern)), None)
            if rule is None and weight.is_floating_point():
                raise KeyError(f"INITIAL has no first values for {name}")
            if rule is not None:
                rule[0](weight, *rule[1:])
