// Every fusion rule, where it must fire and where it must not; what bounds them is in limits_test.cpp.
// Programs are small .rir texts; what is counted are kernels and calls, and what a kernel reads and writes.
#include <fmt/format.h>

#include <algorithm>

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

TEST_CASE("a residual sum and the layer norm behind it are one kernel that reads each tensor once") {
  const Program program = fuse(module(R"(
    param @w : f32[24] {init = "ones"}
    param @b : f32[24] {init = "zeros"}
    func @main(%x: f32[3,7,24], %f: f32[3,7,24]) -> (y: f32[3,7,24], n: f32[3,7,24]) {
      %y = add %x, %f : f32[3,7,24]
      %w = param {name = "w"} : f32[24]
      %b = param {name = "b"} : f32[24]
      %n = layer_norm %y, %w, %b : f32[3,7,24]
      return y = %y, n = %n
    })"),
                               true);
  REQUIRE(kernels(program) == 1);
  CHECK(arguments(program, 0, kRead) == 4);
  CHECK(arguments(program, 0, kWrite) == 2);
}

TEST_CASE("a projection between two norms keeps them in kernels of their own") {
  const Program program = fuse(module(R"(
    func @main(%x: f32[21,24], %w: f32[24,24]) -> (y: f32[21,24]) {
      %n = layer_norm %x : f32[21,24]
      %p = matmul %n, %w : f32[21,24]
      %r = add %x, %p : f32[21,24]
      %y = layer_norm %r : f32[21,24]
      return y = %y
    })"),
                               true);
  CHECK(kernels(program) == 2);
  CHECK(gemms(program) == 1);
}

TEST_CASE("column sums of what a kernel makes leave it as partials") {
  const std::string text = module(R"(
    func @main(%x: f32[4096,32], %g: f32[4096,32]) -> (d: f32[4096,32], s: f32[1,32], t: f32[1,32]) {
      %d = mul %x, %g : f32[4096,32]
      %s = sum %d {axes = [0]} : f32[1,32]
      %t = sum %g {axes = [0]} : f32[1,32]
      return d = %d, s = %s, t = %t
    })");
  const Program program = fuse(text);
  // One pass over the rows, then one finishing kernel a sum.
  REQUIRE(kernels(program) == 3);
  CHECK(arguments(program, 0, kRead) == 2);
  CHECK(arguments(program, 0, kWrite) == 3);
}

TEST_CASE("a column sum is complete only after all rows, so its reader is another kernel") {
  const Program program = fuse(module(R"(
    func @main(%x: f32[40,32]) -> (y: f32[40,32]) {
      %s = sum %x {axes = [0]} : f32[1,32]
      %b = broadcast %s : f32[40,32]
      %y = sub %x, %b : f32[40,32]
      return y = %y
    })"));
  CHECK(kernels(program) == 2);
}

TEST_CASE("a row sum and its reader are one kernel") {
  const Program program = fuse(module(R"(
    func @main(%x: f32[40,32]) -> (y: f32[40,32]) {
      %s = sum %x {axes = [1]} : f32[40,1]
      %b = broadcast %s : f32[40,32]
      %y = sub %x, %b : f32[40,32]
      return y = %y
    })"));
  CHECK(kernels(program) == 1);
}

TEST_CASE("a value that a call needs before the group can run is not computed in that group") {
  // y reads x and, through the matmul, x again: x's producer must run before the matmul, y after it.
  const Program program = fuse(module(R"(
    func @main(%a: f32[16,16], %w: f32[16,16]) -> (y: f32[16,16]) {
      %x = exp %a : f32[16,16]
      %p = matmul %x, %w : f32[16,16]
      %y = add %x, %p : f32[16,16]
      return y = %y
    })"));
  CHECK(kernels(program) == 2);
  CHECK(gemms(program) == 1);
}

TEST_CASE("a bias is added by the GEMM that makes the product") {
  const std::string head = R"(
    param @b : f32[24] {init = "zeros"}
    func @main(%x: f32[21,16], %w: f32[24,16]) -> ()";
  const std::string product = R"(
      %p = matmul %x, %w {transpose_b = true} : f32[21,24]
      %b = param {name = "b"} : f32[24]
      %r = reshape %b : f32[1,24]
      %c = broadcast %r : f32[21,24]
      %y = add %p, %c : f32[21,24]
)";
  const Program fused = fuse(module(head + "y: f32[21,24]) {" + product + "      return y = %y\n    }\n"));
  CHECK(kernels(fused) == 0);
  CHECK(gemms(fused) == 1);
  // Somebody else wants the product without it.
  const Program apart = fuse(
      module(head + "y: f32[21,24], p: f32[21,24]) {" + product + "      return y = %y, p = %p\n    }\n"));
  CHECK(kernels(apart) == 1);
}

TEST_CASE("a bf16 GEMM adds a bias in f32 and writes the type that is read, rounded once") {
  const std::string head = R"(
    param @b : f32[24] {init = "zeros"}
    func @main(%x: bf16[21,16], %w: bf16[24,16]) -> ()";
  const std::string product = R"(
      %p = matmul %x, %w {transpose_b = true} : bf16[21,24]
      %q = cast %p : f32[21,24]
      %b = param {name = "b"} : f32[24]
      %r = reshape %b : f32[1,24]
      %c = broadcast %r : f32[21,24]
)";
  const auto types = [](const Program& program) {
    for (const auto& launch : program.launches) {
      if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) {
        const auto dtype = [&](const codegen::View& view) {
          return view.buffer < 0 ? std::string("none")
                                 : std::string(ir::dtype_name(
                                       program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype));
        };
        return dtype(gemm->a) + " " + dtype(gemm->bias) + " " + dtype(gemm->c);
      }
    }
    return std::string();
  };
  const Program narrow = fuse(module(head + "y: bf16[21,24]) {" + product +
                                     "      %s = add %q, %c : f32[21,24]\n      %y = cast %s : bf16[21,24]\n"
                                     "      return y = %y\n    }\n"));
  CHECK(kernels(narrow) == 0);
  CHECK(types(narrow) == "bf16 f32 bf16");
  const Program wide = fuse(module(head + "y: f32[21,24]) {" + product +
                                   "      %y = add %q, %c : f32[21,24]\n      return y = %y\n    }\n"));
  CHECK(kernels(wide) == 0);
  CHECK(types(wide) == "bf16 f32 f32");
  // A library that takes a bias of the result's type alone gets a copy of it.
  codegen::FuseOptions alike;
  alike.grain.bias_like_result = true;
  const Program copied = fuse(module(head + "y: bf16[21,24]) {" + product +
                                     "      %s = add %q, %c : f32[21,24]\n      %y = cast %s : bf16[21,24]\n "
                                     "     return y = %y\n    }\n"),
                              false, alike);
  CHECK(kernels(copied) == 1);
  CHECK(types(copied) == "bf16 bf16 bf16");
  const auto plain = [&](int rows) {
    return fuse(module(fmt::format(R"(
    func @main(%x: bf16[{0},21], %g: bf16[{0},24]) -> (y: f32[21,24]) {{
      %p = matmul %x, %g {{transpose_a = true}} : bf16[21,24]
      %y = cast %p : f32[21,24]
      return y = %y
    }})",
                                   rows)));
  };
  // 4 bytes an element of the result are a quarter of the operands' bytes at most, or more than that.
  CHECK(kernels(plain(90)) == 0);
  CHECK(types(plain(90)) == "bf16 none f32");
  CHECK(kernels(plain(89)) == 1);
  CHECK(types(plain(89)) == "bf16 none bf16");
  // Somebody else wants what is not rounded, or the product without its bias.
  const Program apart = fuse(module(head + "y: bf16[21,24], s: f32[21,24]) {" + product +
                                    "      %s = add %q, %c : f32[21,24]\n      %y = cast %s : bf16[21,24]\n"
                                    "      return y = %y, s = %s\n    }\n"));
  CHECK(kernels(apart) == 1);
  CHECK(types(apart) == "bf16 f32 f32");
  const Program both =
      fuse(module(head + "y: f32[21,24], p: bf16[21,24]) {" + product +
                  "      %y = add %q, %c : f32[21,24]\n      return y = %y, p = %p\n    }\n"));
  CHECK(kernels(both) == 1);
  CHECK(types(both) == "bf16 none bf16");
}

TEST_CASE("what two kernels read of a bf16 value is the value, never its f32") {
  const auto program = [](const std::string& narrow, const std::string& wide) {
    return fuse(
        module("    func @main(%x: " + narrow + "[21,24], %v: " + narrow + "[24,24]) -> (y: " + wide +
               "[21,24]) {\n      %p = matmul %x, %v : " + narrow + "[21,24]\n      %q = cast %p : " + wide +
               "[21,24]\n      %e = exp %q : " + wide + "[21,24]\n      %r = cast %e : " + narrow +
               "[21,24]\n      %z = matmul %r, %v : " + narrow + "[21,24]\n      %s = cast %z : " + wide +
               "[21,24]\n      %y = add %s, %q : " + wide + "[21,24]\n      return y = %y\n    }\n"));
  };
  CHECK(arguments(program("bf16", "f32"), 0, kWrite) == 1);
  CHECK(arguments(program("bf16", "f32"), 1, kRead) == 2);
  // Others are computed once and stored.
  CHECK(arguments(program("f32", "f64"), 0, kWrite) == 2);
}

TEST_CASE("a product in f32 is not computed in bf16 for being rounded behind") {
  const Program program = fuse(module(R"(
    func @main(%x: f32[21,16], %w: f32[24,16]) -> (y: bf16[21,24]) {
      %p = matmul %x, %w {transpose_b = true} : f32[21,24]
      %y = cast %p : bf16[21,24]
      return y = %y
    })"));
  CHECK(kernels(program) == 1);
  CHECK(gemms(program) == 1);
}

TEST_CASE(
    "attention reads its heads from the projection and writes where the next projection reads: no copies") {
  const std::string attention = R"(
      %q = reshape %x : f32[2,5,3,2,8]
      %t = transpose %q {permutation = [2, 0, 3, 1, 4]} : f32[3,2,2,5,8]
      %s0 = slice %t {limits = [1, 2, 2, 5, 8], starts = [0, 0, 0, 0, 0]} : f32[1,2,2,5,8]
      %s1 = slice %t {limits = [2, 2, 2, 5, 8], starts = [1, 0, 0, 0, 0]} : f32[1,2,2,5,8]
      %s2 = slice %t {limits = [3, 2, 2, 5, 8], starts = [2, 0, 0, 0, 0]} : f32[1,2,2,5,8]
      %h0 = reshape %s0 : f32[2,2,5,8]
      %h1 = reshape %s1 : f32[2,2,5,8]
      %h2 = reshape %s2 : f32[2,2,5,8]
      %o, %l = attention %h0, %h1, %h2 {scale = 0.35} : f32[2,2,5,8], f32[2,2,5,1]
      %u = transpose %o {permutation = [0, 2, 1, 3]} : f32[2,5,2,8]
      %v = reshape %u : f32[2,5,16]
      %y = matmul %v, %w : f32[2,5,16]
)";
  const Program fused = fuse(module("    func @main(%x: f32[2,5,48], %w: f32[16,16]) -> (y: f32[2,5,16]) {" +
                                    attention + "      return y = %y\n    }\n"));
  CHECK(gemms(fused) == 1);
  CHECK(fused.launches.size() == 2);
  // A result that must stand by heads cannot also stand by tokens.
  const Program both =
      fuse(module("    func @main(%x: f32[2,5,48], %w: f32[16,16]) -> (y: f32[2,5,16], o: f32[2,2,5,8]) {" +
                  attention + "      return y = %y, o = %o\n    }\n"));
  CHECK(both.launches.size() == 3);
  // A second reader of tokens with a transposition of its own reads where the first one does.
  const std::string again = R"(
      %u2 = transpose %o {permutation = [0, 2, 1, 3]} : f32[2,5,2,8]
      %v2 = reshape %u2 : f32[2,5,16]
      %y2 = matmul %v2, %w : f32[2,5,16]
)";
  const Program shared =
      fuse(module("    func @main(%x: f32[2,5,48], %w: f32[16,16]) -> (y: f32[2,5,16], y2: f32[2,5,16]) {" +
                  attention + again + "      return y = %y, y2 = %y2\n    }\n"));
  CHECK(gemms(shared) == 2);
  CHECK(shared.launches.size() == 3);
}

TEST_CASE("what a kernel computes twice for two calls is written once") {
  const auto program = [](const std::string& second) {
    return fuse(module(R"(
    func @main(%x: f32[7,24], %w: f32[24,24], %v: f32[24,16]) -> (p: f32[7,24], q: f32[7,16]) {
      %a = exp %x : f32[7,24]
      %b = neg %a : f32[7,24]
)" + second + R"(
      %p = matmul %b, %w : f32[7,24]
      %q = matmul %d, %v : f32[7,16]
      return p = %p, q = %q
    })"));
  };
  const Program twin = program("%c = exp %x : f32[7,24]\n%d = neg %c : f32[7,24]");
  REQUIRE(kernels(twin) == 1);
  CHECK(gemms(twin) == 2);
  CHECK(arguments(twin, 0, kWrite) == 1);
  const Program other = program("%c = exp %x : f32[7,24]\n%d = sqrt %c : f32[7,24]");
  REQUIRE(kernels(other) == 1);
  CHECK(arguments(other, 0, kWrite) == 2);
}

TEST_CASE("parts of a concat are written in place, once each") {
  const Program in_place = fuse(module(R"(
    func @main(%a: f32[3,4], %b: f32[3,4]) -> (y: f32[3,8]) {
      %p = exp %a : f32[3,4]
      %q = neg %b : f32[3,4]
      %y = concat %p, %q {axis = 1} : f32[3,8]
      return y = %y
    })"));
  CHECK(kernels(in_place) == 2);
  const Program twice = fuse(module(R"(
    func @main(%a: f32[3,4]) -> (y: f32[3,8]) {
      %p = exp %a : f32[3,4]
      %y = concat %p, %p {axis = 1} : f32[3,8]
      return y = %y
    })"));
  CHECK(kernels(twice) == 1);  // computed once, stored in both windows
}

TEST_CASE("padded windows that tile an axis are a concat; windows that overlap are added") {
  const std::string head =
      "    func @main(%a: f32[2,4], %b: f32[3,4]) -> (y: f32[5,4]) {\n      %p = pad %a {high = [3, 0], low "
      "= [0, 0]} : f32[5,4]\n";
  const std::string tail = "      %y = add %p, %q : f32[5,4]\n      return y = %y\n    }\n";
  const Program tiled =
      fuse(module(head + "      %q = pad %b {high = [0, 0], low = [2, 0]} : f32[5,4]\n" + tail));
  CHECK(std::all_of(tiled.launches.begin(), tiled.launches.end(), [](const auto& launch) {
    const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
    return kernel != nullptr &&
           arguments(Program{{}, {}, {launch}, {}}, 0, kRead) == 1;  // copies of one window each
  }));
  const Program overlapping =
      fuse(module(head + "      %q = pad %b {high = [1, 0], low = [1, 0]} : f32[5,4]\n" + tail));
  CHECK(kernels(overlapping) == 1);
  CHECK(arguments(overlapping, 0, kRead) == 2);
}

TEST_CASE("an update is written where its parameter is read, but never under a reader of other elements") {
  const std::string head =
      "    state @p : f32[8,8] {init = \"zeros\"}\n    func @main(%g: f32[8,8]) -> () {\n      %p = param "
      "{name = \"p\"} : f32[8,8]\n";
  const Program in_place = fuse(module(
      head + "      %n = sub %p, %g : f32[8,8]\n      update %n {name = \"p\"}\n      return\n    }\n"));
  CHECK(kernels(in_place) == 1);
  CHECK(arguments(in_place, 0, codegen::tile::ArgumentUse::read_write) == 1);
  const Program transposed = fuse(
      module(head +
             "      %t = transpose %p {permutation = [1, 0]} : f32[8,8]\n      %n = sub %t, %g : f32[8,8]\n"
             "      update %n {name = \"p\"}\n      return\n    }\n"));
  CHECK(kernels(transposed) == 2);
}

TEST_CASE("kernels that read one tensor at the same places are one, unless one waits for the other") {
  const Program merged = fuse(module(R"(
    func @main(%a: f32[64,32]) -> (x: f32[64,32], y: f32[64,1]) {
      %x = exp %a : f32[64,32]
      %y = sum %a {axes = [1]} : f32[64,1]
      return x = %x, y = %y
    })"));
  CHECK(kernels(merged) == 1);
  const Program waiting = fuse(module(R"(
    func @main(%a: f32[32,32]) -> (x: f32[32,32], y: f32[32,32]) {
      %x = exp %a : f32[32,32]
      %p = matmul %x, %x : f32[32,32]
      %y = add %a, %p : f32[32,32]
      return x = %x, y = %y
    })"));
  CHECK(kernels(waiting) == 2);
  const Program shared = fuse(module(R"(
    func @main(%a: f32[64,32], %w: f32[32,32]) -> (x: f32[64,32], y: f32[64,1]) {
      %m = matmul %a, %w : f32[64,32]
      %x = exp %m : f32[64,32]
      %y = sum %m {axes = [1]} : f32[64,1]
      return x = %x, y = %y
    })"));
  CHECK(kernels(shared) == 1);
}

TEST_CASE("kernels that read parts of one tensor are one if a part is read by both") {
  const auto parts = [](const std::string& second) {
    return kernels(fuse(module(R"(
    func @main(%a: f32[64,32], %w: f32[32,32]) -> (x: f32[64,16], y: f32[64,16]) {
      %m = matmul %a, %w : f32[64,32]
      %low = slice %m {starts = [0, 0], limits = [64, 16]} : f32[64,16]
      %high = slice %m {starts = [0, 16], limits = [64, 32]} : f32[64,16]
      %x = add %low, %high : f32[64,16]
      %y = )" + second + R"( : f32[64,16]
      return x = %x, y = %y
    })")));
  };
  CHECK(parts("sub %low, %high") == 1);
  CHECK(parts("exp %high") == 1);
  CHECK(kernels(fuse(module(R"(
    func @main(%a: f32[64,32], %w: f32[32,32]) -> (x: f32[64,16], y: f32[64,16]) {
      %m = matmul %a, %w : f32[64,32]
      %low = slice %m {starts = [0, 0], limits = [64, 16]} : f32[64,16]
      %high = slice %m {starts = [0, 16], limits = [64, 32]} : f32[64,16]
      %x = exp %low : f32[64,16]
      %y = exp %high : f32[64,16]
      return x = %x, y = %y
    })"))) == 2);
}

TEST_CASE("readers of a computed value are one with it, but not with a reader that waits for a call") {
  const Program together = fuse(module(R"(
    func @main(%a: f32[64,32], %w: f32[32,32]) -> (x: f32[64,16], y: f32[64,16], p: f32[64,32]) {
      %m = exp %a : f32[64,32]
      %low = slice %m {starts = [0, 0], limits = [64, 16]} : f32[64,16]
      %high = slice %m {starts = [0, 16], limits = [64, 32]} : f32[64,16]
      %x = add %low, %high : f32[64,16]
      %y = sub %low, %high : f32[64,16]
      %p = matmul %m, %w : f32[64,32]
      return x = %x, y = %y, p = %p
    })"));
  CHECK(kernels(together) == 2);  // exp; x and y
  const Program waits = fuse(module(R"(
    func @main(%g: f32[64,32], %h: f32[64,32], %w: f32[32,32]) -> (c: f32[1,32], y: f32[64,32]) {
      %s = add %g, %h : f32[64,32]
      %c = sum %s {axes = [0]} : f32[1,32]
      %p = matmul %s, %w : f32[64,32]
      %y = add %s, %p : f32[64,32]
      return c = %c, y = %y
    })"));
  REQUIRE(kernels(waits) == 2);
  CHECK(arguments(waits, 0, kRead) == 2);   // g and h
  CHECK(arguments(waits, 0, kWrite) == 2);  // s and c
}

TEST_CASE("The gradient of a tied table is added to its head's, in its memory") {
  const Program program = fuse(module(R"(
    func @main(%a: f32[3000,7], %b: f32[7,20], %i: i32[900], %u: f32[900,20]) -> (y: f32[3000,20]) {
      %z = constant {value = 0.0} : f32[3000,20]
      %head = matmul %a, %b : f32[3000,20]
      %words = scatter_add %z, %i, %u {axis = 0} : f32[3000,20]
      %y = add %head, %words : f32[3000,20]
      return y = %y
    })"),
                               true);
  REQUIRE(program.launches.size() == 2);
  REQUIRE(std::holds_alternative<codegen::GemmLaunch>(program.launches[0]));
  REQUIRE(std::holds_alternative<codegen::OpCall>(program.launches[1]));
  const auto& product = std::get<codegen::GemmLaunch>(program.launches[0]);
  const auto& scatter = std::get<codegen::OpCall>(program.launches[1]);
  CHECK(scatter.operands[0] == scatter.results[0]);
  CHECK(product.c.buffer == scatter.results[0].buffer);
}

TEST_CASE(
    "rows by index are kernels: a gather's gradient is one, an order one, however many lists there are") {
  const auto scatter = [](const std::string& lists, const std::string& base) {
    return fuse(module("    func @main(%x: f32[5,40,24], %i: i32[" + lists +
                       R"(], %u: f32[5,9,24]) -> (y: f32[5,40,24]) {
      %z = constant {value = 0.0} : f32[5,40,24]
      %v = mul %u, %u : f32[5,9,24]
      %y = scatter_add )" +
                       base + R"(, %i, %v {axis = 1} : f32[5,40,24]
      return y = %y
    })"));
  };
  for (const char* lists : {"9", "5,9"}) {
    const Program gradient = scatter(lists, "%z");
    REQUIRE(kernels(gradient) == 1);  // which squares the rows that it adds
    CHECK(arguments(gradient, 0, kRead) == 2);
    CHECK(kernels(scatter(lists, "%x")) == 2);
    CHECK(host_calls(scatter(lists, "%x")) == 0);
  }
  const auto order = [](const std::string& extent, codegen::FuseOptions options = {}) {
    return fuse(module("    func @main(%x: f32[5," + extent + "]) -> (y: f32[5," + extent + R"(]) {
      %s, %i = sort %x {axis = 1} : f32[5,)" +
                       extent + "], i32[5," + extent + R"(]
      %y = gather %x, %i {axis = 1} : f32[5,)" +
                       extent + R"(]
      return y = %y
    })"),
                false, options);
  };
  CHECK(kernels(order("40")) == 1);
  CHECK(host_calls(order("40")) == 0);
  CHECK(host_calls(order("1024")) == 0);
  CHECK(host_calls(order("1025")) == 1);
  codegen::FuseOptions more;
  more.grain.counted_places = 1025;
  CHECK(host_calls(order("1025", more)) == 0);
}
