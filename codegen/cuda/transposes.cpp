// Writes kernels that transpose (transposes_plan.h) as text: the start of a tile, the walks that fill shared
// memory, the walk that computes the tile's points, and the walks that empty shared memory.
#include "codegen/cuda/transposes.h"

#include <algorithm>

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;

class TransposeWriter {
 public:
  TransposeWriter(const tile::Kernel& kernel, const EntryPoint& entry, const TransposePlan& plan)
      : kernel_(kernel),
        plan_(plan),
        text_(kernel, entry),
        varying_(varying_values(kernel, plan.tile)),
        definitions_(kernel.values.size()),
        uses_(kernel.values.size()),
        known_(kernel.values.size()),
        places_(kernel.axes.size()) {
    visit_prologue_and_body([&](const Node& node) {
      if (const TileValue result = tile::result_of(node)) definitions_[id(result)] = &node;
      for (TileValue operand : tile::operands_of(node)) ++uses_[id(operand)];
    });
  }

  KernelSource write() {
    const LaunchShape launch{plan_.blocks, plan_.threads, plan_.shared_bytes};
    text_.head(lines_, launch, plan_.resident_blocks, how());
    lines_.indent(1);
    declare_arrays();
    declare_tile();
    visit_prologue_and_body([&](const Node& node) {
      const TileValue result = tile::result_of(node);
      if (result && !varying_[id(result)]) read(result);
    });
    const bool loads = write_staged<tile::Load>();
    if (loads) lines_.line("__syncthreads();");
    write_points();
    if (has_staged<tile::Store>()) lines_.line("__syncthreads();");
    write_staged<tile::Store>();
    text_.foot(lines_);
    return {text_.symbol(), lines_.take(), launch};
  }

 private:
  static std::size_t id(TileValue value) { return static_cast<std::size_t>(value.id); }
  std::int64_t extent(std::int32_t axis) const { return text_.axis(axis).extent; }
  int size(std::int32_t axis) const { return plan_.tile[static_cast<std::size_t>(axis)]; }

  template <class Visit>
  void visit_prologue_and_body(Visit visit) const {
    for (const auto* section : {&kernel_.prologue, &kernel_.body}) {
      for (const Node& node : *section) visit(node);
    }
  }

  template <class Kind>
  bool has_staged() const {
    return std::ranges::any_of(plan_.accesses, [](const TileAccess& access) {
      return access.staged && std::holds_alternative<Kind>(*access.node);
    });
  }

  std::string how() const {
    std::string tile, staged;
    for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis) {
      if (kernel_.axes[axis].extent == 1 || plan_.tile[axis] == 1) continue;
      tile += fmt::format("{}{} {}", tile.empty() ? "" : ", ", kernel_.axes[axis].name, plan_.tile[axis]);
    }
    for (const TileAccess& access : plan_.accesses) {
      if (access.staged) staged += fmt::format("{}{}", staged.empty() ? "" : ", ", argument(access));
    }
    return fmt::format("a tile ({}) a block{}{}; {} sectors in {} lines, row by row {} in {}", tile,
                       staged.empty() ? "" : ", through shared memory ", staged, plan_.traffic.sectors,
                       plan_.traffic.lines, plan_.row_traffic.sectors, plan_.row_traffic.lines);
  }

  // --- names

  const std::string& argument(const TileAccess& access) const {
    return text_.argument(tile::access_of(*access.node)->argument);
  }
  /// Returns the name of an access's array: in shared memory, or a thread's neighbours in registers.
  std::string array(const TileAccess& access) const {
    const char* kind = access.staged ? "tile" : "row";
    if (const auto* load = std::get_if<tile::Load>(access.node))
      return access.staged ? fmt::format("{}_{}", text_.name(load->result), kind) : text_.name(load->result);
    return fmt::format("{}_{}{}", argument(access), kind, &access - plan_.accesses.data());
  }
  std::string_view storage(const TileAccess& access) const {
    return storage_type(text_.stored_dtype(*tile::access_of(*access.node)));
  }

  // --- places

  void declare_arrays() {
    if (plan_.shared_bytes > 0) lines_.line("REWIRE_SHARED(shared);");
    for (const TileAccess& access : plan_.accesses) {
      if (!access.staged) continue;
      std::string strides;
      for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis) {
        if (access.strides[axis] > 0)
          strides += fmt::format("{}{} {}", strides.empty() ? "" : ", ", kernel_.axes[axis].name,
                                 access.strides[axis]);
      }
      lines_.line("{0}* const {1} = reinterpret_cast<{0}*>(shared{2});  // strides {3}", storage(access),
                  array(access), access.offset > 0 ? fmt::format(" + {}", access.offset) : "", strides);
    }
    if (plan_.walk.packet > 1) lines_.line("using P = Row<{0}, 1, {0}>;", plan_.walk.packet);
  }

  /// Declares where the block's tile begins.
  void declare_tile() {
    std::int64_t below = plan_.blocks;
    for (std::size_t i = 0; i < kernel_.axes.size(); ++i) {
      const auto axis = static_cast<std::int32_t>(i);
      if (plan_.tiles[i] == 1) continue;
      const std::int64_t above = below;
      below /= plan_.tiles[i];
      std::string text = "int(blockIdx.x)";
      if (below > 1) text += fmt::format(" / {}", below);
      if (above != plan_.blocks) text += fmt::format(" % {}", plan_.tiles[i]);
      if (size(axis) > 1) text += fmt::format(" * {}", size(axis));
      const std::string& name = text_.axis(axis).name;
      const std::string begin = size(axis) > 1 ? name + "_tile" : name;
      lines_.line("const int {} = {};", begin, text);
      places_[i] = {"", "", begin};
    }
  }

  /// Opens a loop over a walk's packets, and declares the places of their first points.
  void open_walk(const TileWalk& walk, const std::string& what) {
    const std::int64_t packets = plan_.points(walk) / walk.packet;
    if (packets > plan_.threads) lines_.directive("#pragma unroll 4");
    lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", packets, plan_.threads);
    lines_.line("// {}", what);
    std::int64_t below = 1, units = 1;
    std::string outside;
    for (const std::int32_t axis : walk.order) {
      const std::int64_t step =
          below >= walk.packet ? 1 : std::min<std::int64_t>(size(axis), walk.packet / below);
      const std::int64_t digits = size(axis) / step;
      declare_place(axis, along(below, step, walk.packet), units, digits, step, packets);
      if (plan_.is_short(kernel_, axis))
        outside +=
            fmt::format("{}{} >= {}", outside.empty() ? "" : " || ", text_.axis(axis).name, extent(axis));
      below *= size(axis);
      units *= digits;
    }
    if (!outside.empty()) lines_.line("if ({}) continue;", outside);
  }

  /// Returns what element e of a packet adds to the index along an axis: "e", "e / 4 % 2".
  static std::string along(std::int64_t below, std::int64_t step, std::int64_t packet) {
    if (step == 1) return "";
    std::string text = "e";
    if (below > 1) text += fmt::format(" / {}", below);
    if (below * step < packet) text += fmt::format(" % {}", step);
    return text;
  }

  void declare_place(std::int32_t axis, const std::string& along, std::int64_t units, std::int64_t digits,
                     std::int64_t step, std::int64_t all) {
    const std::string& name = text_.axis(axis).name;
    Place& place = places_[static_cast<std::size_t>(axis)];
    const bool whole = size(axis) == extent(axis);
    place = {"", along, whole ? "" : name + "_tile"};
    if (digits == 1) return;
    std::string text = "at";
    if (units > 1) text += fmt::format(" / {}", units);
    if (units * digits != all) text += fmt::format(" % {}", digits);
    if (step > 1) text += fmt::format(" * {}", step);
    place.in_tile = whole ? name : name + "_in";
    lines_.line("const int {} = {};", place.in_tile, text);
    if (!whole) lines_.line("const int {0} = {0}_tile + {0}_in;", name);
    place.begin = name;
  }

  void open_packet(const TileWalk& walk) {
    if (walk.packet == 1) return;
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < {}; ++e)", walk.packet);
    in_packet_ = true;
  }
  void close_packet(const TileWalk& walk) {
    if (walk.packet > 1) lines_.close();
    in_packet_ = false;
  }
  void close_walk() {
    lines_.close();
    for (const TileValue value : inside_) known_[id(value)] = {};
    inside_.clear();
    for (std::size_t axis = 0; axis < places_.size(); ++axis) {
      if (plan_.tile[axis] > 1)
        places_[axis] = {"", "", plan_.tiles[axis] > 1 ? kernel_.axes[axis].name + "_tile" : ""};
    }
  }

  static std::string factor(const std::string& text) {
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
  }

  /// Returns the element of memory that an access touches here; in a packet's loop, for each of its
  /// elements.
  std::string element(const TileAccess& of) {
    const tile::Access& access = *tile::access_of(*of.node);
    Terms terms{access.offset, {}};
    for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis) {
      const Place& place = places_[axis];
      if (!place.begin.empty()) terms.products.emplace_back(access.strides[axis], place.begin);
      if (in_packet_ && !place.along.empty())
        terms.products.emplace_back(access.strides[axis], factor(place.along));
    }
    std::string text = terms.text(text_.wide(access));
    const auto* load = std::get_if<tile::Load>(of.node);
    if (load != nullptr && load->index)
      text = (text == "0" ? "" : text + " + ") + text_.gathered(*load, read(load->index));
    return text;
  }
  std::string pointer(const TileAccess& access) {
    const std::string at = element(access);
    return at == "0" ? argument(access) : argument(access) + " + " + at;
  }
  /// Returns the element of a staged access in shared memory.
  std::string in_tile(const TileAccess& access) const {
    Terms terms;
    for (std::size_t axis = 0; axis < kernel_.axes.size(); ++axis) {
      const Place& place = places_[axis];
      if (access.strides[axis] == 0) continue;
      if (!place.in_tile.empty()) terms.products.emplace_back(access.strides[axis], place.in_tile);
      if (in_packet_ && !place.along.empty())
        terms.products.emplace_back(access.strides[axis], factor(place.along));
    }
    return fmt::format("{}[{}]", array(access), terms.text(false));
  }

  // --- between device and shared memory

  template <class Kind>
  bool write_staged() {
    for (const TileAccess& access : plan_.accesses) {
      if (!access.staged || !std::holds_alternative<Kind>(*access.node)) continue;
      const int packet = access.walk.packet;
      open_walk(access.walk,
                argument(access) + (packet > 1 ? fmt::format(", {} neighbours at once", packet) : ""));
      std::holds_alternative<tile::Load>(*access.node) ? fill(access) : empty(access);
      close_walk();
    }
    return has_staged<Kind>();
  }

  void fill(const TileAccess& access) {
    if (access.walk.packet == 1) {
      const std::string from = element(access);
      lines_.line("{} = {}[{}];", in_tile(access), argument(access), from);
      return;
    }
    lines_.line("const auto packet = packet_at<{}>({});", access.walk.packet, pointer(access));
    open_packet(access.walk);
    lines_.line("{} = packet.lane[e];", in_tile(access));
    close_packet(access.walk);
  }

  void empty(const TileAccess& access) {
    if (access.walk.packet == 1) {
      lines_.line("{}[{}] = {};", argument(access), element(access), in_tile(access));
      return;
    }
    lines_.line("Packet<{}, {}> packet;", storage(access), access.walk.packet);
    open_packet(access.walk);
    lines_.line("packet.lane[e] = {};", in_tile(access));
    close_packet(access.walk);
    lines_.line("put_packet({}, packet);", pointer(access));
  }

  // --- the points of the tile

  bool by_packet(const TileAccess& access) const { return !access.staged && access.walk.packet > 1; }

  void write_points() {
    open_walk(plan_.walk, "the tile's points");
    for (const TileAccess& access : plan_.accesses) {
      if (by_packet(access)) declare_row(access);
    }
    for (const TileAccess& access : plan_.accesses) {
      const auto* load = std::get_if<tile::Load>(access.node);
      if (load != nullptr && is_one_a_packet(access)) read(load->result);
    }
    open_packet(plan_.walk);
    // An argument that is read and written at one place is read first.
    for (const TileAccess& access : plan_.accesses) {
      const auto* load = std::get_if<tile::Load>(access.node);
      if (load != nullptr && !is_read_only(kernel_, load->access)) read(load->result);
    }
    for (const TileAccess& access : plan_.accesses) {
      if (std::holds_alternative<tile::Store>(*access.node)) write_store(access);
    }
    close_packet(plan_.walk);
    for (const TileAccess& access : plan_.accesses) {
      const auto* store = std::get_if<tile::Store>(access.node);
      if (store == nullptr || !by_packet(access)) continue;
      lines_.line("store<P, {}>({}, {}, 0{});", access.walk.packet, pointer(access), array(access),
                  store->predicate ? ", " + read(store->predicate).text : "");
    }
    close_walk();
  }

  /// Returns whether all elements of a packet load the same element of memory.
  bool is_one_a_packet(const TileAccess& access) const {
    if (access.staged || by_packet(access) || std::get<tile::Load>(*access.node).index) return false;
    const tile::Access& of = *tile::access_of(*access.node);
    for (std::size_t axis = 0; axis < places_.size(); ++axis) {
      if (of.strides[axis] != 0 && !places_[axis].along.empty()) return false;
    }
    return true;
  }

  /// Declares a thread's neighbours in registers, and loads them if the access is a load.
  void declare_row(const TileAccess& access) {
    const auto* load = std::get_if<tile::Load>(access.node);
    const TileValue value = load != nullptr ? load->result : std::get<tile::Store>(*access.node).value;
    lines_.line("{} {}[P::kElements];", text_.type(value), array(access));
    if (load != nullptr)
      lines_.line("load<P, {}>({}, {}, 0);", access.walk.packet, array(access), pointer(access));
  }

  void write_store(const TileAccess& access) {
    const auto& store = std::get<tile::Store>(*access.node);
    const Expression value = read(store.value);
    if (by_packet(access)) {
      lines_.line("{}[e] = {};", array(access), value.text);
      return;
    }
    const std::string when =
        store.predicate ? fmt::format("if ({}) ", read(store.predicate).text) : std::string();
    const std::string to =
        access.staged ? in_tile(access) : fmt::format("{}[{}]", argument(access), element(access));
    lines_.line("{}{} = {};", when, to,
                text_.type(store.value) == storage(access)
                    ? value.text
                    : fmt::format("convert<{}>({})", storage(access), value.text));
  }

  // --- values

  /// Returns a value at the current point. It gets a name where it is first read.
  Expression read(TileValue value) {
    if (!known_[id(value)].text.empty()) return known_[id(value)];
    const Node& node = *definitions_[id(value)];
    if (std::holds_alternative<tile::Constant>(node)) return text_.immediate(node);
    if (const auto* index = std::get_if<tile::Index>(&node)) return place_of(*index);
    if (const auto* load = std::get_if<tile::Load>(&node)) return read_load(*load);
    const auto& op = std::get<tile::Pointwise>(node);
    std::vector<Expression> operands;
    std::vector<ir::DType> dtypes;
    for (TileValue operand : op.operands) {
      operands.push_back(read(operand));
      dtypes.push_back(text_.info(operand).dtype);
    }
    const Expression text = pointwise_expression(op, operands, dtypes, text_.info(value).dtype);
    if (uses_[id(value)] == 1 && text.text.size() <= kLongestInline) return text;
    return named(value, text);
  }

  Expression named(TileValue value, const Expression& text) {
    lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text.text);
    if (varying_[id(value)]) inside_.push_back(value);
    return known_[id(value)] = {text_.name(value)};
  }

  Expression read_load(const tile::Load& load) {
    const TileAccess& access = plan_.access(*definitions_[id(load.result)]);
    if (by_packet(access)) return {array(access) + "[e]"};
    if (!access.staged) return named(load.result, text_.loaded(load, element(access)));
    const std::string at = in_tile(access);
    return named(load.result, {storage(access) == text_.type(load.result)
                                   ? at
                                   : fmt::format("convert<{}>({})", text_.type(load.result), at)});
  }

  Expression place_of(const tile::Index& index) const {
    const Place& place = places_[static_cast<std::size_t>(index.axis)];
    const ir::DType dtype = text_.info(index.result).dtype;
    std::string text = place.begin;
    Binding binding = Binding::value;
    if (in_packet_ && !place.along.empty()) {
      binding = text.empty() ? Binding::product : Binding::sum;
      text += (text.empty() ? "" : " + ") + place.along;
    }
    if (text.empty()) return {literal(0, dtype)};
    return cast_expression({text, binding}, ir::DType::i32, dtype);
  }

  /// The place of the current point along an axis: `in_tile` in its tile, `begin` in the kernel, and
  /// `along`, which an element of a packet adds to both. "": zero.
  struct Place {
    std::string in_tile, along, begin;
  };

  const tile::Kernel& kernel_;
  const TransposePlan& plan_;
  KernelText text_;
  Lines lines_;
  const std::vector<bool> varying_;
  std::vector<const Node*> definitions_;  // by value
  std::vector<int> uses_;
  std::vector<Expression> known_;  // by value: its name
  std::vector<TileValue> inside_;  // named in the open walk
  std::vector<Place> places_;      // by axis
  bool in_packet_ = false;
};

}  // namespace

KernelSource emit_transpose(const tile::Kernel& kernel, const EntryPoint& entry, const TransposePlan& plan) {
  return TransposeWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
