// Launches as tasks, and waves of them; see launches.h.
#include "runtime/exec/cpu/launches.h"

#include <algorithm>
#include <map>
#include <memory>

#include "ir/error.h"
#include "runtime/exec/cpu/convolution_product.h"
#include "runtime/exec/cpu/matrix_cut.h"
#include "runtime/exec/cpu/op_calls.h"
#include "runtime/exec/cpu/product_launch.h"

namespace rewire::runtime {
namespace {

using codegen::GemmLaunch;
using codegen::GemmShape;
using codegen::KernelLaunch;
using codegen::Program;
using codegen::View;

// A kernel, and each member of a table, is cut into at most this many tasks: enough for
// balance, few enough to cost nothing.
constexpr std::int64_t kMaxTasks = 64;
constexpr std::int64_t kGemmPartFlops = 40'000'000;
constexpr std::int64_t kGemmPartElements = 192 * 192;  // of c; smaller parts lose a quarter of the speed
constexpr std::int64_t kGemmMaxParts = 16;
constexpr std::int64_t kGemmMultiple = 16;
constexpr std::int64_t kGemmLeastColumns = 96;

// Runs the members of a table one after the other. Each is cut into tasks as if it were launched alone.
class CpuKernel final : public CpuLaunch {
 public:
  CpuKernel(const KernelLaunch& launch, codegen::CompiledKernel kernel)
      : kernel_(kernel),
        members_(static_cast<std::int64_t>(launch.members())),
        instances_(launch.kernel.instances()) {
    for (std::size_t member = 0; member < launch.members(); ++member) {
      const std::vector<std::int32_t>& buffers = launch.member_buffers(member);
      buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
    }
    arguments_.resize(buffers_.size());
    grain_ = (instances_ + kMaxTasks - 1) / kMaxTasks;
    member_tasks_ = (instances_ + grain_ - 1) / grain_;
  }
  std::int64_t tasks() const override { return members_ * member_tasks_; }
  std::int64_t scratch_bytes() const override { return kernel_.scratch_bytes; }
  void bind(const BufferPointers& pointers) override {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      arguments_[i] = pointers[static_cast<std::size_t>(buffers_[i])];
  }
  void run(std::int64_t task, void* scratch) const override {
    const std::int64_t member = task / member_tasks_, begin = task % member_tasks_ * grain_;
    const std::int64_t first = member * (static_cast<std::int64_t>(arguments_.size()) / members_);
    kernel_.function(arguments_.data() + first, begin, std::min(instances_, begin + grain_), scratch);
  }

 private:
  codegen::CompiledKernel kernel_;
  std::int64_t members_ = 1, instances_ = 1, grain_ = 1, member_tasks_ = 1;
  std::vector<std::int32_t> buffers_;  // of all members
  std::vector<void*> arguments_;
};

MatrixCut gemm_parts(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t by_area = std::max<std::int64_t>(m * n / kGemmPartElements, 2);
  const std::int64_t by_work = 2 * m * n * k / kGemmPartFlops;
  const auto most = std::clamp<std::int64_t>(std::min(by_area, by_work), 1, kGemmMaxParts);
  return MatrixCut::squarest(m, n, most, kGemmMultiple, kGemmMultiple, kGemmLeastColumns);
}

/// Calls of one shape share the library's object.
class GemmLibrary {
 public:
  const codegen::Gemm& find(const GemmShape& shape) {
    const auto [it, fresh] = known_.try_emplace(shape);
    if (fresh) it->second = std::make_unique<codegen::Gemm>(shape);
    return *it->second;
  }

 private:
  std::map<GemmShape, std::unique_ptr<codegen::Gemm>> known_;
};

// A GEMM cut into parts of rows and columns, times the batch.
class CpuGemm final : public CpuLaunch {
 public:
  CpuGemm(const Program& program, const GemmLaunch& launch, const std::shared_ptr<GemmLibrary>& library)
      : launch_(launch),
        parts_(gemm_parts(launch.c.shape[launch.c.shape.size() - 2], launch.c.shape.back(),
                          launch.a.shape.back())),
        library_(library) {
    if (launch.epilogue != codegen::GemmEpilogue::none)
      internal_error("a CPU's product has no epilogue but a bias");
    const std::size_t rank = launch.c.shape.size();
    for (std::size_t d = 0; d + 2 < rank; ++d) batch_ *= launch.c.shape[d];
    const auto dtype = [&](const View& view) {
      return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
    };
    GemmShape shape;
    shape.k = launch.a.shape.back();
    shape.a_row = row(launch.a), shape.a_column = column(launch.a);
    shape.b_row = row(launch.b), shape.b_column = column(launch.b);
    shape.c_row = std::max(row(launch.c), launch.c.shape.back());
    shape.dtype = dtype(launch.a);
    shape.c_dtype = dtype(launch.c);
    shape.bias = launch.bias.buffer >= 0;
    if (shape.bias) shape.bias_dtype = dtype(launch.bias);
    operand_bytes_ = static_cast<std::int64_t>(ir::dtype_bytes(shape.dtype));
    c_bytes_ = static_cast<std::int64_t>(ir::dtype_bytes(shape.c_dtype));
    bias_bytes_ = static_cast<std::int64_t>(ir::dtype_bytes(shape.bias_dtype));
    shape.accumulate = launch.accumulate;
    for (std::int64_t i = 0; i < parts_.rows.pieces; ++i) {
      for (std::int64_t j = 0; j < parts_.columns.pieces; ++j) {
        shape.m = parts_.rows.size_of(i);
        shape.n = parts_.columns.size_of(j);
        calls_.push_back(&library_->find(shape));
      }
    }
  }

  std::int64_t tasks() const override { return batch_ * static_cast<std::int64_t>(calls_.size()); }
  std::int64_t scratch_bytes() const override {
    std::int64_t most = 0;
    for (const codegen::Gemm* call : calls_) most = std::max(most, call->scratch_bytes());
    return most;
  }
  void bind(const BufferPointers& pointers) override {
    a_ = pointers[static_cast<std::size_t>(launch_.a.buffer)];
    b_ = pointers[static_cast<std::size_t>(launch_.b.buffer)];
    c_ = pointers[static_cast<std::size_t>(launch_.c.buffer)];
    bias_ = launch_.bias.buffer < 0 ? nullptr : pointers[static_cast<std::size_t>(launch_.bias.buffer)];
  }
  void run(std::int64_t task, void* scratch) const override {
    const auto parts = static_cast<std::int64_t>(calls_.size());
    const std::int64_t batch = task / parts, part = task % parts;
    const std::int64_t i = parts_.rows.begin(part / parts_.columns.pieces);
    const std::int64_t j = parts_.columns.begin(part % parts_.columns.pieces);
    const std::byte* bias = bias_ == nullptr
                                ? nullptr
                                : bias_ + (launch_.bias.offset + j * launch_.bias.strides[0]) * bias_bytes_;
    calls_[static_cast<std::size_t>(part)]->run(at(a_, launch_.a, operand_bytes_, batch, i, 0),
                                                at(b_, launch_.b, operand_bytes_, batch, 0, j),
                                                at(c_, launch_.c, c_bytes_, batch, i, j), bias, scratch);
  }

 private:
  // oneDNN requires a valid stride even if an extent of 1 makes it meaningless.
  static std::int64_t row(const View& view) {
    const std::size_t rank = view.shape.size();
    const bool single = view.shape[rank - 2] == 1;
    return single ? (view.strides[rank - 1] == 1 ? view.shape[rank - 1] : 1) : view.strides[rank - 2];
  }
  static std::int64_t column(const View& view) {
    const std::size_t rank = view.shape.size();
    if (view.shape[rank - 1] != 1) return view.strides[rank - 1];
    return view.shape[rank - 2] != 1 && view.strides[rank - 2] != 1 ? 1 : view.shape[rank - 2];
  }

  /// Returns the address of element (i, j) of a matrix of the batch.
  std::byte* at(std::byte* base, const View& view, std::int64_t element_bytes, std::int64_t batch,
                std::int64_t i, std::int64_t j) const {
    const std::size_t rank = view.shape.size();
    const std::int64_t offset =
        matrix_offset(view, launch_.c.shape, batch) + i * view.strides[rank - 2] + j * view.strides[rank - 1];
    return base + offset * element_bytes;
  }

  GemmLaunch launch_;
  MatrixCut parts_;
  std::shared_ptr<GemmLibrary> library_;
  std::vector<const codegen::Gemm*> calls_;  // by part
  std::int64_t batch_ = 1, operand_bytes_ = 4, c_bytes_ = 4, bias_bytes_ = 4;
  std::byte *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *bias_ = nullptr;
};

// Bytes [begin, end) of a space: space -1 is the arena, every other buffer is a space of its own.
struct Range {
  std::int64_t space, begin, end;
  bool overlaps(const Range& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

Range range_of(const Program& program, const MemoryPlan& plan, std::int32_t buffer) {
  const PlannedBuffer& planned = plan.buffers[static_cast<std::size_t>(buffer)];
  if (planned.offset >= 0) return {-1, planned.offset, planned.offset + planned.bytes};
  return {buffer, 0,
          std::max<std::int64_t>(program.buffers[static_cast<std::size_t>(buffer)].type.bytes(), 1)};
}

bool any_overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& x) {
    return std::any_of(b.begin(), b.end(), [&](const Range& y) { return x.overlaps(y); });
  });
}

}  // namespace

bool is_fixed(const Program& program, std::int32_t buffer, bool fixed_state) {
  const codegen::BufferKind kind = program.buffers[static_cast<std::size_t>(buffer)].kind;
  return kind == codegen::BufferKind::constant || (fixed_state && kind == codegen::BufferKind::state);
}

bool runs_product(const Program& program, const codegen::Launch& launch) {
  if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) return takes_product(program, *gemm);
  const auto* call = std::get_if<codegen::OpCall>(&launch);
  return call != nullptr && takes_convolution(program, *call);
}

std::vector<std::unique_ptr<CpuLaunch>> make_cpu_launches(const Program& program,
                                                          const std::vector<codegen::CompiledKernel>& kernels,
                                                          const ProductsBy& products, bool fixed_state) {
  std::vector<std::unique_ptr<CpuLaunch>> launches;
  const auto gemms = std::make_shared<GemmLibrary>();
  std::size_t kernel = 0;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const codegen::Launch& launch = program.launches[i];
    const bool ours = products.code != nullptr && products.ours.at(i);
    if (const auto* k = std::get_if<KernelLaunch>(&launch)) {
      launches.push_back(std::make_unique<CpuKernel>(*k, kernels.at(kernel++)));
    } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
      const bool fixed_b = is_fixed(program, gemm->b.buffer, fixed_state);
      launches.push_back(ours ? make_product_launch(*gemm, *products.code, fixed_b)
                              : std::make_unique<CpuGemm>(program, *gemm, gemms));
    } else {
      const auto& call = std::get<codegen::OpCall>(launch);
      launches.push_back(ours ? make_convolution_launch(call, *products.code)
                              : make_op_launch(program, call));
    }
  }
  return launches;
}

std::vector<std::vector<int>> make_waves(const Program& program, const MemoryPlan& plan) {
  std::vector<std::vector<int>> waves;
  std::vector<Range> reads, writes;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const BufferUse use = buffers_of(program.launches[i]);
    std::vector<Range> my_reads, my_writes;
    for (std::int32_t buffer : use.reads) my_reads.push_back(range_of(program, plan, buffer));
    for (std::int32_t buffer : use.writes) my_writes.push_back(range_of(program, plan, buffer));
    const bool conflict =
        any_overlap(my_reads, writes) || any_overlap(my_writes, writes) || any_overlap(my_writes, reads);
    if (waves.empty() || conflict) {
      waves.emplace_back();
      reads.clear();
      writes.clear();
    }
    waves.back().push_back(static_cast<int>(i));
    reads.insert(reads.end(), my_reads.begin(), my_reads.end());
    writes.insert(writes.end(), my_writes.begin(), my_writes.end());
  }
  return waves;
}

}  // namespace rewire::runtime
