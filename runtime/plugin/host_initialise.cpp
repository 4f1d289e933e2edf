// The host functions of initialise: the weights' values, draws that depend on (seed, plugin, stream, index)
// only, and decompositions.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "ir/philox.h"
#include "runtime/device/process.h"
#include "runtime/device/thread_pool.h"
#include "runtime/linalg/lapack.h"
#include "runtime/plugin/host_call.h"

namespace rewire::runtime {
namespace {

/// Returns the weight's type. Throws UserError if the plugin's buffer has another size.
const ir::TensorType& checked_type(const HostCall& call, const char* name, const double* data,
                                   std::uint64_t count) {
  const ir::TensorType& type = call.weight_type(required(name, "weight's name"));
  if (data == nullptr || count != static_cast<std::uint64_t>(type.elements())) {
    user_error("it passed {} numbers for '{}', which is {}", data == nullptr ? 0 : count, name,
               ir::to_string(type));
  }
  return type;
}

std::int32_t read_weight(rewire_call token, const char* name, double* data, std::uint64_t count) {
  return guarded_status(token, [&](HostCall& call) {
    checked_type(call, name, data, count);
    const ir::Tensor tensor = call.read_weight(name);
    std::copy(tensor.data.begin(), tensor.data.end(), data);
  });
}

std::int32_t write_weight(rewire_call token, const char* name, const double* data, std::uint64_t count) {
  return guarded_status(token, [&](HostCall& call) {
    const ir::TensorType& type = checked_type(call, name, data, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!std::isfinite(ir::round_to(type.dtype, data[i]))) {
        user_error("it wrote {} into '{}' at element {}, which is not a finite {}", data[i], name, i,
                   ir::dtype_name(type.dtype));
      }
    }
    call.write_weight(name, ir::Tensor(type, std::vector<double>(data, data + count)));
  });
}

/// Draws numbers. Each depends on its index alone, so that threads can divide the work.
template <class Draw>
std::int32_t draw(rewire_call token, const char* stream, double* data, std::uint64_t count, Draw one) {
  constexpr std::int64_t kGrain = 1 << 16;
  return guarded_status(token, [&](HostCall& call) {
    if (data == nullptr) user_error("it asked for draws but passed no buffer for them");
    const std::string name =
        fmt::format("initialise.{}.{}", call.plugin().name(), required(stream, "stream's name"));
    const ir::PhiloxStream philox{call.seed(), 0, ir::stream_hash(name)};
    const auto pieces = static_cast<std::int64_t>(count) / kGrain + 1;
    const auto cores = static_cast<std::int64_t>(usable_cores());
    ThreadPool pool(static_cast<int>(std::min(pieces, cores)));
    pool.run(static_cast<std::int64_t>(count), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) data[i] = one(philox, static_cast<std::uint64_t>(i));
    });
  });
}

std::int32_t draw_uniform(rewire_call token, const char* stream, double* data, std::uint64_t count) {
  return draw(token, stream, data, count,
              [](const auto& philox, std::uint64_t i) { return philox.uniform(i); });
}

std::int32_t draw_normal(rewire_call token, const char* stream, double* data, std::uint64_t count) {
  return draw(token, stream, data, count,
              [](const auto& philox, std::uint64_t i) { return philox.normal(i); });
}

/// Returns the batch that a plugin describes. Throws UserError if it is too large or lacks a buffer.
MatrixBatch batch_of(std::uint64_t count, std::uint64_t rows, std::uint64_t cols,
                     std::initializer_list<const double*> places) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20;
  if (count > kMost || rows > kMost || cols > kMost) {
    user_error("it asked to decompose {} matrices of {} x {}, more than is supported", count, rows, cols);
  }
  if (std::ranges::find(places, nullptr) != places.end()) {
    user_error("it asked for a decomposition but passed no matrices, or no buffer for the results");
  }
  return {count, rows, cols};
}

std::int32_t qr(rewire_call token, std::uint64_t count, std::uint64_t rows, std::uint64_t cols,
                const double* a, double* q, double* r) {
  return guarded_status(token, [&](HostCall&) {
    const MatrixBatch batch = batch_of(count, rows, cols, {a, q, r});
    const std::size_t elements = count * rows * cols;
    runtime::qr(batch, {a, elements}, {q, elements}, {r, count * cols * cols});
  });
}

std::int32_t svd(rewire_call token, std::uint64_t count, std::uint64_t rows, std::uint64_t cols,
                 const double* a, double* u, double* s, double* vt) {
  return guarded_status(token, [&](HostCall&) {
    const MatrixBatch batch = batch_of(count, rows, cols, {a, u, s, vt});
    const std::size_t k = std::min(rows, cols);
    runtime::svd(batch, {a, count * rows * cols}, {u, count * rows * k}, {s, count * k},
                 {vt, count * k * cols});
  });
}

std::int32_t svd_of_largest(rewire_call token, std::uint64_t count, std::uint64_t rows, std::uint64_t cols,
                            std::uint64_t largest, const double* a, double* u, double* s, double* vt) {
  return guarded_status(token, [&](HostCall&) {
    const MatrixBatch batch = batch_of(count, rows, cols, {a, u, s, vt});
    if (largest > std::min(rows, cols))
      user_error("it asked for the {} largest singular values of {} x {}, more than there are", largest, rows,
                 cols);
    runtime::svd_of_largest(batch, largest, {a, count * rows * cols}, {u, count * rows * largest},
                            {s, count * largest}, {vt, count * largest * cols});
  });
}

}  // namespace

void add_initialise_functions(rewire_host& table) {
  table.read_weight = read_weight;
  table.write_weight = write_weight;
  table.draw_uniform = draw_uniform;
  table.draw_normal = draw_normal;
  table.qr = qr;
  table.svd = svd;
  table.svd_of_largest = svd_of_largest;
}

}  // namespace rewire::runtime
