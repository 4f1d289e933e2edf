// Counts over the nodes of a kernel and the views of a call; see cost.h.
#include "codegen/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

using tile::Access;
using tile::Kernel;

std::int64_t element_bytes(const Program& program, std::int32_t buffer) {
  return static_cast<std::int64_t>(
      ir::dtype_bytes(program.buffers[static_cast<std::size_t>(buffer)].type.dtype));
}

std::int64_t lane_product(const Kernel& kernel, const std::vector<std::int32_t>& lanes) {
  std::int64_t product = 1;
  for (std::int32_t lane : lanes) product *= kernel.axes[static_cast<std::size_t>(lane)].extent;
  return product;
}

/// Returns how many elements an access touches over all instances and rows: one per point of the axes along
/// which it moves.
std::int64_t touched(const Kernel& kernel, const Access& access) {
  std::int64_t count = access.part_stride != 0 ? kernel.partitions : 1;
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (access.strides[axis] != 0) count *= kernel.axes[axis].extent;
  }
  return count;
}

class KernelCost {
 public:
  KernelCost(const Program& program, const Kernel& kernel, const std::vector<std::int32_t>& buffers)
      : program_(program), kernel_(kernel), buffers_(buffers) {}

  LaunchCost count() {
    const std::int64_t instances = kernel_.instances();
    section(kernel_.prologue, instances);
    section(kernel_.body, kernel_.row_visits());
    section(kernel_.epilogue, instances);
    // Windows may overlap (a gather, shifted reads), so a buffer counts at most its size.
    for (const auto& [where, elements] : elements_) {
      const std::int32_t buffer = where.first;
      const std::int64_t whole = program_.buffers[static_cast<std::size_t>(buffer)].type.bytes();
      const std::int64_t bytes = std::min(elements * element_bytes(program_, buffer), whole);
      cost_.bytes += bytes;
      work_.bytes_read += where.second ? 0 : bytes;
    }
    return cost_;
  }
  /// Valid after count().
  const KernelWork& work() const { return work_; }

 private:
  /// A power of two takes as long as an exponential, or less.
  bool is_power_of_two(const tile::Pointwise& op) const {
    return op.code == ir::Opcode::pow && twos_.contains(op.operands[0].id);
  }

  void section(const std::vector<tile::Node>& nodes, std::int64_t times) {
    for (const tile::Node& node : nodes) {
      const std::int64_t points = times * lane_product(kernel_, tile::iteration_lanes(kernel_, node));
      if (std::holds_alternative<tile::Dot>(node)) {
        cost_.flops += 2 * points;
        work_.products.emplace_back(&node, 2 * points);
      }
      if (const auto* constant = std::get_if<tile::Constant>(&node);
          constant != nullptr && constant->value == 2)
        twos_.insert(constant->result.id);
      if (const auto* op = std::get_if<tile::Pointwise>(&node)) {
        cost_.flops += points;
        work_.ops[is_power_of_two(*op) ? ir::Opcode::exp : op->code] += points;
      }
      if (std::holds_alternative<tile::Reduce>(node)) {
        cost_.flops += points;
        work_.reduced += points;
      }
      if (const auto* random = std::get_if<tile::Random>(&node))
        work_.ops[random->normal ? ir::Opcode::random_normal : ir::Opcode::random_uniform] += points;
      if (std::holds_alternative<tile::Load>(node) || std::holds_alternative<tile::Store>(node))
        work_.accessed += points;
      if (const auto* load = std::get_if<tile::Load>(&node)) {
        move(load->access, false, load->index ? points : touched(kernel_, load->access));
      }
      if (const auto* store = std::get_if<tile::Store>(&node))
        move(store->access, true, touched(kernel_, store->access));
    }
  }

  void move(const Access& access, bool write, std::int64_t elements) {
    const std::int32_t buffer = buffers_[static_cast<std::size_t>(access.argument)];
    if (windows_.insert({buffer, write, access.offset, access.part_stride, access.strides}).second)
      elements_[{buffer, write}] += elements;
  }

  const Program& program_;
  const Kernel& kernel_;
  const std::vector<std::int32_t>& buffers_;
  LaunchCost cost_;
  std::set<std::int32_t> twos_;  // ids of the constant 2
  KernelWork work_;
  std::set<std::tuple<std::int32_t, bool, std::int64_t, std::int64_t, std::vector<std::int64_t>>> windows_;
  std::map<std::pair<std::int32_t, bool>, std::int64_t> elements_;  // by buffer and direction
};

/// Adds up the costs of a table's members. A buffer that several members read counts once for each.
LaunchCost kernel_cost(const Program& program, const KernelLaunch& launch) {
  LaunchCost cost;
  for (std::size_t member = 0; member < launch.members(); ++member) {
    const LaunchCost own = KernelCost(program, launch.kernel, launch.member_buffers(member)).count();
    cost.bytes += own.bytes;
    cost.flops += own.flops;
  }
  return cost;
}

std::int64_t view_bytes(const Program& program, const View& view) {
  if (view.buffer < 0) return 0;
  std::int64_t count = element_bytes(program, view.buffer);
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.strides[d] != 0) count *= view.shape[d];
  }
  return count;
}

LaunchCost gemm_cost(const Program& program, const GemmLaunch& gemm) {
  LaunchCost cost;
  cost.bytes = view_bytes(program, gemm.a) + view_bytes(program, gemm.b) + view_bytes(program, gemm.bias) +
               (gemm.accumulate ? 2 : 1) * view_bytes(program, gemm.c) + view_bytes(program, gemm.pre);
  cost.flops = 2 * ir::element_count(gemm.c.shape) * gemm.a.shape.back();
  return cost;
}

std::string gemm_name(const GemmLaunch& gemm) {
  const std::size_t rank = gemm.c.shape.size();
  std::int64_t batch = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) batch *= gemm.c.shape[d];
  const auto transposed = [](const View& view) { return view.strides.back() == 1 ? 'N' : 'T'; };
  return fmt::format(
      "gemm {}{}x{}x{} {}{}{}", batch == 1 ? "" : fmt::format("{}x", batch), gemm.c.shape[rank - 2],
      gemm.c.shape[rank - 1], gemm.a.shape.back(), transposed(gemm.a), transposed(gemm.b),
      epilogue_text(gemm.epilogue, gemm.bias.buffer >= 0, gemm.pre.buffer >= 0, gemm.accumulate));
}

std::int64_t call_flops(const Program& program, const OpCall& call) {
  const ir::WorkFunction work = ir::op_info(call.op.code).work;
  if (work == nullptr) return 0;
  const auto types = [&](const std::vector<View>& views) {
    std::vector<ir::TensorType> all;
    for (const View& view : views) {
      const bool written = view.buffer >= 0;  // false: nothing reads this result
      all.push_back(
          {written ? program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype : ir::DType::f32,
           view.shape});
    }
    return all;
  };
  return static_cast<std::int64_t>(
      work({call.op.attributes, types(call.operands), types(call.results)}).flops);
}

LaunchCost call_cost(const Program& program, const OpCall& call) {
  LaunchCost cost{0, call_flops(program, call)};
  for (const auto* views : {&call.operands, &call.results}) {
    for (const View& view : *views) cost.bytes += view_bytes(program, view);
  }
  return cost;
}

}  // namespace

LaunchCost cost_of(const Program& program, const Launch& launch) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch)) return kernel_cost(program, *kernel);
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) return gemm_cost(program, *gemm);
  return call_cost(program, std::get<OpCall>(launch));
}

KernelWork work_of(const Program& program, const KernelLaunch& launch) {
  KernelCost counted(program, launch.kernel, launch.buffers);
  counted.count();
  KernelWork work = counted.work();
  const auto members = static_cast<std::int64_t>(launch.members());
  for (std::int64_t* number : {&work.bytes_read, &work.reduced, &work.accessed}) *number *= members;
  for (auto& [code, elements] : work.ops) elements *= members;
  for (auto& [node, flops] : work.products) flops *= members;
  return work;
}

std::string short_name(const Launch& launch) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&launch))
    return kernel->is_table() ? fmt::format("{}, a table of {}", kernel->kernel.name, kernel->members())
                              : kernel->kernel.name;
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) return gemm_name(*gemm);
  const auto& call = std::get<OpCall>(launch);
  std::string name(ir::op_info(call.op.code).name);
  for (const View& view : call.operands) name += fmt::format(" {}", fmt::join(view.shape, "x"));
  return name;
}

std::string epilogue_text(GemmEpilogue epilogue, bool bias, bool pre, bool accumulate) {
  if (epilogue == GemmEpilogue::gelu_gradient) return ", gelu gradient";
  const bool gelu = epilogue == GemmEpilogue::gelu;
  return fmt::format("{}{}{}{}", bias ? " + bias" : "", accumulate ? " + c" : "", gelu ? ", gelu" : "",
                     gelu && pre ? ", pre" : "");
}

std::string epilogue_key(const ProductEpilogue& epilogue, bool tf32) {
  const bool gelu = epilogue.epilogue == GemmEpilogue::gelu;
  return fmt::format(
      "epilogue {}{} {}x{}x{} {}{}{}", gelu ? "gelu" : "gelu_gradient",
      gelu && epilogue.keeps_pre ? ", pre" : "", epilogue.m, epilogue.n, epilogue.k,
      ir::dtype_name(epilogue.dtype),
      epilogue.result == epilogue.dtype ? "" : fmt::format(">{}", ir::dtype_name(epilogue.result)),
      tf32 && epilogue.dtype == ir::DType::f32 ? " tf32" : "");
}

std::string code_key(const Launch& launch) {
  const auto* kernel = std::get_if<KernelLaunch>(&launch);
  if (kernel == nullptr) return short_name(launch);
  return fmt::format("{} members of {}", kernel->members(), tile::structure(kernel->kernel));
}

}  // namespace rewire::codegen
