// See product_launch.h. A task's loops, from the outside in: blocks of k, panels of columns, panels
// of rows. A panel of b (a block of k x the code's columns) stays in the L1 cache while all rows of
// the task use it. The task's rows of a stay in the L2 cache. Meanwhile Ahead prefetches what the
// next block of k packs and reads.
#include "runtime/exec/cpu/product_launch.h"

#include <algorithm>

#include "runtime/exec/cpu/matrix_cut.h"
#include "runtime/exec/cpu/packing.h"

namespace rewire::runtime {
namespace {

using codegen::GemmLaunch;
using codegen::ProductCode;
using codegen::Program;
using codegen::View;

constexpr std::int64_t kDeepest = 384;     // steps of k in a block: its panel of b fits the L1 cache
constexpr std::int64_t kTaskRows = 96;     // about; rows of a task that reads a shared b
constexpr std::int64_t kFewestPanels = 3;  // fewest panels of columns in a task
constexpr std::int64_t kEvenTasks = 4;     // more row tasks are a multiple of it: 2 or 4 threads get as many
constexpr std::int64_t kSharedElements = 1 << 21;  // most elements of a b packed once for all tasks
constexpr std::int64_t kLeastSharedTasks = 4;      // fewest tasks that make a shared b pay
constexpr std::int64_t kTaskElements = 192 * 192;  // fewest elements of c if tasks pack their own b
constexpr std::int64_t kMostTasks = 16;            // most tasks if columns are cut
// With fewer rows, packing b does not pay; with fewer columns, packing a does not.
// The library is faster then.
constexpr std::int64_t kLeastRows = 16, kLeastColumns = 64;

constexpr std::int64_t kCacheLine = 16;  // floats

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t row_stride(const View& view) {
  return view.strides[view.strides.size() - 2];
}

/// Returns true if all batch indices read the same matrix.
bool repeats(const View& view) {
  for (std::size_t d = 0; d + 2 < view.shape.size(); ++d) {
    if (view.strides[d] != 0 && view.shape[d] != 1) return false;
  }
  return true;
}

/// Prefetches the lines that pack_panels reads next, a part of them at each step().
class Ahead {
 public:
  Ahead() = default;
  /// All lines are prefetched after `steps` calls of step().
  Ahead(const float* from, std::int64_t line_stride, std::int64_t k_stride, std::int64_t lines,
        std::int64_t k, std::int64_t steps)
      : from_(from),
        stride_(line_stride == 1 ? k_stride : line_stride),
        length_(line_stride == 1 ? lines : k),
        left_(line_stride == 1 ? k : lines),
        each_((left_ + steps - 1) / steps) {}
  void step() {
    for (const std::int64_t end = std::max<std::int64_t>(left_ - each_, 0); left_ > end; --left_) {
      for (std::int64_t j = 0; j < length_; j += kCacheLine) __builtin_prefetch(from_ + j, 0, 2);
      from_ += stride_;
    }
  }

 private:
  const float* from_ = nullptr;
  std::int64_t stride_ = 0, length_ = 0, left_ = 0, each_ = 0;
};

class ProductLaunch final : public CpuLaunch {
 public:
  ProductLaunch(const GemmLaunch& launch, const ProductCode& code, bool fixed_b)
      : launch_(launch),
        code_(code),
        batch_(ir::element_count({launch.c.shape.begin(), launch.c.shape.end() - 2})),
        m_(launch.c.shape[launch.c.shape.size() - 2]),
        n_(launch.c.shape.back()),
        k_(launch.a.shape.back()),
        padded_n_(round_up(n_, code.block.columns)),
        direct_(launch.a.strides.back() == 1),
        depth_(k_, (k_ + kDeepest - 1) / kDeepest, 4) {
    const auto& [height, width] = code.block;
    std::int64_t wanted = std::max<std::int64_t>((m_ + kTaskRows / 2) / kTaskRows, 1);
    if (wanted > kEvenTasks) wanted = (wanted + kEvenTasks / 2) / kEvenTasks * kEvenTasks;
    const Cut rows(m_, wanted, height);
    const std::int64_t row_tasks = rows.pieces * batch_;
    shared_ = repeats(launch.b) &&
              (fixed_b || (padded_n_ * k_ <= kSharedElements && row_tasks >= kLeastSharedTasks));
    if (shared_) {
      blocks_ = {rows, Cut(n_, fixed_b ? column_pieces(row_tasks) : 1, width)};
      packing_ = Cut(n_, std::min<std::int64_t>(kMostTasks, padded_n_ / width), width);
    } else {
      const std::int64_t most = std::clamp<std::int64_t>(m_ * n_ / kTaskElements, 2, kMostTasks);
      blocks_ = MatrixCut::squarest(m_, n_, most, height, width, width);
    }
  }

  std::int64_t tasks() const override { return packers() + batch_ * blocks_.blocks(); }
  std::vector<std::int64_t> barriers() const override {
    if (!shared_) return {};
    return {packers()};
  }
  std::int64_t shared_bytes() const override {
    return shared_ ? padded_n_ * k_ * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  void lend(std::byte* shared) override { packed_b_ = reinterpret_cast<float*>(shared); }
  std::vector<std::int32_t> packs() const override {
    if (!shared_) return {};
    return {launch_.b.buffer};
  }
  std::int64_t scratch_bytes() const override {
    return (own_b_elements() + own_a_elements()) * static_cast<std::int64_t>(sizeof(float));
  }

  void bind(const BufferPointers& pointers) override {
    const auto at = [&](std::int32_t buffer) {
      return reinterpret_cast<float*>(pointers[static_cast<std::size_t>(buffer)]);
    };
    a_at_ = at(launch_.a.buffer);
    b_at_ = at(launch_.b.buffer);
    c_at_ = at(launch_.c.buffer);
    bias_at_ = launch_.bias.buffer < 0 ? nullptr : at(launch_.bias.buffer) + launch_.bias.offset;
  }

  void run(std::int64_t task, void* scratch) const override {
    if (task < packers()) return pack_shared(task);
    task -= packers();
    const std::int64_t block = task % blocks_.blocks(), across = blocks_.columns.pieces;
    compute(task / blocks_.blocks(), block / across, block % across, static_cast<float*>(scratch));
  }

 private:
  /// Returns the number of pieces of the columns if b is packed once for all runs. There are up to
  /// kMostTasks tasks in all. Their number is a multiple of four, or of two, if possible.
  std::int64_t column_pieces(std::int64_t row_tasks) const {
    const std::int64_t most = std::clamp<std::int64_t>(
        kMostTasks / row_tasks, 1,
        std::max<std::int64_t>(padded_n_ / (kFewestPanels * code_.block.columns), 1));
    for (const std::int64_t even : {kEvenTasks, std::int64_t{2}}) {
      for (std::int64_t pieces = most; pieces > 0; --pieces) {
        if (row_tasks * pieces % even == 0) return pieces;
      }
    }
    return most;
  }

  std::int64_t packers() const { return shared_ ? packing_.pieces : 0; }
  std::int64_t own_b_elements() const { return shared_ ? 0 : blocks_.columns.size * depth_.size; }
  std::int64_t own_a_elements() const { return direct_ ? 0 : blocks_.rows.size * depth_.size; }

  /// Returns where row `depth` (the first of a block of `deep` rows) and column
  /// `column` of the shared b lie.
  float* shared_panels(std::int64_t depth, std::int64_t deep, std::int64_t column) const {
    return packed_b_ + depth * padded_n_ + column * deep;
  }

  void pack_b(const float* b, std::int64_t depth, std::int64_t deep, std::int64_t column,
              std::int64_t columns, float* to) const {
    const std::int64_t row = row_stride(launch_.b), step = launch_.b.strides.back();
    pack_panels(b + depth * row + column * step, step, row, columns, deep, code_.block.columns, to,
                code_.block.columns * deep);
  }

  void pack_shared(std::int64_t piece) const {
    const std::int64_t column = packing_.begin(piece);
    for (std::int64_t d = 0; d < depth_.pieces; ++d) {
      const std::int64_t depth = depth_.begin(d), deep = depth_.size_of(d);
      pack_b(b_at_ + launch_.b.offset, depth, deep, column, packing_.size_of(piece),
             shared_panels(depth, deep, column));
    }
  }

  void compute(std::int64_t batch, std::int64_t row_piece, std::int64_t column_piece, float* scratch) const {
    const std::int64_t row = blocks_.rows.begin(row_piece), rows = blocks_.rows.size_of(row_piece);
    const std::int64_t column = blocks_.columns.begin(column_piece),
                       columns = blocks_.columns.size_of(column_piece);
    const auto matrix = [&](const View& view) { return matrix_offset(view, launch_.c.shape, batch); };
    const float* const a = a_at_ + matrix(launch_.a) + row * row_stride(launch_.a);
    const float* const b = b_at_ + matrix(launch_.b);
    float* const c = c_at_ + matrix(launch_.c) + row * row_stride(launch_.c) + column;
    float* const own_a = scratch + own_b_elements();
    const std::int64_t a_row = row_stride(launch_.a), a_step = launch_.a.strides.back();
    for (std::int64_t d = 0; d < depth_.pieces; ++d) {
      const std::int64_t depth = depth_.begin(d), deep = depth_.size_of(d);
      const float* panels = shared_ ? shared_panels(depth, deep, column) : scratch;
      if (!shared_) pack_b(b, depth, deep, column, columns, scratch);
      const float* const part = a + depth * a_step;
      if (!direct_)
        pack_panels(part, a_row, a_step, rows, deep, code_.block.rows, own_a, code_.block.rows * deep);
      const bool add = d > 0 || launch_.accumulate;
      const float* bias = d + 1 == depth_.pieces && bias_at_ != nullptr ? bias_at_ + column : nullptr;
      Ahead next_a, next_b;
      if (d + 1 < depth_.pieces) {
        const std::int64_t next = depth + deep, then = depth_.size_of(d + 1), steps = products(rows, columns);
        const std::int64_t b_row = row_stride(launch_.b), b_step = launch_.b.strides.back();
        next_a = Ahead(a + next * a_step, a_row, a_step, rows, then, steps);
        if (!shared_) next_b = Ahead(b + next * b_row + column * b_step, b_step, b_row, columns, then, steps);
      }
      multiply(direct_ ? part : own_a, rows, panels, columns, deep, c, bias, add, next_a, next_b);
    }
  }

  /// Returns how often the code is called for a block of c.
  std::int64_t products(std::int64_t rows, std::int64_t columns) const {
    const auto& [height, width] = code_.block;
    return round_up(rows, height) / height * (round_up(columns, width) / width);
  }

  void multiply(const float* a, std::int64_t rows, const float* panels, std::int64_t columns,
                std::int64_t deep, float* c, const float* bias, bool add, Ahead next_a, Ahead next_b) const {
    const auto& [height, width] = code_.block;
    const std::vector<codegen::ProductFunction>& functions = direct_ ? code_.direct : code_.packed;
    const std::int64_t a_row = row_stride(launch_.a), c_row = row_stride(launch_.c);
    for (std::int64_t j = 0; j < columns; j += width) {
      for (std::int64_t i = 0; i < rows; i += height) {
        const std::int64_t high = std::min(height, rows - i);
        next_a.step();
        next_b.step();
        functions[static_cast<std::size_t>(high - 1)](
            direct_ ? a + i * a_row : a + i * deep, a_row, panels + j * deep, c + i * c_row + j, c_row, deep,
            std::min(width, columns - j), bias == nullptr ? nullptr : bias + j, add);
      }
    }
  }

  const GemmLaunch launch_;
  const ProductCode& code_;
  const std::int64_t batch_, m_, n_, k_, padded_n_;
  const bool direct_;  // a is read in place, not packed
  const Cut depth_;
  bool shared_ = false;  // b is packed for all tasks
  MatrixCut blocks_;     // of c
  Cut packing_;          // of a shared b
  const float *a_at_ = nullptr, *b_at_ = nullptr, *bias_at_ = nullptr;
  float *c_at_ = nullptr, *packed_b_ = nullptr;
};

}  // namespace

bool takes_product(const Program& program, const GemmLaunch& launch) {
  const auto is_f32 = [&](const View& view) {
    return view.buffer < 0 ||
           program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype == ir::DType::f32;
  };
  const auto is_dense = [](const View& view) { return view.strides.back() == 1 || row_stride(view) == 1; };
  const bool pays = launch.c.shape[launch.c.shape.size() - 2] >= kLeastRows &&
                    (launch.a.strides.back() == 1 || launch.c.shape.back() >= kLeastColumns);
  return pays && launch.epilogue == codegen::GemmEpilogue::none && is_f32(launch.a) && is_f32(launch.b) &&
         is_f32(launch.c) && is_f32(launch.bias) && is_dense(launch.a) && is_dense(launch.b) &&
         launch.c.strides.back() == 1 && (launch.bias.buffer < 0 || launch.bias.strides.back() == 1);
}

std::unique_ptr<CpuLaunch> make_product_launch(const GemmLaunch& launch, const ProductCode& code,
                                               bool fixed_b) {
  return std::make_unique<ProductLaunch>(launch, code, fixed_b);
}

}  // namespace rewire::runtime
