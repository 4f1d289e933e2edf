// Block-circulant products: every lowering, compiled, against a matrix product with the full matrix of the
// same entries; and which lowering a shape gets.
#include <cmath>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/circulant.h"
#include "ir/philox.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"
#include "tests/support/slice.h"

using namespace rewire;
using ir::DType;
using ir::Shape;
using ir::Tensor;
using ir::TensorType;
using ir::Value;

namespace {

struct Sizes {
  std::int64_t rows, outputs, inputs, lags;
};

/// Normal numbers: of all frequencies, where a sine would leave most of a transform's bins empty.
Tensor noise(const Shape& shape, unsigned seed) {
  Tensor tensor(TensorType{DType::f32, shape});
  const ir::PhiloxStream stream{seed, 0, ir::stream_hash("noise")};
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = ir::round_to(DType::f32, stream.normal(i));
  return tensor;
}

/// The full matrix [q n, p n] of c [p, q, n].
Tensor full_matrix(const Tensor& c, bool correlation) {
  const std::int64_t p = c.type.shape[0], q = c.type.shape[1], n = c.type.shape[2];
  Tensor matrix(TensorType{DType::f32, {q * n, p * n}});
  for (std::int64_t s = 0; s < q * n; ++s) {
    for (std::int64_t r = 0; r < p * n; ++r) {
      const std::int64_t lag = ((correlation ? s - r : r - s) % n + n) % n;
      matrix.data[static_cast<std::size_t>(s * p * n + r)] =
          c.data[static_cast<std::size_t>((r / n * q + s / n) * n + lag)];
    }
  }
  return matrix;
}

/// main(x, w, g) -> (y, dx, dw) of y = product(x, w) and the loss <y, g>.
template <class Product>
ir::Module program(const TensorType& x_type, const TensorType& w_type, const TensorType& g_type,
                   Product product) {
  ir::Module module;
  module.name = "circulant";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const Value x = b.argument("x", x_type), w = b.argument("w", w_type), g = b.argument("g", g_type);
  const Value y = product(b, x, w);
  const Value loss = b.reshape(b.sum(b.mul(y, g), {0, 1}), {});
  const Value wrt[] = {x, w};
  const std::vector<Value> gradients = ir::differentiate(b, loss, wrt);
  b.result("y", y);
  b.result("dx", gradients[0]);
  b.result("dw", gradients[1]);
  return module;
}

double relative_error(const Tensor& actual, const Tensor& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    error += std::pow(actual.data[i] - expected.data[i], 2);
    norm += std::pow(expected.data[i], 2);
  }
  return std::sqrt(error / norm);
}

/// The gradient of c from that of the full matrix.
Tensor sum_of_diagonals(const Tensor& matrix, const Shape& shape, bool correlation) {
  const std::int64_t p = shape[0], q = shape[1], n = shape[2];
  Tensor c(TensorType{DType::f32, shape});
  for (std::int64_t s = 0; s < q * n; ++s) {
    for (std::int64_t r = 0; r < p * n; ++r) {
      const std::int64_t lag = ((correlation ? s - r : r - s) % n + n) % n;
      c.data[static_cast<std::size_t>((r / n * q + s / n) * n + lag)] +=
          matrix.data[static_cast<std::size_t>(s * p * n + r)];
    }
  }
  return c;
}

}  // namespace

TEST_CASE("Every lowering of a circulant product agrees with the full matrix, forward and backward") {
  // The last three: two paths of four blocks, in widths of 192 (vit_tiny_28), 384 (a ViT-S) and 768 (a
  // ViT-B).
  std::uint64_t number = 0;
  for (const Sizes& sizes :
       {Sizes{65, 8, 4, 24}, Sizes{7, 1, 1, 40}, Sizes{33, 3, 5, 16}, Sizes{1, 2, 3, 9}, Sizes{4, 1, 2, 1},
        Sizes{17, 8, 4, 48}, Sizes{17, 8, 4, 96}, Sizes{5, 8, 4, 192}}) {
    const auto& [rows, p, q, n] = sizes;
    if (number++ > 0 && !rewire::testing::slice().takes(number)) continue;
    const TensorType x_type{DType::f32, {rows, q * n}}, g_type{DType::f32, {rows, p * n}};
    const TensorType c_type{DType::f32, {p, q, n}}, matrix_type{DType::f32, {q * n, p * n}};
    const Tensor x = noise(x_type.shape, 1), c = noise(c_type.shape, 2), g = noise(g_type.shape, 3);
    for (const bool correlation : {false, true}) {
      const ir::Module dense =
          program(x_type, matrix_type, g_type,
                  [](ir::Builder& b, Value left, Value right) { return b.matmul(left, right); });
      ir::EvalState state;
      std::vector<Tensor> expected =
          ir::evaluate(dense, dense.function("main"), {x, full_matrix(c, correlation), g}, state);
      expected[2] = sum_of_diagonals(expected[2], c_type.shape, correlation);
      for (const std::string_view lowering : ir::kCirculantLowerings) {
        if (n % ir::split_radix(lowering) != 0) continue;
        const ir::Module module =
            program(x_type, c_type, g_type, [&](ir::Builder& b, Value left, Value right) {
              return b.emit(ir::Opcode::circulant_matmul, {left, right},
                            {{"correlation", correlation}, {"lowering", std::string(lowering)}});
            });
        for (const bool fuse : {true, false}) {
          INFO(std::string(lowering) << ", " << rows << " rows, c " << to_string(c_type) << ", correlation "
                                     << correlation << ", fuse " << fuse);
          const testing::JitRun run = testing::run_jit(module, {x, c, g}, {}, fuse, fuse ? 2 : 1);
          for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(relative_error(run.results[i], expected[i]) < 2e-6);
        }
      }
    }
  }
}

TEST_CASE("What a circulant product computes does not depend on the number of threads") {
  for (const std::string_view lowering : ir::kCirculantLowerings) {
    const ir::Module module =
        program({DType::f32, {300, 96}}, {DType::f32, {8, 4, 24}}, {DType::f32, {300, 192}},
                [&](ir::Builder& b, Value x, Value c) {
                  return b.emit(ir::Opcode::circulant_matmul, {x, c}, {{"lowering", std::string(lowering)}});
                });
    const std::vector<Tensor> inputs = {noise({300, 96}, 1), noise({8, 4, 24}, 2), noise({300, 192}, 3)};
    const testing::JitRun one = testing::run_jit(module, inputs, {}, true, 1);
    const testing::JitRun three = testing::run_jit(module, inputs, {}, true, 3);
    for (std::size_t i = 0; i < one.results.size(); ++i) {
      INFO(std::string(lowering) << ", result " << i);
      CHECK(one.results[i].data == three.results[i].data);
    }
  }
}

TEST_CASE("A shape gets the lowering that the cost model names, and always the same one") {
  const auto choice = [](std::int64_t p, std::int64_t q, std::int64_t n) {
    return ir::circulant_candidates({p, q, n}, DType::f32).front();
  };
  CHECK(choice(8, 4, 96) == "split8");   // two paths of a ViT-S
  CHECK(choice(2, 1, 768) == "split8");  // one block
  CHECK(choice(8, 4, 16) == "dense");    // narrow: transforms would cost more than they spare
  CHECK(choice(8, 4, 1) == "dense");     // no circulant at all
  CHECK(choice(2, 1, 375) == "fft");     // lags that no power of two splits
  CHECK(choice(1, 1, 4096) == "fft");    // wide enough for the least operations to win
  CHECK(ir::circulant_candidates({8, 4, 96}, DType::bf16) == std::vector<std::string>{"dense"});
}
