// What bounds the fusion rules, on both sides of each bound, and what copies, calls and prepared ops are kept
// from. Programs are small .rir texts, as in rules_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/lowering_steps.h"
#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::Program;
using test::arguments;
using test::fuse;
using test::gemms;
using test::host_calls;
using test::kernels;
using test::kRead;
using test::kWrite;
using test::module;

namespace {

/// The extents of a kernel's axes of one use, outermost first.
std::vector<std::int64_t> extents(const Program& program, std::size_t launch, codegen::tile::AxisUse use) {
  std::vector<std::int64_t> list;
  for (const codegen::tile::Axis& axis :
       std::get<codegen::KernelLaunch>(program.launches.at(launch)).kernel.axes) {
    if (axis.use == use) list.push_back(axis.extent);
  }
  return list;
}

bool reads_at_an_index(const codegen::tile::Node& node) {
  const auto* load = std::get_if<codegen::tile::Load>(&node);
  return load != nullptr && static_cast<bool>(load->index);
}

}  // namespace

TEST_CASE("argmax is maxima in the kernel of its operand, but only along what a kernel holds whole") {
  const auto program = [](const std::string& axis, const std::string& shape) {
    return fuse(module("    func @main(%a: f32[40,24]) -> (x: f32[40,24], i: i32" + shape +
                       ") {\n      %x = exp %a : f32[40,24]\n      %i = argmax %x {axis = " + axis +
                       "} : i32" + shape + "\n      return x = %x, i = %i\n    }\n"));
  };
  for (const std::string axis : {"1", "-1"}) {
    CAPTURE(axis);
    const Program rows = program(axis, "[40,1]");
    REQUIRE(rows.launches.size() == 1);
    REQUIRE(kernels(rows) == 1);
    CHECK(arguments(rows, 0, kRead) == 1);
    CHECK(arguments(rows, 0, kWrite) == 2);
  }
  // A column's maximum is known after all rows only: another pass finds where it stands, a third turns it
  // into an index.
  const Program columns = program("0", "[1,24]");
  CHECK(columns.launches.size() == 3);
  CHECK(kernels(columns) == 3);
}

TEST_CASE("a scalar is computed in the kernel that reads it, or alone if several do") {
  const std::string head = R"(
    func @main(%a: f32[1], %b: f32[1], %u: f32[64,32], %v: f32[32,16]) -> )";
  const std::string scalar = R"(
      %s = mul %a, %b : f32[1]
      %r = reshape %s : f32[1,1]
      %p = broadcast %r : f32[64,32]
      %x = mul %u, %p : f32[64,32]
)";
  const Program one = fuse(module(head + "(x: f32[64,32]) {" + scalar + "      return x = %x\n    }\n"));
  REQUIRE(kernels(one) == 1);
  CHECK(arguments(one, 0, kRead) == 3);
  const Program two = fuse(module(head + "(x: f32[64,32], y: f32[32,16]) {" + scalar + R"(
      %q = broadcast %r : f32[32,16]
      %y = mul %v, %q : f32[32,16]
      return x = %x, y = %y
    })"));
  REQUIRE(kernels(two) == 3);
  CHECK(arguments(two, 1, kRead) == 2);
  CHECK(arguments(two, 2, kRead) == 2);
}

TEST_CASE("scalars share a kernel for the scalar they read; a tensor's kernel takes in none of its readers") {
  const Program scalars = fuse(module(R"(
    func @main(%a: f32[1], %b: f32[1]) -> (x: f32[1], y: f32[1]) {
      %s = mul %a, %b : f32[1]
      %x = exp %s : f32[1]
      %y = sqrt %s : f32[1]
      return x = %x, y = %y
    })"));
  REQUIRE(kernels(scalars) == 1);
  CHECK(arguments(scalars, 0, kWrite) == 2);
  const Program total = fuse(module(R"(
    func @main(%u: f32[64,128], %v: f32[64,128]) -> (x: f32[64,128]) {
      %s = sum %u {axes = [0, 1]} : f32[1,1]
      %p = broadcast %s : f32[64,128]
      %x = mul %v, %p : f32[64,128]
      return x = %x
    })"));
  CHECK(kernels(total) == 2);
}

TEST_CASE("a sum that one instance would take alone joins its reader up to 4096 elements") {
  const auto program = [](int count) {
    return fuse(module(fmt::format(R"(
    func @main(%x: f32[{0}]) -> (y: f32[{0}]) {{
      %s = sum %x {{axes = [0]}} : f32[1]
      %b = broadcast %s : f32[{0}]
      %y = sub %x, %b : f32[{0}]
      return y = %y
    }})",
                                   count)));
  };
  CHECK(kernels(program(4096)) == 1);
  CHECK(kernels(program(4097)) == 2);
}

TEST_CASE("a sum that each instance would take again joins its reader up to 256 elements") {
  const auto program = [](int count) {
    return fuse(module(fmt::format(R"(
    func @main(%x: f32[40,24], %v: f32[{0}]) -> (y: f32[40,24]) {{
      %s = sum %v {{axes = [0]}} : f32[1]
      %r = reshape %s : f32[1,1]
      %b = broadcast %r : f32[40,24]
      %y = sub %x, %b : f32[40,24]
      return y = %y
    }})",
                                   count)));
  };
  CHECK(kernels(program(256)) == 1);
  CHECK(kernels(program(257)) == 2);
}

TEST_CASE("what rows have in common is computed again for each only if it is cheap or one number") {
  // x is f32[8,5,24], read with what `code` makes of a part of its shape.
  const auto program = [](const std::string& code, const std::string& shape) {
    return fuse(module("    func @main(%x: f32[8,5,24], %v: f32" + shape +
                       ") -> (y: f32[8,5,24]) {\n      %a = " + code + " %v : f32" + shape +
                       "\n      %b = broadcast %a : f32[8,5,24]\n      %y = sub %x, %b : f32[8,5,24]\n"
                       "      return y = %y\n    }\n"));
  };
  CHECK(kernels(program("neg", "[8,1,24]")) == 1);
  CHECK(kernels(program("exp", "[8,1,24]")) == 2);
  CHECK(kernels(program("sqrt", "[8,1,24]")) == 2);
  CHECK(kernels(program("exp", "[8,1,1]")) == 1);
  // The same for all rows: computed before the first of them.
  CHECK(kernels(program("exp", "[1,1,24]")) == 1);
}

TEST_CASE("a kernel has at most as many ops as suit the device, however they come together") {
  codegen::FuseOptions options;
  options.grain.group_ops = 200;
  const auto chain = [&](int count) {
    std::string body = "    func @main(%x0: f32[40,24]) -> (y: f32[40,24]) {\n";
    for (int i = 1; i <= count; ++i) body += fmt::format("      %x{} = exp %x{} : f32[40,24]\n", i, i - 1);
    return fuse(module(body + fmt::format("      return y = %x{}\n    }}\n", count)), false, options);
  };
  CHECK(kernels(chain(200)) == 1);
  CHECK(kernels(chain(201)) == 2);
  // Two chains that read one tensor.
  const auto chains = [&](int first, int second) {
    std::string body =
        "    func @main(%a0: f32[40,24]) -> (a: f32[40,24], b: f32[40,24]) {\n      %b0 = "
        "reshape %a0 : f32[40,24]\n";
    for (int i = 1; i <= first; ++i) body += fmt::format("      %a{} = exp %a{} : f32[40,24]\n", i, i - 1);
    for (int i = 1; i <= second; ++i) body += fmt::format("      %b{} = sin %b{} : f32[40,24]\n", i, i - 1);
    return fuse(module(body + fmt::format("      return a = %a{}, b = %b{}\n    }}\n", first, second)), false,
                options);
  };
  CHECK(kernels(chains(100, 100)) == 1);
  CHECK(kernels(chains(100, 101)) == 2);
}

TEST_CASE(
    "blocks side by side count as instances, and a part has a multiple of the rows that are walked at once") {
  // The parts of a kernel that sums the columns of exp(x), less each row's sum if `along_lanes`.
  const auto parts = [](int rows, int lanes, bool along_lanes, std::int64_t side_by_side,
                        std::int64_t at_once) {
    codegen::FuseOptions options;
    options.grain.elements_per_instance = 64;
    options.grain.max_instances = 60;
    options.grain.lanes_side_by_side = side_by_side;
    options.grain.rows_at_once = at_once;
    const std::string shape = fmt::format("f32[{},{}]", rows, lanes), row = fmt::format("f32[{},1]", rows);
    std::string body =
        fmt::format("    func @main(%x: {0}) -> (c: f32[1,{1}]) {{\n      %y = exp %x : {0}\n", shape, lanes);
    if (along_lanes)
      body += fmt::format(
          "      %s = sum %y {{axes = [1]}} : {1}\n      %b = broadcast %s : {0}\n"
          "      %z = sub %y, %b : {0}\n",
          shape, row);
    body += fmt::format("      %c = sum {} {{axes = [0]}} : f32[1,{}]\n      return c = %c\n    }}\n",
                        along_lanes ? "%z" : "%y", lanes);
    const Program program = fuse(module(body), false, options);
    return std::get<codegen::KernelLaunch>(program.launches.at(0)).kernel.partitions;
  };
  CHECK(parts(600, 100, false, 0, 1) == 60);
  CHECK(parts(600, 100, false, 50, 1) == 30);
  CHECK(parts(600, 100, false, 49, 1) == 20);   // 49, 49 and 2 lanes
  CHECK(parts(600, 100, true, 50, 1) == 60);    // a sum along the lanes keeps them together
  CHECK(parts(600, 6001, false, 1, 1) == 1);    // more blocks side by side than instances are wanted
  CHECK(parts(600, 100, false, 0, 4) == 50);    // 10 rows become 12
  CHECK(parts(600, 100, false, 50, 16) == 19);  // 20 become 32
  CHECK(parts(600, 100, false, 0, 16) == 60);   // a part of fewer stays as it is
}

TEST_CASE("a row that a kernel reads twice must fit what it holds on chip") {
  const auto program = [](int extent) {
    codegen::FuseOptions options;
    options.grain.lane_elements = 48;
    return fuse(module(fmt::format(R"(
    func @main(%x: f32[40,{0}]) -> (y: f32[40,{0}]) {{
      %s = sum %x {{axes = [1]}} : f32[40,1]
      %b = broadcast %s : f32[40,{0}]
      %y = sub %x, %b : f32[40,{0}]
      return y = %y
    }})",
                                   extent)),
                false, options);
  };
  CHECK(kernels(program(48)) == 1);
  CHECK(kernels(program(49)) == 2);
}

TEST_CASE("what is read at a computed index is in memory; the index and what follows are one kernel") {
  // What rows are gathered of, or zeros put around: an argument, or what is made of it.
  const auto gather = [](const std::string& made, const std::string& table) {
    return fuse(module("    func @main(%t: f32[9,24], %i: i32[5], %j: i32[5]) -> (y: f32[5,24]) {\n" + made +
                       "      %k = add %i, %j : i32[5]\n      %g = gather " + table +
                       ", %k {axis = 0} : f32[5,24]\n"
                       "      %y = exp %g : f32[5,24]\n      return y = %y\n    }\n"));
  };
  const Program direct = gather("", "%t");
  REQUIRE(kernels(direct) == 1);
  CHECK(arguments(direct, 0, kRead) == 3);
  const auto& body = std::get<codegen::KernelLaunch>(direct.launches[0]).kernel.body;
  CHECK(std::any_of(body.begin(), body.end(), reads_at_an_index));
  CHECK(kernels(gather("      %n = neg %t : f32[9,24]\n", "%n")) == 2);
  CHECK(kernels(gather("      %n = slice %t {starts = [0, 0], limits = [9, 24]} : f32[9,24]\n", "%n")) == 2);

  const auto pad = [](const std::string& made, const std::string& inner) {
    return kernels(fuse(module("    func @main(%t: f32[9,24]) -> (y: f32[12,24]) {\n" + made +
                               "      %p = pad " + inner + " {high = [1, 0], low = [2, 0]} : f32[12,24]\n" +
                               "      %y = exp %p : f32[12,24]\n      return y = %y\n    }\n")));
  };
  CHECK(pad("", "%t") == 1);
  CHECK(pad("      %n = neg %t : f32[9,24]\n", "%n") == 2);

  // A slice reads known places: what it reads of is computed there.
  const Program slice = fuse(module(R"(
    func @main(%t: f32[9,24]) -> (y: f32[5,24]) {
      %n = neg %t : f32[9,24]
      %g = slice %n {starts = [2, 0], limits = [7, 24]} : f32[5,24]
      %y = exp %g : f32[5,24]
      return y = %y
    })"));
  CHECK(kernels(slice) == 1);
}

TEST_CASE("a GEMM adds no bias but a parameter along the last axis") {
  const auto takes = [](const std::string& bias) {
    const Program program = fuse(module(R"(
    param @b : f32[24] {init = "zeros"}
    param @m : f32[24,24] {init = "zeros"}
    func @main(%x: f32[24,16], %w: f32[24,16], %v: f32[24]) -> (y: f32[24,24]) {
      %p = matmul %x, %w {transpose_b = true} : f32[24,24]
)" + bias + R"(
      %y = add %p, %c : f32[24,24]
      return y = %y
    })"));
    const auto is_gemm = [](const auto& launch) {
      return std::holds_alternative<codegen::GemmLaunch>(launch);
    };
    const auto gemm = std::find_if(program.launches.begin(), program.launches.end(), is_gemm);
    REQUIRE(gemm != program.launches.end());
    const bool taken = std::get<codegen::GemmLaunch>(*gemm).bias.buffer >= 0;
    CHECK(kernels(program) == (taken ? 0 : 1));
    return taken;
  };
  const std::string parameter = "      %b = param {name = \"b\"} : f32[24]\n";
  const std::string last = "      %r = reshape %b : f32[1,24]\n      %c = broadcast %r : f32[24,24]";
  const std::string first = "      %r = reshape %b : f32[24,1]\n      %c = broadcast %r : f32[24,24]";
  CHECK(takes(parameter + last));
  CHECK_FALSE(takes(parameter + first));
  CHECK_FALSE(takes("      %b = stop_gradient %v : f32[24]\n" + last));
  CHECK_FALSE(takes(parameter + "      %e = exp %b : f32[24]\n      %r = reshape %e : f32[1,24]\n"
                                "      %c = broadcast %r : f32[24,24]"));
  CHECK_FALSE(takes("      %c = param {name = \"m\"} : f32[24,24]"));
}

TEST_CASE("padded windows are a concat only if they are padded with zeros, along one axis, without a gap") {
  const auto program = [](const std::string& first, const std::string& second) {
    return fuse(module("    func @main(%a: f32[2,4], %b: f32[3,4]) -> (y: f32[5,4]) {\n      %p = pad " +
                       first + " : f32[5,4]\n      %q = pad " + second +
                       " : f32[5,4]\n      %y = add %p, %q : f32[5,4]\n      return y = %y\n    }\n"));
  };
  const std::string low = "%a {high = [3, 0], low = [0, 0]}";
  CHECK(kernels(program(low, "%b {high = [0, 0], low = [2, 0]}")) == 2);  // each window a copy
  const auto added = [&](const std::string& first, const std::string& second) {
    const Program sum = program(first, second);
    return kernels(sum) == 1 && arguments(sum, 0, kRead) == 2;
  };
  CHECK(added(low, "%b {high = [0, 0], low = [2, 0], value = 1.0}"));
  CHECK(added("%a {high = [3, 0], low = [0, 0], value = -1.0}", "%b {high = [0, 0], low = [2, 0]}"));
  const Program gap = fuse(module(R"(
    func @main(%a: f32[2,4], %b: f32[2,4]) -> (y: f32[5,4]) {
      %p = pad %a {high = [3, 0], low = [0, 0]} : f32[5,4]
      %q = pad %b {high = [0, 0], low = [3, 0]} : f32[5,4]
      %y = add %p, %q : f32[5,4]
      return y = %y
    })"));
  CHECK(kernels(gap) == 1);
  const Program axes = fuse(module(R"(
    func @main(%a: f32[2,5], %b: f32[5,3]) -> (y: f32[5,5]) {
      %p = pad %a {high = [3, 0], low = [0, 0]} : f32[5,5]
      %q = pad %b {high = [0, 0], low = [0, 2]} : f32[5,5]
      %y = add %p, %q : f32[5,5]
      return y = %y
    })"));
  CHECK(kernels(axes) == 1);
}

TEST_CASE("a second reader of a call's result through another permutation has a copy of its own") {
  const auto program = [](const std::string& permutation) {
    return fuse(module(R"(
    func @main(%q: f32[2,2,4,8], %k: f32[2,2,4,8], %v: f32[2,2,4,8], %w: f32[16,16])
        -> (y: f32[2,4,16], z: f32[2,4,16]) {
      %o, %l = attention %q, %k, %v {scale = 0.35} : f32[2,2,4,8], f32[2,2,4,1]
      %t = transpose %o {permutation = [0, 2, 1, 3]} : f32[2,4,2,8]
      %h = reshape %t : f32[2,4,16]
      %y = matmul %h, %w : f32[2,4,16]
      %s = transpose %o {permutation = )" +
                       permutation + R"(} : f32[2,4,2,8]
      %i = reshape %s : f32[2,4,16]
      %z = matmul %i, %w : f32[2,4,16]
      return y = %y, z = %z
    })"));
  };
  const Program same = program("[0, 2, 1, 3]");
  CHECK(gemms(same) == 2);
  CHECK(same.launches.size() == 3);  // attention writes where both read
  const Program other = program("[1, 2, 0, 3]");
  CHECK(gemms(other) == 2);
  CHECK(other.launches.size() == 4);
}

TEST_CASE("a call writes its part of a concat in place where it can take strides, or the part is one run") {
  codegen::FuseOptions options;
  options.left_out = {std::string(codegen::kLowerIndexed)};  // sort is a call
  const auto program = [&](const std::string& call, const std::string& whole, int axis) {
    return fuse(module("    func @main(%a: f32[4,4], %b: f32[4,4]) -> (y: f32" + whole + ") {\n" + call +
                       "      %q = neg %b : f32[4,4]\n      %y = concat %p, %q {axis = " +
                       std::to_string(axis) + "} : f32" + whole + "\n      return y = %y\n    }\n"),
                false, options);
  };
  const std::string product = "      %p = matmul %a, %b : f32[4,4]\n";
  const std::string sort = "      %p, %i = sort %a {axis = 1} : f32[4,4], i32[4,4]\n";
  const Program columns = program(product, "[4,8]", 1);
  CHECK(gemms(columns) == 1);
  CHECK(kernels(columns) == 1);  // neg, in place
  const Program run = program(sort, "[8,4]", 0);
  CHECK(host_calls(run) == 1);
  CHECK(kernels(run) == 1);
  const Program copied = program(sort, "[4,8]", 1);
  CHECK(host_calls(copied) == 1);
  CHECK(kernels(copied) == 2);  // neg, and the copy into the window
}

TEST_CASE("a call writes its part of a concat in place only if those who write and read it can address it") {
  // p, and q behind it, stand transposed in the result: no dimension of a matrix of theirs has stride 1.
  const auto program = [](const std::string& made, const std::string& read) {
    return fuse(module("    func @main(%a: f32[2,4,4], %b: f32[2,4,4], %w: f32[4,4]) -> (t: f32[4,4,4]" +
                       std::string(read.empty() ? "" : ", z: f32[2,4,4]") + ") {\n      %p = " + made +
                       " : f32[2,4,4]\n      %q = neg %b : f32[2,4,4]\n"
                       "      %y = concat %p, %q {axis = 0} : f32[4,4,4]\n"
                       "      %t = transpose %y {permutation = [1, 2, 0]} : f32[4,4,4]\n" +
                       read + "      return t = %t" + (read.empty() ? "" : ", z = %z") + "\n    }\n"));
  };
  const std::string read = "      %z = matmul %p, %w : f32[2,4,4]\n";
  CHECK(kernels(program("exp %a", "")) == 2);         // each where it belongs
  CHECK(kernels(program("matmul %a, %w", "")) == 2);  // q; and a copy of the product
  CHECK(kernels(program("exp %a", read)) == 3);       // p for the product, and a copy of it
}

TEST_CASE("a long axis alone is cut into rows, where a divisor makes rows that are worth it") {
  using codegen::tile::AxisUse;
  struct Case {
    std::int64_t extent;
    std::vector<std::int64_t> rows, lanes;
  };
  for (const auto& [extent, rows, lanes] :
       {Case{4096, {}, {4096}}, Case{4098, {2}, {2049}}, Case{12288, {3}, {4096}},
        Case{64 * 4099, {4099}, {64}}, Case{63 * 4099, {63 * 4099}, {}}, Case{8209, {}, {8209}}}) {
    CAPTURE(extent);
    const Program program = fuse(module(fmt::format(R"(
    func @main(%x: f32[{0}]) -> (y: f32[{0}]) {{
      %y = exp %x : f32[{0}]
      return y = %y
    }})",
                                                    extent)));
    REQUIRE(kernels(program) == 1);
    CHECK(extents(program, 0, AxisUse::row) == rows);
    CHECK(extents(program, 0, AxisUse::lane) == lanes);
    CHECK(extents(program, 0, AxisUse::outer).empty());
  }
}

TEST_CASE("column sums read whole rows as long as their accumulators stay near") {
  using codegen::tile::AxisUse;
  for (const std::int64_t last : {64, 65}) {
    CAPTURE(last);
    const Program program = fuse(module(fmt::format(R"(
    func @main(%x: f32[40,64,{0}]) -> (s: f32[1,64,{0}]) {{
      %y = exp %x : f32[40,64,{0}]
      %s = sum %y {{axes = [0]}} : f32[1,64,{0}]
      return s = %s
    }})",
                                                    last)));
    REQUIRE(kernels(program) >= 1);
    std::int64_t side_by_side = 1;
    for (const std::int64_t extent : extents(program, 0, AxisUse::lane)) side_by_side *= extent;
    CHECK(side_by_side == (last == 64 ? 64 * 64 : 65));
  }
}

TEST_CASE(
    "sums that agree on no vector along the innermost axis share a kernel only where all stays in a cache") {
  // A gate's gradient, summed over tokens, and a bias's, over images and tokens: both read what one kernel writes.
  using codegen::tile::AxisUse;
  for (const std::int64_t tokens : {8, 9}) {
    CAPTURE(tokens);
    const Program program = fuse(module(fmt::format(R"(
    func @main(%x: f32[64,{0},128], %f: f32[64,{0},128]) -> (y: f32[64,{0},128], g: f32[64,1,128], b: f32[1,1,128]) {{
      %y = exp %x : f32[64,{0},128]
      %p = mul %y, %f : f32[64,{0},128]
      %g = sum %p {{axes = [1]}} : f32[64,1,128]
      %b = sum %y {{axes = [0, 1]}} : f32[1,1,128]
      return y = %y, g = %g, b = %b
    }})",
                                                    tokens)));
    CHECK((kernels(program) == 1) == (tokens == 8));
    for (std::size_t launch = 0; tokens == 9 && launch < program.launches.size(); ++launch) {
      if (!std::holds_alternative<codegen::KernelLaunch>(program.launches[launch])) continue;
      CHECK(extents(program, launch, AxisUse::lane) == std::vector<std::int64_t>{128});
    }
  }
}
