// Convolutions of dense f32 maps by oneDNN. A batch is cut into parts; the cut depends on the shape alone.
// The weights are packed first, once for all parts. Each part keeps its own gradient of the weights; these
// are added in the order of the parts. So no result depends on which thread computes a part. If the maps are
// small or the kernel is one pixel, weight gradients are products of slices of the channels.
#include <algorithm>
#include <bit>
#include <vector>

#include "codegen/library/convolution.h"
#include "codegen/library/gemm.h"
#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "runtime/exec/cpu/op_calls.h"
#include "runtime/exec/cpu/over_maps.h"

namespace rewire::runtime {

extern const CpuOp kCpuConv2d, kCpuConv2dInputGrad, kCpuConv2dWeightGrad;

namespace {

using codegen::Convolution;
using codegen::ConvProduct;
using ir::ConvShape;

constexpr std::int64_t kMostConvParts = 16;
constexpr double kConvPartMultiplyAdds = 5e6;   // smaller parts cost more to start than they gain in balance
constexpr std::int64_t kAddedElements = 65536;  // elements of a task that adds up the parts
// A part with fewer positions takes little longer to compute than its weight gradient takes to be added.
constexpr std::int64_t kPartPositions = 512;
constexpr std::int64_t kLeastWeightParts = 4;  // so that threads have work even if positions are few
// A direct convolution passes through the weight gradient once per image. From 8 x 8 positions per image
// on, this costs less than gathering windows. Times of a product relative to it, for 3 x 3 convolutions,
// 64 images, 2 threads: .85 at 4 x 4 x 512, 1.08 at 8 x 8 x 256, 1.4 at 16 x 16 x 128 on a CPU with
// AVX-512; .72, .93 and 1.2 with AVX2.
constexpr std::int64_t kMostProductPositions = 49;
constexpr std::int64_t kSliceChannels = 16;

std::int64_t positions(const ConvShape& shape) {
  return shape.batch * shape.out.height * shape.out.width;
}

/// Returns the samples of each part except the last.
std::int64_t part_size(const ConvShape& shape, ConvProduct product) {
  auto parts = static_cast<std::int64_t>(shape.multiply_adds() / kConvPartMultiplyAdds);
  if (product == ConvProduct::weight) {
    const std::int64_t bytes = ir::element_count(shape.weight()) * static_cast<std::int64_t>(sizeof(float));
    parts = std::min({parts, std::max<std::int64_t>(2, kPartGradientBytes / std::max<std::int64_t>(bytes, 1)),
                      std::max(kLeastWeightParts, positions(shape) / kPartPositions)});
  }
  parts = std::clamp<std::int64_t>(parts, 1, std::min(kMostConvParts, shape.batch));
  // A power of two: 2, 4 or 8 threads get equally many parts.
  parts = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(parts)));
  return (shape.batch + parts - 1) / parts;
}

/// For these convolutions with few channels and channels-last maps, oneDNN 2.6 writes a weight gradient
/// beyond its scratch memory, on a CPU with AVX-512.
bool is_of_strided_pixels(const ConvShape& shape) {
  return shape.kernel == ConvShape::Plane{} && shape.stride != ConvShape::Plane{};
}

class ConvolutionLaunch : public OverMaps {
 public:
  ConvolutionLaunch(const codegen::OpCall& call, ConvProduct product)
      : OverMaps(call), size_(part_size(shape_, product)), parts_((shape_.batch + size_ - 1) / size_) {
    const bool channels_last = ir::is_channels_last(call.op.attributes);
    ConvShape part = shape_;
    part.batch = size_;
    full_ = std::make_unique<Convolution>(product, part, channels_last);
    part.batch = shape_.batch - (parts_ - 1) * size_;
    if (part.batch != size_) last_ = std::make_unique<Convolution>(product, part, channels_last, full_.get());
  }

  std::int64_t scratch_bytes() const override {
    return std::max(full_->scratch_bytes(), last_ ? last_->scratch_bytes() : 0);
  }
  void lend(std::byte* shared) override { packed_ = reinterpret_cast<float*>(shared); }

 protected:
  const Convolution& convolution(std::int64_t part) const {
    return last_ && part + 1 == parts_ ? *last_ : *full_;
  }
  /// Returns the elements of `maps` in one part. The parts lie one after the other.
  std::int64_t step(const codegen::View& maps) const {
    return ir::element_count(maps.shape) / shape_.batch * size_;
  }

  const std::int64_t size_, parts_;
  std::unique_ptr<Convolution> full_, last_;  // last_: the last part, if it is smaller
  float* packed_ = nullptr;
};

/// Computes the maps, or their gradient. Weights are packed in pieces, then each part is computed.
class MapConvolution final : public ConvolutionLaunch {
 public:
  using ConvolutionLaunch::ConvolutionLaunch;
  std::int64_t tasks() const override { return full_->pieces() + parts_; }
  std::vector<std::int64_t> barriers() const override { return {full_->pieces()}; }
  std::int64_t shared_bytes() const override { return in_lines(full_->packed_bytes()); }
  std::vector<std::int32_t> packs() const override { return {second_.buffer}; }
  void run(std::int64_t task, void* scratch) const override {
    const std::int64_t part = task - full_->pieces();
    if (part < 0) return full_->pack(task, second_at_, packed_, scratch);
    convolution(part).run(first_at_ + part * step(first_), packed_, result_at_ + part * step(result_),
                          scratch);
  }
};

/// Computes the weight gradient of each part, then the sum in the order of the parts, then unpacks it.
class WeightConvolution final : public ConvolutionLaunch {
 public:
  explicit WeightConvolution(const codegen::OpCall& call)
      : ConvolutionLaunch(call, ConvProduct::weight),
        packed_bytes_(in_lines(full_->packed_bytes())),
        elements_(full_->packed_bytes() / static_cast<std::int64_t>(sizeof(float))),
        sums_(parts_ > 1 ? (elements_ + kAddedElements - 1) / kAddedElements : 0) {}

  std::int64_t tasks() const override { return parts_ + sums_ + full_->pieces(); }
  std::vector<std::int64_t> barriers() const override { return {parts_, parts_ + sums_}; }
  std::int64_t shared_bytes() const override { return parts_ * packed_bytes_; }
  void run(std::int64_t task, void* scratch) const override {
    if (task < parts_) {
      convolution(task).run(first_at_ + task * step(first_), second_at_ + task * step(second_), of_part(task),
                            scratch);
    } else if (task < parts_ + sums_) {
      const std::int64_t begin = (task - parts_) * kAddedElements;
      const std::int64_t count = std::min(kAddedElements, elements_ - begin);
      for (std::int64_t part = 1; part < parts_; ++part)
        codegen::add_parts(of_part(part) + begin, count, of_part(0) + begin);
    } else {
      full_->unpack(task - parts_ - sums_, packed_, result_at_, scratch);
    }
  }

 private:
  float* of_part(std::int64_t part) const {
    return packed_ + part * packed_bytes_ / static_cast<std::int64_t>(sizeof(float));
  }

  const std::int64_t packed_bytes_, elements_, sums_;
};

/// The gradient of the weights as products dw = g' X. X [positions, inputs x kernel] holds the windows
/// that the kernel reads. g [positions, outputs] is the gradient of the maps, channels last. A task
/// gathers X for a slice of the inputs.
class WeightProduct final : public OverMaps {
 public:
  static bool takes(const codegen::OpCall& call) {
    const ConvShape shape = conv_shape_of(call);
    return ir::is_channels_last(call.op.attributes) && shape.groups == 1 &&
           (is_of_strided_pixels(shape) || shape.out.height * shape.out.width <= kMostProductPositions);
  }

  explicit WeightProduct(const codegen::OpCall& call)
      : OverMaps(call),
        slices_((shape_.inputs + kSliceChannels - 1) / kSliceChannels),
        full_(gemm_of(channels(0))),
        last_(gemm_of(channels(slices_ - 1))) {}

  std::int64_t tasks() const override { return slices_; }
  std::int64_t scratch_bytes() const override {
    return window_bytes(channels(0)) + std::max(full_.scratch_bytes(), last_.scratch_bytes());
  }
  void run(std::int64_t task, void* scratch) const override {
    auto* const windows = static_cast<float*>(scratch);
    gather(task, windows);
    (task + 1 == slices_ ? last_ : full_)
        .run(second_at_, windows, result_at_ + task * kSliceChannels * taps(), nullptr,
             static_cast<std::byte*>(scratch) + window_bytes(channels(task)));
  }

 private:
  std::int64_t taps() const { return shape_.kernel.height * shape_.kernel.width; }
  std::int64_t channels(std::int64_t slice) const {
    return std::min(kSliceChannels, shape_.inputs - slice * kSliceChannels);
  }
  std::int64_t window_bytes(std::int64_t count) const {
    return in_lines(positions(shape_) * count * taps() * static_cast<std::int64_t>(sizeof(float)));
  }

  codegen::Gemm gemm_of(std::int64_t count) const {
    codegen::GemmShape gemm;
    gemm.m = shape_.outputs, gemm.n = count * taps(), gemm.k = positions(shape_);
    gemm.a_row = 1, gemm.a_column = shape_.outputs;
    gemm.b_row = gemm.n, gemm.b_column = 1;
    gemm.c_row = shape_.inputs * taps();
    return codegen::Gemm(gemm);
  }

  /// Gathers X of a slice: [positions, channels of the slice, kernel].
  void gather(std::int64_t slice, float* to) const {
    const ConvShape::Plane &in = shape_.in, &out = shape_.out, &stride = shape_.stride,
                           &padding = shape_.padding;
    const std::int64_t count = channels(slice), taps = this->taps();
    for (std::int64_t position = 0; position < positions(shape_); ++position, to += count * taps) {
      const std::int64_t image = position / (out.height * out.width),
                         top = position / out.width % out.height * stride.height - padding.height,
                         left = position % out.width * stride.width - padding.width;
      float* at = to;
      for (std::int64_t y = top; y < top + shape_.kernel.height; ++y) {
        for (std::int64_t x = left; x < left + shape_.kernel.width; ++x, ++at) {
          const bool is_inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
          const float* const pixel =
              first_at_ + ((image * in.height + y) * in.width + x) * shape_.inputs + slice * kSliceChannels;
          for (std::int64_t c = 0; c < count; ++c) at[c * taps] = is_inside ? pixel[c] : 0;
        }
      }
    }
  }

  const std::int64_t slices_;
  const codegen::Gemm full_, last_;
};

bool takes_weights(const codegen::Program& program, const codegen::OpCall& call) {
  return is_of_f32_maps(program, call) &&
         (WeightProduct::takes(call) || !is_of_strided_pixels(conv_shape_of(call)));
}

template <ConvProduct product>
std::unique_ptr<CpuLaunch> make_maps(const codegen::OpCall& call) {
  return std::make_unique<MapConvolution>(call, product);
}

std::unique_ptr<CpuLaunch> make_weights(const codegen::OpCall& call) {
  if (WeightProduct::takes(call)) return std::make_unique<WeightProduct>(call);
  return std::make_unique<WeightConvolution>(call);
}

}  // namespace

const CpuOp kCpuConv2d{ir::Opcode::conv2d, is_of_f32_maps, make_maps<ConvProduct::output>};
const CpuOp kCpuConv2dInputGrad{ir::Opcode::conv2d_input_grad, is_of_f32_maps, make_maps<ConvProduct::input>};
const CpuOp kCpuConv2dWeightGrad{ir::Opcode::conv2d_weight_grad, takes_weights, make_weights};

}  // namespace rewire::runtime
