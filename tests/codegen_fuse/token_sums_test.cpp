// Sums over tokens that attention's gradient computes itself (token_sums.h), and those that it does not.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/fuse/attention.h"
#include "codegen/lowering_steps.h"
#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::FuseOptions;
using codegen::Program;
using test::fuse;
using test::module;

namespace {

/// The gradient of two heads of 21 tokens and 24 channels, side by side as one projection gives them: %r is bf16
/// [3, 21, 144]. `sums` continues it.
std::string gradient(const std::string& sums, const std::string& results, const std::string& dtype = "bf16") {
  const std::string heads = dtype + "[3,2,21,24]", part = dtype + "[1,3,2,21,24]";
  return module(fmt::format(R"(
    func @main(%q: {0}, %k: {0}, %v: {0}, %o: {0}, %l: f32[3,2,21,1], %g: {0}, %w: {2}[144,16]) -> ({4}) {{
      %dq, %dk, %dv = attention_grad %q, %k, %v, %o, %l, %g {{scale = 0.3}} : {0}, {0}, {0}
      %a = reshape %dq : {1}
      %b = reshape %dk : {1}
      %c = reshape %dv : {1}
      %all = concat %a, %b, %c {{axis = 0}} : {2}[3,3,2,21,24]
      %t = transpose %all {{permutation = [1, 3, 0, 2, 4]}} : {2}[3,21,3,2,24]
      %r = reshape %t : {2}[3,21,144]
      %y = matmul %r, %w : {2}[3,21,16]
{3}
    }})",
                            heads, part, dtype, sums, results));
}

const std::string kSum = R"(
      %x = cast %r : f32[3,21,144]
      %s = sum %x {axes = [0, 1]} : f32[1,1,144]
      return y = %y, s = %s)";
const std::string kResults = "y: bf16[3,21,16], s: f32[1,1,144]";

/// What a GPU's kernels take.
FuseOptions narrow(std::int64_t elements = 40000) {
  FuseOptions options;
  options.grain.narrow_attention_elements = options.grain.narrow_gradient_elements = elements;
  options.grain.narrow_summed_width = 96;
  return options;
}

/// Returns whether a kernel of attention writes partial sums.
bool sums_itself(const Program& program) {
  return std::ranges::any_of(program.launches, [](const codegen::Launch& launch) {
    const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
    return kernel != nullptr && std::ranges::any_of(kernel->kernel.arguments, [](const auto& argument) {
             return argument.name.ends_with("_sums");
           });
  });
}

}  // namespace

TEST_CASE("the sum over tokens of what attention's gradient writes comes from its kernel") {
  const Program program = fuse(gradient(kSum, kResults), false, narrow());
  CHECK(sums_itself(program));
  CHECK(test::kernels(program) == 2);  // the gradient; the sum over the batch
  CHECK(test::gemms(program) == 1);
}

TEST_CASE("three projections have three such sums") {
  std::string sums, results = "y: bf16[3,21,16]", returned = "y = %y";
  for (const char* name : {"dq", "dk", "dv"}) {
    sums += fmt::format(R"(
      %t{0} = transpose %{0} {{permutation = [0, 2, 1, 3]}} : bf16[3,21,2,24]
      %r{0} = reshape %t{0} : bf16[3,21,48]
      %x{0} = cast %r{0} : f32[3,21,48]
      %s{0} = sum %x{0} {{axes = [0, 1]}} : f32[1,1,48])",
                        name);
    results += fmt::format(", s{0}: f32[1,1,48]", name);
    returned += fmt::format(", s{0} = %s{0}", name);
  }
  const Program program = fuse(gradient(sums + "\n      return " + returned, results), false, narrow());
  CHECK(sums_itself(program));
  CHECK(test::kernels(program) == 4);
}

TEST_CASE("other readers of the summed cast keep it") {
  const std::string both = R"(
      %x = cast %r : f32[3,21,144]
      %s = sum %x {axes = [0, 1]} : f32[1,1,144]
      %e = exp %x : f32[3,21,144]
      return y = %y, s = %s, e = %e)";
  const Program program = fuse(gradient(both, kResults + ", e: f32[3,21,144]"), false, narrow());
  CHECK(sums_itself(program));
  CHECK(test::kernels(program) == 3);
}

TEST_CASE("a sum that is not over all tokens of all images, or of something else, stays a kernel") {
  const std::string images = R"(
      %x = cast %r : f32[3,21,144]
      %s = sum %x {axes = [1]} : f32[3,1,144]
      return y = %y, s = %s)";
  CHECK_FALSE(sums_itself(fuse(gradient(images, "y: bf16[3,21,16], s: f32[3,1,144]"), false, narrow())));
  const std::string squares = R"(
      %x = cast %r : f32[3,21,144]
      %x2 = mul %x, %x : f32[3,21,144]
      %s = sum %x2 {axes = [0, 1]} : f32[1,1,144]
      return y = %y, s = %s)";
  CHECK_FALSE(sums_itself(fuse(gradient(squares, kResults), false, narrow())));
  const std::string by_token = R"(
      %r2 = reshape %t : bf16[3,7,432]
      %x = cast %r2 : f32[3,7,432]
      %s = sum %x {axes = [0, 1]} : f32[1,1,432]
      return y = %y, s = %s)";
  CHECK_FALSE(sums_itself(fuse(gradient(by_token, "y: bf16[3,21,16], s: f32[1,1,432]"), false, narrow())));
}

TEST_CASE("a gradient of several kernels, or of f32, or of a library leaves the sums to others") {
  CHECK_FALSE(sums_itself(fuse(gradient(kSum, kResults), false, narrow(4000))));
  CHECK_FALSE(sums_itself(fuse(gradient(kSum, kResults), false, {})));
  FuseOptions without = narrow();
  without.left_out.insert(std::string(codegen::kTokenSums));
  CHECK_FALSE(sums_itself(fuse(gradient(kSum, kResults), false, without)));
  FuseOptions library = narrow();
  library.attention = [](const Program&, const codegen::OpCall&) { return true; };
  const Program program = fuse(gradient(kSum, kResults), false, library);
  CHECK(test::host_calls(program) == 1);
  CHECK(test::kernels(program) >= 1);  // the sum
}
