// Characteristic kernels against the interpreter.
#include <fmt/format.h>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_check.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Opcode;

void require_agreement(const codegen::tile::Kernel& kernel, TileCheck check = {}) {
  for (const char* cpu : {"", "haswell"}) {
    check.cpu = cpu;
    INFO("cpu '" << cpu << "'\n" << codegen::tile::print(kernel));
    CHECK(check_kernel(kernel, check) == "");
  }
}

/// (x - mean) / sqrt(var + eps) * w + b over rows of `size`.
codegen::tile::Kernel layer_norm(std::int64_t rows, std::int64_t size, std::int64_t partitions) {
  TileBuilder t("layer_norm");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", size);
  t.partitions(partitions);
  const auto n = static_cast<double>(size);
  const auto w = t.load(t.input("weight"), {{c, 1}});
  const auto b = t.load(t.input("bias"), {{c, 1}});
  t.body();
  const auto x = t.load(t.input("x"), {{r, size}, {c, 1}});
  const auto mean = t.op(Opcode::mul, {t.sum(x, {c}), t.constant(1 / n)});
  const auto d = t.op(Opcode::sub, {x, mean});
  const auto var = t.op(Opcode::mul, {t.sum(t.op(Opcode::mul, {d, d}), {c}), t.constant(1 / n)});
  const auto rstd = t.op(Opcode::rsqrt, {t.op(Opcode::add, {var, t.constant(1e-6)})});
  const auto y = t.op(Opcode::add, {t.op(Opcode::mul, {t.op(Opcode::mul, {d, rstd}), w}), b});
  t.store(t.output("y"), y, {{r, size}, {c, 1}});
  t.store(t.output("rstd"), rstd, {{r, 1}});
  return t.finish();
}

TEST_CASE("a layer norm agrees at any row length and partition") {
  for (std::int64_t size : {1, 3, 15, 16, 17, 33, 100, 192, 384, 1000}) {
    for (std::int64_t partitions : {1, 3, 5}) require_agreement(layer_norm(5, size, partitions), {2e-5});
  }
}

/// Backward with the gradients of weight and bias as column partials: the example of tile.h.
codegen::tile::Kernel layer_norm_backward(std::int64_t rows, std::int64_t size, std::int64_t partitions) {
  TileBuilder t("layer_norm_backward");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", size);
  t.partitions(partitions);
  const auto n = t.constant(1 / static_cast<double>(size));
  const auto w = t.load(t.input("weight"), {{c, 1}});
  const auto zero = t.constant(0, {c});
  const auto aw = t.carry(zero);
  const auto ab = t.carry(zero);
  t.body();
  const auto g = t.load(t.input("g"), {{r, size}, {c, 1}});
  const auto x = t.load(t.input("x"), {{r, size}, {c, 1}});
  const auto mean = t.load(t.input("mean"), {{r, 1}});
  const auto rstd = t.load(t.input("rstd"), {{r, 1}});
  const auto xh = t.op(Opcode::mul, {t.op(Opcode::sub, {x, mean}), rstd});
  const auto gw = t.op(Opcode::mul, {g, w});
  const auto m1 = t.op(Opcode::mul, {t.sum(gw, {c}), n});
  const auto m2 = t.op(Opcode::mul, {t.sum(t.op(Opcode::mul, {gw, xh}), {c}), n});
  const auto inner = t.op(Opcode::sub, {t.op(Opcode::sub, {gw, m1}), t.op(Opcode::mul, {xh, m2})});
  t.store(t.output("dx"), t.op(Opcode::mul, {inner, rstd}), {{r, size}, {c, 1}});
  const auto last_w = t.carry_next(aw, t.op(Opcode::add, {aw, t.op(Opcode::mul, {g, xh})}));
  const auto last_b = t.carry_next(ab, t.op(Opcode::add, {ab, g}));
  t.epilogue();
  t.store(t.output("partial_w"), last_w, {{c, 1}}, 0, size);
  t.store(t.output("partial_b"), last_b, {{c, 1}}, 0, size);
  return t.finish();
}

TEST_CASE("a layer norm's backward leaves its column partials") {
  for (std::int64_t size : {1, 17, 64, 192, 384, 1000}) {
    for (std::int64_t partitions : {1, 4})
      require_agreement(layer_norm_backward(13, size, partitions), {1e-5});
  }
}

TEST_CASE("softmax over the last of two lane axes, rows reduced to scalars") {
  for (const auto& [m, n] : {std::pair<int, int>{1, 1}, {3, 10}, {5, 17}, {4, 64}, {2, 300}}) {
    TileBuilder t("softmax");
    const auto o = t.outer("o", 3);
    const auto i = t.lane("m", m);
    const auto j = t.lane("n", n);
    const TileBuilder::Strides strides = {{o, m * n}, {i, n}, {j, 1}};
    const auto x = t.load(t.input("x"), strides);
    const auto e = t.op(Opcode::exp, {t.op(Opcode::sub, {x, t.max(x, {j})})});
    const auto total = t.sum(e, {j});
    t.store(t.output("y"), t.op(Opcode::div, {e, total}), strides);
    t.store(t.output("log"), t.op(Opcode::log, {total}), {{o, m}, {i, 1}});
    require_agreement(t.finish());
  }
}

TEST_CASE("reductions over leading, middle, last and several lane axes") {
  const std::vector<std::vector<int>> choices = {{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
  for (const std::vector<int>& choice : choices) {
    for (const auto& [a, b, c] : {std::tuple<int, int, int>{3, 5, 7}, {2, 1, 40}, {4, 17, 3}, {1, 6, 1}}) {
      TileBuilder t("reduce");
      const auto r = t.row("r", 4);
      const std::vector<TileBuilder::Axis> axes = {t.lane("a", a), t.lane("b", b), t.lane("c", c)};
      t.partitions(2);
      t.body();
      const auto x = t.load(t.input("x"), {{r, a * b * c}, {axes[0], b * c}, {axes[1], c}, {axes[2], 1}});
      std::vector<TileBuilder::Axis> over;
      TileBuilder::Strides strides = {{r, a * b * c}, {axes[0], b * c}, {axes[1], c}, {axes[2], 1}};
      for (int axis : choice) {
        over.push_back(axes[static_cast<std::size_t>(axis)]);
        strides.erase(over.back());
      }
      const auto sum = t.sum(t.op(Opcode::mul, {x, x}), over);
      const auto max = t.max(x, over);
      t.store(t.output("sum"), sum, strides);
      t.store(t.output("max"), max, strides);
      t.store(t.output("centred"), t.op(Opcode::sub, {t.op(Opcode::mul, {x, sum}), max}),
              {{r, a * b * c}, {axes[0], b * c}, {axes[1], c}, {axes[2], 1}});
      require_agreement(t.finish());
    }
  }
}

TEST_CASE("a value whose operands meet again and again is planned in no time") {
  TileBuilder t("diamonds");
  const auto r = t.row("r", 3);
  const auto c = t.lane("c", 37);
  t.body();
  const auto x = t.load(t.input("x"), {{r, 37}, {c, 1}});
  auto y = x;
  for (int i = 0; i < 48; ++i)  // both operands are the one before: 2^48 ways to the load
    y = t.op(Opcode::mul, {t.op(Opcode::add, {y, y}), t.constant(0.5)});
  t.store(t.output("y"), t.op(Opcode::mul, {y, t.sum(y, {c})}), {{r, 37}, {c, 1}});
  require_agreement(t.finish());
}

TEST_CASE("sums over a middle axis are kept for a later loop over the axes around it") {
  for (std::int64_t size : {5, 16, 37}) {
    TileBuilder t("middle_sums");
    const auto r = t.row("r", 4);
    const auto p = t.lane("p", 2), q = t.lane("q", 3), c = t.lane("c", size);
    const auto y = t.output("y"), z = t.output("z");
    t.body();
    const auto w = t.load(t.input("w"), {{r, 6 * size}, {p, 3 * size}, {q, size}, {c, 1}});
    const auto x = t.load(t.input("x"), {{r, 3 * size}, {q, size}, {c, 1}});
    const TileBuilder::Strides place{{r, 4 * size}, {p, 2 * size}, {c, 1}};
    t.store(y, t.sum(t.op(Opcode::mul, {w, x}), {q}), place);
    // Another part of the same argument: all of the first store comes before any of it.
    t.store(y, t.sum(t.op(Opcode::sub, {w, x}), {q}), place, size);
    t.store(z, t.sum(t.op(Opcode::maximum, {w, x}), {p}), {{r, 3 * size}, {q, size}, {c, 1}});
    require_agreement(t.finish(), {2e-5});
  }
}

TEST_CASE("a gather along the vector axis, by rows, and out of range") {
  for (std::int64_t size : {1, 5, 16, 50}) {
    TileBuilder t("gather");
    const auto r = t.row("r", 6);
    const auto c = t.lane("c", size);
    t.body();
    const auto row_of = t.load(t.input("row_of", DType::i64), {{r, 1}}, 0, DType::i64);
    const auto column_of = t.load(t.input("column_of", DType::i32), {{c, 1}}, 0, DType::i32);
    const auto table = t.input("table");
    const auto by_row = t.gather(table, {{c, 1}}, row_of, size, 9);
    const auto by_column = t.gather(table, {{r, size}}, column_of, 1, size);
    const auto scaled = t.gather(table, {{c, 2}}, row_of, 3, 4);
    const auto sum = t.op(Opcode::add, {t.op(Opcode::add, {by_row, by_column}), scaled});
    t.store(t.output("out"), sum, {{r, size}, {c, 1}});
    TileCheck check;
    check.inputs = {{-4, 12}, {-3, static_cast<double>(size) + 3}, {-1, 1}};
    require_agreement(t.finish(), check);
  }
}

TEST_CASE("transposing, reversing and repeating accesses") {
  for (const auto& [m, n] : {std::pair<int, int>{7, 33}, {16, 16}, {1, 20}, {50, 3}}) {
    TileBuilder t("strides");
    const auto r = t.row("r", m);
    const auto c = t.lane("c", n);
    t.body();
    const auto a = t.input("a");
    const auto transposed = t.load(a, {{r, 1}, {c, m}});
    const auto reversed = t.load(a, {{r, n}, {c, -1}}, n - 1);
    const auto repeated = t.load(a, {{r, 1}}, 0, DType::f32, {c});
    const auto sum = t.op(Opcode::add, {t.op(Opcode::sub, {transposed, reversed}), repeated});
    t.store(t.output("straight"), sum, {{r, n}, {c, 1}});
    t.store(t.output("turned"), sum, {{r, 1}, {c, m}}, 2);
    t.store(t.output("spread"), repeated, {{r, 3 * n}, {c, 3}});
    require_agreement(t.finish());
  }
}

TEST_CASE("several row axes with any strides, and partitions that do not divide") {
  for (std::int64_t partitions : {1, 2, 5, 11, 24}) {
    TileBuilder t("rows");
    const auto o = t.outer("o", 2);
    const auto a = t.row("a", 2);
    const auto p = t.outer("p", 3);
    const auto b = t.row("b", 3);
    const auto c = t.lane("c", 10);
    const auto d = t.row("d", 4);
    t.partitions(partitions);
    const auto sum = t.carry(t.constant(0.5, {c}));
    const auto count = t.carry(t.constant(0, {}, DType::i64));
    t.body();
    const auto x = t.load(t.input("x"), {{o, 1000}, {a, 500}, {p, 10}, {b, 30}, {c, 1}, {d, 100}}, 3);
    const auto where = t.op(Opcode::add, {t.index(a), t.op(Opcode::mul, {t.index(b), t.index(d)})});
    t.store(t.output("y"), t.op(Opcode::add, {x, where}),
            {{o, 720}, {a, 360}, {p, 120}, {b, 40}, {c, 1}, {d, 10}});
    const auto last = t.carry_next(sum, t.op(Opcode::add, {sum, t.op(Opcode::mul, {x, t.index(p)})}));
    const auto rows = t.carry_next(count, t.op(Opcode::add, {count, t.constant(1, {}, DType::i64)}));
    t.epilogue();
    t.store(t.output("partial"), last, {{o, 30 * partitions}, {p, 10 * partitions}, {c, 1}}, 0, 10);
    t.store(t.output("rows", DType::i64), rows, {{o, 3 * partitions}, {p, partitions}}, 0, 1);
    require_agreement(t.finish());
  }
}

TEST_CASE("every storage dtype is read, converted and written") {
  for (DType stored :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::i1}) {
    for (std::int64_t size : {1, 16, 37}) {
      TileBuilder t("dtypes");
      const auto r = t.row("r", 3);
      const auto c = t.lane("c", size);
      t.body();
      const auto in = t.input("in", stored);
      const auto x = t.load(in, {{r, size}, {c, 1}});
      t.store(t.output("f32"), t.op(Opcode::add, {x, t.constant(0.25)}), {{r, size}, {c, 1}});
      t.store(t.output("same", stored), x, {{r, size}, {c, 1}});
      t.store(t.output("gathered", stored), t.load(in, {{r, 1}, {c, 3}}), {{r, size}, {c, 1}});
      t.store(t.output("f64", DType::f64), t.cast(t.load(in, {{r, size}}), DType::f64), {{r, size}, {c, 1}});
      TileCheck check;
      check.inputs = {{-100, 100}};
      check.tolerance = 1e-7;
      require_agreement(t.finish(), check);
    }
  }
}

TEST_CASE("integers and doubles compute in their own dtype") {
  for (DType dtype : {DType::i64, DType::i32, DType::u8, DType::f64}) {
    TileBuilder t("integers");
    const auto r = t.row("r", 3);
    const auto c = t.lane("c", 21);
    t.body();
    const TileBuilder::Strides strides = {{r, 21}, {c, 1}};
    const auto x = t.load(t.input("x", dtype), strides, 0, dtype);
    const auto y = t.load(t.input("y", dtype), strides, 0, dtype);
    const auto larger = t.op(Opcode::maximum, {x, y});
    const auto smaller = t.op(Opcode::minimum, {t.op(Opcode::abs, {x}), y});
    const auto picked = t.op(Opcode::select, {t.op(Opcode::compare, {x, y}, "lt"), larger, smaller});
    t.store(t.output("picked", dtype), t.op(Opcode::add, {picked, t.op(Opcode::sub, {larger, smaller})}),
            strides);
    t.store(t.output("sum", dtype), t.sum(t.op(Opcode::mul, {x, y}), {c}), {{r, 1}});
    t.store(t.output("max", dtype), t.max(y, {c}), {{r, 1}});
    TileCheck check;
    check.tolerance = 1e-14;
    const double high = dtype == DType::u8 ? 3 : 50;
    check.inputs = {{dtype == DType::u8 ? 0 : -high, high}, {dtype == DType::u8 ? 0 : -high, high}};
    require_agreement(t.finish(), check);
  }
}

TEST_CASE("casts truncate toward zero and truth values are x != 0") {
  TileBuilder t("casts");
  const auto c = t.lane("c", 40);
  const auto x = t.load(t.input("x"), {{c, 1}});
  for (DType dtype : {DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i1}) {
    const auto cast = t.cast(x, dtype);
    t.store(t.output(std::string(ir::dtype_name(dtype)), dtype), cast, {{c, 1}});
    t.store(t.output("back" + std::string(ir::dtype_name(dtype))), t.cast(cast, DType::f32), {{c, 1}});
  }
  t.store(t.output("u8", DType::u8), t.cast(t.op(Opcode::abs, {x}), DType::u8), {{c, 1}});
  TileCheck check;
  check.inputs = {{-40, 40}};
  require_agreement(t.finish(), check);
}

TEST_CASE("random numbers are the evaluator's, bit for bit or to the functions' precision") {
  for (bool normal : {false, true}) {
    for (DType dtype : {DType::f32, DType::f64}) {
      TileBuilder t("random");
      const auto o = t.outer("o", 2);
      const auto r = t.row("r", 5);
      const auto c = t.lane("c", 37);
      const auto seed = t.load(t.input("seed", DType::i64), {}, 0, DType::i64);
      const auto step = t.load(t.input("step", DType::i64), {}, 0, DType::i64);
      t.body();
      const TileBuilder::Strides each = {{o, 185}, {r, 37}, {c, 1}};
      const auto x = t.random(normal, seed, step, 0x9E3779B97F4A7C15ULL, each, 0, dtype);
      const auto one = t.random(normal, seed, step, 7, {{o, 5}, {r, 1}}, std::int64_t{1} << 40, dtype);
      t.store(t.output("x", dtype), x, each);
      t.store(t.output("one", dtype), one, each);
      TileCheck check;
      check.inputs = {{0, 9e15}, {0, 4e9}};
      check.tolerance = normal ? 1e-6 : 0;
      require_agreement(t.finish(), check);
    }
  }
}

TEST_CASE("a false predicate leaves memory as it was") {
  for (double flag : {-1.0, 1.0}) {
    for (std::int64_t size : {1, 16, 45}) {
      TileBuilder t("predicate");
      const auto r = t.row("r", 2);
      const auto c = t.lane("c", size);
      const auto finite = t.load(t.input("finite", DType::i1), {}, 0, DType::i1);
      const auto p = t.argument("p", codegen::tile::ArgumentUse::read_write);
      t.body();
      const auto x = t.load(p, {{r, size}, {c, 1}});
      t.store(p, t.op(Opcode::mul, {x, x}), {{r, size}, {c, 1}}, 0, 0, finite);
      t.store(t.output("turned"), x, {{r, 1}, {c, 2}}, 0, 0, finite);
      t.store(t.output("scalar"), t.sum(x, {c}), {{r, 1}}, 0, 0, finite);
      TileCheck check;
      check.inputs = {{flag, flag}};
      require_agreement(t.finish(), check);
    }
  }
}

TEST_CASE("an argument read after it was written gives the new elements") {
  TileBuilder t("in_place");
  const auto r = t.row("r", 3);
  const auto c = t.lane("c", 20);
  const auto p = t.argument("p", codegen::tile::ArgumentUse::read_write);
  t.body();
  const TileBuilder::Strides strides = {{r, 20}, {c, 1}};
  const auto x = t.load(p, strides);
  t.store(p, t.op(Opcode::mul, {x, t.constant(2)}), strides);
  const auto doubled = t.load(p, strides);
  t.store(p, t.op(Opcode::sub, {doubled, t.sum(doubled, {c})}), strides);
  const auto reversed = t.load(p, {{r, 20}, {c, -1}}, 19);
  t.store(t.output("out"), t.op(Opcode::add, {reversed, x}), strides);
  require_agreement(t.finish());
}

TEST_CASE("carried values of any shape flow from row to row, also into each other") {
  for (const auto& [m, n] : {std::pair<int, int>{1, 1}, {3, 5}, {2, 40}, {6, 300}}) {
    TileBuilder t("carried");
    const auto r = t.row("r", 7);
    const auto i = t.lane("m", m);
    const auto j = t.lane("n", n);
    t.partitions(2);
    const TileBuilder::Strides both = {{i, n}, {j, 1}};
    const auto start = t.load(t.input("start"), both);
    const auto a = t.carry(start);  // swapped with b in every row
    const auto b = t.carry(t.constant(1, {i, j}));
    const auto best = t.carry(t.constant(-100, {i}));  // a running maximum per m
    const auto total = t.carry(t.constant(0));         // a scalar
    const auto columns = t.carry(t.sum(start, {i}));   // starts as a reduction, and goes on as one
    t.body();
    const auto x = t.load(t.input("x"), {{r, m * n}, {i, n}, {j, 1}});
    const auto product = t.op(Opcode::add, {t.op(Opcode::mul, {a, x}), b});
    t.store(t.output("y"), product, {{r, m * n}, {i, n}, {j, 1}});
    const auto next_best = t.op(Opcode::maximum, {best, t.max(x, {j})});
    t.store(t.output("scaled"), t.op(Opcode::sub, {x, next_best}), {{r, m * n}, {i, n}, {j, 1}});
    const auto a_last = t.carry_next(a, b);
    const auto b_last = t.carry_next(b, t.op(Opcode::mul, {a, t.constant(0.5)}));
    const auto best_last = t.carry_next(best, next_best);
    const auto total_last = t.carry_next(total, t.op(Opcode::add, {total, t.sum(x, {i, j})}));
    const auto columns_last = t.carry_next(columns, t.sum(t.op(Opcode::add, {x, columns}), {i}));
    t.epilogue();
    t.store(t.output("a_last"), a_last, both, 0, m * n);
    t.store(t.output("b_last"), b_last, both, 0, m * n);
    t.store(t.output("best_last"), best_last, {{i, 1}}, 0, m);
    t.store(t.output("total_last"), t.op(Opcode::mul, {total_last, best_last}), {{i, 1}}, 0, m);
    t.store(t.output("columns_last"), columns_last, {{j, 1}}, 0, n);
    require_agreement(t.finish(), {1e-5});
  }
}

/// c[m, n] = a[m, k] b[k, n], the operands stored as the flags say, and computed ones if `loaded` is false.
codegen::tile::Kernel dot_kernel(int m, int n, int k, bool a_turned, bool b_turned, bool loaded,
                                 bool column_first) {
  TileBuilder t("dot");
  const auto o = t.outer("o", 2);
  TileBuilder::Axis i = -1, j = -1;
  if (column_first) j = t.lane("n", n);
  i = t.lane("m", m);
  if (!column_first) j = t.lane("n", n);
  const auto l = t.lane("k", k);
  auto a = t.load(t.input("a"), {{o, m * k}, {i, a_turned ? 1 : k}, {l, a_turned ? m : 1}});
  auto b = t.load(t.input("b"), {{o, k * n}, {l, b_turned ? 1 : n}, {j, b_turned ? k : 1}});
  if (!loaded) {
    a = t.op(Opcode::exp, {a});
    b = t.op(Opcode::mul, {b, b});
  }
  const auto c = t.dot(a, b, l);
  t.store(t.output("c"), t.op(Opcode::add, {c, t.max(c, {j})}), {{o, m * n}, {i, n}, {j, 1}});
  return t.finish();
}

TEST_CASE("a dot agrees at any size, orientation and source of its operands") {
  for (const auto& [m, n, k] :
       {std::tuple<int, int, int>{1, 1, 1}, {5, 7, 3}, {17, 50, 64}, {50, 50, 16}, {64, 33, 31}}) {
    for (int flags = 0; flags < 16; ++flags) {
      require_agreement(
          dot_kernel(m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0),
          {1e-5});
    }
  }
}

TEST_CASE("dots in a chain over rows, contracting other axes: the shape of attention") {
  const int heads = 2, tokens = 11, width = 18;
  TileBuilder t("chain");
  const auto h = t.outer("h", heads);
  const auto r = t.row("r", 3);
  const auto i = t.lane("i", tokens);
  const auto j = t.lane("j", tokens);
  const auto d = t.lane("d", width);
  const auto sum = t.carry(t.constant(0, {i, d}));
  t.body();
  const std::int64_t token = heads * width;
  const std::int64_t batch = tokens * token;
  const auto q = t.load(t.input("q"), {{h, width}, {r, batch}, {i, token}, {d, 1}});
  const auto k = t.load(t.input("k"), {{h, width}, {r, batch}, {j, token}, {d, 1}});
  const auto v = t.load(t.input("v"), {{h, width}, {r, batch}, {j, token}, {d, 1}});
  const auto s = t.dot(q, k, d);
  const auto e = t.op(Opcode::exp, {t.op(Opcode::sub, {s, t.max(s, {j})})});
  const auto p = t.op(Opcode::div, {e, t.sum(e, {j})});
  const auto out = t.dot(p, v, j);
  t.store(t.output("out"), out, {{h, width}, {r, batch}, {i, token}, {d, 1}});
  const auto back = t.dot(p, out, i);  // contracts the rows of p: swapped roles
  t.store(t.output("back"), back, {{h, width}, {r, batch}, {j, token}, {d, 1}});
  const auto last = t.carry_next(sum, t.op(Opcode::add, {sum, out}));
  t.epilogue();
  t.store(t.output("sum"), last, {{h, width}, {i, token}, {d, 1}});
  require_agreement(t.finish(), {1e-5});
}

}  // namespace
}  // namespace rewire::test
