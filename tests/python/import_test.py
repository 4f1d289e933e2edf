"""What rewire.export, load and convert do with unusual modules and bad requests. Needs torch, timm, safetensors.

python tests/python/import_test.py
"""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(pathlib.Path(__file__).parent)]
os.environ.setdefault("REWIRE", str(ROOT / "build/release/bin/rewire"))

import numpy  # noqa: E402
import torch  # noqa: E402
from networks import _Gpt, timm_model  # noqa: E402
from torch import nn  # noqa: E402

import rewire  # noqa: E402


class Block(nn.Module):
    def __init__(self, width=8, act=nn.GELU):
        super().__init__()
        self.norm, self.fc1, self.act, self.fc2 = nn.LayerNorm(width), nn.Linear(width, 16), act(), nn.Linear(16, width)

    def forward(self, x):
        return x + self.fc2(self.act(self.fc1(self.norm(x))))


class Net(nn.Module):
    """Two blocks over rows of pixels, then a head; `middle` comes between."""

    def __init__(self, middle=None, classes=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.middle, self.head = middle or nn.Identity(), nn.Linear(8, classes)

    def forward(self, image):
        x = image.flatten(1, 2)
        x = self.blocks[1](self.middle(self.blocks[0](x)))
        return self.head(x.mean(1))


def of(function):
    """A module of one function."""

    class Middle(nn.Module):
        def forward(self, x):
            return function(x)

    return Middle()


IMAGE = torch.randn(2, 3, 4, 8)


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.network = self.folder / "net.rir"

    def export(self, module, inputs=IMAGE, **options):
        return rewire.export(module, inputs, self.network, **options)

    def refused(self, words, module, inputs=IMAGE, lines=1, **options):
        with self.assertRaises(rewire.RewireError) as caught:
            self.export(module, inputs, **options)
        self.assertRegex(str(caught.exception), words)
        self.assertEqual(len(str(caught.exception).splitlines()), lines)
        self.assertFalse(self.network.exists())

    def train(self, *more, steps=3):
        """Trains the exported network from its weights, and returns the run folder."""
        run, weights = self.folder / "run", self.folder / "net.safetensors"
        settings = (
            f"train.weights={weights}",
            "data.format=synthetic",
            f"data.count={8 * steps}",
            "train.batch=8",
            "train.epochs=1",
        )
        words = [word for setting in settings for word in ("--set", setting)]
        rewire.run("train", self.network, *words, "--no-autotune", "--quiet", *more, "--out", run)
        return run

    def agrees(self, module, inputs=IMAGE, name="image", tolerance=1e-5):
        """The command computes what the module does in float64."""
        numpy.save(self.folder / "x.npy", inputs.numpy())
        rewire.run(
            "run",
            self.network,
            "--weights",
            self.folder / "net.safetensors",
            "--input",
            f"{name}={self.folder / 'x.npy'}",
            "--output",
            self.folder / "y.npy",
        )
        with torch.no_grad():
            wanted = module.double().eval()(inputs.double() if inputs.is_floating_point() else inputs).numpy()
        got = numpy.load(self.folder / "y.npy")
        self.assertLess(abs(got - wanted).max(), tolerance * abs(wanted).max())


class Refused(Case):
    def test_control_flow_that_depends_on_data(self):
        self.refused("^torch.export cannot trace Net: ", Net(of(lambda x: x * 2 if x.sum() > 0 else x)))

    def test_all_unsupported_ops_are_named_at_once(self):
        def middle(x):
            return torch.linalg.svdvals(x).sum() + x + torch.special.bessel_j0(x)

        self.refused(
            r"^not supported \(2\):\n  aten.linalg_svdvals in middle at .*import_test.py:\d+\n  aten.special_bessel_j0 ",
            Net(of(middle)),
            lines=3,
        )

    def test_joins_that_name_nothing(self):
        self.refused(
            r"no join is named 'blocks.7.mlp'; there are blocks.0.mlp, blocks.1.mlp", Net(), joins=["-blocks.7.mlp"]
        )
        self.refused(
            r"'add_9' is no addition of a branch to a stream; additions are add, add_1", Net(), joins=["+add_9"]
        )
        self.refused(r"a change of joins begins with '\+' or '-': 'add'", Net(), joins=["add"])

    def test_a_buffer_that_changes(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                self.seen += 1
                return x * self.seen

        self.refused("forward changes 'middle.seen'; only batch norms may change a buffer", Net(Counts()))

    def test_several_results(self):
        class Two(nn.Module):
            def forward(self, image):
                return image.mean((1, 2)), image.sum((1, 2))

        self.refused("the module returns 2 tensors; wrap it in a module that returns one", Two())

    def test_inputs_without_a_batch(self):
        self.refused("example_inputs: each needs the batch as its first axis", Net(), torch.tensor(1.0))
        self.refused("example_inputs: each needs the batch as its first axis", Net(), ())

    def test_another_ending(self):
        with self.assertRaisesRegex(rewire.RewireError, r"net.onnx: the file of a network is named \*.rir"):
            rewire.export(Net(), IMAGE, self.folder / "net.onnx")

    def test_batch_norm_with_a_cumulative_average(self):
        norm = nn.BatchNorm1d(12, momentum=None)
        self.refused("^middle: a batch norm with momentum=None", Net(norm))

    def test_a_checkpoint_that_would_run_code(self):
        class Runs:
            def __reduce__(self):
                return (os.system, (f"touch {marker}",))

        marker, file = self.folder / "ran", self.folder / "x.pth"
        file.write_bytes(pickle.dumps({"w": Runs()}))
        with self.assertRaisesRegex(rewire.RewireError, "x.pth: not a checkpoint of tensors alone: "):
            rewire.convert(file)
        self.assertFalse(marker.exists())

    def test_words_of_the_command_line(self):
        def said(*words):
            done = subprocess.run(
                [sys.executable, "-m", "rewire.export", *words, "--output", str(self.network)],
                cwd=ROOT / "python",
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 2)
            return done.stderr

        for words, answer in (
            (["timm:no_such"], "timm:no_such: "),
            (["nowhere:make"], "nowhere:make: No module named"),
            (["vit"], "vit: it is timm:NAME, "),
            (["os:getcwd"], "os:getcwd: it returns a str, not a"),
            (["os:nothing"], "os:nothing: os has no 'nothing'"),
            (["missing.pt2"], "missing.pt2: "),
            (["timm:resnet18", "--input", "3x0"], "--input 3x0: it is 3x224x224"),
            (["timm:resnet18", "--kwargs", "depth"], "--kwargs depth: it is KEY=VALUE"),
        ):
            text = said(*words)
            self.assertTrue(text.startswith("rewire.export: " + answer), text)
            self.assertEqual(text.count("\n"), 1, text)


class Accepted(Case):
    def test_joins_can_be_dropped_and_added(self):
        report = self.export(Net(), joins=["-blocks.0.mlp"])
        self.assertEqual([join["name"] for join in report.joins], ["blocks.1.mlp"])
        gate = Net(of(lambda x: x + torch.sigmoid(x)))
        self.assertEqual(len(self.export(gate).joins), 2)
        self.assertEqual(len(self.export(gate, joins=["+add_1"]).joins), 3)
        self.agrees(gate)

    def test_float64_and_bf16_modules(self):
        for dtype in (torch.float64, torch.bfloat16):
            module = Net().to(dtype)
            report = self.export(module, IMAGE.to(dtype))
            self.assertRegex(report.notes[0], "become float32")
            self.assertEqual(next(module.parameters()).dtype, dtype)
            self.agrees(module)

    def test_a_batch_in_the_computation_is_fixed_with_a_note(self):
        module = Net(of(lambda x: x * (1 + x.shape[0])))
        report = self.export(module)
        self.assertFalse(report.any_batch)
        self.assertRegex(report.notes[0], r"the batch is fixed at 2: middle: the number 3.0 becomes 8.0")
        self.agrees(module)

    def test_writes_in_place(self):
        def middle(x):
            y = x.clone()
            y[:, 1:3] *= 2
            y[:, 0] = 1
            y += x
            return y

        module = Net(of(middle))
        self.export(module)
        self.agrees(module, torch.randn(5, 3, 4, 8))

    def test_a_write_under_another_name(self):
        def middle(x):
            y = x * 1
            rows = y.transpose(1, 2)
            y.mul_(3)
            return y + rows.transpose(1, 2)

        self.refused(r"aten.mul_: it writes into a tensor that is used under another name", Net(of(middle)), lines=2)

    def test_modules_of_pytorch(self):
        class Attends(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

            def forward(self, x):
                return x + self.attention(x, x, x, need_weights=False)[0]

        images = torch.randn(4, 3, 8, 8)
        for middle in (
            Attends(),
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            nn.Mish(),
            nn.Softplus(),
            nn.ELU(),
            nn.LeakyReLU(),
            nn.Hardswish(),
            nn.PReLU(),
            nn.RMSNorm(8),
            nn.GroupNorm(2, 24),
            nn.Conv1d(24, 24, 3, padding=1),
            nn.Softmax(-1),
            nn.LogSoftmax(-1),
        ):
            with self.subTest(type(middle).__name__):
                module = Net(middle)
                self.export(module, images[:2])
                self.agrees(module, images)

    def test_maps(self):
        class Maps(nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer = layer

            def forward(self, image):
                return self.layer(image).relu().flatten(2).mean(2)

        images = torch.randn(3, 4, 9, 11)
        up = lambda **options: nn.Upsample(size=(13, 20), **options)  # noqa: E731
        for layer in (
            nn.Conv2d(4, 6, 3, padding="same"),
            nn.Conv2d(4, 6, (2, 4), padding="same"),
            nn.Conv2d(4, 8, 3, dilation=2, groups=2),
            nn.MaxPool2d(3, 2, 1, ceil_mode=True),
            nn.AvgPool2d(3, 2, 1),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.AvgPool2d(4, 3, 1, ceil_mode=True),
            nn.AvgPool2d(2, divisor_override=3),
            nn.AdaptiveAvgPool2d((4, 5)),
            up(mode="bilinear"),
            up(mode="bilinear", align_corners=True),
            up(mode="nearest"),
            up(mode="bicubic"),
            nn.Unfold(3, padding=1, stride=2),
            nn.ZeroPad2d((1, 2, -1, 3)),
            nn.PixelUnshuffle(1),
            nn.ChannelShuffle(2),
            nn.Fold((5, 4), (2, 3), padding=1, stride=(1, 2)),
            nn.BatchNorm2d(4),
            nn.InstanceNorm2d(4),
        ):
            with self.subTest(repr(layer)):
                given = torch.randn(3, 12, 12) if isinstance(layer, nn.Fold) else images
                module = Maps(layer)
                if isinstance(layer, nn.Fold):
                    module = nn.Sequential(layer, nn.Flatten())
                self.export(module, given[:2])
                name = "image" if given.dim() == 4 else None
                self.agrees(module, given, name or self.first_argument())

    def first_argument(self):
        text = self.network.read_text()
        return text.split("func @forward(%")[1].split(":")[0]

    def test_a_file_of_torch_export(self):
        module = Net().eval()
        torch.export.save(torch.export.export(module, (IMAGE,), strict=False), self.folder / "net.pt2")
        done = subprocess.run(
            [sys.executable, "-m", "rewire.export", str(self.folder / "net.pt2"), "--output", str(self.network)],
            cwd=ROOT / "python",
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 joins, a fixed batch", done.stdout)
        self.agrees(module)


def _table(x):
    y = torch.zeros_like(x)
    y[:, :3] = x[:, :3]
    y[:, 3:] = 1
    return y.relu()


def _used_before(x):
    m = torch.zeros(8)
    y = x + m
    m += 1
    return y * m


def _view_of_a_view(x):
    y = x * 1
    y.view(-1, 96)[:, 0].mul_(3)
    return y + 1


def _copy_of_a_view(x):
    y = x.transpose(1, 2)
    q = y.contiguous()
    q.mul_(2)
    return (y + q).transpose(1, 2)


def _moved(x):
    y = x * 1
    y.movedim(1, 2).add_(torch.arange(12.0))
    return y


def _sum_in_place(x):
    t = x * 1
    h = t[:, 1:]
    h += (h * 0.3).sigmoid()
    return t + 0.5


def _masked(x):
    mask = torch.ones(12, 12, dtype=torch.bool).tril(-1)  # the first row sees nothing
    return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def _masks_of_the_input(x):
    weights = (x @ x.transpose(1, 2)).masked_fill((x.sum(-1) > 2)[:, None, :], float("-inf"))
    return weights.clamp(min=-9).softmax(-1) @ x


FUNCTIONS = {
    "a table that data are written into": _table,
    "a table that is used before it changes": _used_before,
    "a write into a view of a view": _view_of_a_view,
    "a write into a copy": _copy_of_a_view,
    "a write into a transposed view": _moved,
    "a join in place on a view": _sum_in_place,
    "a mask that hides all": _masked,
    "a mask of the input": _masks_of_the_input,
    "layer norm with a bias alone": lambda x: nn.functional.layer_norm(x, (8,), None, torch.arange(8).to(x.dtype)),
    "var_mean, biased": lambda x: torch.var_mean(x, 1, unbiased=False)[0][:, None] * x,
    "the index of a minimum": lambda x: x + x.min(1)[1][:, None],
    "rsub with alpha": lambda x: torch.rsub(x, x * x, alpha=3),
    "sub with alpha": lambda x: torch.sub(x, x * x, alpha=3),
    "integers in functions": lambda x: x + torch.exp(torch.arange(8)),
    "powers of integers": lambda x: x + torch.arange(1, 9) ** 0.5,
    "positions by cumsum of a mask": lambda x: x + (x > 0).cumsum(1),
    "booleans": lambda x: x * ((x > 0) * (x < 1)),
    "narrow from the end": lambda x: x.narrow(1, -2, 2),
    "stack of two types": lambda x: torch.stack((x, x > 0), 1).sum(1),
    "type_as": lambda x: (x > 0).type_as(x) + x,
    "one_hot by comparison": lambda x: x + (torch.arange(8) == x.max(-1)[1][..., None]),
    "movedim of several axes": lambda x: x.unflatten(2, (2, 4)).movedim((1, 2), (2, 1)).transpose(1, 2).flatten(2),
    "a parameter-like table": lambda x: x + torch.arange(96.0).view(12, 8) ** 0.5,
}
REFUSED = {
    "random numbers": (lambda x: x + torch.empty(12, 8).normal_(), "aten.normal_"),
    "a permutation": (lambda x: x[:, torch.randperm(12)], "aten.randperm|index by a list"),
    "bytes": (lambda x: x + x.to(torch.uint8), "a cast to torch.uint8"),
    "softplus with a threshold": (lambda x: nn.functional.softplus(x, 1, 0.5), "aten.softplus"),
    "a boolean index": (
        lambda x: x[:, torch.tensor([True, False] * 6)] + x[x > 0].sum(),
        "its shape depends on the data",
    ),
}


class Functions(Case):
    def test_functions(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                module = Net(of(function))
                if name.startswith("a parameter"):
                    module.middle.table = nn.Parameter(torch.randn(12, 8))
                self.export(module)
                self.agrees(module, torch.randn(5, 3, 4, 8))

    def test_refusals(self):
        for name, (function, words) in REFUSED.items():
            with self.subTest(name), self.assertRaisesRegex(rewire.RewireError, words):
                self.export(Net(of(function)))

    def test_sizes_by_a_factor(self):
        images = torch.randn(3, 4, 9, 7)
        for factor in (1.6, 2.0, 0.5, (1.3, 2.2)):
            for mode in ("bilinear", "nearest", "bicubic"):
                with self.subTest(f"{mode} {factor}"):
                    module = nn.Sequential(nn.Upsample(scale_factor=factor, mode=mode), nn.Flatten())
                    self.export(module, images[:2])
                    self.agrees(module, images)

    def test_a_table_that_depends_on_the_batch(self):
        for function in (
            lambda x: x * (torch.linspace(0, 1, 96).view(12, 8) * x.shape[0]),
            lambda x: x * torch.arange(x.shape[0] * 96.0).view(-1, 12, 8),
        ):
            report = self.export(Net(of(function)))
            self.assertFalse(report.any_batch)
            self.assertRegex(report.notes[0], "the batch is fixed at 2: ")

    def test_inputs(self):
        for inputs in ({"image": IMAGE}, [[1.0]], None, numpy.ones((2, 3))):
            self.refused("example_inputs: it is a tensor, or a tuple of tensors", Net(), inputs)
        self.refused("example_inputs: each needs the batch", Net(), torch.zeros(0, 3, 4, 8))
        self.refused("example_inputs: their first axes differ", Net(), (IMAGE, torch.zeros(9, 8)))
        with self.assertRaisesRegex(rewire.RewireError, "/proc/nope/x.rir: "):
            rewire.export(Net(), IMAGE, "/proc/nope/x.rir")

    def test_a_parallel_branch_is_a_join(self):
        class Parallel(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

            def forward(self, x):
                return x + self.a(x).relu() + self.b(x).relu()

        report = self.export(Net(Parallel()))
        self.assertEqual(len(report.joins), 4)
        with self.assertRaisesRegex(rewire.RewireError, "'add_1' is a join already"):
            self.export(Net(Parallel()), joins=["+add_1"])

    def test_a_scaled_stream_is_a_join(self):
        module = Net(of(lambda x: x * 0.7 + nn.functional.gelu(x @ torch.eye(8))))
        self.assertEqual(len(self.export(module).joins), 3)


class Training(Case):
    def trained(self, *more, steps=3):
        from safetensors.torch import load_file

        return load_file(self.train(*more, steps=steps) / "weights.safetensors")

    def test_running_statistics_follow_the_data(self):
        module = Net(nn.BatchNorm1d(12))
        self.export(module)
        after = self.trained()
        self.assertFalse(torch.equal(after["middle.running_mean"], torch.zeros(12)))
        self.assertFalse(torch.equal(after["middle.running_var"], torch.ones(12)))

    def test_statistics_of_a_step_are_pytorchs(self):
        """With a rate of 0, one step moves the statistics alone."""
        shared = nn.BatchNorm1d(12)
        for middle in (nn.BatchNorm1d(12), nn.Sequential(shared, nn.Tanh(), shared)):
            module = Net(middle)
            self.export(module)
            after = self.trained("--set", "optimizer.lr=0", steps=1)
            self.assertTrue(torch.equal(after["head.weight"], module.head.weight))
            name = next(key for key in after if key.endswith("running_mean"))
            self.assertEqual(sum(key.endswith("running_mean") for key in after), 1)
            self.assertGreater(after[name].abs().sum(), 0)
            subprocess.run(["rm", "-r", str(self.folder / "run")], check=True)

    def test_a_frozen_batch_norm_stays(self):
        class Frozen(nn.BatchNorm1d):
            def train(self, mode=True):
                return super().train(False)

        frozen = Net(nn.Sequential(Frozen(12), nn.Dropout(0.1))).train()
        in_training = Net(nn.BatchNorm1d(12)).train()
        in_training.middle.eval()
        for module in (frozen, in_training):
            report = self.export(module)
            self.assertEqual(report.notes, [])
            after = self.trained()
            name = next(key for key in after if key.endswith("running_mean"))
            self.assertTrue(torch.equal(after[name], torch.zeros(12)))
            subprocess.run(["rm", "-r", str(self.folder / "run")], check=True)

    def test_dropout_comes_in(self):
        class Functional(nn.Module):
            def forward(self, x):
                return nn.functional.dropout(x, 0.25, self.training)

        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        for middle, count in ((Functional(), 1), (nn.Dropout(0.5), 1), (layer, 4)):
            report = self.export(Net(middle), torch.randn(2, 3, 4, 8))
            self.assertEqual(report.notes, [])
            self.assertEqual(self.network.read_text().count("= dropout "), count)

    def test_another_computation_in_training_is_noted(self):
        class Other(nn.Module):
            def forward(self, x):
                return x * 3 if self.training else x

        self.assertRegex(self.export(Net(Other())).notes[0], "computes something else in training")

    def test_frozen_weights_stay(self):
        module = Net()
        module.blocks[0].requires_grad_(False)
        report = self.export(module)
        self.assertRegex(
            report.notes[0], r"6 weights have requires_grad=False and are not trained, such as blocks.0.norm.weight"
        )
        after = self.trained()
        self.assertTrue(torch.equal(after["blocks.0.fc1.weight"], module.blocks[0].fc1.weight))
        self.assertFalse(torch.equal(after["blocks.1.fc1.weight"], module.blocks[1].fc1.weight))

    def gradients(self, module, images):
        """The command's and PyTorch's, in training."""
        from safetensors.torch import load_file

        labels = torch.arange(len(images)) % 3
        numpy.save(self.folder / "x.npy", images.numpy())
        numpy.save(self.folder / "l.npy", labels.numpy())
        rewire.run(
            "grad",
            self.network,
            "--weights",
            self.folder / "net.safetensors",
            "--input",
            self.folder / "x.npy",
            "--labels",
            self.folder / "l.npy",
            "--output",
            self.folder / "g.safetensors",
        )
        module = module.double().train()
        nn.functional.cross_entropy(module(images.double()), labels).backward()
        return load_file(self.folder / "g.safetensors"), {n: p.grad for n, p in module.named_parameters()}

    def test_gradients_stop_at_detach(self):
        for middle in (of(lambda x: x * x.detach().sigmoid()), nn.BatchNorm1d(12), nn.BatchNorm1d(12, affine=False)):
            module = Net(middle)
            self.export(module)
            got, wanted = self.gradients(module, torch.randn(5, 3, 4, 8))
            for name, gradient in wanted.items():
                self.assertLess((got[name] - gradient).abs().max(), 1e-5, name)

    def test_padding_has_no_gradient(self):
        class Embeds(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(8, 8, padding_idx=0)
                self.register_buffer("places", torch.arange(12) % 4)

            def forward(self, x):
                return x + self.embedding(self.places)

        module = Net(Embeds())
        self.export(module)
        got, wanted = self.gradients(module, torch.randn(5, 3, 4, 8))
        name = "middle.embedding.weight"
        self.assertEqual(got[name][0].abs().max(), 0)
        self.assertLess((got[name] - wanted[name]).abs().max(), 1e-5)


class Weights(Case):
    def test_a_run_goes_back_into_its_module(self):
        module = timm_model("vit_tiny_patch16_224", img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2)
        image = torch.randn(3, 3, 16, 16)
        self.export(module, image)
        run = self.train()
        before = module.head.weight.clone()
        rewire.load(module, run)
        self.assertFalse(torch.equal(before, module.head.weight))
        numpy.save(self.folder / "x.npy", image.numpy())
        rewire.run(
            "run",
            self.network,
            "--weights",
            run / "weights.safetensors",
            "--input",
            self.folder / "x.npy",
            "--output",
            self.folder / "y.npy",
        )
        with torch.no_grad():
            wanted = module.double().eval()(image.double()).numpy()
        self.assertLess(abs(numpy.load(self.folder / "y.npy") - wanted).max(), 1e-5)
        with self.assertRaisesRegex(rewire.RewireError, "weights that the module lacks"):
            rewire.load(Net(), run)

    def test_a_strategy_that_changes_the_function_is_refused(self):
        module = timm_model("vit_tiny_patch16_224", img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2)
        self.export(module, torch.randn(2, 3, 16, 16))
        run = self.train("--plugin", "orthogonal")
        with self.assertRaisesRegex(
            rewire.RewireError, "orthogonal changed what the network computes, so VisionTransformer"
        ):
            rewire.load(module, run)

    def test_tied_weights(self):
        module = _Gpt(tokens=11, length=8, width=16, heads=2, layers=1)
        tokens = torch.randint(0, 11, (2, 8))
        self.export(module, tokens)
        self.agrees(module, tokens, "tokens")

    def test_convert(self):
        torch.save({"model": {"w": torch.ones(2, 3)}, "epoch": 3}, self.folder / "x.pth")
        with self.assertRaisesRegex(rewire.RewireError, "'model' is no tensor; key= chooses a part: model, epoch"):
            rewire.convert(self.folder / "x.pth")
        file = rewire.convert(self.folder / "x.pth", key="model")
        from safetensors.torch import load_file

        self.assertEqual(load_file(file)["w"].tolist(), torch.ones(2, 3).tolist())
        with self.assertRaisesRegex(rewire.RewireError, "no 'ema' in it; it has model, epoch"):
            rewire.convert(self.folder / "x.pth", key="ema")


if __name__ == "__main__":
    unittest.main()
