#include "ir/passes/choose_lowerings.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/circulant.h"
#include "ir/passes/mixed_precision.h"

namespace rewire::ir {
namespace {

constexpr std::string_view kCirculant = "circulant_matmul";

bool is_circulant(const Op& op) {
  return op.code == Opcode::circulant_matmul || op.code == Opcode::circulant_matmul_grad;
}

/// The properties that all products of one shape in a function share.
struct Product {
  CirculantSizes sizes;
  std::int64_t rows = 1;
  DType dtype = DType::f32;
  bool correlation = false, tf32 = false;

  std::string text(bool training) const {
    return fmt::format("{} {} rows={} blocks={}x{} lags={} {}{} {}", kCirculant,
                       correlation ? "corr" : "conv", rows, sizes.outputs, sizes.inputs, sizes.lags,
                       dtype_name(dtype), tf32 ? " tf32" : "", training ? "training" : "forward");
  }
};

Product product_of(const Module& module, const Function& function, const Op& op) {
  const TensorType& x = function.type(op.operands[0]);
  const Shape& lags = op.code == Opcode::circulant_matmul ? function.type(op.operands[1]).shape
                                                          : function.type(op.results[0]).shape;
  const std::int64_t rows = x.elements() / std::max<std::int64_t>(x.shape.back(), 1);
  return {{lags[0], lags[1], lags[2]},
          std::min(rows, kTrialRows),
          x.dtype,
          op.attributes.get_bool("correlation"),
          x.dtype == DType::f32 && allows_tf32(module)};
}

bool is_backward(const Op& op) {
  return op.code == Opcode::circulant_matmul_grad || op.attributes.get_bool("transpose");
}

/// Kernels write x and the cotangent and also pass them on, and another kernel reads y. So the trial is like
/// a network, where a lowering's transforms fuse with the neighbouring kernels.
Module circulant_trial(const Product& product, bool training, const std::string& lowering) {
  const auto& [p, q, n] = product.sizes;
  Module module;
  module.name = "trial";
  allow_tf32(module, product.tf32);
  Function& function = module.functions.emplace_back();
  function.name = "trial";
  Builder b(module, function);
  const Value source = b.argument("source", {product.dtype, {product.rows, q * n}});
  const Value lags = b.argument("lags", {product.dtype, {p, q, n}});
  const Value given = b.argument("given", {product.dtype, {product.rows, p * n}});
  const Attributes attributes = {{"correlation", product.correlation}, {"lowering", lowering}};
  const Value x = b.mul(source, source);
  const Value y = b.emit(Opcode::circulant_matmul, {x, lags}, attributes);
  b.result("x", x);
  b.result("y", b.add(y, given));
  if (!training) return module;
  const Value cotangent = b.mul(y, given);
  Attributes backward = attributes;
  backward.set("transpose", true);
  b.result("x_gradient", b.mul(b.emit(Opcode::circulant_matmul, {cotangent, lags}, backward), source));
  Attributes gradient = attributes;
  gradient.set("lags", n);
  b.result("lags_gradient", b.emit(Opcode::circulant_matmul_grad, {x, cotangent}, gradient));
  return module;
}

}  // namespace

void choose_lowerings(Module& module, PassContext& context) {
  if (context.chooser == nullptr) return;
  for (Function& function : module.functions) {
    std::map<std::string, bool> trains;  // by the key of the forward product: whether it has a backward pass
    const auto visit = [&](auto action) {
      for (Op& op : function.body) {
        if (!is_circulant(op) || op.attributes.get_string("lowering") != "auto") continue;
        const Product product = product_of(module, function, op);
        action(op, product, trains[product.text(false)]);
      }
    };
    visit([](const Op& op, const Product&, bool& training) { training = training || is_backward(op); });
    visit([&](Op& op, const Product& product, bool training) {
      const std::vector<std::string> candidates = circulant_candidates(product.sizes, product.dtype);
      const auto trial = [product, training](const std::string& lowering) {
        return circulant_trial(product, training, lowering);
      };
      op.attributes.set("lowering", candidates.size() == 1 ? candidates.front()
                                                           : context.chooser->choose({product.text(training),
                                                                                      candidates, trial}));
    });
  }
}

std::vector<std::string> choice_kinds() {
  return {std::string(kCirculant)};
}

std::vector<std::string> choice_candidates(std::string_view kind) {
  if (kind != kCirculant) return {};
  std::vector<std::string> all(std::begin(kCirculantLowerings), std::end(kCirculantLowerings));
  std::erase(all, "auto");
  return all;
}

}  // namespace rewire::ir
