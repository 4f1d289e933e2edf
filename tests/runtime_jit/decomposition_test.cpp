// QR and eigenvectors by LAPACK: larger matrices than the op cases have, the same bits by any number of threads, and
// what is no matrix to decompose.
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "runtime/exec/engine.h"
#include "tests/support/catch.h"

using namespace rewire;
using ir::DType;

namespace {

constexpr std::int64_t kCount = 3, kOrder = 65;

/// main(a) -> (q of qr, v of eigh), of matrices that are transposed in memory: the library takes them dense.
ir::Module decompositions() {
  ir::Module module;
  module.name = "decompositions";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value a = b.transpose(b.argument("a", {DType::f32, {kOrder, kCount, kOrder}}), {1, 2, 0});
  b.result("q", b.emit(ir::Opcode::qr, {a}));
  b.result("v", b.emit(ir::Opcode::eigh, {a}));
  ir::verify(module);
  return module;
}

/// Symmetric in the first and last axis; the last matrix has a NaN.
runtime::TensorMap matrices() {
  ir::Tensor a({DType::f32, {kOrder, kCount, kOrder}});
  for (std::int64_t k = 0; k < kCount; ++k) {
    for (std::int64_t i = 0; i < kOrder; ++i) {
      for (std::int64_t j = 0; j < kOrder; ++j) {
        a.data[static_cast<std::size_t>((i * kCount + k) * kOrder + j)] =
            std::sin(static_cast<double>((i + 1) * (j + 1) + 7 * k)) +
            (i == j ? static_cast<double>(i) : 0.0);
      }
    }
  }
  a.data[static_cast<std::size_t>(2 * kOrder + 4)] = std::numeric_limits<double>::quiet_NaN();
  runtime::TensorMap inputs;
  inputs.emplace("a", runtime::to_host(a));
  return inputs;
}

runtime::TensorMap decomposed(int threads) {
  runtime::JitEngineOptions options;
  options.threads = threads;
  options.check_memory = true;
  const ir::Module module = decompositions();
  return runtime::make_jit_engine(module, options)->run("main", matrices());
}

TEST_CASE("Decompositions of a stack are the evaluator's, and NaN where the matrix is not finite") {
  const ir::Module module = decompositions();
  const runtime::TensorMap expected = runtime::make_evaluator_engine(module)->run("main", matrices());
  const runtime::TensorMap actual = decomposed(2);
  for (const char* name : {"q", "v"}) {
    CAPTURE(name);
    const std::vector<double> a = runtime::to_double(actual.find(name)->second).data,
                              e = runtime::to_double(expected.find(name)->second).data;
    const auto size = static_cast<std::size_t>(kOrder * kOrder);
    for (std::size_t i = 0; i < 2 * size; ++i) REQUIRE(std::abs(a[i] - e[i]) < 1e-5);
    for (std::size_t i = 2 * size; i < 3 * size; ++i) REQUIRE((std::isnan(a[i]) && std::isnan(e[i])));
  }
}

TEST_CASE("Decompositions have the same bits by one, two and three threads") {
  const runtime::TensorMap one = decomposed(1);
  for (const int threads : {2, 3}) {
    const runtime::TensorMap more = decomposed(threads);
    for (const auto& [name, tensor] : one)
      CHECK(std::ranges::equal(tensor.bytes(), more.find(name)->second.bytes()));
  }
}

}  // namespace
