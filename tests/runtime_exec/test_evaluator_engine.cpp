// The evaluator behind the Engine interface: state that lives between runs, inputs and results by name, and
// the module's list of training programs.
#include <limits>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "runtime/exec/engine.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using test::message_of;

/// Adds a function that returns is_training as a number.
void add_mode(ir::Module& module, const std::string& name, bool trains) {
  module.functions.push_back({});
  ir::Function& function = module.functions.back();
  function.name = name;
  function.trains = trains;
  ir::Builder b(module, function);
  const ir::Value training = b.emit(ir::Opcode::is_training, {}, {}, ir::TensorType{DType::i1, {}});
  b.result("training", b.cast(training, DType::f32));
}

/// `accumulate(x)`: total += x and count += 1, returning the total before; and two functions that say their
/// mode.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  ir::Parameter total;
  total.name = "total";
  total.type = {DType::f32, {3}};
  module.add_parameter(total);
  ir::Parameter count;
  count.name = "count";
  count.type = {DType::i64, {}};
  count.trainable = false;
  module.add_parameter(count);

  module.functions.push_back({});
  ir::Function& function = module.functions.back();
  function.name = "accumulate";
  ir::Builder b(module, function);
  const ir::Value x = b.argument("x", {DType::f32, {3}});
  const ir::Value before = b.param("total");
  const ir::Value old_count = b.param("count");
  const ir::Value after = b.add(before, x);
  b.emit(ir::Opcode::update, {after}, {{"name", std::string("total")}});
  b.emit(ir::Opcode::update, {b.add(old_count, 1.0)}, {{"name", std::string("count")}});
  b.result("before", before);
  b.result("count", old_count);

  add_mode(module, "learn", true);
  add_mode(module, "predict", false);
  ir::verify(module);
  return module;
}

HostTensor vector3(double a, double b, double c, DType dtype = DType::f32) {
  return to_host(ir::Tensor({dtype, {3}}, {a, b, c}));
}

TensorMap input_x(HostTensor value) {
  TensorMap inputs;
  inputs.emplace("x", std::move(value));
  return inputs;
}

TEST_CASE("State starts zeroed and lives from run to run") {
  const auto engine = make_evaluator_engine(example());
  const TensorMap inputs = input_x(vector3(1, 2, 3));
  CHECK(to_double(engine->run("accumulate", inputs).at("before")).data == std::vector<double>{0, 0, 0});
  const TensorMap second = engine->run("accumulate", inputs);
  CHECK(second.size() == 2);
  CHECK(to_double(second.at("before")).data == std::vector<double>{1, 2, 3});
  CHECK(second.at("count").type() == ir::TensorType{DType::i64, {}});
  CHECK(second.at("count").as<std::int64_t>()[0] == 1);
  CHECK(to_double(engine->read_state("total")).data == std::vector<double>{2, 4, 6});
  CHECK(engine->read_state("count").as<std::int64_t>()[0] == 2);
}

TEST_CASE("Written state is what the next run reads, and engines share nothing") {
  const ir::Module module = example();
  const auto engine = make_evaluator_engine(module), other = make_evaluator_engine(module);
  engine->write_state("total", vector3(10, 20, 30));
  const TensorMap inputs = input_x(vector3(1, 1, 1));
  CHECK(to_double(engine->run("accumulate", inputs).at("before")).data == std::vector<double>{10, 20, 30});
  CHECK(to_double(other->read_state("total")).data == std::vector<double>{0, 0, 0});
}

TEST_CASE("is_training is true in functions that train, and in no other") {
  const auto engine = make_evaluator_engine(example());
  CHECK(to_double(engine->run("learn", {}).at("training")).scalar() == 1);
  CHECK(to_double(engine->run("predict", {}).at("training")).scalar() == 0);
  CHECK(to_double(engine->run("learn", {}).at("training")).scalar() == 1);
}

TEST_CASE("Unknown names are answered with the nearest match") {
  const auto engine = make_evaluator_engine(example());
  CHECK(message_of<UserError>([&] { engine->run("acumulate", {}); }) ==
        "module @example has no function 'acumulate' (did you mean 'accumulate'?)");
  CHECK(message_of<UserError>([&] { engine->read_state("totl"); }) ==
        "module @example has no parameter 'totl' (did you mean 'total'?)");
  CHECK(message_of<UserError>([&] { engine->write_state("weights", vector3(0, 0, 0)); }) ==
        "module @example has no parameter 'weights'");
}

TEST_CASE("Inputs and state of another type are refused with both types, and change nothing") {
  const auto engine = make_evaluator_engine(example());
  CHECK(message_of<UserError>([&] { engine->run("accumulate", {}); }) ==
        "function 'accumulate' needs the input 'x', f32[3]");
  const TensorMap wrong_dtype = input_x(vector3(1, 2, 3, DType::f64));
  CHECK(message_of<UserError>([&] { engine->run("accumulate", wrong_dtype); }) ==
        "input 'x' of function 'accumulate' is f32[3], not f64[3]");
  TensorMap extra = input_x(vector3(1, 2, 3));
  extra.emplace("y", vector3(1, 2, 3));
  CHECK(message_of<UserError>([&] { engine->run("accumulate", extra); }) ==
        "function 'accumulate' has no input 'y' (did you mean 'x'?)");
  CHECK(message_of<UserError>([&] { engine->write_state("total", HostTensor({DType::f32, {4}})); }) ==
        "parameter 'total' is f32[3], not f32[4]");
  HostTensor large({DType::i64, {}});
  large.as<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::max();
  CHECK(message_of<UserError>([&] { engine->write_state("count", large); }) ==
        "parameter 'count': the integer 9223372036854775807 is beyond 2^53, so no double holds it exactly");
  CHECK(engine->read_state("count").as<std::int64_t>()[0] == 0);
  CHECK(to_double(engine->read_state("total")).data == std::vector<double>{0, 0, 0});
}

}  // namespace
}  // namespace rewire::runtime
