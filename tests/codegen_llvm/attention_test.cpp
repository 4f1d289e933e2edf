// Attention's tile kernels: the kernels' meaning against the op table's evaluator, their code against the
// interpreter.
#include "codegen/tile/attention.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <random>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "tests/support/catch.h"
#include "tests/support/tile_check.h"
#include "tests/support/tile_interpreter.h"

namespace rewire::test {
namespace {

using codegen::tile::ArgumentUse;
using codegen::tile::AttentionShape;
using codegen::tile::AttentionView;
using codegen::tile::Kernel;
using ir::Opcode;

/// q, k, v and their gradients as windows of [B, N, 3, H, D], the output of [B, N, H, D], as a ViT has them;
/// where queries and keys differ in number, tensors of their own.
AttentionShape vit_shape(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                         std::int64_t width, std::int64_t tile_elements) {
  AttentionShape shape;
  shape.batch = batch, shape.heads = heads, shape.queries = queries, shape.keys = keys;
  shape.width = shape.value_width = width;
  shape.scale = 0.3;
  shape.tile_elements = tile_elements;
  const std::int64_t model = heads * width;
  const auto window = [&](std::int64_t tokens, std::int64_t parts, std::int64_t part) {
    return AttentionView{part * model, tokens * parts * model, width, parts * model, 1};
  };
  const bool self = queries == keys;
  shape.q = shape.dq = window(queries, self ? 3 : 1, 0);
  shape.k = shape.dk = window(keys, self ? 3 : 2, self ? 1 : 0);
  shape.v = shape.dv = window(keys, self ? 3 : 2, self ? 2 : 1);
  shape.output = shape.d_output = window(queries, 1, 0);
  shape.lse = {0, heads * queries, queries, 1, 0};
  return shape;
}

struct Form {
  std::int64_t groups = 1, tokens = 1, width = 1, value_width = 1, tile_elements = 1 << 16;
  bool causal = false;
  std::int64_t window = 0;
  bool bias = false, documents = false;
};

/// Dense tensors of two images with two heads of keys.
AttentionShape dense_shape(const Form& form) {
  AttentionShape shape;
  shape.batch = shape.heads = 2;
  shape.groups = form.groups, shape.queries = shape.keys = form.tokens;
  shape.width = form.width, shape.value_width = form.value_width;
  shape.scale = 0.3;
  shape.causal = form.causal, shape.window = form.window;
  shape.tile_elements = form.tile_elements;
  const auto dense = [&](std::int64_t heads, std::int64_t channels) {
    return AttentionView{0, heads * form.tokens * channels, form.tokens * channels, channels, 1};
  };
  const std::int64_t heads = shape.heads * shape.groups;
  shape.q = shape.dq = dense(heads, form.width);
  shape.k = shape.dk = dense(shape.heads, form.width);
  shape.v = shape.dv = dense(shape.heads, form.value_width);
  shape.output = shape.d_output = dense(heads, form.value_width);
  shape.lse = {0, heads * form.tokens, form.tokens, 1, 0};
  if (form.bias) shape.bias = AttentionView{0, 0, form.tokens, 0, 1};  // [1, heads, 1, keys]
  if (form.documents) shape.documents = AttentionView{0, form.tokens, 0, 1, 0};
  return shape;
}

using Memory = std::map<std::string, TileMemory>;

void run(const std::vector<Kernel>& kernels, Memory& memory) {
  for (const Kernel& kernel : kernels) {
    verify(kernel);
    std::vector<TileMemory> arguments;
    for (const auto& argument : kernel.arguments) arguments.push_back(memory.at(argument.name));
    interpret(kernel, arguments);
    for (std::size_t i = 0; i < arguments.size(); ++i) memory[kernel.arguments[i].name] = arguments[i];
  }
}

/// A window as a dense tensor [B, H, N, D].
ir::Tensor read(const TileMemory& memory, const AttentionView& view, const ir::Shape& shape,
                ir::DType dtype = ir::DType::f32) {
  ir::Tensor result(ir::TensorType{dtype, shape});
  std::size_t at = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      for (std::int64_t n = 0; n < shape[2]; ++n) {
        for (std::int64_t d = 0; d < shape[3]; ++d) {
          const std::int64_t from =
              view.offset + b * view.batch + h * view.head + n * view.token + d * view.channel;
          result.data[at++] = memory.at(static_cast<std::size_t>(from));
        }
      }
    }
  }
  return result;
}

std::vector<ir::Tensor> evaluate(Opcode code, const AttentionShape& shape,
                                 const std::vector<ir::Tensor>& operands,
                                 const std::vector<ir::Tensor>& like) {
  ir::Op op;
  op.code = code;
  op.attributes = {{"scale", shape.scale},
                   {"causal", shape.causal},
                   {"window", shape.window},
                   {"bias", shape.bias.has_value()},
                   {"documents", shape.documents.has_value()}};
  std::vector<ir::Tensor> results;
  for (const ir::Tensor& tensor : like) results.emplace_back(tensor.type);
  ir::EvalState state;
  ir::EvalContext context{op, {}, results, state};
  for (const ir::Tensor& operand : operands) context.operands.push_back(&operand);
  ir::op_info(code).evaluate(context);
  return results;
}

void check_close(const char* what, const ir::Tensor& actual, const ir::Tensor& expected) {
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double error = std::abs(actual.data[i] - expected.data[i]);
    if (!(error <= worst)) worst = error;
    largest = std::max(largest, std::abs(expected.data[i]));
  }
  INFO(what << ", at most " << largest);
  CHECK(worst < 1e-6 * largest);  // the results were rounded to f32
}

struct Sizes {
  std::int64_t batch, heads, queries, keys, width, tile_elements;
};

const Sizes kSizes[] = {{1, 1, 1, 1, 1, 1 << 16}, {2, 3, 17, 17, 8, 1 << 16},  {1, 2, 37, 37, 16, 400},
                        {2, 1, 5, 21, 20, 60},    {1, 2, 50, 50, 64, 1 << 16}, {1, 1, 40, 33, 12, 33 * 16}};

const Form kForms[] = {
    {2, 17, 8, 8, 1 << 16},
    {3, 21, 8, 5, 200},
    {1, 70, 8, 8, 1 << 16, true},
    {1, 131, 8, 12, 1 << 16, true},
    {2, 131, 4, 4, 1 << 16, true},
    {2, 75, 8, 6, 900, true},
    {1, 131, 8, 8, 1 << 16, true, 20},
    {2, 100, 8, 8, 700, true, 33},
    {2, 37, 8, 8, 1 << 16, false, 0, true},
    {1, 66, 8, 8, 1 << 16, false, 0, false, true},
    {2, 70, 8, 7, 1 << 16, true, 40, true, true},
};

std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all;
  for (const Sizes& s : kSizes)
    all.push_back(vit_shape(s.batch, s.heads, s.queries, s.keys, s.width, s.tile_elements));
  for (const Form& form : kForms) all.push_back(dense_shape(form));
  return all;
}

/// The number of the document of each token: they have 30 tokens, and the first one 7.
std::vector<double> documents_of(const AttentionShape& shape) {
  std::vector<double> numbers;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t n = 0; n < shape.queries; ++n) numbers.push_back(static_cast<double>((n + 23) / 30));
  }
  return numbers;
}

TEST_CASE("attention and its gradient mean what the op table says, in one tile or many") {
  for (const AttentionShape& shape : shapes()) {
    const std::int64_t heads = shape.heads * shape.groups;
    CAPTURE(shape.batch, heads, shape.groups, shape.queries, shape.keys, shape.width, shape.value_width,
            shape.tile_elements, shape.causal, shape.window);
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    Memory memory;
    const std::int64_t largest = shape.batch * std::max(shape.queries, shape.keys) * 3 * heads *
                                 std::max(shape.width, shape.value_width);
    for (const char* name : {"q", "k", "v", "output", "lse", "d_output", "dq", "dk", "dv", "delta", "bias"}) {
      for (std::int64_t i = 0; i < largest; ++i) memory[name].push_back(normal(random));
    }
    memory["documents"] = documents_of(shape);
    run(attention_forward(shape), memory);
    run(attention_backward(shape), memory);
    const auto tensor = [&](const char* name, const AttentionView& view, std::int64_t of, std::int64_t tokens,
                            std::int64_t channels) {
      return read(memory.at(name), view, {shape.batch, of, tokens, channels});
    };
    const ir::Tensor q = tensor("q", shape.q, heads, shape.queries, shape.width);
    const ir::Tensor k = tensor("k", shape.k, shape.heads, shape.keys, shape.width);
    const ir::Tensor v = tensor("v", shape.v, shape.heads, shape.keys, shape.value_width);
    const ir::Tensor output = tensor("output", shape.output, heads, shape.queries, shape.value_width);
    const ir::Tensor lse = tensor("lse", shape.lse, heads, shape.queries, 1);
    const ir::Tensor d_output = tensor("d_output", shape.d_output, heads, shape.queries, shape.value_width);
    std::vector<ir::Tensor> optional;
    if (shape.bias) optional.push_back(read(memory.at("bias"), *shape.bias, {1, heads, 1, shape.keys}));
    if (shape.documents) {
      ir::Tensor numbers(ir::TensorType{ir::DType::i32, {shape.batch, shape.queries}});
      numbers.data = memory.at("documents");
      optional.push_back(std::move(numbers));
    }
    const auto with_optional = [&](std::vector<ir::Tensor> operands) {
      operands.insert(operands.end(), optional.begin(), optional.end());
      return operands;
    };
    const auto forward = evaluate(Opcode::attention, shape, with_optional({q, k, v}), {output, lse});
    check_close("output", output, forward[0]);
    check_close("lse", lse, forward[1]);
    const auto backward = evaluate(Opcode::attention_grad, shape,
                                   with_optional({q, k, v, forward[0], forward[1], d_output}), {q, k, v});
    check_close("dq", tensor("dq", shape.dq, heads, shape.queries, shape.width), backward[0]);
    check_close("dk", tensor("dk", shape.dk, shape.heads, shape.keys, shape.width), backward[1]);
    check_close("dv", tensor("dv", shape.dv, shape.heads, shape.keys, shape.value_width), backward[2]);
  }
}

TEST_CASE("the code of attention and of its gradient agrees with the interpreter") {
  for (AttentionShape shape : shapes()) {
    for (ir::DType dtype : {ir::DType::f32, ir::DType::bf16}) {
      shape.dtype = dtype;
      std::vector<Kernel> kernels = attention_forward(shape);
      for (Kernel& kernel : attention_backward(shape)) kernels.push_back(std::move(kernel));
      for (const Kernel& kernel : kernels) {
        for (const char* cpu : {"", "haswell"}) {
          TileCheck check;
          check.tolerance = 2e-5;
          check.cpu = cpu;
          for (const auto& argument : kernel.arguments)
            check.inputs.push_back(argument.name == "lse" ? TileInput{1, 3} : TileInput{-1, 1});
          INFO("cpu '" << cpu << "'\n" << codegen::tile::print(kernel));
          CHECK(check_kernel(kernel, check) == "");
        }
      }
    }
  }
}

TEST_CASE("a tile holds no more than it may, and tiles cover the queries and keys evenly") {
  const AttentionShape shape = vit_shape(1, 1, 577, 577, 64, 1 << 16);
  const std::vector<Kernel> kernels = attention_forward(shape);
  std::int64_t covered = 0;
  for (const Kernel& kernel : kernels) {
    const std::int64_t queries = kernel.axes[4].extent;
    CHECK(queries * kernel.axes[5].extent <= 1 << 16);
    covered += queries * kernel.axes[2].extent;
  }
  CHECK(covered == 577);
  CHECK(kernels.size() == 2);
  CHECK(kernels[0].axes[4].extent - kernels[1].axes[4].extent == 1);
  const std::vector<Kernel> gradient = attention_backward(shape);
  REQUIRE(gradient.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto use = [&](const char* name) -> std::optional<ArgumentUse> {
      for (const auto& argument : gradient[i].arguments) {
        if (argument.name == name) return argument.use;
      }
      return std::nullopt;
    };
    CHECK(use("delta") == (i < 2 ? ArgumentUse::write : ArgumentUse::read));
    CHECK(use("output").has_value() == (i < 2));
  }
  CHECK(attention_backward(vit_shape(1, 1, 197, 197, 64, 1 << 16)).size() == 1);
}

TEST_CASE("a narrow gradient is one program a head where the chip holds q, k, v, do and ds") {
  AttentionShape shape = vit_shape(1, 1, 197, 197, 64, 4 * 197 * 72 + 208 * 208 + 4 * 197);
  shape.dtype = ir::DType::bf16;
  shape.narrow = true;
  CHECK(attention_backward(shape).size() == 1);
  shape.tile_elements -= 1;  // q, do and all of k and v, or the other way about
  std::vector<Kernel> kernels = attention_backward(shape);
  REQUIRE(kernels.size() == 2);
  for (const Kernel& kernel : kernels) CHECK(kernel.instances() == 1);
  shape.tile_elements = 2 * (197 + 120) * 72 + 4 * 197;  // 112 tokens and 85 of 197
  kernels = attention_backward(shape);
  REQUIRE(kernels.size() == 4);
  for (const Kernel& kernel : kernels) verify(kernel);
  shape.summed_width = 40;  // ds is on chip for dk and dv too
  kernels = attention_backward(shape);
  REQUIRE(kernels.size() == 4);
  std::int64_t covered = 0;
  for (const Kernel& kernel : {kernels[2], kernels[3]}) {
    const std::int64_t keys = kernel.axes[4].extent;
    CHECK(2 * (197 + keys) * 72 + keys * 208 + 4 * 197 <= shape.tile_elements);
    covered += kernel.axes[3].extent * keys;
  }
  CHECK(covered == 197);
}

}  // namespace
}  // namespace rewire::test
