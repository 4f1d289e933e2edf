// Writes block kernels (blocks_plan.h) as text by walking the plan's steps. blocks_values.h writes values,
// blocks_order.h barriers, blocks_dot.h and blocks_tensor_dot.h products.
#include "codegen/cuda/blocks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "codegen/cuda/blocks_dot.h"
#include "codegen/cuda/blocks_order.h"
#include "codegen/cuda/blocks_row_sums.h"
#include "codegen/cuda/blocks_tensor_dot.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr std::int64_t kWarpReduction = 16;  // one thread alone adds up fewer elements

class BlockWriter {
 public:
  BlockWriter(const tile::Kernel& kernel, const EntryPoint& entry, const BlockPlan& plan)
      : kernel_(kernel),
        plan_(plan),
        text_(kernel, entry),
        order_(kernel, plan, lines_),
        values_(plan, text_, lines_) {}

  KernelSource write() {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    const std::int64_t outer = extent_of(kernel_, axes_of(kernel_, AxisUse::outer));
    LaunchShape launch{outer * walkers_of(plan_, kernel_), plan_.threads, plan_.shared_bytes};
    text_.head(lines_, launch, plan_.resident_blocks,
               plan_.by_partition ? "a block walks a part's rows" : "a block an instance");
    lines_.indent(1);
    lines_.line("REWIRE_SHARED(shared);");
    declare_arrays();
    declare_places(plan_, text_, lines_, "int(blockIdx.x)");
    write_steps(plan_.prologue);
    if (rows && plan_.by_partition) {
      write_rows();
    } else {
      write_steps(plan_.body);
    }
    write_steps(plan_.epilogue);
    text_.foot(lines_);
    return {text_.symbol(), lines_.take(), launch};
  }

 private:
  // --- places

  void declare_arrays() {
    for (std::size_t id = 0; id < plan_.values.size(); ++id) {
      const TileValue value{static_cast<std::int32_t>(id)};
      const BlockValue& own = plan_.value(value);
      if (own.array < 0 || (own.node == nullptr && !is_entry(value))) continue;
      const SharedArray& array = plan_.arrays[static_cast<std::size_t>(own.array)];
      std::string shape = array.row_tiles > 0 ? fmt::format("[{}]", array.row_tiles) : "";
      for (std::int32_t lane : array.lanes) {
        std::int64_t extent = lane == array.lanes.back() ? array.pitch : text_.axis(lane).extent;
        if (plan_.is_streamed(value) && lane == array.lanes[0]) extent = 2 * array.window;
        shape += fmt::format("[{}]", extent);
      }
      lines_.line("{0}* const {1}{2} = reinterpret_cast<{0}*>(shared + {3});  // {4}",
                  array.narrow ? storage_type(ir::DType::bf16) : arithmetic_type(array.dtype),
                  text_.name(value), plan_.is_streamed(value) ? "_windows" : "", array.offset, shape);
    }
  }

  bool is_entry(TileValue value) const {
    return std::any_of(kernel_.carried.begin(), kernel_.carried.end(),
                       [&](const tile::Carried& carried) { return carried.entry == value; });
  }

  void write_rows() {
    start_carried();
    order_.before_all();
    const std::int64_t rows = kernel_.rows_per_partition();
    if (kernel_.partitions == 1) {
      lines_.open("for (int row = 0; row < {}; ++row)", rows);
    } else {
      lines_.open("for (int row = part * {0}; row < minimum((part + 1) * {0}, {1}); ++row)", rows,
                  kernel_.row_count());
    }
    text_.declare_indices(lines_, AxisUse::row, "row");
    write_steps(plan_.body);
    carry();
    order_.before_all();
    lines_.close();
  }

  void start_carried() {
    order_.before_all();
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (plan_.carried_arrays[i] < 0) {
        lines_.line("{} {} = {};", text_.type(carried.entry), text_.name(carried.entry),
                    values_.read(carried.initial).text);
        continue;
      }
      open_points(text_.info(carried.entry).lanes);
      lines_.line("{} = {};", values_.place(carried.entry), values_.read(carried.initial).text);
      close_points();
      order_.barrier();
    }
  }

  /// Writes all carried values at once. Values with the same lanes are all read before one of them is
  /// written, since one may become what another was. Values with more lanes come first, since they may
  /// repeat a value with fewer lanes.
  void carry() {
    std::map<std::pair<std::size_t, Lanes>, std::vector<const tile::Carried*>, std::greater<>> by_lanes;
    for (const tile::Carried& carried : kernel_.carried) {
      const Lanes& lanes = text_.info(carried.entry).lanes;
      by_lanes[{lanes.size(), lanes}].push_back(&carried);
    }
    for (const auto& [key, group] : by_lanes) {
      const bool scalars = key.second.empty();
      if (!scalars) {
        order_.before_all();
        open_points(key.second);
      }
      std::vector<std::string> texts;
      for (const tile::Carried* carried : group) {
        texts.push_back(values_.read(carried->next).text);
        if (group.size() == 1) continue;
        const std::string next = text_.name(carried->entry) + "_next";
        lines_.line("const {} {} = {};", text_.type(carried->entry), next, texts.back());
        texts.back() = next;
      }
      for (std::size_t i = 0; i < group.size(); ++i) {
        lines_.line("{} = {};", scalars ? text_.name(group[i]->entry) : values_.place(group[i]->entry),
                    texts[i]);
      }
      if (!scalars) {
        close_points();
        order_.barrier();
      }
    }
  }

  // --- steps

  void write_steps(const std::vector<BlockStep>& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const BlockStep& step = steps[i];
      if (step.window > 0) {
        const BlockStep& second = steps[++i];
        BlockStep both = step;
        both.nodes.insert(both.nodes.end(), second.nodes.begin(), second.nodes.end());
        order_.before(both);
        write_windows(step, second, plan_, text_, lines_, values_);
        continue;
      }
      order_.before(step);
      switch (step.kind) {
        case StepKind::scalars:
          write_scalars(step);
          break;
        case StepKind::loop:
          write_loop(step);
          break;
        case StepKind::reduce:
          step.lanes.empty() ? write_whole_reduction(step) : write_reduction(step);
          break;
        case StepKind::dot:
          write_dot(std::get<tile::Dot>(*step.nodes[0]), plan_, text_, lines_);
          break;
        case StepKind::tensor_dot:
          write_tensor_dot(step, plan_, text_, lines_, values_);
          break;
      }
    }
    order_.finish_copies();
  }

  void write_scalars(const BlockStep& step) {
    for (const Node* node : step.nodes) {
      if (const auto* store = std::get_if<tile::Store>(node)) {
        values_.write_store(*store, "threadIdx.x == 0");
      } else {
        const TileValue result = tile::result_of(*node);
        const std::string text = values_.computed(*node).text;
        lines_.line("const {} {} = {};", text_.type(result), text_.name(result), text);
      }
    }
  }

  std::int64_t points(const Lanes& lanes) const { return extent_of(kernel_, lanes); }

  /// Declares the lane variables of a row-major index over `lanes`.
  void declare_lanes(const Lanes& lanes, const std::string& linear) {
    std::int64_t below = points(lanes);
    const std::int64_t all = below;
    for (std::int32_t lane : lanes) {
      const tile::Axis& axis = text_.axis(lane);
      below /= axis.extent;
      if (axis.extent == 1) continue;
      std::string text = linear;
      if (below > 1) text += fmt::format(" / {}", below);
      if (below * axis.extent != all) text += fmt::format(" % {}", axis.extent);
      lines_.line("const int {} = {};", axis.name, text);
    }
  }

  void open_points(const Lanes& lanes) {
    values_.change_scope();
    lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(lanes), plan_.threads);
    declare_lanes(lanes, "at");
  }
  void close_points() {
    lines_.close();
    values_.change_scope();
  }

  void write_loop(const BlockStep& all) {
    BlockStep step = all;
    for (const Node* node : all.nodes) {
      const auto* load = std::get_if<tile::Load>(node);
      if (load == nullptr || !plan_.is_streamed(load->result)) continue;
      order_.start_copies();
      write_window_load(*load, "", plan_.array_of(load->result).window, plan_, text_, lines_, values_);
      std::erase(step.nodes, node);
    }
    if (step.nodes.empty()) return;
    if (is_copies(step, plan_, text_)) {
      order_.start_copies();
      return write_copies(step, plan_, text_, lines_);
    }
    open_points(step.lanes);
    for (const Node* node : step.nodes) {
      if (const auto* store = std::get_if<tile::Store>(node)) {
        values_.write_store(*store, text_.first_of_same(store->access, step.lanes));
        continue;
      }
      const TileValue result = tile::result_of(*node);
      const std::string text = values_.computed(*node).text;
      if (plan_.value(result).home == BlockHome::shared) {
        values_.put(result, text);
      } else {
        lines_.line("const {} {} = {};", text_.type(result), text_.name(result), text);
      }
    }
    close_points();
  }

  // --- reductions

  void start_reductions(const BlockStep& step, const std::string& suffix) {
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("{} {}{} = {};", text_.type(reduce.result), text_.name(reduce.result), suffix,
                  reduction_start(reduce.kind, text_.info(reduce.result).dtype));
    }
  }

  void add_reductions(const BlockStep& step, const std::string& suffix) {
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      const std::string name = text_.name(reduce.result) + suffix;
      const ir::DType dtype = text_.info(reduce.result).dtype;
      lines_.line("{};", accumulate(reduce.kind, dtype, name, values_.read(reduce.operand)));
    }
  }

  /// Writes reductions over all points to one scalar, which every thread then knows.
  void write_whole_reduction(const BlockStep& step) {
    start_reductions(step, "");
    values_.change_scope();
    lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(step.reduced), plan_.threads);
    declare_lanes(step.reduced, "at");
    add_reductions(step, "");
    lines_.close();
    values_.change_scope();
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("over_block<{}, {}>(shared, {});", reduction_functor(reduce.kind), plan_.threads,
                  text_.name(reduce.result));
    }
    order_.before_all();  // over_block reads its scratch until here
  }

  /// Writes reductions that keep lanes. A warp computes one result, or a thread if there is little to add.
  /// If rows lie in memory as packets, a few threads share a row (blocks_row_sums.h).
  void write_reduction(const BlockStep& step) {
    if (write_row_sums(step, plan_, text_, lines_, values_)) return;
    const bool warp = points(step.reduced) >= kWarpReduction;
    const std::string suffix = "_sum";
    values_.change_scope();
    if (warp) {
      lines_.open("for (int at = int(threadIdx.x) / 32; at < {}; at += {})", points(step.lanes),
                  plan_.threads / 32);
    } else {
      lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(step.lanes), plan_.threads);
    }
    declare_lanes(step.lanes, "at");
    start_reductions(step, suffix);
    lines_.open("for (int with = {}; with < {}; with += {})", warp ? "int(threadIdx.x) % 32" : "0",
                points(step.reduced), warp ? 32 : 1);
    declare_lanes(step.reduced, "with");
    add_reductions(step, suffix);
    lines_.close();
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      const std::string name = text_.name(reduce.result) + suffix;
      if (warp) {
        lines_.line("{0} = over_threads<{1}, 32>({0});", name, reduction_functor(reduce.kind));
        lines_.line("if (threadIdx.x % 32 == 0) {} = {};", values_.place(reduce.result), name);
      } else {
        lines_.line("{} = {};", values_.place(reduce.result), name);
      }
    }
    close_points();
  }

  const tile::Kernel& kernel_;
  const BlockPlan& plan_;
  KernelText text_;
  Lines lines_;
  BlockOrder order_;
  BlockValues values_;
};

}  // namespace

KernelSource emit_block(const tile::Kernel& kernel, const EntryPoint& entry, const BlockPlan& plan) {
  return BlockWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
