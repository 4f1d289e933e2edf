// Products on tensor cores; see blocks_tensor_dot.h.
#include "codegen/cuda/blocks_tensor_dot.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/cuda/blocks_steps.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

/// Returns how many neighbours of a narrow array a copy moves at once. 0: the load is not a copy.
std::int64_t packet_of(const tile::Load& load, const BlockPlan& plan, const KernelText& text) {
  const BlockValue& own = plan.value(load.result);
  if (load.index || own.home != BlockHome::shared || !plan.array_of(load.result).narrow) return 0;
  return text.packet_of(load.access, text.info(load.result).lanes[1]);
}

class TensorDotWriter {
 public:
  TensorDotWriter(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                  BlockValues& values)
      : step_(step),
        plan_(plan),
        text_(text),
        lines_(lines),
        values_(values),
        chained_(chained_of(step)),
        column_(step.column),
        width_(step.width) {
    find_rounded();
  }

  void write() {
    const std::int64_t rows = text_.axis(step_.row).extent, columns = text_.axis(step_.column).extent;
    const std::int64_t down = parts_of(rows, 16), right = parts_of(columns, 8 * width_);
    const bool walks = !chained_.empty() && right > 1;
    const std::int64_t across = chained_.empty() ? right : 1;
    open_tiles(std::to_string(down * across), down * across > plan_.threads / 32, across);
    start_chained();
    held_ = walks && step_.held_rows;
    if (held_) hold_rows();
    if (walks) {
      walk(columns);
    } else {
      write_columns(has_right() ? "right" : "0");
    }
    write_after_chained();
    lines_.close();
    values_.release_all();
  }

  /// Writes this step and `second` in windows. All are of one loop: apart, the last would cost the others
  /// registers.
  void write_windows(TensorDotWriter& second) {
    const std::int64_t columns = text_.axis(step_.column).extent;
    lines_.open("");
    lines_.line("const int down = int(threadIdx.x) / 32 * 16;");
    start_chained();
    held_ = step_.held_rows && !some_have_rows();
    if (held_) hold_rows();
    lines_.directive("#pragma unroll 1");
    lines_.open("for (int first = 0; first < {}; first += {})", columns, step_.window);
    write_next_loads();
    write_window();
    second.write_rows();
    if (columns > step_.window) {
      lines_.line("finish_copies();");
      lines_.line("__syncthreads();");
    }
    lines_.close();
    on_own_rows([&] { write_after_chained(); });
    lines_.close();
    values_.release_all();
  }

 private:
  // --- the tiles of a warp

  /// Opens a loop over a warp's tiles, `across` of them side by side, or a condition if it has one at most.
  void open_tiles(const std::string& tiles, bool several, std::int64_t across) {
    const std::int64_t warps = plan_.threads / 32;
    if (several) {
      lines_.open("for (int tile = int(threadIdx.x) / 32; tile < {}; tile += {})", tiles, warps);
    } else {
      lines_.open("if (const int tile = int(threadIdx.x) / 32; tile < {})", tiles);
    }
    lines_.line("const int down = {};", across == 1 ? "tile * 16" : fmt::format("tile / {} * 16", across));
    if (across > 1) lines_.line("const int right = tile % {} * {};", across, 8 * width_);
  }

  /// Writes the columns of a warp's rows tile by tile. The last tile is written apart if the columns end in
  /// it, so that no other has to look for the end.
  void walk(std::int64_t columns) {
    const std::int64_t whole = columns / (8 * width_) * (8 * width_);
    if (whole > 0) {
      within_ = width_ % 2 == 0;
      lines_.directive("#pragma unroll 1");
      lines_.open("for (int right = 0; right < {}; right += {})", within_ ? whole : columns, 8 * width_);
      write_columns("right");
      lines_.close();
    }
    const bool apart = whole < columns && (whole == 0 || within_);
    within_ = false;
    if (!apart) return;
    lines_.open("");
    lines_.line("const int right = {};", whole);
    write_columns("right");
    lines_.close();
  }

  /// Writes the products of one tile, the work on its elements, and what it adds to the chained products.
  void write_columns(const std::string& right) {
    for (const tile::Dot* dot : dots_of(step_)) write_product(*dot, right);
    const std::vector<Pass> passes = passes_of(step_.lanes);
    for (const Pass& pass : passes) write_pass(pass, &pass == &passes.front());
    for (const tile::Dot* dot : chained_) {
      lines_.line("multiply_tile<{}, {}, {}>({}, {}_tile, {}, {});", chained_width(*dot), width_, within_,
                  tile_of(*dot), text_.name(dot->a), narrow_operand(dot->b, dot->contract), right);
    }
  }

  // --- windows

  /// Returns whether only some of the warps have rows of the first step.
  bool some_have_rows() const { return parts_of(text_.axis(step_.row).extent, 16) * 32 < plan_.threads; }

  /// Writes the work of warps that have rows of the first step.
  template <class Work>
  void on_own_rows(Work work) {
    if (some_have_rows()) lines_.open("if (down < {})", text_.axis(step_.row).extent);
    work();
    if (some_have_rows()) lines_.close();
  }

  /// Returns the values in windows that the products read, or that this step computes.
  std::vector<TileValue> in_windows() const {
    std::vector<TileValue> found;
    const auto add = [&](TileValue value) {
      if (plan_.in_windows(value) && std::ranges::find(found, value) == found.end()) found.push_back(value);
    };
    for (const Node* node : step_.nodes) {
      if (const auto* dot = std::get_if<tile::Dot>(node)) add(dot->b);
      if (const TileValue result = tile::result_of(*node)) add(result);
    }
    return found;
  }

  /// Writes the loads of the window after the one from `first` on.
  void write_next_loads() {
    const std::int64_t window = step_.window, columns = text_.axis(step_.column).extent;
    const auto write = [&](std::int64_t before, std::int64_t rows) {
      lines_.open("if (first < {})", before);
      declare_block();
      for (TileValue value : in_windows()) {
        if (const auto* load = std::get_if<tile::Load>(plan_.value(value).node))
          write_window_load(*load, fmt::format("first + {}", window), rows, plan_, text_, lines_, values_);
      }
      lines_.close();
    };
    const std::int64_t last = columns / window * window;  // there begins what is no whole window
    if (last > window) write(last - window, window);
    if (last == columns || last == 0) return;
    if (last > window) lines_.line("else");
    write(last, columns - last);
  }

  /// Writes the columns of the window from `first` on, tile by tile from there.
  void write_window() {
    const std::int64_t window = step_.window, columns = text_.axis(step_.column).extent;
    for (TileValue value : in_windows()) {
      if (!plan_.is_streamed(value)) continue;
      lines_.line("const bf16* const {0} = {0}_windows + first / {1} % 2 * {2};", text_.name(value), window,
                  window * plan_.array_of(value).pitch);
    }
    const std::int64_t whole = columns / (8 * width_) * (8 * width_), rest = columns % window;
    on_own_rows([&] {
      within_ = true;
      count_ = window;
      lines_.directive("#pragma unroll 1");
      lines_.open("for (int right = 0; right < {}; right += {})",
                  rest == 0 ? std::to_string(window) : fmt::format("minimum({}, {} - first)", window, whole),
                  8 * width_);
      write_columns("right");
      lines_.close();
      within_ = false;
      if (whole == columns) return;
      count_ = rest;
      lines_.open("if (first == {})", columns - rest);
      lines_.line("const int right = {};", rest / (8 * width_) * (8 * width_));
      write_columns("right");
      lines_.close();
    });
    count_ = 0;
    lines_.line("__syncthreads();");
  }

  /// Writes this step for the rows of the window from `first` on.
  void write_rows() {
    const std::int64_t window = step_.window, rows = text_.axis(step_.row).extent;
    const std::int64_t across = parts_of(text_.axis(step_.column).extent, 8 * width_);
    const std::int64_t all = window / 16 * across, last = parts_of(rows % window, 16) * across;
    count_ = window;
    open_tiles(last == 0 || last == all
                   ? std::to_string(all)
                   : fmt::format("(first < {} ? {} : {})", rows / window * window, all, last),
               all > plan_.threads / 32, across);
    declare_block();
    write_columns(has_right() ? "right" : "0");
    lines_.close();
    values_.release_all();
    count_ = 0;
  }

  /// Return what is before a tile's columns or rows in the window being written.
  std::string before_columns() const { return count_ > 0 && !chained_.empty() ? "first + " : ""; }
  std::string before_rows() const { return count_ > 0 && chained_.empty() ? "first + " : ""; }

  /// Returns the points of a lane that an array holds; of a computed one in windows, whole tiles.
  std::int64_t points_in(TileValue value, std::int32_t lane) const {
    const SharedArray& array = plan_.array_of(value);
    if (!plan_.in_windows(value)) return text_.axis(lane).extent;
    if (plan_.is_streamed(value)) return lane == array.lanes[0] ? count_ : text_.axis(lane).extent;
    return lane == array.lanes[1] ? parts_of(count_, 16) * 16 : text_.axis(lane).extent;
  }

  // --- products

  std::string narrow_operand(TileValue value, std::int32_t contract) const {
    const SharedArray& array = plan_.array_of(value);
    const bool down = array.lanes[0] == contract;
    return fmt::format("Narrow<{}, {}, {}, {}>{{{}}}", points_in(value, array.lanes[down ? 1 : 0]),
                       points_in(value, contract), array.pitch, down, text_.name(value));
  }
  std::string tile_of(const tile::Dot& dot) const { return text_.name(dot.result) + "_tile"; }
  std::string held_of(const tile::Dot& dot) const { return text_.name(dot.a) + "_rows"; }
  std::string sum_of(const tile::Dot& dot) const {
    return fmt::format("sum over {} of {} {}", text_.axis(dot.contract).name, text_.name(dot.a),
                       text_.name(dot.b));
  }

  /// Loads the rows of the left operands into registers. A warp multiplies them with all columns.
  void hold_rows() {
    std::set<std::int32_t> held;
    for (const tile::Dot* dot : dots_of(step_)) {
      if (!held.insert(dot->a.id).second) continue;
      lines_.line("u32 {}[{}][4];", held_of(*dot), parts_of(text_.axis(dot->contract).extent, 16));
      lines_.line("load_rows({}, {}, down);", held_of(*dot), narrow_operand(dot->a, dot->contract));
    }
  }

  void write_product(const tile::Dot& dot, const std::string& right) {
    const std::string name = tile_of(dot), b = narrow_operand(dot.b, dot.contract);
    lines_.line("float {}[{}];  // {}", name, 4 * width_, sum_of(dot));
    if (held_) {
      lines_.line("multiply_rows<{}, {}>({}, {}, {}, {});", width_, within_, name, held_of(dot), b, right);
    } else {
      lines_.line("multiply<{}, {}>({}, {}, {}, down, {});", width_, within_, name,
                  narrow_operand(dot.a, dot.contract), b, right);
    }
    values_.hold(dot.result, name + "[e]");
  }

  /// Returns whether several tiles lie side by side.
  bool has_right() const { return 8 * width_ < text_.axis(column_).extent; }

  // --- chained products

  std::int64_t chained_width(const tile::Dot& dot) const {
    return parts_of(text_.axis(column_of(text_.kernel(), dot)).extent, 8);
  }

  void start_chained() {
    for (const tile::Dot* dot : chained_)
      lines_.line("float {}[{}] = {{}};  // {}", tile_of(*dot), 4 * chained_width(*dot), sum_of(*dot));
  }

  /// Declares the block's place anew, where chained products leave few registers to keep it.
  void declare_block() {
    if (!plan_.by_partition) declare_places(plan_, text_, lines_, "block_again()");
  }

  /// Writes the work on the elements of chained products, for all products that have the same columns at
  /// once.
  void write_after_chained() {
    if (chained_.empty()) return;
    declare_block();
    std::set<std::int32_t> done;
    for (const tile::Dot* dot : chained_) {
      column_ = column_of(text_.kernel(), *dot);
      width_ = chained_width(*dot);
      if (!done.insert(column_).second) continue;
      const Lanes& lanes = text_.info(dot->result).lanes;
      for (const tile::Dot* other : chained_) {
        if (text_.info(other->result).lanes == lanes) values_.hold(other->result, tile_of(*other) + "[e]");
      }
      for (const Pass& pass : passes_of(lanes)) write_pass(pass, true);
    }
  }

  bool feeds_chain(TileValue value) const {
    return std::ranges::any_of(chained_, [&](const tile::Dot* dot) { return dot->a == value; });
  }

  // --- values that are rounded only once

  /// Finds values that are kept only in tiles of bf16 and that only products of this step read. A tile is
  /// rounded when it is written, so it receives the value from before its casts.
  void find_rounded() {
    std::map<std::int32_t, int> readers;
    for (const Node* node : step_.nodes) {
      if (std::holds_alternative<tile::Dot>(*node)) continue;
      std::vector<TileValue> leaves;
      for (TileValue operand : tile::operands_of(*node)) add_leaves(operand, leaves);
      for (TileValue leaf : leaves) ++readers[leaf.id];
    }
    for (const Node* node : step_.nodes) {
      const auto* wide = std::get_if<tile::Pointwise>(node);
      if (wide == nullptr || readers[wide->result.id] > 0) continue;
      if (!(feeds_chain(wide->result) || puts_tile(wide->result))) continue;
      if (wide->code != ir::Opcode::cast || text_.info(wide->operands[0]).dtype != ir::DType::bf16) continue;
      const BlockValue& narrow = plan_.value(wide->operands[0]);
      const auto* cast = narrow.node == nullptr ? nullptr : std::get_if<tile::Pointwise>(narrow.node);
      if (cast == nullptr || narrow.home != BlockHome::local || cast->code != ir::Opcode::cast) continue;
      if (text_.info(cast->operands[0]).dtype != ir::DType::f32 || readers[cast->result.id] != 1) continue;
      rounded_[wide->result.id] = cast->operands[0];
      rounded_[cast->result.id] = {};
    }
  }

  // --- passes

  /// The nodes of one loop over the elements of a tile of products. A pass ends where the result of a sum
  /// along rows is needed.
  struct Pass {
    std::vector<const Node*> nodes;
    std::vector<const tile::Reduce*> reduces;   // over the columns
    std::vector<const tile::Reduce*> row_sums;  // over the rows
    std::vector<TileValue> kept;                // computed here, read in a later pass
  };

  /// Returns the passes for the nodes that run over these lanes.
  std::vector<Pass> passes_of(const Lanes& lanes) const {
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
      if (tile::iteration_lanes(text_.kernel(), *node) != lanes) continue;
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
      if (adds_rows(step_, *node)) {
        passes[pass].row_sums.push_back(&std::get<tile::Reduce>(*node));
        continue;
      }
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) {
        passes[pass].reduces.push_back(reduce);
        known[result.id] = pass + 1;
        continue;
      }
      passes[pass].nodes.push_back(node);
      if (result) known[result.id] = computed_in[result.id] = pass;
    }
    for (const auto& [id, pass] : computed_in) {
      if (kept.contains(id) || puts_tile({id}) || feeds_chain({id})) passes[pass].kept.push_back({id});
    }
    return passes;
  }

  void add_leaves(TileValue value, std::vector<TileValue>& leaves) const {
    const BlockValue& own = plan_.value(value);
    if (own.home != BlockHome::again) return leaves.push_back(value);
    for (TileValue inner : tile::operands_of(*own.node)) add_leaves(inner, leaves);
  }

  void write_pass(const Pass& pass, bool first) {
    const std::int64_t elements = 4 * width_;
    for (const tile::Reduce* reduce : pass.reduces) {
      const std::string start = reduction_start(reduce->kind, text_.info(reduce->result).dtype);
      lines_.line("{} {}_rows[2] = {{{}, {}}};", text_.type(reduce->result), text_.name(reduce->result),
                  start, start);
    }
    for (TileValue kept : pass.kept)
      lines_.line("{} {}_tile[{}] = {{}};", text_.type(kept), text_.name(kept), elements);
    for (const tile::Reduce* sum : pass.row_sums)
      lines_.line("float {}_tile[{}] = {{}};", text_.name(sum->result), elements);
    for (const Node* node : pass.nodes) {
      const auto* store = std::get_if<tile::Store>(node);
      if (store != nullptr && stores_tile(*store))
        lines_.line("float {}_tile[{}] = {{}};", text_.argument(store->access.argument), elements);
    }
    const bool by_element = writes_elements(pass, first);
    repeats_columns_ = !by_element && pass.reduces.empty();
    open_elements(by_element);
    for (const tile::TileValue value : dots_stored(first)) values_.put(value, values_.read(value).text);
    for (const Node* node : pass.nodes) write_element(*node, pass);
    for (const tile::Reduce* sum : pass.row_sums)
      lines_.line("{}_tile[e] = {};", text_.name(sum->result), values_.read(summed_by(*sum)).text);
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
    for (const tile::Reduce* sum : pass.row_sums) write_row_sum(*sum);
    for (TileValue kept : pass.kept) values_.hold(kept, text_.name(kept) + "_tile[e]");
    for (const tile::Reduce* reduce : pass.reduces) write_row_results(*reduce);
  }

  /// Returns the text of the column of element e of a tile.
  std::string column_here() const {
    return fmt::format("{}{}fragment_column(e)", before_columns(), has_right() ? "right + " : "");
  }
  /// Returns whether a tile has columns beyond the end of the axis.
  bool column_ends() const { return !within_ && text_.axis(column_).extent % (8 * width_) != 0; }

  /// Opens a loop over the elements of a tile that lie within the product. `by_element`: elements are
  /// written one by one, so rows and columns beyond the end are skipped. Otherwise they repeat the last one,
  /// and a tile is stored without them. Columns repeat only if nothing adds them up.
  void open_elements(bool by_element) {
    const tile::Axis& row = text_.axis(step_.row);
    const tile::Axis& column = text_.axis(column_);
    values_.change_scope();
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < {}; ++e)", 4 * width_);
    const auto declare = [&](const tile::Axis& axis, std::string index, bool repeats) {
      if (repeats) index = fmt::format("minimum({}, {})", index, axis.extent - 1);
      lines_.line("const int {} = {};", axis.name, index);
    };
    declare(row, before_rows() + "down + fragment_row(e)", row.extent % 16 != 0 && !by_element);
    declare(column, column_here(), column_ends() && repeats_columns_);
    std::string within;
    if (row.extent % 16 != 0 && by_element) within = fmt::format("{} < {}", row.name, row.extent);
    if (column_ends() && !repeats_columns_)
      within += fmt::format("{}{} < {}", within.empty() ? "" : " && ", column.name, column.extent);
    lines_.open("{}", within.empty() ? "" : fmt::format("if ({})", within));
  }
  void close_elements() {
    lines_.close();
    lines_.close();
    values_.change_scope();
  }

  bool writes_elements(const Pass& pass, bool first) const {
    return !dots_stored(first).empty() || std::ranges::any_of(pass.nodes, [&](const Node* node) {
      const auto* store = std::get_if<tile::Store>(node);
      if (store != nullptr) return !stores_tile(*store);
      const TileValue result = tile::result_of(*node);
      return plan_.value(result).home == BlockHome::shared && !puts_tile(result);
    });
  }

  /// Returns the products of these columns that a later step reads. They are stored in the first pass.
  std::vector<TileValue> dots_stored(bool first) const {
    std::vector<TileValue> stored;
    for (const Node* node : step_.nodes) {
      const auto* dot = std::get_if<tile::Dot>(node);
      if (first && dot != nullptr && column_of(text_.kernel(), *dot) == column_ &&
          plan_.value(dot->result).home == BlockHome::shared)
        stored.push_back(dot->result);
    }
    return stored;
  }

  void write_element(const Node& node, const Pass& pass) {
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store))
        return values_.write_store(*store, text_.first_of_same(store->access, lanes_of_tile()));
      return lines_.line("{}_tile[e] = {};", text_.argument(store->access.argument),
                         values_.read(store->value).text);
    }
    const TileValue result = tile::result_of(node);
    const auto rounded = rounded_.find(result.id);
    if (rounded != rounded_.end() && !rounded->second) return;
    const std::string text =
        rounded == rounded_.end() ? values_.computed(node).text : values_.read(rounded->second).text;
    const bool kept = std::find(pass.kept.begin(), pass.kept.end(), result) != pass.kept.end();
    const std::string name = text_.name(result) + (kept ? "_tile[e]" : "_here");
    if (feeds_chain(result) && repeats_columns_ && column_ends()) {
      lines_.line("{} = {} < {} ? {} : 0.0f;", name, column_here(), text_.axis(column_).extent, text);
    } else {
      lines_.line("{}{} = {};", kept ? "" : fmt::format("const {} ", text_.type(result)), name, text);
    }
    values_.hold(result, name);
    if (plan_.value(result).home == BlockHome::shared && !puts_tile(result)) values_.put(result, name);
  }

  Lanes lanes_of_tile() const { return {std::min(step_.row, column_), std::max(step_.row, column_)}; }

  /// Return whether a value is put into shared memory (puts_tile), or a store writes to memory
  /// (stores_tile), as a whole tile.
  bool puts_tile(TileValue value) const {
    return plan_.value(value).home == BlockHome::shared && plan_.array_of(value).narrow &&
           plan_.array_of(value).lanes.back() == column_;
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
    return !store.predicate && text_.stored_dtype(store.access) == ir::DType::bf16 &&
           (width_ % 4 == 0 || width_ == 2 || !has_right()) &&
           text_.info(store.value).dtype == ir::DType::f32 && stride(column_) == 1 &&
           stride(step_.row) != 0 && text_.packet_of(store.access, column_) == 8;
  }
  void write_tile(const Node& node) {
    const std::string right = has_right() ? "right" : "0";
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store)) return;
      const std::string function =
          width_ == 2 && has_right() ? "store_two<" : fmt::format("store_tile<{}, ", width_);
      lines_.line("{}{}, {}, {}>({}, {}_tile, {}down, {});", function, text_.axis(step_.row).extent,
                  text_.axis(column_).extent, store->access.strides[static_cast<std::size_t>(step_.row)],
                  text_.pointer(store->access), text_.argument(store->access.argument), before_rows(), right);
      return;
    }
    const TileValue result = tile::result_of(node);
    if (!puts_tile(result)) return;
    lines_.line("put_tile<{}, {}, {}, {}>({}, {}_tile, down, {});", width_, within_,
                count_ > 0 ? count_ : text_.axis(column_).extent, plan_.array_of(result).pitch,
                text_.name(result), text_.name(result), right);
  }

  /// Returns what a sum over rows adds up: its operand, or if that is rounded to bf16, the value before.
  TileValue summed_by(const tile::Reduce& sum) const {
    const auto cast_of = [&](TileValue value) -> const tile::Pointwise* {
      const BlockValue& own = plan_.value(value);
      const auto* op = own.node == nullptr ? nullptr : std::get_if<tile::Pointwise>(own.node);
      return own.home == BlockHome::again && op != nullptr && op->code == ir::Opcode::cast ? op : nullptr;
    };
    const tile::Pointwise* wide = cast_of(sum.operand);
    if (wide == nullptr || text_.info(wide->operands[0]).dtype != ir::DType::bf16) return sum.operand;
    const tile::Pointwise* narrow = cast_of(wide->operands[0]);
    const bool rounds = narrow != nullptr && text_.info(narrow->operands[0]).dtype == ir::DType::f32;
    return rounds ? narrow->operands[0] : sum.operand;
  }

  /// Writes the sums of a tile's rows.
  void write_row_sum(const tile::Reduce& sum) {
    const std::string name = text_.name(sum.result), down = before_rows() + "down";
    const std::int64_t rows = text_.axis(step_.row).extent;
    lines_.line("put_sums<{}, {}>({} + ({}) / 16 * {}{}, {}_tile, {});", width_,
                summed_by(sum) != sum.operand, name, down, plan_.array_of(sum.result).pitch,
                has_right() ? " + right" : "", name,
                rows % 16 == 0 ? "16" : fmt::format("{} - ({})", rows, down));
  }

  /// Gives the result of a sum along rows to the threads that share a row, and to the whole block if a later
  /// step reads it.
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
  const std::vector<const tile::Dot*> chained_;
  std::map<std::int32_t, TileValue> rounded_;  // by value: the value put into its tile; {}: it has no tile
  // The columns and the width of the tiles being written: the step's, then those of the chained products.
  std::int32_t column_;
  std::int64_t width_;
  bool repeats_columns_ = false;  // in the pass being written
  bool held_ = false;             // the rows of the left operands are in registers
  bool within_ = false;           // the tile being written is within the columns
  std::int64_t count_ = 0;        // of the window being written: its points
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

void write_window_load(const tile::Load& load, const std::string& first, std::int64_t rows,
                       const BlockPlan& plan, const KernelText& text, Lines& lines, BlockValues& values) {
  const SharedArray& array = plan.array_of(load.result);
  const tile::Axis &row = text.axis(array.lanes[0]), &column = text.axis(array.lanes[1]);
  rows = std::min(rows, row.extent);
  const std::int64_t stride = load.access.strides[static_cast<std::size_t>(array.lanes[0])];
  const std::string name = text.name(load.result);
  const std::string from = first.empty() ? "0" : "(" + first + ")";
  const std::string half =
      first.empty() ? ""
                    : fmt::format(" + {0} / {1} % 2 * {2}", from, array.window, array.window * array.pitch);
  if (const std::int64_t packet = packet_of(load, plan, text); packet > 0) {
    lines.line("copy_rows<{}, {}, {}, {}, {}, {}>({}_windows{}, {}{});", rows, column.extent, stride,
               array.pitch, packet, plan.threads, name, half, text.pointer(load.access),
               first.empty() ? "" : fmt::format(" + {} * {}", from, stride));
    return;
  }
  lines.open("for (int at = int(threadIdx.x); at < {}; at += {})", rows * column.extent, plan.threads);
  values.change_scope();
  lines.line("bf16* const {0} = {0}_windows{1} - {2} * {3};", name, half, from, array.pitch);
  lines.line("const int {} = {} + at / {};", row.name, from, column.extent);
  lines.line("const int {} = at % {};", column.name, column.extent);
  values.put(load.result, values.computed(tile::Node{load}).text);
  lines.close();
  values.change_scope();
}

void write_windows(const BlockStep& first, const BlockStep& second, const BlockPlan& plan,
                   const KernelText& text, Lines& lines, BlockValues& values) {
  TensorDotWriter rows(second, plan, text, lines, values);
  TensorDotWriter(first, plan, text, lines, values).write_windows(rows);
}

void write_tensor_dot(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                      BlockValues& values) {
  TensorDotWriter(step, plan, text, lines, values).write();
}

}  // namespace rewire::codegen::cuda
