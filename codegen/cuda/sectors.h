// What accesses of device memory cost: the sectors of 32 bytes that a warp touches at once, a request, and
// the lines of 128 bytes that it looks up for them. A thread's neighbours are one request, though they may be
// more than 16 bytes; what two requests touch counts twice, whatever a cache makes of it. Counted on some
// blocks of a launch; it is how two forms of one kernel are compared.
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

/// Which element a load or a store touches at a point.
class Address {
 public:
  Address(const tile::Kernel& kernel, const tile::Node& node);

  /// False: a gather whose index stands in memory, or takes too long to compute.
  bool is_known() const { return known_; }
  bool is_store() const { return std::holds_alternative<tile::Store>(*node_); }
  const tile::Node& node() const { return *node_; }
  const tile::Access& access() const { return *access_; }
  /// Elements from one point to the next along each axis: of a gather, in the middle of the kernel.
  const std::vector<std::int64_t>& strides() const { return strides_; }
  /// The axes of more than one point that it depends on, the one with the nearest neighbours first.
  const std::vector<std::int32_t>& order() const { return order_; }
  std::int64_t element(const Point& point) const;
  std::int64_t bytes() const { return bytes_; }  // of an element

 private:
  bool is_computed(tile::TileValue value, int& nodes) const;  // by so many more nodes at most
  double index(tile::TileValue value, const Point& point) const;
  double pointwise(const tile::Pointwise& node, const Point& point) const;
  void depend(tile::TileValue value, std::vector<bool>& axes) const;
  void sort_axes();

  const tile::Kernel* kernel_;
  const tile::Node* node_;
  const tile::Access* access_;
  std::vector<const tile::Node*> definitions_;  // by value, where there is an index
  tile::TileValue index_;
  std::int64_t index_stride_ = 0, index_limit_ = 0;
  std::int64_t bytes_ = 0;
  bool known_ = true;
  std::vector<std::int64_t> strides_;
  std::vector<std::int32_t> order_;
};

/// All loads and stores of a kernel, in their order.
std::vector<Address> addresses_of(const tile::Kernel& kernel);

struct Traffic {
  std::int64_t sectors = 0, lines = 0;

  std::int64_t cost() const { return sectors + lines; }
  Traffic& operator+=(const Traffic& more) {
    sectors += more.sectors, lines += more.lines;
    return *this;
  }
};

/// What the threads of a warp touch at once.
class Request {
 public:
  void touch(std::int64_t byte, std::int64_t bytes);
  /// Of the request that ends here.
  Traffic take();

 private:
  std::vector<std::int64_t> touched_;
};

/// What a block touches for some points of a kernel.
struct BlockTraffic {
  Traffic traffic;
  std::int64_t points = 0;
};
/// For all `points` of a launch, from a few of its blocks: blocks at the end of an axis have fewer.
Traffic over_blocks(std::int64_t blocks, std::int64_t points,
                    const std::function<BlockTraffic(std::int64_t)>& of_block);

/// Of a row kernel that carries nothing, without gathers whose addresses are not known.
Traffic row_traffic(const tile::Kernel& kernel, const RowsPlan& plan);

}  // namespace rewire::codegen::cuda
