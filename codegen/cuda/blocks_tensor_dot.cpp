// Products on tensor cores; see blocks_tensor_dot.h.
#include "codegen/cuda/blocks_tensor_dot.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

/// How many neighbours of a narrow array a copy moves at once; 0: it is no copy.
std::int64_t packet_of(const tile::Load& load, const BlockPlan& plan, const KernelText& text) {
  const BlockValue& own = plan.value(load.result);
  if (load.index || own.home != BlockHome::shared || !plan.array_of(load.result).narrow) return 0;
  return text.packet_of(load.access, text.info(load.result).lanes[1]);
}

class TensorDotWriter {
 public:
  TensorDotWriter(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                  BlockValues& values)
      : step_(step), plan_(plan), text_(text), lines_(lines), values_(values) {}

  void write() {
    const std::int64_t rows = text_.axis(step_.row).extent, columns = text_.axis(step_.column).extent;
    const std::int64_t elements = 4 * step_.width;
    const std::int64_t down = (rows + 15) / 16, right = (columns + 8 * step_.width - 1) / (8 * step_.width);
    lines_.open("for (int tile = int(threadIdx.x) / 32; tile < {}; tile += {})", down * right,
                plan_.threads / 32);
    lines_.line("const int down = {};", right == 1 ? "tile * 16" : fmt::format("tile / {} * 16", right));
    if (right > 1) lines_.line("const int right = tile % {} * {};", right, 8 * step_.width);
    for (const Node* node : step_.nodes) {
      const auto* dot = std::get_if<tile::Dot>(node);
      if (dot == nullptr) continue;
      const std::string name = text_.name(dot->result) + "_tile";
      lines_.line("float {}[{}];  // sum over {} of {} {}", name, elements, text_.axis(dot->contract).name,
                  text_.name(dot->a), text_.name(dot->b));
      lines_.line("multiply<{}>({}, {}, {}, down, {});", step_.width, name,
                  narrow_operand(dot->a, dot->contract), narrow_operand(dot->b, dot->contract),
                  right > 1 ? "right" : "0");
      values_.hold(dot->result, name + "[e]");
    }
    const std::vector<Pass> passes = passes_of();
    for (const Pass& pass : passes) write_pass(pass, &pass == &passes.front());
    lines_.close();
    values_.release_all();
  }

 private:
  std::string narrow_operand(TileValue value, std::int32_t contract) const {
    const SharedArray& array = plan_.array_of(value);
    const bool down = array.lanes[0] == contract;
    return fmt::format("Narrow<{}, {}, {}, {}>{{{}}}", text_.axis(array.lanes[down ? 1 : 0]).extent,
                       text_.axis(contract).extent, array.pitch, down, text_.name(value));
  }

  /// What runs over the elements of a tile of products: a pass ends where a sum over rows must be known.
  struct Pass {
    std::vector<const Node*> nodes;
    std::vector<const tile::Reduce*> reduces;
    std::vector<TileValue> kept;  // computed here, read in a later pass
  };

  std::vector<Pass> passes_of() const {
    std::map<std::int32_t, std::size_t> known;  // values of the step: the first pass that can read them
    std::map<std::int32_t, std::size_t> computed_in;
    std::set<std::int32_t> kept;
    std::vector<Pass> passes(1);
    for (const Node* node : step_.nodes) {
      const TileValue result = tile::result_of(*node);
      if (std::holds_alternative<tile::Dot>(*node)) {
        known[result.id] = 0;
        continue;
      }
      std::vector<TileValue> leaves;
      for (TileValue operand : tile::operands_of(*node)) add_leaves(operand, leaves);
      std::size_t pass = 0;
      for (TileValue leaf : leaves) {
        if (known.contains(leaf.id)) pass = std::max(pass, known[leaf.id]);
      }
      for (TileValue leaf : leaves) {
        if (computed_in.contains(leaf.id) && computed_in[leaf.id] < pass) kept.insert(leaf.id);
      }
      passes.resize(std::max(passes.size(), pass + 1));
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) {
        passes[pass].reduces.push_back(reduce);
        known[result.id] = pass + 1;
        continue;
      }
      passes[pass].nodes.push_back(node);
      if (result) known[result.id] = computed_in[result.id] = pass;
    }
    for (const auto& [id, pass] : computed_in) {
      if (kept.contains(id) || puts_tile({id})) passes[pass].kept.push_back({id});
    }
    return passes;
  }

  void add_leaves(TileValue value, std::vector<TileValue>& leaves) const {
    const BlockValue& own = plan_.value(value);
    if (own.home != BlockHome::again) return leaves.push_back(value);
    for (TileValue inner : tile::operands_of(*own.node)) add_leaves(inner, leaves);
  }

  void write_pass(const Pass& pass, bool first) {
    const std::int64_t elements = 4 * step_.width;
    for (const tile::Reduce* reduce : pass.reduces) {
      const std::string start = reduction_start(reduce->kind, text_.info(reduce->result).dtype);
      lines_.line("{} {}_rows[2] = {{{}, {}}};", text_.type(reduce->result), text_.name(reduce->result),
                  start, start);
    }
    for (TileValue kept : pass.kept)
      lines_.line("{} {}_tile[{}] = {{}};", text_.type(kept), text_.name(kept), elements);
    for (const Node* node : pass.nodes) {
      const auto* store = std::get_if<tile::Store>(node);
      if (store != nullptr && stores_tile(*store))
        lines_.line("float {}_tile[{}] = {{}};", text_.argument(store->access.argument), elements);
    }
    open_elements();
    for (const tile::TileValue value : dots_stored(first)) values_.put(value, values_.read(value).text);
    for (const Node* node : pass.nodes) write_element(*node, pass);
    for (const tile::Reduce* reduce : pass.reduces) {
      const std::string name = text_.name(reduce->result) + "_rows[e % 4 / 2]";
      lines_.line("{};", accumulate(reduce->kind, text_.info(reduce->result).dtype, name,
                                    values_.read(reduce->operand)));
    }
    close_elements();
    for (const Node* node : pass.nodes) {
      const TileValue result = tile::result_of(*node);
      if (result) values_.release(result);
    }
    for (const Node* node : pass.nodes) write_tile(*node);
    for (TileValue kept : pass.kept) values_.hold(kept, text_.name(kept) + "_tile[e]");
    for (const tile::Reduce* reduce : pass.reduces) write_row_results(*reduce);
  }

  /// Opens a loop over the elements of a tile that lie within the product.
  void open_elements() {
    const tile::Axis& row = text_.axis(step_.row);
    const tile::Axis& column = text_.axis(step_.column);
    const bool all_columns = column.extent <= 8 * step_.width;
    values_.change_scope();
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < {}; ++e)", 4 * step_.width);
    lines_.line("const int {} = down + fragment_row(e);", row.name);
    lines_.line("const int {} = {}fragment_column(e);", column.name, all_columns ? "" : "right + ");
    std::string within;
    if (row.extent % 16 != 0) within = fmt::format("{} < {}", row.name, row.extent);
    if (column.extent % (8 * step_.width) != 0)
      within += fmt::format("{}{} < {}", within.empty() ? "" : " && ", column.name, column.extent);
    lines_.open("{}", within.empty() ? "" : fmt::format("if ({})", within));
  }
  void close_elements() {
    lines_.close();
    lines_.close();
    values_.change_scope();
  }

  /// The products that a later step reads: stored in the first pass.
  std::vector<TileValue> dots_stored(bool first) const {
    std::vector<TileValue> stored;
    for (const Node* node : step_.nodes) {
      const auto* dot = std::get_if<tile::Dot>(node);
      if (first && dot != nullptr && plan_.value(dot->result).home == BlockHome::shared)
        stored.push_back(dot->result);
    }
    return stored;
  }

  void write_element(const Node& node, const Pass& pass) {
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store))
        return values_.write_store(*store, text_.first_of_same(store->access, step_.lanes));
      return lines_.line("{}_tile[e] = {};", text_.argument(store->access.argument),
                         values_.read(store->value).text);
    }
    const TileValue result = tile::result_of(node);
    const std::string text = values_.computed(node).text;
    const bool kept = std::find(pass.kept.begin(), pass.kept.end(), result) != pass.kept.end();
    const std::string name = text_.name(result) + (kept ? "_tile[e]" : "_here");
    lines_.line("{}{} = {};", kept ? "" : fmt::format("const {} ", text_.type(result)), name, text);
    values_.hold(result, name);
    if (plan_.value(result).home == BlockHome::shared && !puts_tile(result)) values_.put(result, name);
  }

  /// Whether a value goes to shared memory, or a store to memory, as a whole tile.
  bool puts_tile(TileValue value) const {
    return plan_.value(value).home == BlockHome::shared && plan_.array_of(value).narrow &&
           plan_.array_of(value).lanes.back() == step_.column;
  }
  bool stores_tile(const tile::Store& store) const {
    const auto stride = [&](std::int32_t lane) {
      return store.access.strides[static_cast<std::size_t>(lane)];
    };
    const auto to_the_same = [&](const Node* node) {
      const auto* other = std::get_if<tile::Store>(node);
      return other != nullptr && other->access.argument == store.access.argument;
    };
    if (std::count_if(step_.nodes.begin(), step_.nodes.end(), to_the_same) > 1) return false;
    return !store.predicate && text_.stored_dtype(store.access) == ir::DType::bf16 && step_.width % 4 == 0 &&
           text_.info(store.value).dtype == ir::DType::f32 && stride(step_.column) == 1 &&
           stride(step_.row) != 0 && text_.packet_of(store.access, step_.column) == 8;
  }
  void write_tile(const Node& node) {
    const std::string at = step_.width * 8 < text_.axis(step_.column).extent ? "down, right" : "down, 0";
    const std::string shape =
        fmt::format("{}, {}, {}", step_.width, text_.axis(step_.row).extent, text_.axis(step_.column).extent);
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store)) return;
      lines_.line("store_tile<{}, {}>({}, {}_tile, {});", shape,
                  store->access.strides[static_cast<std::size_t>(step_.row)], text_.pointer(store->access),
                  text_.argument(store->access.argument), at);
      return;
    }
    const TileValue result = tile::result_of(node);
    if (!puts_tile(result)) return;
    lines_.line("put_tile<{}, {}>({}, {}_tile, {});", shape, plan_.array_of(result).pitch, text_.name(result),
                text_.name(result), at);
  }

  /// A sum over rows becomes known to the threads that share a row, and to the block where a later step reads
  /// it.
  void write_row_results(const tile::Reduce& reduce) {
    const std::string name = text_.name(reduce.result) + "_rows";
    lines_.line("over_rows<{}>({});", reduction_functor(reduce.kind), name);
    values_.hold(reduce.result, name + "[e % 4 / 2]");
    if (plan_.value(reduce.result).home != BlockHome::shared) return;
    const tile::Axis& row = text_.axis(step_.row);
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < 4; e += 2)");
    lines_.line("const int {} = down + fragment_row(e);", row.name);
    lines_.line("if (threadIdx.x % 4 == 0{}) {} = {}[e / 2];",
                row.extent % 16 != 0 ? fmt::format(" && {} < {}", row.name, row.extent) : "",
                values_.place(reduce.result), name);
    lines_.close();
  }

  const BlockStep& step_;
  const BlockPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  BlockValues& values_;
};

}  // namespace

bool is_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text) {
  return std::ranges::all_of(step.nodes, [&](const Node* node) {
    const auto* load = std::get_if<tile::Load>(node);
    return load != nullptr && packet_of(*load, plan, text) > 0;
  });
}

void write_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines) {
  for (const Node* node : step.nodes) {
    const auto& load = std::get<tile::Load>(*node);
    const Lanes& lanes = text.info(load.result).lanes;
    lines.line("copy_rows<{}, {}, {}, {}, {}, {}>({}, {});", text.axis(lanes[0]).extent,
               text.axis(lanes[1]).extent, load.access.strides[static_cast<std::size_t>(lanes[0])],
               plan.array_of(load.result).pitch, packet_of(load, plan, text), plan.threads,
               text.name(load.result), text.pointer(load.access));
  }
}

void write_tensor_dot(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                      BlockValues& values) {
  TensorDotWriter(step, plan, text, lines, values).write();
}

}  // namespace rewire::codegen::cuda
