#include "tests/fake_cuda/dnn_convolution.h"

#include <algorithm>

#include "tests/fake_cuda/dnn_graph.h"

namespace rewire::fake_cuda::dnn {

std::string fault_of(const Convolution& c) {
  const auto is_pair = [](const std::vector<std::int64_t>& list, std::int64_t least) {
    return list.size() == 2 && std::ranges::all_of(list, [&](std::int64_t value) { return value >= least; });
  };
  if (!is_pair(c.strides, 1)) return "strides of a convolution are two, of 1 or more";
  if (!is_pair(c.dilations, 1)) return "dilations of a convolution are two, of 1 or more";
  if (!is_pair(c.before, 0) || !is_pair(c.behind, 0))
    return "paddings of a convolution are two, of 0 or more";
  return "";
}

std::string fault_of(const Convolution& c, const Tensor& x, const Tensor& w, const Tensor& y) {
  if (x.dims.size() != 4 || w.dims.size() != 4 || y.dims.size() != 4)
    return "a convolution has four dimensions";
  if (y.dims[0] != x.dims[0]) return "a convolution of other batches";
  if (y.dims[1] != w.dims[0]) return "a convolution whose results have other channels than its filter";
  if (x.dims[1] % w.dims[1] != 0 || w.dims[0] % (x.dims[1] / w.dims[1]) != 0)
    return "a convolution whose channels make no groups";
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t kernel = (w.dims[2 + d] - 1) * c.dilations[d] + 1,
                       room = x.dims[2 + d] + c.before[d] + c.behind[d] - kernel;
    if (room < 0 || y.dims[2 + d] != room / c.strides[d] + 1) return "a convolution of other extents";
  }
  return "";
}

}  // namespace rewire::fake_cuda::dnn
