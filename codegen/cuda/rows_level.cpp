// One level of a row kernel; see rows_level.h.
#include "codegen/cuda/rows_level.h"

#include <algorithm>

#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;

class LevelWriter {
 public:
  LevelWriter(const RowGuard& guard, const RowsPlan& plan, const KernelText& text, Lines& lines,
              RowValues& values)
      : guard_(guard), plan_(plan), kernel_(text.kernel()), text_(text), lines_(lines), values_(values) {}

  void write(const std::vector<const Node*>& nodes) {
    std::vector<const Node*> loop;
    for (const Node* node : nodes) {
      if (is_scalar(*node) && !std::holds_alternative<tile::Store>(*node)) write_scalar(*node);
    }
    std::string missed;
    for (const TileValue condition : guard_.conditions)
      missed += fmt::format("{}!({})", missed.empty() ? "" : " && ", values_.read(condition).text);
    if (!missed.empty()) lines_.line("if ({}) continue;", missed);
    for (const Node* node : nodes) {
      if (is_scalar(*node) && std::holds_alternative<tile::Store>(*node))
        write_scalar_store(std::get<tile::Store>(*node));
    }
    for (const Node* node : nodes) {
      if (is_scalar(*node)) continue;
      if (is_row_load(*node)) {
        write_row_load(*node);
      } else if (is_in_loop(*node)) {
        loop.push_back(node);
      }
    }
    if (!loop.empty()) write_loop(loop);
    for (const Node* node : nodes) {
      if (!is_scalar(*node) && is_row_store(*node)) write_row_store(std::get<tile::Store>(*node));
    }
  }

 private:
  bool is_scalar(const Node& node) const { return tile::iteration_lanes(kernel_, node).empty(); }

  bool is_row_load(const Node& node) const {
    if (std::holds_alternative<tile::Random>(node)) return !is_scalar(node);
    const auto* load = std::get_if<tile::Load>(&node);
    return load != nullptr && lane_pattern(kernel_, load->access) == LanePattern::contiguous &&
           (!load->index || text_.info(load->index).lanes.empty());
  }
  bool is_row_store(const Node& node) const {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr && lane_pattern(kernel_, store->access) == LanePattern::contiguous;
  }

  /// Returns whether a node belongs to the loop. Immediates and index arithmetic are written where they are
  /// read.
  bool is_in_loop(const Node& node) const {
    if (is_row_store(node)) return !values_.is_array(std::get<tile::Store>(node).value);
    const TileValue result = tile::result_of(node);
    if (!result) return true;
    return !std::holds_alternative<tile::Constant>(node) && !plan_.home(result).again;
  }

  // --- scalars

  void write_scalar(const Node& node) {
    const TileValue result = tile::result_of(node);
    if (std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Index>(node)) return;
    if (is_added(node)) return write_added(result);
    if (const auto* load = std::get_if<tile::Load>(&node))
      return values_.define(result, values_.loaded(*load));
    if (const auto* random = std::get_if<tile::Random>(&node))
      return values_.define(result, values_.drawn(*random, text_.element_index(random->element)));
    values_.define(result, values_.pointwise(std::get<tile::Pointwise>(node)));
  }

  std::string wanted(const tile::Store& store) {
    return conjunction(
        {guard_.stores, store.predicate ? values_.read(store.predicate).within(Binding::conjunction) : ""});
  }

  void write_scalar_store(const tile::Store& store) {
    const bool one = plan_.threads == 1 && plan_.lane_blocks == 1;
    const std::string when = conjunction({one ? "" : "thread == 0", wanted(store)});
    const Expression value = values_.read(store.value);
    lines_.line("{}", text_.stored(store, value, when));
  }

  // --- whole rows

  void write_row_load(const Node& node) {
    const TileValue result = tile::result_of(node);
    lines_.line("{} {}[L::kElements];", text_.type(result), text_.name(result));
    if (const auto* random = std::get_if<tile::Random>(&node)) return write_row_of_draws(*random);
    const auto& load = std::get<tile::Load>(node);
    std::string pointer = text_.pointer(load.access);
    if (load.index) pointer += " + " + values_.gathered(load);
    lines_.line("load<L, {}>({}, {}, thread);",
                aligned_lanes(kernel_, load.access, load.index ? load.index_stride : 0, plan_.vector),
                text_.name(result), pointer);
  }

  /// Writes a row of random draws. If a row begins with a Philox block, its four words serve four
  /// neighbours.
  void write_row_of_draws(const tile::Random& random) {
    const bool contiguous = lane_pattern(kernel_, random.element) == LanePattern::contiguous;
    const std::string key =
        KernelText::draw_key(random, [&](tile::TileValue value) { return values_.read(value); });
    const std::string draw = random.normal ? "normal" : "uniform";
    const std::string& name = text_.name(random.result);
    if (contiguous && plan_.vector == 4 && aligned_lanes(kernel_, random.element, 0, 4) == 4) {
      lines_.directive("#pragma unroll");
      lines_.open("for (int e = 0; e < L::kElements; e += 4)");
      lines_.line("const u64 element = u64({}) + L::lane(e, thread);", text_.outer_index(random.element));
      lines_.line("const PhiloxBlock words = philox({}, element);", key);
      lines_.directive("#pragma unroll");
      lines_.line("for (int k = 0; k < 4; ++k) {}[e + k] = {}(words, element + k);", name, draw);
      lines_.close();
      return;
    }
    values_.open_elements();
    values_.declare_lanes();
    lines_.line("const u64 element = {};", text_.element_index(random.element));
    lines_.line("{}[e] = {}(philox({}, element), element);", name, draw, key);
    values_.close_elements();
  }

  void write_row_store(const tile::Store& store) {
    const std::string value = values_.is_array(store.value) ? text_.name(store.value) : row_name_of(store);
    const std::string when = wanted(store);
    lines_.line("store<L, {}>({}, {}, thread{});", aligned_lanes(kernel_, store.access, 0, plan_.vector),
                text_.pointer(store.access), value, when.empty() ? "" : ", " + when);
  }

  std::string row_name_of(const tile::Store& store) const {
    return fmt::format("{}_row{}", text_.argument(store.access.argument), store.value.id);
  }

  // --- the loop over a thread's elements

  /// Returns whether the loop needs the lane index of its elements.
  bool needs_lanes(const std::vector<const Node*>& nodes) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
      if (std::holds_alternative<tile::Load>(*node)) return true;
      if (std::holds_alternative<tile::Store>(*node) && !is_row_store(*node)) return true;
      const std::vector<TileValue> operands = tile::operands_of(*node);
      return std::any_of(operands.begin(), operands.end(), [&](TileValue operand) {
        return plan_.home(operand).lane && plan_.home(operand).again;
      });
    });
  }

  void write_loop(const std::vector<const Node*>& nodes) {
    declare_results(nodes);
    values_.open_elements();
    if (needs_lanes(nodes)) values_.declare_lanes();
    for (const Node* node : nodes) write_element(*node);
    values_.close_elements();
    std::vector<const tile::Reduce*> reductions;
    for (const Node* node : nodes) {
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) reductions.push_back(reduce);
    }
    finish_reductions(reductions);
  }

  void declare_results(const std::vector<const Node*>& nodes) {
    for (const Node* node : nodes) {
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) {
        lines_.line("{} {} = {};", text_.type(reduce->result), text_.name(reduce->result),
                    reduction_start(reduce->kind, text_.info(reduce->result).dtype));
      } else if (const auto* store = std::get_if<tile::Store>(node)) {
        if (is_row_store(*node))
          lines_.line("{} {}[L::kElements];", text_.type(store->value), row_name_of(*store));
      } else if (values_.is_array(tile::result_of(*node))) {
        lines_.line("{} {}[L::kElements];", text_.type(tile::result_of(*node)),
                    text_.name(tile::result_of(*node)));
      }
    }
  }

  bool is_added(const Node& node) const {
    return std::any_of(plan_.carried.begin(), plan_.carried.end(),
                       [&](const CarriedPlan& carried) { return carried.next == &node; });
  }

  /// Writes next = entry + value (or their maximum) in place.
  void write_added(TileValue next) {
    for (std::size_t i = 0; i < plan_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (carried.next != next) continue;
      const bool scalar = text_.info(carried.entry).lanes.empty();
      const std::string target = text_.name(carried.entry) + (scalar ? "" : "[e]");
      const std::string sum = accumulate(*plan_.carried[i].additive, text_.info(next).dtype, target,
                                         values_.read(plan_.carried[i].added));
      lines_.line("{}{};", guard_.added.empty() ? "" : fmt::format("if ({}) ", guard_.added), sum);
    }
  }

  void write_element(const Node& node) {
    if (is_added(node)) return write_added(tile::result_of(node));
    if (const auto* reduce = std::get_if<tile::Reduce>(&node)) return write_partial(*reduce);
    if (const auto* store = std::get_if<tile::Store>(&node)) return write_element_store(*store, node);
    if (const auto* load = std::get_if<tile::Load>(&node)) return write_element_load(*load);
    values_.define(tile::result_of(node), values_.pointwise(std::get<tile::Pointwise>(node)));
  }

  void write_partial(const tile::Reduce& reduce) {
    const std::string& name = text_.name(reduce.result);
    const std::string sum =
        accumulate(reduce.kind, text_.info(reduce.result).dtype, name, values_.read(reduce.operand));
    lines_.line("{}{};", plan_.is_full() ? "" : "if (L::holds(e, thread)) ", sum);
  }

  /// Finishes reductions. If a block shares a row, the reductions that go together (goes_with) are one call,
  /// so the block's threads wait for each other once.
  void finish_reductions(const std::vector<const tile::Reduce*>& reductions) {
    for (std::size_t i = 0; i < reductions.size();) {
      const tile::Reduce& reduce = *reductions[i];
      const std::string_view op = reduction_functor(reduce.kind);
      std::string names = text_.name(reduce.result);
      values_.know(reduce.result, names);
      std::size_t end = i + 1;
      if (plan_.is_block_row()) {
        for (; end < reductions.size() && end - i < kMostTogether && goes_with(reduce, *reductions[end]);
             ++end) {
          const std::string& name = text_.name(reductions[end]->result);
          values_.know(reductions[end]->result, name);
          names += ", " + name;
        }
        lines_.line("over_block<{}, {}>(shared, {});", op, plan_.threads, names);
      } else if (plan_.threads > 1) {
        lines_.line("{0} = over_threads<{1}, {2}>({0});", names, op, plan_.threads);
      }
      i = end;
    }
  }
  bool goes_with(const tile::Reduce& first, const tile::Reduce& next) const {
    return first.kind == next.kind && text_.info(first.result).dtype == text_.info(next.result).dtype;
  }

  void write_element_load(const tile::Load& load) {
    Expression value = values_.loaded(load);
    if (!plan_.is_full())
      value = {
          fmt::format("L::holds(e, thread) ? {} : {}", value.text, literal(0, text_.info(load.result).dtype)),
          Binding::condition};
    values_.define(load.result, value);
  }

  void write_element_store(const tile::Store& store, const Node& node) {
    if (is_row_store(node)) {
      lines_.line("{}[e] = {};", row_name_of(store), values_.read(store.value).text);
      return;
    }
    const std::string when = conjunction({plan_.is_full() ? "" : "L::holds(e, thread)",
                                          text_.first_of_same(store.access, plan_.lane_axes), wanted(store)});
    const Expression value = values_.read(store.value);
    lines_.line("{}", text_.stored(store, value, when));
  }

  const RowGuard& guard_;
  const RowsPlan& plan_;
  const tile::Kernel& kernel_;
  const KernelText& text_;
  Lines& lines_;
  RowValues& values_;
};

}  // namespace

void write_level(const std::vector<const Node*>& nodes, const RowGuard& guard, const RowsPlan& plan,
                 const KernelText& text, Lines& lines, RowValues& values) {
  LevelWriter(guard, plan, text, lines, values).write(nodes);
}

}  // namespace rewire::codegen::cuda
