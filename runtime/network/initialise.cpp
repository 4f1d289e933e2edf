// One Philox stream per parameter, at step 0: element i of parameter p is number i of the stream named p.
#include "runtime/network/initialise.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/device/process.h"
#include "runtime/device/thread_pool.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

using ir::Init;
using ir::InitKind;

double inverse_erf(double x) {
  using boost::math::policies::policy;
  using boost::math::policies::promote_double;
  return boost::math::erf_inv(x, policy<promote_double<false>>());
}

/// Normal of deviation std, truncated at +-limit, by the inverse of its distribution function. u is
/// the middle of one of 2^24 equal cells. So the tails end at 5.4 std, and erf_inv is never asked
/// at +-1, where it is infinite.
class TruncNormal {
 public:
  TruncNormal(double std, double limit)
      : scale_(std * std::numbers::sqrt2), limit_(limit), edge_(std::erf(limit / scale_)) {}

  double operator()(double uniform) const {
    const double u = uniform + std::ldexp(1.0, -25);
    return std::clamp(scale_ * inverse_erf((2 * u - 1) * edge_), -limit_, limit_);
  }

 private:
  double scale_, limit_, edge_;
};

double xavier_bound(const ir::Parameter& parameter) {
  const ir::Shape& shape = parameter.type.shape;
  if (shape.size() < 2) {
    internal_error("'{}' {} has no fan for xavier_uniform", parameter.name, to_string(parameter.type));
  }
  return std::sqrt(6.0 / static_cast<double>(shape[shape.size() - 1] + shape[shape.size() - 2]));
}

constexpr std::int64_t kGrain = 4096;

template <class Draw>
HostTensor fill(ThreadPool& pool, const ir::TensorType& type, Draw draw) {
  ir::Tensor tensor(type);
  pool.run(type.elements(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      tensor.data[i] = draw(i);
  });
  return to_host(tensor);
}

/// Returns Q of a normal matrix with as many columns as the shorter side,
/// transposed if that side is the rows.
HostTensor orthonormal(const ir::TensorType& type, const ir::PhiloxStream& stream) {
  ir::Tensor tensor(type);
  const auto rows = static_cast<std::size_t>(type.shape[0]);
  const std::size_t columns = tensor.data.size() / rows, tall = std::max(rows, columns),
                    few = std::min(rows, columns);
  std::vector<double> normal(tall * few), q(tall * few), r(few * few);
  for (std::size_t i = 0; i < normal.size(); ++i) normal[i] = stream.normal(i);
  qr({1, tall, few}, normal, q, r);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j)
      tensor.data[i * columns + j] = rows < columns ? q[j * few + i] : q[i * few + j];
  }
  return to_host(tensor);
}

constexpr double kLongestWave = 10000;  // of sinusoids, in units of 2 pi places

double sinusoid(const ir::Shape& shape, std::size_t element) {
  const auto width = static_cast<std::size_t>(shape.back());
  const std::size_t channel = element % width,
                    place = element / width % static_cast<std::size_t>(shape[shape.size() - 2]);
  const double exponent = static_cast<double>(channel / 2 * 2) / static_cast<double>(width);
  const double angle = static_cast<double>(place) / std::pow(kLongestWave, exponent);
  return channel % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

double sinusoid_2d(const ir::Shape& shape, double prefix, std::size_t element) {
  const auto width = static_cast<std::size_t>(shape.back()),
             rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  const auto before = static_cast<std::size_t>(prefix);
  const std::size_t row = element / width % rows, channel = element % width;
  if (row < before) return 0;
  const auto side = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(rows - before))));
  const std::size_t half = width / 2, quarter = width / 4, within = channel % half;
  const std::size_t place = channel < half ? (row - before) % side : (row - before) / side;
  const double exponent = static_cast<double>(within % quarter) / static_cast<double>(quarter);
  const double angle = static_cast<double>(place) / std::pow(kLongestWave, exponent);
  return within < quarter ? std::sin(angle) : std::cos(angle);
}

HostTensor draw(ThreadPool& pool, const ir::Parameter& parameter, std::uint64_t seed) {
  const Init& init = parameter.init;
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash(parameter.name)};
  auto uniform = [&](double low, double high) {
    return fill(pool, parameter.type, [=](std::size_t i) { return low + (high - low) * stream.uniform(i); });
  };
  switch (init.kind) {
    case InitKind::zeros:
      return HostTensor(parameter.type);
    case InitKind::ones:
      return fill(pool, parameter.type, [](std::size_t) { return 1.0; });
    case InitKind::constant:
      return fill(pool, parameter.type, [&](std::size_t) { return init.a; });
    case InitKind::normal:
      return fill(pool, parameter.type, [&](std::size_t i) { return init.a * stream.normal(i); });
    case InitKind::trunc_normal: {
      const TruncNormal cut(init.a, init.b);
      return fill(pool, parameter.type, [&](std::size_t i) { return cut(stream.uniform(i)); });
    }
    case InitKind::uniform:
      return uniform(init.a, init.b);
    case InitKind::values:
      return fill(pool, parameter.type, [&](std::size_t i) { return init.values[i]; });
    case InitKind::xavier_uniform: {
      const double bound = xavier_bound(parameter);
      return uniform(-bound, bound);
    }
    case InitKind::orthonormal:
      return orthonormal(parameter.type, stream);
    case InitKind::sinusoid:
      return fill(pool, parameter.type, [&](std::size_t i) { return sinusoid(parameter.type.shape, i); });
    case InitKind::sinusoid_2d:
      return fill(pool, parameter.type,
                  [&](std::size_t i) { return sinusoid_2d(parameter.type.shape, init.a, i); });
  }
  internal_error("parameter '{}' has no initialisation", parameter.name);
}

}  // namespace

TensorMap initialise(const ir::Module& module, std::uint64_t seed) {
  if (seed > (1ULL << 53)) user_error("the seed is {}; it must not exceed 2^53", seed);
  ThreadPool pool(usable_cores());
  TensorMap state;
  for (const ir::Parameter& parameter : module.parameters) {
    HostTensor tensor = draw(pool, parameter, seed);
    if (parameter.name == "rng.seed")
      tensor = fill(pool, parameter.type, [&](std::size_t) { return static_cast<double>(seed); });
    state.emplace(parameter.name, std::move(tensor));
  }
  return state;
}

}  // namespace rewire::runtime
