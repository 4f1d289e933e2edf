// What the orthogonal update must satisfy for any shape, scale and eps: what it adds has <x, f> eps / (|x|^2
// + eps) left along x, and across x all of f. Streams down to 1e-9, where eps is all that counts, and zeros.
#include <algorithm>
#include <cmath>
#include <random>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/residual.h"
#include "runtime/exec/engine.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Tensor;

/// A join of random extents and axes with the plugin on it, and a stream and a branch of random scales.
struct Drawn {
  ir::Module module;  // forward(x, f) -> (added): what the branch slot adds to the stream
  Tensor x, f;
  ir::Shape shape;
  std::size_t channel = 0;
  bool global = false;
  double eps = 0;
};

class Drawer {
 public:
  explicit Drawer(unsigned seed) : random_(seed) {}

  Drawn draw() {
    Drawn drawn;
    const bool maps = pick(0, 1) == 1;  // N C H W, else N T D
    for (int axis = 0; axis < (maps ? 4 : 3); ++axis) drawn.shape.push_back(pick(1, 9));
    drawn.channel = maps ? 1 : 2;
    drawn.global = pick(0, 1) == 1;
    drawn.eps = std::pow(10.0, -pick(0, 12));
    const ir::TensorType type{DType::f32, drawn.shape};
    const JoinAxes axes = maps ? JoinAxes{.batch = 0, .token = 2, .channel = 1}
                               : JoinAxes{.batch = 0, .token = 1, .channel = 2};
    drawn.module =
        rewritten(single_join(type, axes),
                  {fmt::format("orthogonal:mode={},eps={}", drawn.global ? "global" : "feature", drawn.eps)});
    ir::Function& forward = drawn.module.function("forward");
    forward.results = {{"added", ir::read_join(forward.body.back()).branch_slot}};
    drawn.x = numbers(type, std::pow(10.0, pick(-9, 2)));
    drawn.f = numbers(type, std::pow(10.0, pick(-3, 2)));
    if (pick(0, 7) == 0) std::ranges::fill(drawn.x.data, 0.0);
    return drawn;
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Tensor numbers(const ir::TensorType& type, double scale) {
    Tensor tensor(type);
    std::normal_distribution<double> normal;
    for (double& value : tensor.data) value = ir::round_to(DType::f32, scale * normal(random_));
    return tensor;
  }
  std::mt19937 random_;
};

/// Which s an element belongs to, counted from 0: that of its token or pixel, or of its sample.
std::size_t group_of(const Drawn& drawn, std::size_t element) {
  const ir::Shape strides = ir::row_major_strides(drawn.shape);
  const auto stride = static_cast<std::size_t>(strides[drawn.channel]);
  const auto extent = static_cast<std::size_t>(drawn.shape[drawn.channel]);
  if (drawn.global) return element / static_cast<std::size_t>(strides[0]);
  return element / (stride * extent) * stride + element % stride;
}

/// Sums of products over each group.
std::vector<double> dots(const Drawn& drawn, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sums(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sums[group_of(drawn, i)] += a[i] * b[i];
  return sums;
}

/// `rounding`: of one operation, which n terms add up.
void check_property(const Drawn& drawn, const std::vector<double>& added, double rounding) {
  const std::vector<double> xf = dots(drawn, drawn.x.data, drawn.f.data),
                            xx = dots(drawn, drawn.x.data, drawn.x.data),
                            ff = dots(drawn, drawn.f.data, drawn.f.data),
                            left = dots(drawn, drawn.x.data, added), length = dots(drawn, added, added);
  const double tolerance = rounding * static_cast<double>(drawn.x.data.size());
  std::size_t wrong = 0;
  for (std::size_t g = 0; g < xf.size(); ++g) {
    const double b = xx[g] + drawn.eps;
    wrong += !(std::abs(left[g] - xf[g] * drawn.eps / b) <= tolerance * std::sqrt(xx[g] * ff[g]));
    // |f - s x|^2 = |f|^2 - 2 s <x, f> + s^2 |x|^2: nothing is lost across x.
    const double s = xf[g] / b;
    wrong += !(std::abs(length[g] - (ff[g] - 2 * s * xf[g] + s * s * xx[g])) <= tolerance * ff[g]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("For any shape, scale and eps only <x, f> eps / (|x|^2 + eps) is left along x") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const Drawn drawn = Drawer(seed).draw();
    CAPTURE(seed, ir::to_string(drawn.shape), drawn.global, drawn.eps);
    ir::EvalState state;
    const Tensor added =
        ir::evaluate(drawn.module, drawn.module.function("forward"), {drawn.x, drawn.f}, state).at(0);
    check_property(drawn, added.data, 1e-15);
  }
}

TEST_CASE("The same holds for what is compiled, to the roundings of f32") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const Drawn drawn = Drawer(seed).draw();
    CAPTURE(seed, ir::to_string(drawn.shape), drawn.global, drawn.eps);
    const auto engine = runtime::make_jit_engine(drawn.module);
    runtime::TensorMap arguments;
    arguments.emplace("x", runtime::to_host(drawn.x));
    arguments.emplace("f", runtime::to_host(drawn.f));
    check_property(drawn, runtime::to_double(engine->run("forward", arguments).at("added")).data, 1e-6);
  }
}

TEST_CASE(
    "At the smallest eps a stream of zeros has the branch for its value, and gradients that are finite") {
  for (const char* mode : {"feature", "global"}) {
    CAPTURE(mode);
    const ir::TensorType type{DType::f32, {2, 3, 5}};
    ir::Module module = rewritten(single_join(type), {fmt::format("orthogonal:mode={},eps=1e-30", mode)});
    ir::Function& forward = module.function("forward");
    ir::Builder b(module, forward);
    const ir::Value g = b.argument("g", type);
    const ir::Value loss = b.reshape(b.sum(b.mul(forward.result("y"), g), {0, 1, 2}), {});
    const ir::Value wrt[] = {forward.argument("x"), forward.argument("f")};
    const std::vector<ir::Value> gradients = ir::differentiate(b, loss, wrt);
    forward.results.push_back({"dx", gradients[0]});
    forward.results.push_back({"df", gradients[1]});

    const auto engine = runtime::make_jit_engine(module);
    const runtime::HostTensor f = runtime::to_host(sample(type, 1.1)),
                              cotangent = runtime::to_host(sample(type, 2.9));
    runtime::TensorMap arguments;
    arguments.emplace("x", runtime::to_host(Tensor(type)));
    arguments.emplace("f", f.clone());
    arguments.emplace("g", cotangent.clone());
    const runtime::TensorMap results = engine->run("forward", arguments);
    const auto values = [](const runtime::HostTensor& tensor) { return runtime::to_double(tensor).data; };
    CHECK(values(results.at("y")) == values(f));
    CHECK(values(results.at("dx")) == values(cotangent));
    CHECK(values(results.at("df")) == values(cotangent));
  }
}

}  // namespace
}  // namespace rewire::test
