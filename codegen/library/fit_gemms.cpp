#include "codegen/library/fit_gemms.h"

#include <array>
#include <utility>
#include <vector>

#include "codegen/fuse/plain_kernels.h"

namespace rewire::codegen {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes: what a GPU reads at once

struct Way {
  bool bias_first = false, laid_out = false;
};

/// A GEMM, and the copies before and after it.
struct Fitted {
  std::vector<KernelLaunch> before, after;
  GemmLaunch gemm;
};

class Fitting {
 public:
  Fitting(Program& program, const WorkGrain& grain) : program_(program), grain_(grain) {}

  Fitted fit(const GemmLaunch& launch, const Way& way) {
    Fitted fitted{{}, {}, launch};
    GemmLaunch& gemm = fitted.gemm;
    if (way.laid_out) {
      for (View* operand : {&gemm.a, &gemm.b}) {
        if (is_aligned(*operand)) continue;
        const View from = once(*operand);
        const View to = add_dense(from, gemm.location);
        fitted.before.push_back(copy(from, to, gemm.location));
        operand->buffer = to.buffer, operand->offset = 0;
        for (std::size_t d = 0; d < to.shape.size(); ++d)
          operand->strides[d] = operand->shape[d] == to.shape[d] ? to.strides[d] : 0;
      }
      if (!is_dense(gemm.c)) {
        gemm.c = add_dense(launch.c, gemm.location);
        if (gemm.accumulate) fitted.before.push_back(copy(launch.c, gemm.c, gemm.location));
        fitted.after.push_back(copy(gemm.c, launch.c, gemm.location));
      }
    }
    if (way.bias_first) {
      View bias{launch.bias.buffer, launch.bias.offset, gemm.c.shape, ir::Shape(gemm.c.shape.size(), 0)};
      bias.strides.back() = launch.bias.strides[0];
      fitted.before.push_back(copy(bias, gemm.c, gemm.location));
      gemm.bias = {};
      gemm.accumulate = true;
    }
    return fitted;
  }

  /// Returns the possible ways, those with fewer copies first.
  std::vector<Way> ways(const GemmLaunch& launch) const {
    if (launch.epilogue != GemmEpilogue::none) return {{}};
    const bool bias = launch.bias.buffer >= 0 && !launch.accumulate;
    const bool lay_out = !is_aligned(launch.a) || !is_aligned(launch.b) || !is_dense(launch.c);
    std::vector<Way> ways = {{}};
    if (bias) ways.push_back({true, false});
    if (lay_out) ways.push_back({false, true});
    if (bias && lay_out) ways.push_back({true, true});
    return ways;
  }

 private:
  std::int64_t bytes(const View& view) const {
    return static_cast<std::int64_t>(
        ir::dtype_bytes(program_.buffers[static_cast<std::size_t>(view.buffer)].type.dtype));
  }

  bool is_aligned(const View& view) const {
    if (view.offset * bytes(view) % kAlignment != 0) return false;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      const bool unit = d + 2 >= view.shape.size() && view.strides[d] == 1;
      if (!unit && view.shape[d] > 1 && view.strides[d] * bytes(view) % kAlignment != 0) return false;
    }
    return true;
  }

  /// Returns whether a view is aligned, and its rows follow each other over all its axes.
  bool is_dense(const View& view) const {
    for (std::size_t d = 0; d + 2 < view.shape.size(); ++d) {
      if (view.shape[d] > 1 && view.strides[d] != view.strides[d + 1] * view.shape[d + 1]) return false;
    }
    return is_aligned(view);
  }

  /// Returns a view that walks each repeating axis once.
  static View once(View view) {
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if (view.strides[d] == 0) view.shape[d] = 1;
    }
    return view;
  }

  /// Adds a buffer of the same shape, row after row. Each row begins at a multiple of 16 bytes.
  View add_dense(const View& view, const std::string& location) {
    const std::int64_t unit = kAlignment / bytes(view);
    ir::Shape padded = view.shape;
    padded.back() = (padded.back() + unit - 1) / unit * unit;
    const View made{static_cast<std::int32_t>(program_.buffers.size()), 0, view.shape,
                    ir::row_major_strides(padded)};
    const ir::DType dtype = program_.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
    program_.buffers.push_back({location + ".laid_out", BufferKind::temporary, {dtype, padded}, {}});
    return made;
  }

  KernelLaunch copy(const View& from, const View& to, const std::string& location) const {
    return emit_copy(program_, from, to, location, grain_);
  }

  Program& program_;
  const WorkGrain& grain_;
};

/// Returns the first fit that the library accepts; the launch unchanged if there is none.
Fitted best_fit(Program& program, const GemmLaunch& launch,
                const std::function<GemmAnswer(const DeviceGemmShape&)>& ask, bool tf32,
                const WorkGrain& grain) {
  Fitting fitting(program, grain);
  const std::size_t buffers = program.buffers.size();
  for (const GemmAnswer wanted : {GemmAnswer::one_call, GemmAnswer::call_a_product}) {
    for (const Way& way : fitting.ways(launch)) {
      Fitted fitted = fitting.fit(launch, way);
      if (ask(device_gemm_calls(program, fitted.gemm, tf32).front().shape) == wanted) return fitted;
      program.buffers.resize(buffers);
    }
  }
  return {{}, {}, launch};
}

}  // namespace

void fit_gemms(Program& program, const std::function<GemmAnswer(const DeviceGemmShape&)>& ask, bool tf32,
               const WorkGrain& grain) {
  std::vector<Launch> launches;
  for (Launch& launch : program.launches) {
    const auto* gemm = std::get_if<GemmLaunch>(&launch);
    if (gemm == nullptr) {
      launches.push_back(std::move(launch));
      continue;
    }
    Fitted fitted = best_fit(program, *gemm, ask, tf32, grain);
    for (KernelLaunch& copy : fitted.before) launches.emplace_back(std::move(copy));
    launches.emplace_back(std::move(fitted.gemm));
    for (KernelLaunch& copy : fitted.after) launches.emplace_back(std::move(copy));
  }
  program.launches = std::move(launches);
}

}  // namespace rewire::codegen
