// Small matrices: chains of reductions over both axes are one kernel up to 16 x 16, and beyond that they are
// not; what is larger keeps its kernels.
#include "tests/support/small_matrix.h"

#include <fmt/format.h>

#include "ir/passes/pass.h"
#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::Program;
using test::fuse;
using test::kernels;
using test::module;

namespace {

Program lowered(const testing::SmallMatrix& size) {
  ir::Module matrix = testing::small_matrix(size);
  ir::PassContext context;
  ir::run_pipeline(matrix, context);
  return codegen::lower(matrix, matrix.function("main"), {});
}

/// Row sums of rows of `inner` elements fill a matrix, which is then divided by the sums of its columns.
Program matrix_of_sums(int inner) {
  return fuse(module(fmt::format(R"(
    func @main(%x: f32[4,4,{0}]) -> (y: f32[4,4,1]) {{
      %t = sum %x {{axes = [2]}} : f32[4,4,1]
      %m = exp %t : f32[4,4,1]
      %s = sum %m {{axes = [0]}} : f32[1,4,1]
      %b = broadcast %s : f32[4,4,1]
      %y = div %m, %b : f32[4,4,1]
      return y = %y
    }})",
                                 inner)),
              true);
}

}  // namespace

TEST_CASE("a small matrix is normalised along rows and columns in one kernel") {
  for (const auto& [rows, columns] : {std::pair{4, 4}, {3, 5}, {16, 16}, {1, 256}, {64, 4}}) {
    CAPTURE(rows, columns);
    CHECK(kernels(lowered({rows, columns, 20, false})) == 1);
  }
}

TEST_CASE("the gradient of twenty such steps is one kernel more, at the most") {
  CHECK(kernels(lowered({4, 4, 20, true})) <= 2);
  CHECK(kernels(lowered({16, 16, 20, true})) <= 2);
}

TEST_CASE("beyond 256 elements every sum of columns ends its kernel") {
  const int steps = 5;
  for (const auto& [rows, columns] : {std::pair{17, 16}, {16, 17}, {17, 17}, {40, 24}}) {
    CAPTURE(rows, columns);
    CHECK(kernels(lowered({rows, columns, steps, false})) >= steps);
  }
}

TEST_CASE("sums over columns stay out of a kernel whose space is no small matrix") {
  CHECK(kernels(matrix_of_sums(16)) == 1);
  CHECK(kernels(matrix_of_sums(17)) == 2);
}

TEST_CASE("a chain of more ops than a kernel holds is cut") {
  // exp, and two sums and two quotients a step: 1000 ops are a kernel.
  CHECK(kernels(lowered({4, 4, 249, false})) == 1);
  CHECK(kernels(lowered({4, 4, 251, false})) == 2);
}
