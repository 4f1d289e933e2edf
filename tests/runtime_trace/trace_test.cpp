// Values inside a network: their names, their numbers against the evaluator's own, gradients against differences of the
// loss, and what is said of an engine with an error at a place that is known.
#include "runtime/trace/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "models/model.h"
#include "runtime/io/npy.h"
#include "runtime/network/weights.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kSeed = 5;

/// Two blocks of width 8 on images of 28 pixels.
ir::Module small_network() {
  ir::Selection model{"vit"};
  model.values.set("image", std::int64_t{28});
  model.values.set("channels", std::int64_t{1});
  model.values.set("classes", std::int64_t{5});
  model.values.set("patch", std::int64_t{14});
  model.values.set("dim", std::int64_t{8});
  model.values.set("depth", std::int64_t{2});
  model.values.set("heads", std::int64_t{2});
  return models::build(model, 3);
}

TraceJob job_of(ir::Module network) {
  TraceJob job;
  job.network = std::move(network);
  const ir::Module module = trace_module(job, {}, false);
  for (const auto& [name, tensor] : perturbed_state(module, {}, kSeed)) {
    if (module.find_parameter(name)->is_weight()) job.weights.emplace(name, to_host(tensor));
  }
  const ir::Function& program = module.function("trace");
  for (const ir::Argument& argument : program.arguments)
    job.inputs.emplace(argument.name, to_host(random_argument(module, program, argument, kSeed)));
  job.engine = [](const ir::Module& m) { return make_evaluator_engine(m); };
  return job;
}

std::vector<TracedTensor> all_of(const TraceJob& job) {
  return traceable_tensors(job.network.function("forward"));
}

std::vector<std::string> names_of(const std::vector<TracedTensor>& tensors) {
  std::vector<std::string> names;
  for (const TracedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

const TraceRow& row_of(const Trace& trace, const std::string& name) {
  const auto row = std::ranges::find(trace.rows, name, &TraceRow::name);
  REQUIRE(row != trace.rows.end());
  return *row;
}

TEST_CASE("Tensors are called by their places, ops and numbers") {
  const TraceJob job = job_of(small_network());
  const std::vector<TracedTensor> all = all_of(job);
  const auto selected = [&](const std::vector<std::string>& patterns) {
    return names_of(select_tensors(all, patterns));
  };
  CHECK(selected({}) == std::vector<std::string>{"patch_embed.proj",
                                                 "blocks.0.norm1",
                                                 "blocks.0.attn.qkv",
                                                 "blocks.0.attn.proj",
                                                 "blocks.0.attn",
                                                 "blocks.0.norm2",
                                                 "blocks.0.mlp.fc1",
                                                 "blocks.0.mlp.act",
                                                 "blocks.0.mlp.fc2",
                                                 "blocks.0.mlp",
                                                 "blocks.1.norm1",
                                                 "blocks.1.attn.qkv",
                                                 "blocks.1.attn.proj",
                                                 "blocks.1.attn",
                                                 "blocks.1.norm2",
                                                 "blocks.1.mlp.fc1",
                                                 "blocks.1.mlp.act",
                                                 "blocks.1.mlp.fc2",
                                                 "blocks.1.mlp",
                                                 "norm",
                                                 "head"});
  CHECK(selected({"head*"}) == std::vector<std::string>{"head.weight", "head.bias", "head"});
  CHECK(selected({"blocks.?.mlp", "blocks.0.mlp"}) ==
        std::vector<std::string>{"blocks.0.mlp", "blocks.1.mlp"});
  CHECK(selected({"head:*"}) ==
        std::vector<std::string>{"head:matmul", "head:reshape", "head:broadcast", "head"});
  CHECK(selected({"blocks.0.attn:attention*"}) ==
        std::vector<std::string>{"blocks.0.attn:attention", "blocks.0.attn:attention.2"});
  // What stands at no place has no short name.
  CHECK(selected({":*"}).size() >= 3);
  CHECK(selected({"*:*"}).size() + selected({"*.weight", "*.bias", "cls_token", "pos_embed"}).size() ==
        all.size());
  CHECK_THROWS_WITH(selected({"blocks.0.atn"}),
                    REWIRE_CATCH_CONTAINS("no such tensor (did you mean 'blocks.0.attn'?)"));

  CHECK(names_of(tensors_between(all, "blocks.1.mlp", "norm")).back() == "norm");
  const std::vector<std::string> way = names_of(tensors_between(all, "blocks.0.mlp.act", "blocks.0.mlp.fc2"));
  CHECK(way == std::vector<std::string>{"blocks.0.mlp.fc2:matmul", "blocks.0.mlp.fc2:reshape",
                                        "blocks.0.mlp.fc2:broadcast", "blocks.0.mlp.fc2"});
  CHECK(names_of(tensors_between(all, "", "patch_embed.proj")).size() >= 4);
}

TEST_CASE("Statistics are of the finite elements, shares of all") {
  HostTensor tensor({ir::DType::f32, {5}});
  const float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {1, 0, 3, infinity, std::nanf("")};
  std::ranges::copy(values, tensor.as<float>().begin());
  const TraceStatistics s = trace_statistics(tensor);
  CHECK(s.mean == Approx(4.0 / 3));
  CHECK(s.deviation == Approx(std::sqrt(14.0 / 9)));
  CHECK(s.minimum == 0);
  CHECK(s.maximum == 3);
  CHECK(s.zeros == Approx(0.2));
  CHECK(s.non_finite == Approx(0.4));
  std::ranges::fill(tensor.as<float>(), infinity);
  CHECK(std::isnan(trace_statistics(tensor).mean));
  CHECK(std::isnan(trace_statistics(tensor).maximum));
}

TEST_CASE("A gradient inside the network is the derivative of the loss") {
  const TraceJob job = job_of(small_network());
  const std::vector<TracedTensor> all = all_of(job);
  const Trace trace = trace_tensors(job, select_tensors(all, {"blocks.0.*", "blocks.0.attn:*"}), true);
  CHECK(trace.non_finite.empty());
  // Along a random direction at the place: what is added there changes the loss by <gradient, direction>.
  for (const std::string name : {"blocks.0.attn", "blocks.0.mlp.fc1", "blocks.0.attn:attention"}) {
    CAPTURE(name);
    const auto tensor = std::ranges::find(all, name, &TracedTensor::name);
    REQUIRE(tensor != all.end());
    const ir::TensorType type = job.network.function("forward").type(tensor->value);
    const std::vector<double> direction =
        normal_numbers(kSeed, "direction", static_cast<std::size_t>(type.elements()));
    const auto loss = [&](double step) {
      TraceJob moved = job_of(small_network());
      ir::Function& forward = moved.network.function("forward");
      std::vector<double> shift = direction;
      for (double& value : shift) value *= step;
      ir::Parameter parameter;
      parameter.name = "shift";
      parameter.type = {ir::DType::f64, type.shape};
      parameter.trainable = false;
      parameter.kind = ir::StateKind::statistic;
      moved.network.add_parameter(parameter);
      moved.weights.insert_or_assign("shift", to_host(ir::Tensor(parameter.type, shift)));
      ir::Builder b(moved.network, forward);
      const std::size_t at =
          static_cast<std::size_t>(forward.definitions()[static_cast<std::size_t>(tensor->value.id)]) + 1;
      b.set_position(at);
      const ir::Value sum = b.add(tensor->value, b.cast(b.param("shift"), type.dtype));
      forward.replace_uses(tensor->value, sum, b.position());
      return trace_tensors(moved, {}, false).values.at("loss").as<float>()[0];
    };
    constexpr double kStep = 1e-3;
    const double difference = (loss(kStep) - loss(-kStep)) / (2 * kStep);
    const std::vector<double> gradient = to_double(trace.values.at(name + ".grad")).data;
    double product = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) product += gradient[i] * direction[i];
    CHECK(difference == Approx(product).epsilon(1e-2).margin(2e-4));
  }
  CHECK(row_of(trace, "blocks.0.attn.grad").op == "gradient");
  const auto position = [&](const std::string& name) { return &row_of(trace, name) - trace.rows.data(); };
  CHECK(position("blocks.0.attn") < position("loss"));
  CHECK(position("loss") < position("blocks.0.mlp.grad"));
  CHECK(position("blocks.0.mlp.grad") < position("blocks.0.attn.grad"));
}

/// The module with the result of the last op at `place` times `factor`, in all of its functions.
ir::Module with_error(ir::Module module, const std::string& place, double factor) {
  for (ir::Function& function : module.functions) {
    const auto last = std::find_if(function.body.rbegin(), function.body.rend(),
                                   [&](const ir::Op& op) { return op.location == place; });
    if (last == function.body.rend()) continue;
    const ir::Value value = last->results.front();
    ir::Builder b(module, function);
    b.set_position(static_cast<std::size_t>(function.body.rend() - last));
    b.set_location(place);
    const ir::Value scaled = b.mul(value, factor);
    function.replace_uses(value, scaled, b.position());
  }
  return module;
}

TEST_CASE("The compiled network agrees with the evaluator, forward and backward") {
  TraceJob job = job_of(small_network());
  job.reference = job.engine;
  job.engine = [](const ir::Module& m) { return make_jit_engine(m); };
  const Trace trace = trace_tensors(job, select_tensors(all_of(job), {"*:*", "*"}), true);
  for (const TraceRow& row : trace.rows) {
    CAPTURE(row.name);
    REQUIRE(row.difference);
    CHECK_FALSE(row.difference->differs());
  }
  CHECK(first_difference(trace) == nullptr);
  CHECK_FALSE(trace_way_to_difference(job, all_of(job), trace));
}

TEST_CASE("The first tensor that an engine has wrong is named, and the op on the way to it") {
  TraceJob job = job_of(small_network());
  job.reference = job.engine;
  job.engine = [](const ir::Module& m) {
    return make_evaluator_engine(with_error(m, "blocks.1.mlp.act", -1), Rounding::dtypes);
  };
  const std::vector<TracedTensor> all = all_of(job);
  const Trace trace = trace_tensors(job, select_tensors(all, {"blocks.?.attn", "blocks.?.mlp"}), true);
  const TraceRow* wrong = first_difference(trace);
  REQUIRE(wrong != nullptr);
  CHECK(wrong->name == "blocks.1.mlp");
  const auto way = trace_way_to_difference(job, all, trace);
  REQUIRE(way);
  CHECK(way->after == "blocks.1.attn");
  const TraceRow* op = first_difference(way->trace);
  REQUIRE(op != nullptr);
  CHECK(op->name == "blocks.1.mlp.act");
  CHECK(explain_difference(way->trace, *op) == "it is -1 x the expected value");
}

TEST_CASE("Files are compared with, and a difference is told as a multiple of what it is made of") {
  const test::TemporaryFolder folder;
  const TraceJob job = job_of(small_network());
  const std::vector<TracedTensor> wanted = select_tensors(all_of(job), {});
  const auto traced = [&] { return trace_tensors(job, wanted, true); };
  write_trace(traced(), folder.file("values"));
  CHECK_THROWS_WITH(write_trace(traced(), folder.file("values")), REWIRE_CATCH_CONTAINS("already exists"));
  Trace same = traced();
  expect_trace(same, folder.file("values"), 0);
  CHECK(first_difference(same) == nullptr);
  CHECK(same.rows.size() == same.expected.size());

  const auto file = [&](const std::string& name) { return folder.file("values/" + name + ".npy"); };
  HostTensor stream = read_npy(file("blocks.0.mlp"));
  const HostTensor branch = read_npy(file("blocks.0.mlp.fc2"));
  for (std::size_t i = 0; i < stream.as<float>().size(); ++i)
    stream.as<float>()[i] += 2 * branch.as<float>()[i];
  write_npy(file("blocks.0.mlp"), stream);
  Trace other = traced();
  expect_trace(other, folder.file("values"), 1e-4);
  const TraceRow* wrong = first_difference(other);
  REQUIRE(wrong != nullptr);
  CHECK(wrong->name == "blocks.0.mlp");
  CHECK(explain_difference(other, *wrong) == "its difference is -2 x blocks.0.mlp.fc2");
  CHECK(std::ranges::count_if(other.rows, [](const TraceRow& row) { return row.difference->differs(); }) ==
        1);

  write_npy(file("blocks.0.mlp"), HostTensor({ir::DType::f32, {3, 2}}));
  Trace misshapen = traced();
  expect_trace(misshapen, folder.file("values"), 1e-4);
  REQUIRE(first_difference(misshapen) != nullptr);
  CHECK(explain_difference(misshapen, *first_difference(misshapen)) ==
        "it is f32[3,5,8], but f32[3,2] is expected");
  Trace none = traced();
  CHECK_THROWS_WITH(expect_trace(none, folder.file("nowhere"), 1), REWIRE_CATCH_CONTAINS("no such folder"));
  CHECK_THROWS_WITH(expect_trace(none, folder.file("."), 1), REWIRE_CATCH_CONTAINS("has no file for any"));
}

TEST_CASE("A tensor that is not finite is named, and is no difference where both have it") {
  TraceJob job =
      job_of(with_error(with_error(small_network(), "blocks.0.mlp.act", 1e30), "blocks.0.mlp.act", 1e30));
  job.reference = job.engine;
  const Trace trace = trace_tensors(job, select_tensors(all_of(job), {}), true);
  CHECK_THAT(trace.non_finite, REWIRE_CATCH_CONTAINS("blocks.0.mlp"));
  CHECK(row_of(trace, "blocks.0.norm2").statistics.non_finite == 0);
  CHECK(row_of(trace, "blocks.0.mlp.fc2").statistics.non_finite > 0);
  CHECK(first_difference(trace) == nullptr);
  job.reference = [](const ir::Module& m) {
    return make_evaluator_engine(with_error(m, "blocks.0.attn.proj", std::nan("")));
  };
  const Trace differs = trace_tensors(job, select_tensors(all_of(job), {}), false);
  REQUIRE(first_difference(differs) != nullptr);
  CHECK(first_difference(differs)->name == "blocks.0.attn.proj");
  CHECK(std::isinf(first_difference(differs)->difference->error));
}

}  // namespace
}  // namespace rewire::runtime
