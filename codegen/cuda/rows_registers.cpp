#include "codegen/cuda/rows_registers.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;

class Liveness {
 public:
  Liveness(const tile::Kernel& kernel, const RowLevels& levels) : kernel_(kernel), levels_(levels) {
    for (const auto& [id, section] : levels_.sections()) {
      for (const LeveledNode& leveled : section->nodes) {
        for (TileValue operand : tile::operands_of(*leveled.node))
          readers_[operand.id].push_back({id, leveled.level});
        note(*leveled.node);
      }
    }
  }

  LiveRegisters count() const {
    LiveRegisters live;
    for (const tile::Carried& value : kernel_.carried)
      ++(info(value.entry).lanes.empty() ? live.scalars : live.arrays);
    live.arrays += most_live(0, [](const ValueHome& own) { return own.array; });
    live.scalars += most_live(1, [](const ValueHome& own) { return !own.lane && !own.inlined; });
    return live;
  }

 private:
  struct Reader {
    SectionId section{};
    int level = 0;
  };

  const tile::ValueInfo& info(TileValue value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }
  /// Notes values that take no register of their own. Constants and indices are written where they are read.
  /// A bf16 or f16 value is held in f32, so its cast to f32 takes no register.
  void note(const Node& node) {
    const TileValue result = tile::result_of(node);
    if (!result) return;
    if (std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Index>(node))
      held_as_[result.id] = -1;
    const auto* op = std::get_if<tile::Pointwise>(&node);
    if (op == nullptr || op->code != ir::Opcode::cast || info(result).dtype != ir::DType::f32) return;
    const ir::DType from = info(op->operands[0]).dtype;
    if (from == ir::DType::bf16 || from == ir::DType::f16) held_as_[result.id] = op->operands[0].id;
  }
  /// Returns the value whose register holds this one; -1: none does.
  std::int32_t held_as(std::int32_t id) const {
    const auto found = held_as_.find(id);
    return found == held_as_.end() ? id : found->second;
  }

  /// Returns the registers of the values that `counts` selects and that are read at least `later` levels
  /// later, at the level that needs the most.
  template <class Counts>
  int most_live(int later, Counts counts) const {
    int most = 0;
    for (const auto& [id, section] : levels_.sections()) {
      for (int level = 0; level < section->levels; ++level)
        most = std::max(most, live_at(id, level, later, counts));
    }
    return most;
  }

  template <class Counts>
  int live_at(SectionId section, int level, int later, Counts counts) const {
    std::map<std::int32_t, int> live;
    for (std::size_t i = 0; i < levels_.homes.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      const ValueHome& own = levels_.homes[i];
      const bool known = own.section < section || (own.section == section && own.level <= level);
      if (!known || !counts(own) || held_as(id) < 0 || !is_read_later(id, section, level + later)) continue;
      const ir::DType dtype = kernel_.values[i].dtype;
      live[held_as(id)] = dtype == ir::DType::f64 || dtype == ir::DType::i64 ? 2 : 1;
    }
    return std::accumulate(live.begin(), live.end(), 0,
                           [](int sum, const auto& entry) { return sum + entry.second; });
  }

  bool is_read_later(std::int32_t id, SectionId section, int level) const {
    const auto readers = readers_.find(id);
    return readers != readers_.end() && std::ranges::any_of(readers->second, [&](const Reader& reader) {
             return reader.section > section || (reader.section == section && reader.level >= level) ||
                    (levels_.homes[static_cast<std::size_t>(id)].section == SectionId::prologue &&
                     reader.section == SectionId::body);
           });
  }

  const tile::Kernel& kernel_;
  const RowLevels& levels_;
  std::map<std::int32_t, std::vector<Reader>> readers_;
  std::map<std::int32_t, std::int32_t> held_as_;
};

}  // namespace

LiveRegisters live_registers(const tile::Kernel& kernel, const RowLevels& levels) {
  return Liveness(kernel, levels).count();
}

}  // namespace rewire::codegen::cuda
