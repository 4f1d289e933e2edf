#include "runtime/exec/cpu/op_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/ops/op_info.h"
#include "runtime/device/log.h"
#include "runtime/exec/cpu/host_op.h"

namespace rewire::runtime {

extern const CpuOp kCpuRfft, kCpuIrfft, kCpuConv2d, kCpuConv2dInputGrad, kCpuConv2dWeightGrad, kCpuQr,
    kCpuEigh, kCpuScatterByI32, kCpuScatterByI64;

namespace {

constexpr std::array kCpuOps = {
    &kCpuRfft, &kCpuIrfft, &kCpuConv2d,       &kCpuConv2dInputGrad, &kCpuConv2dWeightGrad,
    &kCpuQr,   &kCpuEigh,  &kCpuScatterByI32, &kCpuScatterByI64};

/// The evaluator's function, on one thread.
class CpuHostOp final : public CpuLaunch {
 public:
  CpuHostOp(const codegen::Program& program, const codegen::OpCall& call) : op_(program, call) {}
  std::int64_t tasks() const override { return 1; }
  std::int64_t scratch_bytes() const override { return 0; }
  void bind(const BufferPointers& pointers) override { pointers_ = &pointers; }
  void run(std::int64_t, void*) const override { op_.run(*pointers_); }

 private:
  HostOp op_;
  const BufferPointers* pointers_ = nullptr;
};

}  // namespace

std::unique_ptr<CpuLaunch> make_library_launch(const codegen::Program& program, const codegen::OpCall& call) {
  const auto row = std::ranges::find_if(
      kCpuOps, [&](const CpuOp* op) { return op->code == call.op.code && op->supports(program, call); });
  return row == kCpuOps.end() ? nullptr : (*row)->make(call);
}

std::unique_ptr<CpuLaunch> make_op_launch(const codegen::Program& program, const codegen::OpCall& call) {
  if (std::unique_ptr<CpuLaunch> launch = make_library_launch(program, call)) return launch;
  const std::string_view name = ir::op_info(call.op.code).name;
  write_log_once(LogLevel::info, fmt::format("evaluator's {}", name),
                 fmt::format("{}: no library computes it here, so the evaluator computes it on one thread",
                             ir::describe(call.op)));
  return std::make_unique<CpuHostOp>(program, call);
}

}  // namespace rewire::runtime
