#include "tests/fake_cuda/dnn_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <unordered_map>

#include "ir/error.h"
#include "ir/tensor.h"

namespace rewire::fake_cuda::dnn {
namespace {

using Values = std::vector<double>;  // row after row, whatever the strides

constexpr int kAdd = 0, kMul = 1, kDiv = 6, kSub = 9, kExp = 13, kLog = 15;  // pointwise
constexpr int kSum = 0, kMaximum = 3;                                        // reductions

std::int64_t type_bytes(int type) {
  return type == kBf16 ? 2 : 4;
}

double rounded_to(int type, double value) {
  return ir::round_to(type == kBf16 ? ir::DType::bf16 : ir::DType::f32, value);
}

double load(const std::byte* at, int type) {
  std::uint32_t bits = 0;
  if (type == kBf16) {
    std::uint16_t half = 0;
    std::memcpy(&half, at, sizeof(half));
    bits = std::uint32_t{half} << 16;
  } else {
    std::memcpy(&bits, at, sizeof(bits));
  }
  return std::bit_cast<float>(bits);
}

void store(std::byte* at, int type, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(rounded_to(type, value)));
  if (type == kBf16) {
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(at, &half, sizeof(half));
  } else {
    std::memcpy(at, &bits, sizeof(bits));
  }
}

/// Calls visit(element, offset) for each element, in order.
template <class Visit>
void walk(const Tensor& tensor, Visit visit) {
  std::vector<std::int64_t> index(tensor.dims.size(), 0);
  for (std::int64_t element = 0; element < tensor.count(); ++element) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.strides[d];
    visit(static_cast<std::size_t>(element), offset);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.dims[d]) break;
      index[d] = 0;
    }
  }
}

/// Of `from`, the element that stands for element `at` of `to`: 0 along the axes where it has one alone.
std::size_t broadcast_index(const Tensor& from, const Tensor& to, std::size_t at) {
  std::int64_t rest = static_cast<std::int64_t>(at), index = 0, stride = 1;
  for (std::size_t d = to.dims.size(); d-- > 0;) {
    const std::int64_t i = rest % to.dims[d];
    rest /= to.dims[d];
    if (from.dims[d] != 1) index += i * stride;
    stride *= from.dims[d];
  }
  return static_cast<std::size_t>(index);
}

double pointwise(int mode, double x, double b) {
  switch (mode) {
    case kAdd:
      return x + b;
    case kMul:
      return x * b;
    case kDiv:
      return x / b;
    case kSub:
      return x - b;
    case kExp:
      return std::exp(x);
    case kLog:
      return std::log(x);
    default:
      throw RuntimeFailure("cuDNN: a pointwise mode that the fake library has not");
  }
}

/// Calls visit(element of x, of w, of y) for each product of the sum, elements counted row after row.
template <class Visit>
void for_each_product(const Convolution& c, const Tensor& x, const Tensor& w, const Tensor& y, Visit visit) {
  const auto at = [](const Tensor& tensor, std::int64_t a, std::int64_t b, std::int64_t h, std::int64_t v) {
    return static_cast<std::size_t>(((a * tensor.dims[1] + b) * tensor.dims[2] + h) * tensor.dims[3] + v);
  };
  const std::int64_t outputs_of_group = w.dims[0] / (x.dims[1] / w.dims[1]);
  for (std::int64_t n = 0; n < y.dims[0]; ++n)
    for (std::int64_t o = 0; o < y.dims[1]; ++o)
      for (std::int64_t oh = 0; oh < y.dims[2]; ++oh)
        for (std::int64_t ow = 0; ow < y.dims[3]; ++ow)
          for (std::int64_t i = 0; i < w.dims[1]; ++i)
            for (std::int64_t kh = 0; kh < w.dims[2]; ++kh)
              for (std::int64_t kw = 0; kw < w.dims[3]; ++kw) {
                const std::int64_t h = oh * c.strides[0] + kh * c.dilations[0] - c.before[0],
                                   v = ow * c.strides[1] + kw * c.dilations[1] - c.before[1];
                if (h < 0 || v < 0 || h >= x.dims[2] || v >= x.dims[3]) continue;
                visit(at(x, n, o / outputs_of_group * w.dims[1] + i, h, v), at(w, o, i, kh, kw),
                      at(y, n, o, oh, ow));
              }
}

class Run {
 public:
  Run(const std::map<std::int64_t, void*>& memory, const std::map<std::int64_t, double>& values,
      Arithmetic arithmetic)
      : memory_(memory), values_(values), arithmetic_(arithmetic) {}

  void operation(const Operation& op) {
    const Tensor& y = op.output;
    Values result(static_cast<std::size_t>(y.count()), 0);
    switch (op.kind) {
      case Operation::Kind::pointwise:
        pointwise_operation(op, result);
        break;
      case Operation::Kind::matmul:
        matmul(op, result);
        break;
      case Operation::Kind::reduction:
        reduce(op, result);
        break;
      case Operation::Kind::reshape: {
        std::unordered_map<std::int64_t, double> at;
        const Values x = read(op.inputs[0]);
        walk(op.inputs[0], [&](std::size_t element, std::int64_t offset) { at[offset] = x[element]; });
        walk(y, [&](std::size_t element, std::int64_t offset) { result[element] = at.at(offset); });
        break;
      }
      case Operation::Kind::convolution:
        convolve(op, result);
        break;
    }
    write(y, std::move(result));
  }

 private:
  Values read(const Tensor& tensor) const {
    if (const auto held = held_.find(tensor.id); held != held_.end()) return held->second;
    if (tensor.by_value) return Values(1, values_.at(tensor.id));
    Values values(static_cast<std::size_t>(tensor.count()));
    const auto* const base = static_cast<const std::byte*>(memory_.at(tensor.id));
    walk(tensor, [&](std::size_t element, std::int64_t offset) {
      values[element] = load(base + offset * type_bytes(tensor.type), tensor.type);
    });
    return values;
  }

  void write(const Tensor& tensor, Values values) {
    if (!tensor.is_virtual) {
      auto* const base = static_cast<std::byte*>(memory_.at(tensor.id));
      walk(tensor, [&](std::size_t element, std::int64_t offset) {
        store(base + offset * type_bytes(tensor.type), tensor.type, values[element]);
      });
      return;
    }
    if (arithmetic_ == Arithmetic::rounded) {
      for (double& value : values) value = rounded_to(tensor.type, value);
    }
    held_[tensor.id] = std::move(values);
  }

  void pointwise_operation(const Operation& op, Values& y) const {
    const Values x = read(op.inputs[0]);
    const Values b = op.inputs.size() > 1 ? read(op.inputs[1]) : Values();
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = pointwise(op.mode, x[broadcast_index(op.inputs[0], op.output, i)],
                       b.empty() ? 0 : b[broadcast_index(op.inputs[1], op.output, i)]);
  }

  void reduce(const Operation& op, Values& y) const {
    const Values x = read(op.inputs[0]);
    if (op.mode == kMaximum) std::ranges::fill(y, -std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < x.size(); ++i) {
      double& to = y[broadcast_index(op.output, op.inputs[0], i)];
      to = op.mode == kMaximum ? std::max(to, x[i]) : to + x[i];
    }
  }

  void matmul(const Operation& op, Values& c) const {
    const Values a = read(op.inputs[0]), b = read(op.inputs[1]);
    const auto m = static_cast<std::size_t>(op.output.dims[2]),
               n = static_cast<std::size_t>(op.output.dims[3]);
    const auto k = static_cast<std::size_t>(op.inputs[0].dims[3]);
    for (std::size_t batch = 0; batch < c.size() / (m * n); ++batch) {
      for (std::size_t i = 0; i < m; ++i) {
        double* const row = c.data() + (batch * m + i) * n;
        for (std::size_t l = 0; l < k; ++l) {
          const double factor = a[(batch * m + i) * k + l];
          const double* const other = b.data() + (batch * k + l) * n;
          for (std::size_t j = 0; j < n; ++j) row[j] += factor * other[j];
        }
      }
    }
  }

  /// An operand of a convolution, as it is multiplied.
  Values factors(const Tensor& tensor) const {
    Values values = read(tensor);
    for (double& value : values) {
      if (arithmetic_ == Arithmetic::tf32) value = ir::round_to_tf32(value);
      if (arithmetic_ == Arithmetic::narrow) value = rounded_to(kBf16, value);
    }
    return values;
  }

  void convolve(const Operation& op, Values& result) const {
    const Values first = factors(op.inputs[0]), second = factors(op.inputs[1]);
    const auto add = [&](std::size_t to, double product) {
      result[to] += product;
      if (arithmetic_ == Arithmetic::single) result[to] = rounded_to(kF32, result[to]);
    };
    for_each_product(op.convolution, op.x(), op.w(), op.y(),
                     [&](std::size_t x, std::size_t w, std::size_t y) {
                       switch (op.convolution.product) {
                         case Convolution::Product::forward:
                           return add(y, first[x] * second[w]);
                         case Convolution::Product::data:
                           return add(x, first[y] * second[w]);
                         case Convolution::Product::filter:
                           return add(w, first[x] * second[y]);
                       }
                     });
    if (arithmetic_ != Arithmetic::nondeterministic) return;
    static int runs = 0;
    ++runs;
    for (double& value : result) value *= 1 + 1e-6 * runs;
  }

  const std::map<std::int64_t, void*>& memory_;
  const std::map<std::int64_t, double>& values_;
  const Arithmetic arithmetic_;
  std::map<std::int64_t, Values> held_;
};

bool broadcasts(const Tensor& from, const Tensor& to) {
  return from.dims.size() == to.dims.size() &&
         std::ranges::equal(from.dims, to.dims,
                            [](std::int64_t a, std::int64_t b) { return a == 1 || a == b; });
}

bool shapes_agree(const Operation& op) {
  const Tensor &x = op.inputs[0], &y = op.output;
  switch (op.kind) {
    case Operation::Kind::convolution:
      return fault_of(op.convolution, op.x(), op.w(), op.y()).empty();
    case Operation::Kind::pointwise:
      return std::ranges::all_of(op.inputs, [&](const Tensor& input) { return broadcasts(input, y); });
    case Operation::Kind::reduction:
      return broadcasts(y, x) && (op.mode == kSum || op.mode == kMaximum);
    case Operation::Kind::reshape:
      return x.count() == y.count() && x.bytes() / type_bytes(x.type) == y.bytes() / type_bytes(y.type);
    case Operation::Kind::matmul: {
      const Tensor& b = op.inputs[1];
      return x.dims.size() == 4 && b.dims.size() == 4 && y.dims.size() == 4 && x.dims[0] == y.dims[0] &&
             b.dims[0] == y.dims[0] && x.dims[1] == y.dims[1] && b.dims[1] == y.dims[1] &&
             x.dims[2] == y.dims[2] && b.dims[3] == y.dims[3] && x.dims[3] == b.dims[2];
    }
  }
  return false;
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.dims == b.dims && a.strides == b.strides && a.is_virtual == b.is_virtual &&
         a.by_value == b.by_value;
}

}  // namespace

std::int64_t Tensor::count() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

std::int64_t Tensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return (last + 1) * type_bytes(type);
}

const Tensor& Operation::x() const {
  return convolution.product == Convolution::Product::data ? output : inputs[0];
}

const Tensor& Operation::w() const {
  return convolution.product == Convolution::Product::filter ? output : inputs[1];
}

const Tensor& Operation::y() const {
  switch (convolution.product) {
    case Convolution::Product::data:
      return inputs[0];
    case Convolution::Product::filter:
      return inputs[1];
    default:
      return output;
  }
}

std::map<std::int64_t, Tensor> Graph::with_memory() const {
  std::map<std::int64_t, Tensor> tensors;
  for (const Operation& op : operations) {
    for (const Tensor& input : op.inputs) {
      if (!input.is_virtual) tensors.emplace(input.id, input);
    }
    if (!op.output.is_virtual) tensors.emplace(op.output.id, op.output);
  }
  return tensors;
}

std::string Graph::names() const {
  const std::map<int, const char*> pointwise = {{kAdd, "add"}, {kMul, "mul"}, {kDiv, "div"},
                                                {kSub, "sub"}, {kExp, "exp"}, {kLog, "log"}};
  std::string text;
  for (const Operation& op : operations) {
    if (!text.empty()) text += ' ';
    switch (op.kind) {
      case Operation::Kind::pointwise: {
        const auto name = pointwise.find(op.mode);
        text += name == pointwise.end() ? "unknown" : name->second;
        break;
      }
      case Operation::Kind::matmul:
        text += "matmul";
        break;
      case Operation::Kind::reduction:
        text += op.mode == kMaximum ? "max" : "sum";
        break;
      case Operation::Kind::reshape:
        text += "reshape";
        break;
      case Operation::Kind::convolution:
        text += "convolution";
        break;
    }
  }
  return text;
}

std::string fault_of(const Graph& graph) {
  std::map<std::int64_t, Tensor> known;
  std::set<std::int64_t> written, read;
  for (const Operation& op : graph.operations) {
    if (!shapes_agree(op)) return "shapes disagree";
    for (const Tensor& input : op.inputs) {
      if (input.is_virtual && !written.contains(input.id))
        return "a virtual tensor is read and never written";
      read.insert(input.id);
      if (!same_tensor(known.emplace(input.id, input).first->second, input)) return "two tensors have one id";
    }
    if (op.output.by_value) return "a value is written";
    if (!written.insert(op.output.id).second) return "two operations write one tensor";
    if (!same_tensor(known.emplace(op.output.id, op.output).first->second, op.output))
      return "two tensors have one id";
  }
  for (const auto& [id, tensor] : known) {
    if (tensor.is_virtual && !read.contains(id)) return "a virtual tensor is written and never read";
  }
  return "";
}

void run(const Graph& graph, const std::map<std::int64_t, void*>& memory,
         const std::map<std::int64_t, double>& values, Arithmetic arithmetic) {
  Run run(memory, values, arithmetic);
  for (const Operation& op : graph.operations) run.operation(op);
}

}  // namespace rewire::fake_cuda::dnn
