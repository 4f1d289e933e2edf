// See erf_by_exp.h.
#include "codegen/tile/erf_by_exp.h"

#include <cmath>
#include <map>
#include <numbers>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::tile {
namespace {

using ir::DType;
using ir::Opcode;

constexpr double kClose = 1e-7;  // constants are of f32

class ErfByExp {
 public:
  explicit ErfByExp(Kernel& kernel) : kernel_(kernel) {}

  void run() {
    visit_nodes(kernel_, [&](Node& node) {
      for (TileValue operand : operands_of(node)) ++readers_[operand.id];
    });
    for (auto* section : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) run(*section);
    kernel_.prologue.insert(kernel_.prologue.begin(), constants_.begin(), constants_.end());
  }

 private:
  /// The nodes of exp(-x^2 / 2), by x.
  struct Exponential {
    Pointwise* scaled = nullptr;  // -x^2 / 2
    Pointwise* power = nullptr;
  };

  void run(std::vector<Node>& section) {
    std::map<std::int32_t, Exponential> exponentials;
    for (Node& node : section) {
      if (const TileValue result = result_of(node)) nodes_[result.id] = &node;
      auto* op = std::get_if<Pointwise>(&node);
      if (op == nullptr || dtype(op->result) != DType::f32) continue;
      if (op->code == Opcode::exp) {
        if (const TileValue x = of_half_square(*op)) exponentials[x.id] = {pointwise(op->operands[0]), op};
      } else if (op->code == Opcode::erf) {
        const auto exponential = exponentials.find(of_root_half(*op).id);
        if (exponential != exponentials.end()) share(*op, exponential->second);
      }
    }
  }

  void share(Pointwise& erf, const Exponential& exponential) {
    if (exponential.power->code == Opcode::exp) {
      exponential.scaled->operands[1] = constant(-0.5 * std::numbers::log2e);
      exponential.power->code = Opcode::pow;
      exponential.power->operands.insert(exponential.power->operands.begin(), constant(2));
    }
    erf.operands.push_back(exponential.power->result);
  }

  DType dtype(TileValue of) const { return kernel_.values[static_cast<std::size_t>(of.id)].dtype; }

  Pointwise* pointwise(TileValue of) {
    const auto node = nodes_.find(of.id);
    return node == nodes_.end() ? nullptr : std::get_if<Pointwise>(node->second);
  }

  bool is_constant(TileValue of, double value) {
    const auto node = nodes_.find(of.id);
    const auto* constant = node == nodes_.end() ? nullptr : std::get_if<Constant>(node->second);
    return constant != nullptr && std::abs(constant->value - value) < kClose;
  }

  /// Returns the value that a product multiplies by a number; none if it is no such product.
  TileValue times(TileValue of, double number) {
    const Pointwise* product = pointwise(of);
    const bool is =
        product != nullptr && product->code == Opcode::mul && is_constant(product->operands[1], number);
    return is ? product->operands[0] : TileValue{};
  }

  static bool is_within_f32(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  }

  /// Returns the value before casts that change no number, so that two casts of one value are the same.
  TileValue before_casts(TileValue of) {
    const Pointwise* cast = pointwise(of);
    while (cast != nullptr && cast->code == Opcode::cast && dtype(of) == DType::f32 &&
           is_within_f32(dtype(cast->operands[0]))) {
      of = cast->operands[0];
      cast = pointwise(of);
    }
    return of;
  }

  TileValue of_root_half(const Pointwise& erf) {
    const TileValue x = times(erf.operands[0], std::numbers::sqrt2 / 2);
    return x ? before_casts(x) : x;
  }

  TileValue of_half_square(const Pointwise& exp) {
    const TileValue square = times(exp.operands[0], -0.5);
    const Pointwise* product = square ? pointwise(square) : nullptr;
    if (product == nullptr || product->code != Opcode::mul || readers_[exp.operands[0].id] > 1) return {};
    const TileValue x = before_casts(product->operands[0]);
    return before_casts(product->operands[1]) == x ? x : TileValue{};
  }

  TileValue constant(double value) {
    kernel_.values.push_back({DType::f32, {}});
    const TileValue result{static_cast<std::int32_t>(kernel_.values.size()) - 1};
    constants_.emplace_back(Constant{result, value});
    return result;
  }

  Kernel& kernel_;
  std::map<std::int32_t, Node*> nodes_;  // by result
  std::map<std::int32_t, int> readers_;  // by value
  std::vector<Node> constants_;          // new ones
};

}  // namespace

void compute_erf_by_exp(Kernel& kernel) {
  ErfByExp(kernel).run();
}

}  // namespace rewire::codegen::tile
