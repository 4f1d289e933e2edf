// Reads, computes and stores the values of a kernel that walks tiles (walks_plan.h), in registers:
//
//   scalar          a variable of every thread
//   rows            x[2]: rows fragment_row(0) and fragment_row(2) of the warp
//   rows x columns  x[4 * columns / 8]: element e is of row fragment_row(e) and column fragment_column(e)
//   columns         text, from indices or from what the walk has copied into shared memory
//
// Integers and truth values that follow from indices alone are text too. A select by such a condition is
// skipped for a warp's tile if the condition holds at its four corners, and so in all of it: inequalities
// that are linear in the indices hold between points if they hold at them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/walks_plan.h"

namespace rewire::codegen::cuda {

class WalkValues {
 public:
  WalkValues(const WalkPlan& plan, const KernelText& text, Lines& lines);

  /// Writes the nodes of a section.
  void write(const std::vector<tile::Node>& nodes);
  /// Returns a scalar.
  Expression read(tile::TileValue value) const;
  /// Declares the carried values, with what they begin with.
  void start_carried();
  /// Writes the carried values for the next row.
  void carry();
  /// Returns how many points of a lane there are: its extent, or the name of a number for a short tile.
  std::string end_of(std::int32_t lane) const;
  /// Returns a tile in shared memory as the prelude's matrix: `down`: the sum goes down its rows.
  static std::string matrix(const WalkTile& tile, const std::string& at, bool down);

 private:
  using Nodes = std::vector<const tile::Node*>;

  const std::vector<std::int32_t>& lanes(tile::TileValue value) const { return text_.info(value).lanes; }
  bool is_tile(tile::TileValue value) const { return lanes(value).size() == 2; }
  std::int32_t column_of(tile::TileValue value) const;
  std::int64_t elements_of(tile::TileValue value) const;
  bool is_text(tile::TileValue value) const;
  bool is_linear(tile::TileValue value) const;
  bool is_skipped(const tile::Node& node) const;
  const tile::Pointwise* adder_of(const tile::Dot& dot) const;

  Expression element(tile::TileValue value) const;
  Expression computed(const tile::Node& node) const;
  std::string inside(tile::TileValue value) const;

  void write_elements(const std::vector<std::int32_t>& of,
                      const std::function<std::vector<std::string>()>& statements);
  void write_values(const Nodes& nodes);
  void write_select(const tile::Pointwise& select);
  void write_reduce(const tile::Reduce& reduce);
  void write_product(const tile::Dot& dot, const tile::Pointwise* add);
  void write_store(const tile::Store& store);
  void declare(tile::TileValue value);

  const WalkPlan& plan_;
  const KernelText& text_;
  Lines& lines_;
  std::vector<const tile::Node*> definitions_;
  std::vector<std::vector<const tile::Node*>> readers_;
  bool in_tile_ = false;  // the loop that is being written is over elements e of a tile
};

}  // namespace rewire::codegen::cuda
