#include "runtime/data/order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/draw.h"

namespace rewire::runtime {

std::vector<std::uint32_t> epoch_order(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  if (count > std::numeric_limits<std::uint32_t>::max()) user_error("{} samples are too many", count);
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.order")};
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t last = order.size(); last-- > 1;) {
    std::swap(order[last], order[draw_below(stream, last, last + 1)]);
  }
  return order;
}

}  // namespace rewire::runtime
