// A step whose circulant products go through the FFT library, on several threads: the same bits, and nothing
// for a race detector to find in the plans that its calls share.
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <new>

#include "codegen/library_call.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "runtime/device/sanitized.h"
#include "runtime/exec/engine.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"

/// FFTW's own way to memory inside its planner.
extern "C" void* fftwf_malloc_plain(std::size_t bytes);

using namespace rewire;
using ir::DType;
using ir::Value;
using runtime::HostTensor;
using runtime::TensorMap;

namespace {

constexpr std::int64_t kRows = 130;

/// main(x [130, 4 * lags], w, v) -> loss and gradients of gelu(x w) v, both products by transforms, of 45 and
/// of 24 lags.
ir::Module two_products() {
  ir::Module module;
  module.name = "fft";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const auto product = [&](Value x, Value c) {
    return b.emit(ir::Opcode::circulant_matmul, {x, c}, {{"lowering", std::string("fft")}});
  };
  const Value x = b.argument("x", {DType::f32, {kRows, 4 * 45}});
  const Value w = b.argument("w", {DType::f32, {8, 4, 45}});  // to 8 slices of 45 = 15 of 24
  const Value v = b.argument("v", {DType::f32, {3, 15, 24}});
  const Value hidden = b.emit(ir::Opcode::gelu, {product(x, w)});
  const Value y = product(hidden, v);
  const Value loss = b.reshape(b.sum(b.mul(y, y), {0, 1}), {});
  const Value wrt[] = {x, w, v};
  const std::vector<Value> gradients = ir::differentiate(b, loss, wrt);
  b.result("loss", loss);
  b.result("dx", gradients[0]);
  b.result("dw", gradients[1]);
  b.result("dv", gradients[2]);
  return module;
}

std::map<std::string, std::vector<std::byte>> run(const ir::Module& module, int threads) {
  runtime::JitEngineOptions options;
  options.threads = threads;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  TensorMap inputs;
  inputs.emplace("x", testing::noise({kRows, 4 * 45}, 1));
  inputs.emplace("w", testing::noise({8, 4, 45}, 2));
  inputs.emplace("v", testing::noise({3, 15, 24}, 3));
  std::map<std::string, std::vector<std::byte>> bytes;
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, tensor] : engine->run("main", inputs))
      bytes[name].insert(bytes[name].end(), tensor.bytes().begin(), tensor.bytes().end());
  }
  return bytes;
}

}  // namespace

TEST_CASE("Products by the FFT library give the same bits on one, two and three threads, and again") {
  const ir::Module module = two_products();
  const auto one = run(module, 1);
  CHECK(one.size() == 4);
  for (const auto& [name, bytes] : one) {
    CAPTURE(name);
    CHECK(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2),
                     bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2)));
  }
  CHECK(one == run(module, 2));
  CHECK(one == run(module, 3));
}

#ifndef REWIRE_SANITIZED
TEST_CASE("where FFTW's planner gets no memory, the program's new-handler answers") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::set_new_handler([] { ::_exit(7); });
    const codegen::LibraryCall call(1);
    fftwf_malloc_plain(std::numeric_limits<std::size_t>::max() / 2);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}
#endif
