// Writes kernels that walk tiles; see walks.h. walks_values.h writes their values.
#include "codegen/cuda/walks.h"

#include <algorithm>

#include "codegen/cuda/walks_values.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;

class WalkWriter {
 public:
  WalkWriter(const tile::Kernel& kernel, const EntryPoint& entry, const WalkPlan& plan)
      : kernel_(kernel), plan_(plan), text_(kernel, entry), values_(plan, text_, lines_) {}

  KernelSource write() {
    const std::int64_t outer = extent_of(kernel_, axes_of(kernel_, AxisUse::outer));
    const LaunchShape launch{outer, plan_.threads, plan_.shared_bytes};
    text_.head(lines_, launch, plan_.resident_blocks,
               plan_.held ? "a block walks the tiles of its rows; left operands stay in registers"
                          : "a block walks the tiles of its rows");
    lines_.indent(1);
    lines_.line("REWIRE_SHARED(shared);");
    lines_.line("const int own_row = int(threadIdx.x) / 32 * 16;");
    text_.declare_indices(lines_, AxisUse::outer, block(outer, "int(blockIdx.x)"));
    declare_ends(AxisUse::outer);
    for (const WalkTile& tile : plan_.tiles) {
      if (!tile.walked) copy(tile, fmt::format("shared + {}", once_at() + tile.offset));
    }
    values_.write(kernel_.prologue);
    walk();
    // Computed anew, the indices take no registers while the block walks.
    lines_.line("{{");
    lines_.indent(1);
    text_.declare_indices(lines_, AxisUse::outer, block(outer, "block_again()"));
    values_.write(kernel_.epilogue);
    lines_.close();
    text_.foot(lines_);
    return {text_.symbol(), lines_.take(), launch};
  }

 private:
  /// Returns the number of a block's instance. If later ones walk more, they begin first.
  std::string block(std::int64_t outer, const std::string& number) const {
    const auto is_constant = [&](tile::TileValue value) {
      return std::ranges::any_of(kernel_.prologue, [&](const tile::Node& node) {
        return tile::result_of(node) == value && std::holds_alternative<tile::Constant>(node);
      });
    };
    const bool grows =
        kernel_.bounds && is_constant(kernel_.bounds->first) && !is_constant(kernel_.bounds->end);
    return grows ? fmt::format("({} - {})", outer - 1, number) : number;
  }

  /// Returns where the left operands are in shared memory.
  std::int64_t once_at() const { return plan_.held ? plan_.stage_bytes : 0; }

  /// Declares how many points of a short tile there are, for those along axes of this use.
  void declare_ends(AxisUse use) {
    for (const tile::ShortTile& tile : kernel_.short_tiles) {
      if (text_.axis(tile.tile).use != use) continue;
      const tile::Axis &of = text_.axis(tile.tile), &lane = text_.axis(tile.lane);
      if (of.extent == 1) {
        lines_.line("constexpr int {}_end = {};", lane.name, tile.count);
      } else {
        lines_.line("const int {0}_end = minimum({1} - {2} * {3}, {2});", lane.name, tile.count, lane.extent,
                    of.name);
      }
    }
  }

  /// Copies a tile, or its next one, to an address in shared memory.
  void copy(const WalkTile& tile, const std::string& to) {
    const tile::Access& access = tile.load->access;
    const auto stride = [&](std::int32_t lane) { return access.strides[static_cast<std::size_t>(lane)]; };
    const std::string from = text_.pointer(access), end = values_.end_of(tile.down);
    if (tile.across < 0) {
      lines_.line("copy_column<{}, {}, {}>(reinterpret_cast<{}*>({}), {}, {});", tile.rows, stride(tile.down),
                  plan_.threads, storage_type(text_.stored_dtype(access)), to, from, end);
      return;
    }
    const std::int64_t packet = std::max<std::int64_t>(text_.packet_of(access, tile.across), 1);
    lines_.line("copy_tile<{}, {}, {}, {}, {}, {}, {}, {}>(reinterpret_cast<bf16*>({}), {}, {});", tile.rows,
                tile.columns, tile.padded(), stride(tile.down), stride(tile.across), tile.pitch, packet,
                plan_.threads, to, from, end);
  }

  std::vector<std::int32_t> row_axes() const { return axes_of(kernel_, AxisUse::row); }

  /// Declares the row axes' indices of a visit.
  void declare_rows(const std::string& visit) {
    const std::vector<std::int32_t> axes = row_axes();
    const tile::Axis& last = text_.axis(axes.back());
    if (!kernel_.bounds) {
      text_.declare_indices(lines_, AxisUse::row, visit);
    } else {
      std::string rest = axes.size() == 1 ? "" : fmt::format("{} / visits_each", visit);
      if (axes.size() == 2 && text_.axis(axes[0]).extent > 1)
        lines_.line("const int {} = {};", text_.axis(axes[0]).name, rest);
      lines_.line("const int {} = first + {}{};", last.name, visit, rest.empty() ? "" : " % visits_each");
    }
    declare_ends(AxisUse::row);
  }

  void walk() {
    const std::vector<std::int32_t> axes = row_axes();
    const std::int64_t last = text_.axis(axes.back()).extent;
    std::string visits = std::to_string(kernel_.row_count());
    if (kernel_.bounds) {
      lines_.line("const int first = maximum({}, 0);", values_.read(kernel_.bounds->first).text);
      lines_.line("const int visits_each = maximum(minimum({}, {}) - first, 0);",
                  values_.read(kernel_.bounds->end).text, last);
      visits = kernel_.row_count() == last ? "visits_each"
                                           : fmt::format("visits_each * {}", kernel_.row_count() / last);
    }
    lines_.line("const int visits = {};", visits);
    lines_.open("const auto fetch = [&](int visit, unsigned char* stage)");
    declare_rows("visit");
    for (const WalkTile& tile : plan_.tiles) {
      if (tile.walked) copy(tile, fmt::format("stage + {}", tile.offset));
    }
    lines_.indent(-1);
    lines_.line("}};");
    const std::string stages = plan_.stages_at == 0 ? "shared" : fmt::format("shared + {}", plan_.stages_at);
    lines_.line("if (visits > 0) fetch(0, {});", stages);
    if (plan_.held) hold();
    values_.start_carried();
    lines_.open("for (int visit = 0; visit < visits; ++visit)");
    lines_.line("finish_copies();");
    lines_.line("__syncthreads();");
    lines_.line("unsigned char* const stage = {} + visit % 2 * {};", stages, plan_.stage_bytes);
    lines_.line("if (visit + 1 < visits) fetch(visit + 1, {} + (visit + 1) % 2 * {});", stages,
                plan_.stage_bytes);
    declare_rows("visit");
    values_.write(kernel_.body);
    values_.carry();
    lines_.close();
  }

  void hold() {
    lines_.line("finish_copies();");
    lines_.line("__syncthreads();");
    for (const WalkTile& tile : plan_.tiles) {
      if (tile.walked) continue;
      const std::string name = text_.name(tile.load->result);
      lines_.line("u32 {}_rows[{}][4];", name, tile.padded() / 16);
      lines_.line("load_rows({}_rows, {}, own_row);", name,
                  WalkValues::matrix(tile, fmt::format("shared + {}", once_at() + tile.offset), false));
    }
  }

  const tile::Kernel& kernel_;
  const WalkPlan& plan_;
  KernelText text_;
  Lines lines_;
  WalkValues values_;
};

}  // namespace

KernelSource emit_walk(const tile::Kernel& kernel, const EntryPoint& entry, const WalkPlan& plan) {
  return WalkWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
