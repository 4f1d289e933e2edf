// Programs that are finite in double precision and not as they are compiled: the replay names the op.
#include "runtime/measure/non_finite.h"

#include <functional>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

HostTensor values(const ir::Shape& shape, const std::function<double(std::size_t)>& of) {
  ir::Tensor tensor({ir::DType::f32, shape});
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = of(i);
  return to_host(tensor);
}

/// What the replay says of main(x) -> (y) on the JIT.
std::string cause(const HostTensor& x, const std::function<Value(Builder&, Value)>& write,
                  bool trains = false) {
  ir::Module module;
  module.name = "divergence";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  main.trains = trains;
  Builder b(module, main);
  const Value argument = b.argument("x", x.type());
  b.set_location("here");
  b.result("y", write(b, argument));
  ir::verify(module);
  JitEngineOptions options;
  options.threads = 2;
  const std::unique_ptr<Engine> engine = make_jit_engine(module, options);
  TensorMap inputs;
  inputs.emplace("x", x.clone());
  return first_non_finite(module, "main", *engine, inputs);
}

const std::string kCompiled =
    "replayed in double precision, every tensor is finite; in the compiled program, the first non-finite "
    "tensor is the result of ";

TEST_CASE("A sum whose parts overflow is named, though it comes to zero") {
  const HostTensor x = values({2, 1024}, [](std::size_t i) { return i % 1024 < 512 ? 3e38 : -3e38; });
  CHECK(cause(x, [](Builder& b, Value v) { return b.sum(v, {1}); }) == kCompiled + "sum at here, f32[2,1]");
}

TEST_CASE("A product whose terms overflow is named") {
  const HostTensor x = values({4, 64}, [](std::size_t i) { return i % 2 == 0 ? 1e30 : -1e30; });
  const auto write = [](Builder& b, Value v) {
    return b.matmul(v, b.constant(1e9, ir::DType::f32, {64, 8}));
  };
  CHECK(cause(x, write) == kCompiled + "matmul at here, f32[4,8]");
}

TEST_CASE("Attention whose scores overflow is named") {
  // Each score is 0, of terms beyond f32.
  const HostTensor x = values({1, 1, 8, 16}, [](std::size_t i) { return i % 2 == 0 ? 1e20 : -1e20; });
  const auto write = [](Builder& b, Value v) {
    const Value ones = b.unary(Opcode::abs, v);
    return b.emit(Opcode::attention, {v, ones, ones}, {{"scale", 0.25}});
  };
  CHECK(cause(x, write) == kCompiled + "attention at here, f32[1,1,8,16]");
}

TEST_CASE("What underflows in f32 alone is named where it becomes infinite") {
  const HostTensor x = values({3, 5}, [](std::size_t i) { return i == 7 ? 1e-25 : 1; });
  const auto write = [](Builder& b, Value v) { return b.unary(Opcode::log, b.mul(v, v)); };
  CHECK(cause(x, write) == kCompiled + "log at here, f32[3,5]");
}

TEST_CASE(
    "A result that is finite after all, and an engine that compiles nothing, end with what double precision "
    "says") {
  const HostTensor x = values({2, 2}, [](std::size_t) { return 1; });
  CHECK(cause(x, [](Builder&, Value v) { return v; }) ==
        "replayed in double precision, every tensor is finite");
}

TEST_CASE("A program that trains is replayed as it trains") {
  const HostTensor x = values({2, 1024}, [](std::size_t i) { return i % 1024 < 512 ? 3e38 : -3e38; });
  const auto write = [](Builder& b, Value v) {
    const Value training = b.emit(Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
    const Value share = b.select(training, b.constant(1), b.constant(1e-30));
    return b.sum(b.mul(v, b.broadcast(b.reshape(share, {1, 1}), {2, 1024})), {1});
  };
  CHECK(cause(x, write, true) == kCompiled + "sum at here, f32[2,1]");
  CHECK(cause(x, write, false) == "replayed in double precision, every tensor is finite");
}

TEST_CASE("Of what the op computed is told too, where that stands elsewhere") {
  const HostTensor x = values({3, 5}, [](std::size_t) { return 1e-25; });
  const auto write = [](Builder& b, Value v) {
    const Value square = b.mul(v, v);
    b.set_location("there");
    return b.unary(Opcode::log, square);
  };
  CHECK(cause(x, write) == kCompiled + "log at there, f32[3,5], of the result of mul at here");
}

}  // namespace
}  // namespace rewire::runtime
