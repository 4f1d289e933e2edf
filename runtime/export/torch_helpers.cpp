#include "runtime/export/torch_helpers.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/export/torch_translation.h"

namespace rewire::runtime {
namespace {

constexpr const char* kDropPath = R"(def drop_path(x, rate, training):
    """Drops whole samples with probability `rate` in training, and scales up what stays."""
    if not training or rate == 0.0:
        return x
    keep = 1.0 - rate
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    return x * mask / keep
)";

constexpr const char* kCirculant = R"(def circulant(x, c, correlation=False, transpose=False):
    """The product with a block-circulant matrix: c [p, q, n], x [..., q n] -> [..., p n].

    y[i, r] = sum over j, s of x[j, s] c[i, j, (r - s) mod n]; (s - r) for the correlation. `transpose` is the
    product with the transposed matrix, [..., p n] -> [..., q n].
    """
    lags = c.shape[-1]
    spectrum = torch.fft.rfft(c)
    if correlation != transpose:
        spectrum = spectrum.conj()
    rows = torch.fft.rfft(x.unflatten(-1, (-1, lags)))
    terms = "pqk,...pk->...qk" if transpose else "pqk,...qk->...pk"
    return torch.fft.irfft(torch.einsum(terms, spectrum, rows), n=lags).flatten(-2)
)";

constexpr const char* kRfft = R"(def rfft(x):
    """The spectrum of real rows: [..., n] -> [..., 2, n / 2 + 1], real parts, then imaginary parts."""
    spectrum = torch.fft.rfft(x)
    return torch.stack((spectrum.real, spectrum.imag), -2)
)";

constexpr const char* kIrfft = R"(def irfft(x, length):
    """The inverse of rfft: [..., 2, length / 2 + 1] -> [..., length]."""
    return torch.fft.irfft(torch.complex(x[..., 0, :], x[..., 1, :]), n=length)
)";

constexpr const char* kValues = R"(def values_(weight, values):
    weight.copy_(torch.tensor(values, dtype=weight.dtype).view_as(weight))
)";

constexpr const char* kSinusoid = R"(def sinusoid(places, width):
    """sin(p / 10000^(2i / width)) at 2i, its cosine at 2i + 1, for each place p."""
    angles = places[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def sinusoid_(weight):
    places = torch.arange(weight.shape[-2], dtype=torch.float64)
    weight.copy_(sinusoid(places, weight.shape[-1]).expand_as(weight))
)";

constexpr const char* kSinusoid2d = R"(def sinusoid_2d_(weight, before):
    """`before` rows of zeros, then a square grid's places: the first half is the column, the second the row."""
    width, side = weight.shape[-1], round((weight.shape[-2] - before) ** 0.5)
    place = torch.arange(side * side, dtype=torch.float64)
    halves = []
    for coordinate in (place % side, (place / side).floor()):
        angles = coordinate[:, None] / 10000 ** (torch.arange(width // 4, dtype=torch.float64) / (width // 4))
        halves += [angles.sin(), angles.cos()]
    grid = torch.cat(halves, 1)
    weight.copy_(torch.cat((grid.new_zeros(before, width), grid)).expand_as(weight))
)";

constexpr const char* kInitialise = R"(def initialise(net):
    """Fills the weights as a run begins: from the same distributions."""
    with torch.no_grad():
        for name, weight in net.state_dict().items():
            rule = INITIAL.get(name) or next((INITIAL[pattern] for pattern in INITIAL if fnmatch(name, pattern)), None)
            if rule is None and weight.is_floating_point():
                raise KeyError(f"INITIAL has no first values for {name}")
            if rule is not None:
                rule[0](weight, *rule[1:])
)";

}  // namespace

std::string torch_helper(const std::string& name) {
  if (name == "drop_path") return kDropPath;
  if (name == "circulant") return kCirculant;
  if (name == "rfft") return kRfft;
  if (name == "irfft") return kIrfft;
  internal_error("export: no helper '{}'", name);
}

std::string torch_table(const std::string& name, const ir::TensorType& type,
                        const std::vector<double>& values) {
  const bool whole = ir::is_integer(type.dtype) || type.dtype == ir::DType::i1;
  std::string text = fmt::format("{} = torch.tensor(\n    [\n", name), line;
  for (const double value : values) {
    const std::string number = whole ? std::to_string(static_cast<std::int64_t>(value)) : python_float(value);
    if (line.size() + number.size() > 100) {
      text += "        " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + number + ",";
  }
  const char* dtype = !whole ? "torch.float64" : type.dtype == ir::DType::i1 ? "torch.bool" : "torch.int64";
  return text + fmt::format("        {}\n    ],\n    dtype={},\n).reshape(({}{}))\n", line, dtype,
                            fmt::join(type.shape, ", "), type.shape.size() == 1 ? "," : "");
}

std::string torch_init(const ir::Parameter& parameter) {
  const ir::Init& init = parameter.init;
  const std::string a = python_float(init.a), b = python_float(init.b);
  switch (init.kind) {
    case ir::InitKind::zeros:
      return "(nn.init.zeros_,)";
    case ir::InitKind::ones:
      return "(nn.init.ones_,)";
    case ir::InitKind::constant:
      return fmt::format("(nn.init.constant_, {})", a);
    case ir::InitKind::normal:
      return fmt::format("(nn.init.normal_, 0.0, {})", a);
    case ir::InitKind::trunc_normal:
      return fmt::format("(nn.init.trunc_normal_, 0.0, {}, {}, {})", a, python_float(-init.b), b);
    case ir::InitKind::uniform:
      return fmt::format("(nn.init.uniform_, {}, {})", a, b);
    case ir::InitKind::xavier_uniform:
      return "(nn.init.xavier_uniform_,)";
    case ir::InitKind::orthonormal:
      return "(nn.init.orthogonal_,)";
    case ir::InitKind::sinusoid:
      return "(sinusoid_,)";
    case ir::InitKind::sinusoid_2d:
      return fmt::format("(sinusoid_2d_, {})", static_cast<std::int64_t>(init.a));
    case ir::InitKind::values: {
      std::vector<std::string> numbers;
      for (const double value : init.values) numbers.push_back(python_number(value));
      return fmt::format("(values_, [{}])", fmt::join(numbers, ", "));
    }
  }
  internal_error("export: an init without a form in PyTorch");
}

std::string torch_initialise(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string table;
  for (const auto& [name, init] : rows) table += fmt::format("    \"{}\": {},\n", name, init);
  std::string text;
  const auto add = [&](const char* called, const char* function) {
    if (table.find(fmt::format("({},", called)) != std::string::npos) text += std::string(function) + "\n\n";
  };
  add("values_", kValues);
  add("sinusoid_", kSinusoid);
  add("sinusoid_2d_", kSinusoid2d);
  return text + "INITIAL = {\n" + table + "}\n\n\n" + kInitialise;
}

}  // namespace rewire::runtime
