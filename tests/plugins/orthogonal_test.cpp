// The orthogonal residual update against its formula, written here as loops, and its gradient against the
// closed form:
//   b = |x|^2 + eps, s = <x, f> / b, y = x + f - s x;  with g = dL/dy and p = <g, x>:
//   dL/df = g - (p / b) x,   dL/dx = (1 - s) g - (p / b) (f - 2 s x).
#include <cmath>
#include <map>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "ir/residual.h"
#include "runtime/exec/engine.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Tensor;
using ir::TensorType;

runtime::PluginHandle orthogonal(const std::string& values = "") {
  return load(values.empty() ? "orthogonal" : "orthogonal:" + values);
}

ir::Module rewritten(ir::Module module, const std::vector<runtime::PluginHandle>& plugins) {
  runtime::apply_plugins(module, plugins, 0);
  return module;
}

/// The places over which one s is taken, as lists of flat indices: one list a (batch, token) or a batch
/// element.
std::vector<std::vector<std::size_t>> groups(const ir::Shape& shape, std::size_t channel, bool global) {
  const ir::Shape strides = ir::row_major_strides(shape);
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> lists;
  for (std::size_t i = 0; i < static_cast<std::size_t>(ir::element_count(shape)); ++i) {
    std::vector<std::int64_t> key;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t at = static_cast<std::int64_t>(i) / strides[axis] % shape[axis];
      if (axis == 0 || (!global && axis != channel)) key.push_back(at);
    }
    lists[key].push_back(i);
  }
  std::vector<std::vector<std::size_t>> result;
  for (auto& [key, list] : lists) result.push_back(std::move(list));
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b,
           const std::vector<std::size_t>& places) {
  double sum = 0;
  for (std::size_t i : places) sum += a[i] * b[i];
  return sum;
}

struct Case {
  ir::Shape shape;
  JoinAxes axes;
};
const std::vector<Case> kCases = {
    {{2, 3, 5}, {}},
    {{3, 1, 7}, {}},
    {{1, 1, 1}, {}},
    {{2, 4, 1}, {}},
    {{2, 5, 3, 2}, {.batch = 0, .token = 2, .channel = 1}},  // N C H W
    {{2, 3, 5}, {.batch = -3, .token = -2, .channel = -1}},
};

TEST_CASE("The update is x + f - s x with s of each token, or of each sample") {
  for (const Case& c : kCases) {
    for (const bool global : {false, true}) {
      CAPTURE(ir::to_string(c.shape), global);
      const TensorType type{DType::f32, c.shape};
      const double eps = 0.25;
      const ir::Module module = rewritten(
          single_join(type, c.axes), {orthogonal(global ? "mode=global,eps=0.25" : "mode=feature,eps=0.25")});
      const Tensor x = sample(type, 0.3), f = sample(type, 1.1);
      ir::EvalState state;
      const std::vector<double> y =
          ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;

      const std::int64_t rank = type.rank();
      const auto channel = static_cast<std::size_t>((c.axes.channel + rank) % rank);
      for (const std::vector<std::size_t>& places : groups(c.shape, channel, global)) {
        const double xf = dot(x.data, f.data, places), b = dot(x.data, x.data, places) + eps;
        std::vector<double> added(y.size());
        for (std::size_t i : places) {
          added[i] = y[i] - x.data[i];
          CHECK(y[i] == Approx(x.data[i] + f.data[i] - xf / b * x.data[i]).epsilon(0).margin(1e-12));
        }
        // What is added is orthogonal to x but for eps: <x, f - s x> = <x, f> eps / (|x|^2 + eps).
        CHECK(dot(x.data, added, places) == Approx(xf * eps / b).epsilon(0).margin(1e-12));
      }
    }
  }
}

TEST_CASE("With the default eps what is added is orthogonal to x, feature by feature, by default") {
  const TensorType type{DType::f32, {2, 3, 16}};
  const ir::Module module = rewritten(single_join(type), {orthogonal()});
  const Tensor x = sample(type, 0.3), f = sample(type, 1.1);
  ir::EvalState state;
  const std::vector<double> y = ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;
  for (const std::vector<std::size_t>& places : groups(type.shape, 2, false)) {
    std::vector<double> added(y.size());
    for (std::size_t i : places) added[i] = y[i] - x.data[i];
    const double xf = dot(x.data, f.data, places), b = dot(x.data, x.data, places) + 1e-6;
    REQUIRE(std::abs(xf) > 1e-3);
    CHECK(dot(x.data, added, places) == Approx(xf * 1e-6 / b).epsilon(0).margin(1e-12));
  }
}

TEST_CASE("A stream of zeros takes the branch as it is, and a branch of zeros leaves the stream") {
  for (const char* mode : {"mode=feature", "mode=global"}) {
    const TensorType type{DType::f32, {2, 3, 5}};
    const ir::Module module = rewritten(single_join(type), {orthogonal(mode)});
    const Tensor zeros(type), some = sample(type, 0.3);
    ir::EvalState state;
    const ir::Function& forward = module.function("forward");
    CHECK(ir::evaluate(module, forward, {zeros, some}, state).at(0).data == some.data);
    CHECK(ir::evaluate(module, forward, {some, zeros}, state).at(0).data == some.data);
  }
}

TEST_CASE("The gradient that autodiff finds is the closed form") {
  for (const bool global : {false, true}) {
    CAPTURE(global);
    const TensorType type{DType::f32, {2, 3, 5}};
    const double eps = 0.01;
    const ir::Module module =
        rewritten(single_join(type), {orthogonal(global ? "mode=global,eps=0.01" : "eps=0.01")});
    ir::Module extended = module;
    ir::Function& forward = extended.function("forward");
    ir::Builder b(extended, forward);
    const ir::Value weight = b.argument("g", type);
    const ir::Value loss = b.reshape(b.sum(b.mul(forward.result("y"), weight), {0, 1, 2}), {});
    const ir::Value wrt[] = {forward.argument("x"), forward.argument("f")};
    const std::vector<ir::Value> gradients = ir::differentiate(b, loss, wrt);
    forward.results = {{"dx", gradients[0]}, {"df", gradients[1]}};

    const Tensor x = sample(type, 0.3), f = sample(type, 1.1), g = sample(type, 2.9);
    ir::EvalState state;
    const std::vector<Tensor> d = ir::evaluate(extended, forward, {x, f, g}, state);
    for (const std::vector<std::size_t>& places : groups(type.shape, 2, global)) {
      const double norm = dot(x.data, x.data, places) + eps;
      const double s = dot(x.data, f.data, places) / norm, p = dot(g.data, x.data, places) / norm;
      for (std::size_t i : places) {
        CHECK(d[0].data[i] ==
              Approx((1 - s) * g.data[i] - p * (f.data[i] - 2 * s * x.data[i])).epsilon(0).margin(1e-11));
        CHECK(d[1].data[i] == Approx(g.data[i] - p * x.data[i]).epsilon(0).margin(1e-11));
      }
    }
  }
}

TEST_CASE("Both sums and s are f32 for narrow streams, and the stream's dtype for others") {
  for (const auto& [stream, sums] : std::map<DType, DType>{{DType::bf16, DType::f32},
                                                           {DType::f16, DType::f32},
                                                           {DType::f32, DType::f32},
                                                           {DType::f64, DType::f64}}) {
    CAPTURE(ir::dtype_name(stream));
    const ir::Module module = rewritten(single_join({stream, {2, 3, 5}}), {orthogonal()});
    const ir::Function& forward = module.function("forward");
    int sum_count = 0, cast_count = 0;
    for (const ir::Op& op : forward.body) {
      if (op.code == ir::Opcode::sum || op.code == ir::Opcode::div) {
        ++sum_count;
        CHECK(forward.type(op.results.front()).dtype == sums);
      }
      cast_count += op.code == ir::Opcode::cast;
    }
    CHECK(sum_count == 3);
    CHECK(cast_count == (stream == sums ? 0 : 3));  // x, f, and s back
    CHECK(forward.type(forward.result("y")).dtype == stream);
  }
}

/// y of a join of a narrow stream: the evaluator rounds every value to its dtype, and the compiled kernel
/// does what it does.
std::vector<std::vector<double>> narrow_join(const ir::Module& module, const Tensor& x, const Tensor& f) {
  runtime::TensorMap inputs;
  inputs.emplace("x", runtime::to_host(x));
  inputs.emplace("f", runtime::to_host(f));
  std::vector<std::vector<double>> results;
  const auto evaluator = runtime::make_evaluator_engine(module, runtime::Rounding::dtypes);
  results.push_back(runtime::to_double(evaluator->run("forward", inputs).at("y")).data);
  const auto compiled = runtime::make_jit_engine(module);
  results.push_back(runtime::to_double(compiled->run("forward", inputs).at("y")).data);
  return results;
}

// f = 3 x with x of six bits: in f32 s is 3 and nothing is added. A bf16 sum of 768 squares near 1 would stop
// growing at 256; one rounded to bf16 in the end alone would make s for many a token 3 plus or minus a unit
// in its last place; and in f16 the squares of numbers above 255 are infinite.
TEST_CASE("In bf16 and f16 streams sums and s are as good as f32 ones") {
  for (const auto& [dtype, size] : std::map<DType, double>{{DType::bf16, 1}, {DType::f16, 128}}) {
    for (const bool global : {false, true}) {
      const TensorType type{dtype, {3, 7, 768}};
      const ir::Module module = rewritten(single_join(type), {orthogonal(global ? "mode=global" : "")});
      const ir::PhiloxStream noise{5, 0, ir::stream_hash("noise")};
      Tensor x(type), f(type);
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        const double places = std::round(16 * (noise.uniform(2 * i) * 2 + 1)) / 16 * size;  // 1 to 3
        x.data[i] = noise.uniform(2 * i + 1) < 0.5 ? -places : places;
        f.data[i] = 3 * x.data[i];
        REQUIRE(ir::round_to(dtype, f.data[i]) == f.data[i]);
      }
      int engine = 0;
      for (const std::vector<double>& y : narrow_join(module, x, f)) {
        CAPTURE(ir::dtype_name(dtype), global, engine++);
        const bool same = y == x.data;
        CHECK(same);
      }
    }
  }
}

TEST_CASE("In bf16 streams the update is off by the rounding of what stands between s and the sum") {
  constexpr double kUnit = 0x1p-8;  // the most that rounding to bf16 changes a number by, relative to it
  for (const bool global : {false, true}) {
    const TensorType type{DType::bf16, {3, 7, 768}};
    const ir::Module module = rewritten(single_join(type), {orthogonal(global ? "mode=global" : "")});
    const ir::PhiloxStream noise{6, 0, ir::stream_hash("noise")};
    Tensor x(type), f(type);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = ir::round_to(DType::bf16, noise.normal(2 * i));
      f.data[i] = ir::round_to(DType::bf16, 2 * x.data[i] + noise.normal(2 * i + 1));
    }
    int engine = 0;
    for (const std::vector<double>& y : narrow_join(module, x, f)) {
      CAPTURE(global, engine++);
      std::size_t wrong = 0;
      for (const std::vector<std::size_t>& places : groups(type.shape, 2, global)) {
        const double s = dot(x.data, f.data, places) / (dot(x.data, x.data, places) + 1e-6);
        REQUIRE(s > 1);
        for (std::size_t i : places) {
          const double along = s * x.data[i], added = f.data[i] - along, want = x.data[i] + added;
          // s, s x, f - s x and the sum are rounded.
          const double bound = 1.02 * kUnit * (2 * std::abs(along) + std::abs(added) + std::abs(want));
          wrong += std::abs(y[i] - want) > bound;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("The filters choose which joins are orthogonal, and no weight is added") {
  const ir::Module before = residual_net({.depth = 3});
  const ir::Module module = rewritten(before, {orthogonal("layers=0+2,sites=mlp")});
  const ir::Function& forward = module.function("forward");
  for (std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    CAPTURE(join.describe());
    CHECK(join.branch_owner == (join.site == "mlp" && join.block != 1 ? "orthogonal" : ""));
    CHECK(join.shortcut == join.stream);
  }
  CHECK(module.parameters.size() == before.parameters.size());
}

TEST_CASE("Two orthogonal plugins on one join are refused") {
  ir::Module module = residual_net({});
  CHECK(message_of<UserError>([&] {
          runtime::apply_plugins(module, {orthogonal(), orthogonal("mode=global,sites=mlp")}, 0);
        }) ==
        "plugin 'orthogonal': the branch of blocks.0.mlp is already claimed by plugin 'orthogonal': use one "
        "of the two, or give them disjoint sites= or layers=");
}

TEST_CASE("Its parameters refuse what they cannot mean") {
  // 1e-60 is zero in the f32 that the sums are kept in, and a stream of zeros would give 0 / 0.
  for (const std::string eps : {"0", "1e-60", "9e-31"}) {
    CHECK(message_of<UserError>([&] { orthogonal("eps=" + eps); }) ==
          "plugin 'orthogonal': eps=" + eps + " is out of range: it takes a float >= 1e-30");
  }
  CHECK(
      message_of<UserError>([] { orthogonal("mode=globl"); }) ==
      "plugin 'orthogonal': mode=globl is unknown: it takes one of feature|global (did you mean 'global'?)");
}

}  // namespace
}  // namespace rewire::test
