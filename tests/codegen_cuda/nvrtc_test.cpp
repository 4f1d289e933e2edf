// NVRTC: what its log says of kernels, and, where it is there, that emitted text compiles.
#include "codegen/cuda/nvrtc.h"

#include <cstdlib>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc_workers.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

namespace cuda = codegen::cuda;

TEST_CASE("registers, stack, spills and shared memory are read from the assembler's log") {
  const std::vector<cuda::KernelResources> kernels = cuda::resources_of(
      "ptxas info    : 41 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_90'\n"
      "ptxas info    : Function properties for first\n"
      "ptxas         .     32 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 80 registers, used 1 barriers, 256 bytes smem, 16 bytes cumulative stack size\n"
      "ptxas info    : Compile time = 28.345 ms\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_90'\n"
      "ptxas info    : Function properties for second\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].symbol == "first");
  CHECK(kernels[0].stack_bytes == 32);
  CHECK(kernels[0].spill_bytes == 20);
  CHECK(kernels[0].registers == 80);
  CHECK(kernels[0].shared_bytes == 256);
  CHECK(kernels[1].symbol == "second");
  CHECK(kernels[1].spill_bytes == 0);
  CHECK(kernels[1].registers == 8);
  CHECK(kernels[1].shared_bytes == 0);
}

TEST_CASE("a kernel compiles for every architecture, and is told what it takes") {
  if (const auto missing = cuda::nvrtc_missing()) {
    if (std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr) FAIL(*missing);
    WARN("not run: " << *missing);
    return;
  }
  TileBuilder t("twice");
  const auto r = t.row("r", 100);
  const auto c = t.lane("c", 50);
  const auto x = t.input("x", ir::DType::bf16);
  const auto y = t.output("y", ir::DType::f16);
  t.body();
  const auto row = t.load(x, {{r, 50}, {c, 1}});
  t.store(y, t.op(ir::Opcode::add, {row, row}), {{r, 50}, {c, 1}});
  for (int arch : {80, 90, 100}) {
    CAPTURE(arch);
    if (const auto unknown = codegen::cuda::nvrtc_lacks(arch)) {
      if (std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr) FAIL(*unknown);
      WARN("not run: " << *unknown);
      continue;
    }
    const cuda::KernelSource source = cuda::emit(t.finish(), "twice", cuda::device_target(arch));
    const cuda::CudaBinary binary = cuda::compile_cubin(std::string(cuda::prelude()) + source.text, arch);
    CHECK(binary.cubin.substr(1, 3) == "ELF");
    REQUIRE(binary.kernels.size() == 1);
    CHECK(binary.kernels[0].symbol == "twice");
    CHECK(binary.kernels[0].registers > 0);
    CHECK(binary.kernels[0].spill_bytes == 0);
  }
  CHECK_THROWS_AS(cuda::compile_cubin("not C++", 90), InternalError);
  CHECK_THROWS_AS(cuda::compile_cubin("", 21), UserError);
  // What a file of a user's must say of itself.
  const cuda::Compiled edited =
      cuda::try_compile(std::string(cuda::prelude()) + "#line 1 \"a \\\"b\\\".cu\"\n// a comment\nnothing;\n",
                        90, cuda::Output::ptx);
  CHECK_FALSE(edited.accepted);
  CHECK_THAT(edited.log, REWIRE_CATCH_CONTAINS("a \"b\".cu(2): error: "));
}

TEST_CASE("worker processes give the bytes that this process gives") {
  if (const auto missing = cuda::nvrtc_missing()) {
    if (std::getenv("REWIRE_REQUIRE_NVRTC") != nullptr) FAIL(*missing);
    WARN("not run: " << *missing);
    return;
  }
  std::vector<cuda::CompileJob> jobs;
  for (const std::string name : {"one", "two", "three"}) {
    jobs.push_back({name, std::string(cuda::prelude()) + "extern \"C\" __global__ void " + name +
                              "(float* x) { x[threadIdx.x] = erff(over_threads<Sum, 32>(x[threadIdx.x])) + " +
                              std::to_string(jobs.size()) + "; }\n"});
  }
  jobs.push_back({"wrong", "extern \"C\" __global__ void wrong() { nothing; }"});
  const auto compile = [&](int processes) {
    std::vector<cuda::Compiled> answers(jobs.size());
    cuda::CompileRequest request;
    request.processes = processes;
    request.done = [&](std::size_t job, cuda::Compiled answer) { answers[job] = std::move(answer); };
    request.warn = [](const std::string& line) { FAIL(line); };
    cuda::compile_all(jobs, request);
    return answers;
  };
  const std::vector<cuda::Compiled> here = compile(1), there = compile(2);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(jobs[i].name);
    CHECK(here[i].accepted == (jobs[i].name != "wrong"));
    CHECK(there[i].accepted == here[i].accepted);
    CHECK(there[i].code == here[i].code);
    CHECK(cuda::resources_of(there[i].log).size() == (here[i].accepted ? 1 : 0));
  }
  CHECK_THAT(there[3].log, REWIRE_CATCH_CONTAINS("identifier \"nothing\" is undefined"));
}

}  // namespace
}  // namespace rewire::test
