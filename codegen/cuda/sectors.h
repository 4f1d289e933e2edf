// Counts the cost of device memory accesses: the sectors of 32 bytes that a warp touches at once (a
// request), and the lines of 128 bytes that it looks up for them. A thread's neighbours are one request,
// though they may be more than 16 bytes. Sectors of two requests count twice, whatever a cache saves. The
// count covers some blocks of a launch, and serves to compare two forms of one kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/cuda/rows_plan.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

inline constexpr std::int64_t kSectorBytes = 32, kLineBytes = 128;
inline constexpr int kWarp = 32;

/// An index along each axis of a kernel.
using Point = std::vector<std::int64_t>;

/// Computes the element that a load or a store touches at a point.
class Address {
 public:
  Address(const tile::Kernel& kernel, const tile::Node& node);

  /// Returns false for a gather whose index is read from memory, or takes too long to compute.
  bool is_known() const { return known_; }
  bool is_store() const { return std::holds_alternative<tile::Store>(*node_); }
  const tile::Node& node() const { return *node_; }
  const tile::Access& access() const { return *access_; }
  /// Returns the elements between neighbouring points along each axis; for a gather, in the middle of the
  /// kernel.
  const std::vector<std::int64_t>& strides() const { return strides_; }
  /// Returns the axes of more than one point that the element depends on, the nearest neighbours first.
  const std::vector<std::int32_t>& order() const { return order_; }
  std::int64_t element(const Point& point) const;
  std::int64_t bytes() const { return bytes_; }  // of an element

 private:
  bool is_computed(tile::TileValue value, int& nodes) const;  // from at most `nodes` more nodes
  double index(tile::TileValue value, const Point& point) const;
  double pointwise(const tile::Pointwise& node, const Point& point) const;
  void depend(tile::TileValue value, std::vector<bool>& axes) const;
  void sort_axes();

  const tile::Kernel* kernel_;
  const tile::Node* node_;
  const tile::Access* access_;
  std::vector<const tile::Node*> definitions_;  // by value, if there is an index
  tile::TileValue index_;
  std::int64_t index_stride_ = 0, index_limit_ = 0;
  std::int64_t bytes_ = 0;
  bool known_ = true;
  std::vector<std::int64_t> strides_;
  std::vector<std::int32_t> order_;
};

/// Returns all loads and stores of a kernel, in their order.
std::vector<Address> addresses_of(const tile::Kernel& kernel);

struct Traffic {
  std::int64_t sectors = 0, lines = 0;

  std::int64_t cost() const { return sectors + lines; }
  Traffic& operator+=(const Traffic& more) {
    sectors += more.sectors, lines += more.lines;
    return *this;
  }
};

/// Collects what the threads of a warp touch at once.
class Request {
 public:
  void touch(std::int64_t byte, std::int64_t bytes);
  /// Ends the request and returns its traffic.
  Traffic take();

 private:
  std::vector<std::int64_t> touched_;
};

/// The traffic of a block, for some points of a kernel.
struct BlockTraffic {
  Traffic traffic;
  std::int64_t points = 0;
};
/// Estimates a launch of `points` from a few of its blocks; blocks at the end of an axis have fewer points.
Traffic over_blocks(std::int64_t blocks, std::int64_t points,
                    const std::function<BlockTraffic(std::int64_t)>& of_block);

/// Returns the traffic of a row kernel that carries nothing, without gathers at unknown addresses.
Traffic row_traffic(const tile::Kernel& kernel, const RowsPlan& plan);

}  // namespace rewire::codegen::cuda
