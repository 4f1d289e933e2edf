// What a kernel's report says of the op that did not join it: each rule, by a program that it stops.
#include <fmt/format.h>

#include <algorithm>

#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::Program;
using test::fuse;
using test::module;

namespace {

/// What the kernels' reports say, a line each.
std::string refusals(const Program& program) {
  std::string text;
  for (const codegen::GroupReport& group : program.groups) {
    if (!group.stopped.empty()) text += group.stopped + "\n";
  }
  return text;
}

std::string refusals(const std::string& body, const codegen::FuseOptions& options = {}) {
  return refusals(fuse(module(body), false, options));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a kernel that took in all that it could says nothing") {
  CHECK(refusals(R"(
    func @main(%x: f32[40,32]) -> (y: f32[40,32]) {
      %a = exp %x : f32[40,32]
      %y = sin %a : f32[40,32]
      return y = %y
    })")
            .empty());
}

TEST_CASE("a sum over rows is complete only after the kernel") {
  const std::string text = refusals(R"(
    func @main(%x: f32[40,32]) -> (y: f32[40,32]) {
      %s = sum %x {axes = [0]} : f32[1,32]
      %b = broadcast %s : f32[40,32]
      %y = sub %x, %b : f32[40,32]
      return y = %y
    })");
  CHECK(contains(text, "sums over other axes than the last, which only ends a group"));
}

TEST_CASE("a value that a call needs before the kernel runs stays outside") {
  const std::string text = refusals(R"(
    func @main(%a: f32[16,16], %w: f32[16,16]) -> (y: f32[16,16]) {
      %x = exp %a : f32[16,16]
      %p = matmul %x, %w : f32[16,16]
      %y = add %x, %p : f32[16,16]
      return y = %y
    })");
  CHECK(contains(text, "is read by another group, which must run first"));
}

TEST_CASE("an op more than the limit is refused with the limit") {
  codegen::FuseOptions options;
  options.grain.group_ops = 3;
  std::string body = "    func @main(%x0: f32[40,24]) -> (y: f32[40,24]) {\n";
  for (int i = 1; i <= 4; ++i) body += fmt::format("      %x{} = exp %x{} : f32[40,24]\n", i, i - 1);
  const std::string text = refusals(body + "      return y = %x4\n    }\n", options);
  CHECK(contains(text, "would exceed the group's limit of 3 ops"));
}

TEST_CASE("a table that is read at a computed index is in memory") {
  const std::string text = refusals(R"(
    func @main(%t: f32[9,24], %k: i32[5]) -> (y: f32[5,24]) {
      %n = neg %t : f32[9,24]
      %g = gather %n, %k {axis = 0} : f32[5,24]
      %y = exp %g : f32[5,24]
      return y = %y
    })");
  CHECK(contains(text, "is read through a gather, a pad or a reshape that cuts an axis"));
}

TEST_CASE("a value that is read as it is and transposed is in memory") {
  const std::string text = refusals(R"(
    func @main(%x: f32[40,40]) -> (y: f32[40,40]) {
      %a = exp %x : f32[40,40]
      %t = transpose %a {permutation = [1, 0]} : f32[40,40]
      %y = add %a, %t : f32[40,40]
      return y = %y
    })");
  CHECK(contains(text, "is read at two places with different indices"));
}

TEST_CASE("what each row would compute again is computed once, if it is not cheap") {
  const std::string text = refusals(R"(
    func @main(%x: f32[8,5,24], %v: f32[8,1,24]) -> (y: f32[8,5,24]) {
      %a = exp %v : f32[8,1,24]
      %b = broadcast %a : f32[8,5,24]
      %y = sub %x, %b : f32[8,5,24]
      return y = %y
    })");
  CHECK(contains(text, "would be computed many times over, or by one thread"));
}

TEST_CASE("a scalar that two kernels read has a kernel of its own") {
  const std::string text = refusals(R"(
    func @main(%a: f32[1], %b: f32[1], %u: f32[64,32], %v: f32[32,16]) -> (x: f32[64,32], y: f32[32,16]) {
      %s = mul %a, %b : f32[1]
      %r = reshape %s : f32[1,1]
      %p = broadcast %r : f32[64,32]
      %x = mul %u, %p : f32[64,32]
      %q = broadcast %r : f32[32,16]
      %y = mul %v, %q : f32[32,16]
      return x = %x, y = %y
    })");
  CHECK(contains(text, "is one number for several groups"));
}

TEST_CASE("the reason follows the op's name and place") {
  const std::string text = refusals(R"(
    func @main(%x: f32[40,32]) -> (y: f32[40,32]) {
      %s = sum %x {axes = [0]} : f32[1,32] loc("blocks.0.mean")
      %b = broadcast %s : f32[40,32]
      %y = sub %x, %b : f32[40,32]
      return y = %y
    })");
  CHECK(contains(text, "sum"));
  CHECK(contains(text, "blocks.0.mean"));
}
