#include "models/probe.h"

#include <algorithm>
#include <cmath>

#include "models/layers.h"

namespace rewire::models {
namespace {

using ir::Value;

const ir::Init kProbeInit{ir::InitKind::normal, 0.01};

/// A batch norm over all but the last axis. Its weight and bias do not train: they stay 1 and 0.
Value normed(Layers& net, Value x) {
  ir::Builder& b = net.builder();
  const ir::Shape shape = b.shape(x);
  const std::int64_t width = shape.back(), rows = b.type(x).elements() / width;
  const Value y = net.batch_norm("norm", b.reshape(x, {rows, width, 1, 1}));
  for (const char* name : {"norm.weight", "norm.bias"}) b.module().find_parameter(name)->trainable = false;
  return b.reshape(y, shape);
}

Value classified(Layers& net, Value x, std::int64_t classes, bool norm) {
  return net.linear("head", norm ? normed(net, x) : x, classes, {.role = "head", .init = kProbeInit});
}

/// A matrix [to, from]: the weights with which each of `to` pixels reads `from` patches. The middle of pixel
/// i is at (i + 1/2) from / to - 1/2. That is between two patches, or beyond the outermost patch, which the
/// pixel then reads alone.
ir::Init interpolation(std::int64_t from, std::int64_t to) {
  std::vector<double> weights(static_cast<std::size_t>(to * from));
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = std::max(
        0.0, (static_cast<double>(i) + .5) * static_cast<double>(from) / static_cast<double>(to) - .5);
    const std::int64_t low = std::min(static_cast<std::int64_t>(std::floor(at)), from - 1),
                       high = std::min(low + 1, from - 1);
    const double share = at - static_cast<double>(low);
    weights[static_cast<std::size_t>(i * from + low)] += 1 - share;
    weights[static_cast<std::size_t>(i * from + high)] += share;
  }
  return {.kind = ir::InitKind::values, .values = std::move(weights)};
}

}  // namespace

ir::Module linear_probe(const LinearProbe& s, std::int64_t batch) {
  return forward_module("linear_probe", [&](Layers& net) {
    ir::Builder& b = net.builder();
    const Value x = b.argument("image", {ir::DType::f32, {batch, s.width}});
    b.result("logits", classified(net, x, s.classes, s.norm));
  });
}

ir::Module dense_probe(const DenseProbe& s, std::int64_t batch) {
  return forward_module("dense_probe", [&](Layers& net) {
    ir::Builder& b = net.builder();
    const Value x = b.argument("image", {ir::DType::f32, {batch, s.rows * s.columns, s.width}});
    const Value logits = classified(net, x, s.classes, s.norm);
    const Value map = b.reshape(b.transpose(logits, {0, 2, 1}), {batch, s.classes, s.rows, s.columns});
    const auto along = [&](const char* name, Value y, std::int64_t from, std::int64_t to) {
      return b.linear(y, net.frozen(name, {to, from}, interpolation(from, to), "interpolation"));
    };
    const Value wide = along("columns", map, s.columns, s.image_columns);
    const Value high = along("rows", b.transpose(wide, {0, 1, 3, 2}), s.rows, s.height);
    b.result("logits", b.transpose(high, {0, 1, 3, 2}));
  });
}

}  // namespace rewire::models
