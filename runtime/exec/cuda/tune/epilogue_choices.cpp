#include "runtime/exec/cuda/tune/epilogue_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "codegen/cost.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

using codegen::GemmEpilogue;
using codegen::ProductEpilogue;
using ir::DType;
using ir::Value;

constexpr std::int64_t kColumns = 8;  // columns of the product that reads the epilogue's result

Value gelu_by_tanh(ir::Builder& b, Value x) {
  return b.emit(ir::Opcode::gelu, {x}, {{"approximate", std::string("tanh")}});
}

/// Makes a module that computes one epilogue. Its inputs are arguments, and the bias is a parameter.
class EpilogueTrial {
 public:
  EpilogueTrial(const ProductEpilogue& epilogue, bool tf32)
      : epilogue_(epilogue), b_(module_, module_.functions.emplace_back()) {
    module_.name = "trial";
    module_.functions.back().name = "trial";
    ir::allow_tf32(module_, tf32);
    if (epilogue.epilogue == GemmEpilogue::gelu) {
      forward();
    } else {
      gradient();
    }
  }
  ir::Module take() { return std::move(module_); }

 private:
  Value matrix(const char* name, DType dtype, std::int64_t rows, std::int64_t columns) {
    return b_.argument(name, {dtype, {rows, columns}});
  }
  Value narrow(Value x) { return b_.cast(x, epilogue_.result); }
  Value wide(Value x) { return b_.cast(x, DType::f32); }

  /// Reads `x` by a matrix product, as a network's second layer does.
  void read(const char* name, Value x) { b_.result(name, b_.matmul(x, reader_)); }

  void forward() {
    ir::Parameter bias;
    bias.name = "bias";
    bias.type = {DType::f32, {epilogue_.n}};
    module_.add_parameter(bias);
    const Value x = matrix("x", epilogue_.dtype, epilogue_.m, epilogue_.k);
    const Value w = matrix("w", epilogue_.dtype, epilogue_.n, epilogue_.k);
    reader_ = matrix("reader", epilogue_.result, epilogue_.n, kColumns);
    const Value pre = narrow(b_.add(wide(b_.matmul(x, w, false, true)), b_.param("bias")));
    read("y", narrow(gelu_by_tanh(b_, wide(pre))));
    if (epilogue_.keeps_pre) b_.result("pre", pre);
  }

  void gradient() {
    const Value g = matrix("g", epilogue_.dtype, epilogue_.m, epilogue_.k);
    const Value w = matrix("w", epilogue_.dtype, epilogue_.k, epilogue_.n);
    const Value pre = wide(matrix("pre", epilogue_.result, epilogue_.m, epilogue_.n));
    reader_ = matrix("reader", epilogue_.result, epilogue_.n, kColumns);
    const Value y = gelu_by_tanh(b_, pre);
    const Value loss = b_.reshape(b_.sum(b_.mul(y, wide(b_.matmul(g, w))), {0, 1}), {});
    const std::array wanted = {pre};
    const Value d = narrow(ir::differentiate(b_, loss, wanted)[0]);
    b_.result("bias", b_.sum(wide(d), {0}));
    read("d", d);
    read("y", narrow(y));
  }

  const ProductEpilogue& epilogue_;
  ir::Module module_;
  ir::Builder b_;
  Value reader_;
};

}  // namespace

std::int64_t report_refused(const std::vector<ProductEpilogue>& refused, bool tf32, const Tuner& tuner) {
  const auto recorded = std::ranges::count_if(refused, [&](const ProductEpilogue& epilogue) {
    return tuner.is_given(codegen::epilogue_key(epilogue, tf32));
  });
  if (recorded > 0)
    write_log(LogLevel::warning,
              fmt::format("cuBLASLt refuses {} recorded epilogues of matrix products here: our kernels "
                          "compute them, and the last bits of a step may change",
                          recorded));
  return recorded;
}

bool choose_epilogues(const std::vector<ProductEpilogue>& epilogues, bool tf32, Tuner& tuner,
                      const MakeTrial& make_trial) {
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time();
  bool ours = false;
  for (const ProductEpilogue& epilogue : epilogues) {
    TimedChoice choice = choice_by_trials(
        codegen::epilogue_key(epilogue, tf32), {std::string(kCublasLtAnswer), std::string(kOwnKernels)},
        [=] { return EpilogueTrial(epilogue, tf32).take(); }, make_trial,
        kEpilogueSeconds - (tuner.seconds() - before));
    choice.keep_untimed = false;
    ours = tuner.choose(choice) == kOwnKernels || ours;
  }
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning, fmt::format("{} of {} epilogues of matrix products were not timed within {}"
                                             ": cuBLASLt computes them this time",
                                             left, epilogues.size(), tuner.limit_text(kEpilogueSeconds)));
  return ours;
}

}  // namespace rewire::runtime
