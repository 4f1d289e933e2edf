// See convolution_product.h.
#include "runtime/exec/cpu/convolution_product.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/library/convolution.h"
#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "runtime/exec/cpu/matrix_cut.h"
#include "runtime/exec/cpu/over_maps.h"
#include "runtime/exec/cpu/packing.h"

namespace rewire::runtime {
namespace {

using codegen::OpCall;
using codegen::ProductCode;
using ir::ConvShape;

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kDeepest = 384;   // steps of k in a block: its panel of b fits the L1 cache
constexpr std::int64_t kLeastWidth = 4;  // of a map: a block of the result is pixels of one row
constexpr std::int64_t kChunk = 16;      // channels that are packed at a time
// Limits of the maps that a task holds. They share the L2 cache with the weights.
constexpr std::int64_t kBandElements = 49152;
constexpr std::int64_t kMostBandImages = 16;
constexpr std::int64_t kLeastTasks = 8;      // tasks to aim for by cutting the batch and the columns
constexpr std::int64_t kLeastChannels = 16;  // fewer fill neither a block's columns nor the k of a kernel row
constexpr std::int64_t kDeepestPixels = 256;   // pixels in a block of k of a weight gradient
constexpr std::int64_t kGradientOutputs = 64;  // outputs of a task, which packs the maps for them
constexpr std::int64_t kEvenTasks = 8;         // tasks are a multiple of it, to suit 2, 4 or 8 threads
constexpr std::int64_t kSumOutputs = 8;        // outputs of a task that adds up the parts

std::int64_t area(const ConvShape::Plane& plane) {
  return plane.height * plane.width;
}

/// Computes result [batch, out, columns] from maps [batch, in, channels] and packed weights. The weights lie
/// in panels: for each block of k, which is part of a kernel row, the panels of all columns.
class MapsByProducts final : public OverMaps {
 public:
  MapsByProducts(const OpCall& call, const ProductCode& code)
      : OverMaps(call), code_(code), turned_(call.op.code == ir::Opcode::conv2d_input_grad), conv_(shape_) {
    if (turned_) {
      std::swap(conv_.inputs, conv_.outputs);
      std::swap(conv_.in, conv_.out);
      conv_.padding = {conv_.kernel.height - 1 - conv_.padding.height,
                       conv_.kernel.width - 1 - conv_.padding.width};
    }
    padded_width_ = (conv_.out.width - 1) * conv_.stride.width + conv_.kernel.width;
    chunk_ = conv_.inputs % kChunk == 0 ? kChunk : 1;
    depth_ =
        Cut(row_elements(), (row_elements() + kDeepest - 1) / kDeepest, std::max<std::int64_t>(chunk_, 4));
    const Cut pixels(conv_.out.width, (conv_.out.width + code.block.rows - 1) / code.block.rows, 1);
    for (std::int64_t piece = 0; piece < pixels.pieces; ++piece)
      pixels_.push_back({pixels.begin(piece), pixels.size_of(piece)});
    cut_bands();
    packing_ = Cut(conv_.outputs, padded_columns() / code.block.columns, code.block.columns);
    const std::int64_t bands = groups_.pieces * rows_.pieces;
    columns_ = Cut(conv_.outputs, (kLeastTasks + bands - 1) / bands, code.block.columns);
  }

  std::int64_t tasks() const override {
    return packing_.pieces + groups_.pieces * rows_.pieces * columns_.pieces;
  }
  std::vector<std::int64_t> barriers() const override { return {packing_.pieces}; }
  std::int64_t shared_bytes() const override {
    return conv_.kernel.height * row_elements() * padded_columns() * kFloatBytes;
  }
  void lend(std::byte* shared) override { packed_ = reinterpret_cast<float*>(shared); }
  std::vector<std::int32_t> packs() const override { return {second_.buffer}; }
  std::int64_t scratch_bytes() const override {
    return groups_.size * padded_rows(rows_.size) * padded_width_ * conv_.inputs * kFloatBytes;
  }

  void run(std::int64_t task, void* scratch) const override {
    if (task < packing_.pieces) return pack(packing_.begin(task), packing_.size_of(task));
    task -= packing_.pieces;
    const std::int64_t column = task % columns_.pieces, band = task / columns_.pieces;
    Band of;
    of.image = groups_.begin(band / rows_.pieces), of.images = groups_.size_of(band / rows_.pieces);
    of.row = rows_.begin(band % rows_.pieces), of.rows = rows_.size_of(band % rows_.pieces);
    of.maps = static_cast<float*>(scratch);
    copy(of);
    multiply(of, columns_.begin(column), columns_.size_of(column));
  }

 private:
  /// A range of rows of the result in a range of images.
  struct Band {
    std::int64_t image = 0, images = 0, row = 0, rows = 0;
    float* maps = nullptr;  // [images, padded rows, padded width, channels]
  };

  std::int64_t row_elements() const { return conv_.kernel.width * conv_.inputs; }
  std::int64_t padded_columns() const {
    return (conv_.outputs + code_.block.columns - 1) / code_.block.columns * code_.block.columns;
  }
  std::int64_t padded_rows(std::int64_t rows) const {
    return (rows - 1) * conv_.stride.height + conv_.kernel.height;
  }

  /// A band holds as many rows of an image as fit into kBandElements. If all rows
  /// fit, it holds several images.
  void cut_bands() {
    const std::int64_t a_row = padded_width_ * conv_.inputs;
    const std::int64_t fit = (kBandElements / a_row - conv_.kernel.height) / conv_.stride.height + 1;
    const std::int64_t rows = std::clamp<std::int64_t>(fit, 1, conv_.out.height);
    rows_ = Cut(conv_.out.height, (conv_.out.height + rows - 1) / rows, 1);
    const std::int64_t images =
        rows_.pieces > 1 ? 1
                         : std::clamp<std::int64_t>(kBandElements / (padded_rows(conv_.out.height) * a_row),
                                                    1, kMostBandImages);
    std::int64_t groups = (conv_.batch + images - 1) / images;
    groups = std::max(groups, std::min(conv_.batch, kLeastTasks));
    groups_ = Cut(conv_.batch, groups, 1);
  }

  /// Returns the panel of `column` for row `y` of the kernel, from element `depth` on.
  float* panel(std::int64_t y, std::int64_t depth, std::int64_t deep, std::int64_t column) const {
    return packed_ + (y * row_elements() + depth) * padded_columns() + column * deep;
  }

  /// Packs columns of the weights, a few channels of all taps at a time, since these lie side by side.
  void pack(std::int64_t first, std::int64_t count) const {
    const std::int64_t width = code_.block.columns, taps = area(conv_.kernel), channels = conv_.inputs;
    const std::int64_t apart = turned_ ? taps : channels * taps, step = turned_ ? conv_.outputs * taps : taps;
    for (std::int64_t channel = 0; channel < channels; channel += chunk_) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const float* const from =
            second_at_ + first * apart + channel * step + (turned_ ? taps - 1 - tap : tap);
        float* const to =
            place(tap / conv_.kernel.width, tap % conv_.kernel.width * channels + channel, first);
        for (std::int64_t c = 0; c < chunk_; ++c) {
          for (std::int64_t j = 0; j < count; ++j) to[c * width + j] = from[c * step + j * apart];
          std::fill(to + c * width + count, to + (c + 1) * width, 0.0F);
        }
      }
    }
  }
  /// Returns where element `k` of row `y` of the kernel lies in its panel.
  float* place(std::int64_t y, std::int64_t k, std::int64_t column) const {
    std::int64_t d = 0;
    while (k >= depth_.begin(d) + depth_.size_of(d)) ++d;
    return panel(y, depth_.begin(d), depth_.size_of(d), column) + (k - depth_.begin(d)) * code_.block.columns;
  }

  void copy(const Band& band) const {
    const std::int64_t channels = conv_.inputs;
    const std::int64_t top = band.row * conv_.stride.height - conv_.padding.height;
    const std::int64_t left = std::min(conv_.padding.width, padded_width_);
    const std::int64_t inside = std::clamp<std::int64_t>(padded_width_ - left, 0, conv_.in.width);
    float* to = band.maps;
    for (std::int64_t image = band.image; image < band.image + band.images; ++image) {
      for (std::int64_t y = top; y < top + padded_rows(band.rows); ++y, to += padded_width_ * channels) {
        if (y < 0 || y >= conv_.in.height) {
          std::fill_n(to, padded_width_ * channels, 0.0F);
          continue;
        }
        const float* const from = first_at_ + (image * conv_.in.height + y) * conv_.in.width * channels;
        std::fill_n(to, left * channels, 0.0F);
        std::copy_n(from, inside * channels, to + left * channels);
        std::fill(to + (left + inside) * channels, to + padded_width_ * channels, 0.0F);
      }
    }
  }

  void multiply(const Band& band, std::int64_t column, std::int64_t columns) const {
    for (std::int64_t y = 0; y < conv_.kernel.height; ++y) {
      for (std::int64_t d = 0; d < depth_.pieces; ++d) {
        const std::int64_t depth = depth_.begin(d), deep = depth_.size_of(d);
        for (std::int64_t j = column; j < column + columns; j += code_.block.columns)
          multiply_panel(band, y, depth, deep, j, y + d > 0);
      }
    }
  }

  /// Multiplies all pixels of the band by one panel, which stays in the L1 cache.
  void multiply_panel(const Band& band, std::int64_t y, std::int64_t depth, std::int64_t deep,
                      std::int64_t column, bool add) const {
    const float* const weights = panel(y, depth, deep, column);
    const std::int64_t width = std::min(code_.block.columns, conv_.outputs - column);
    const std::int64_t step = conv_.stride.width * conv_.inputs;
    for (std::int64_t image = 0; image < band.images; ++image) {
      for (std::int64_t row = 0; row < band.rows; ++row) {
        const float* const maps =
            band.maps +
            (image * padded_rows(band.rows) + row * conv_.stride.height + y) * padded_width_ * conv_.inputs +
            depth;
        float* const results =
            result_at_ +
            ((band.image + image) * conv_.out.height + band.row + row) * conv_.out.width * conv_.outputs +
            column;
        for (const auto& [pixel, pixels] : pixels_) {
          code_.direct[static_cast<std::size_t>(pixels - 1)](maps + pixel * step, step, weights,
                                                             results + pixel * conv_.outputs, conv_.outputs,
                                                             deep, width, nullptr, add);
        }
      }
    }
  }

  const ProductCode& code_;
  const bool turned_;
  ConvShape conv_;  // convolves first_ with the packed weights, for conv2d and conv2d_input_grad alike
  std::int64_t padded_width_ = 1;
  std::int64_t chunk_ = 1;  // of channels, in one block of k
  Cut depth_;               // of a row of the kernel
  Cut groups_, rows_;       // of the images, of their rows
  Cut columns_, packing_;   // of a band's tasks, of the tasks that pack
  std::vector<std::pair<std::int64_t, std::int64_t>>
      pixels_;  // of a row of the result: begin and size of blocks
  float* packed_ = nullptr;
};

/// The gradient of the weights as dw [outputs, taps x inputs] = g' X, summed over the pixels of the
/// result. A task has a part of the batch's rows and a few outputs, whose g it packs. It packs X panel
/// by panel, shifted by the tap.
class WeightsByProducts final : public OverMaps {
 public:
  WeightsByProducts(const OpCall& call, const ProductCode& code)
      : OverMaps(call),
        code_(code),
        outputs_(shape_.outputs, (shape_.outputs + kGradientOutputs - 1) / kGradientOutputs, code.block.rows),
        sums_(shape_.outputs, (shape_.outputs + kSumOutputs - 1) / kSumOutputs, 1),
        most_rows_(std::max<std::int64_t>(1, kDeepestPixels / shape_.out.width)) {
    const std::int64_t rows = shape_.batch * shape_.out.height;
    const std::int64_t wanted = kEvenTasks / std::gcd(kEvenTasks, outputs_.pieces);
    parts_ = Cut(rows, std::min({wanted, rows / most_rows_, kPartGradientBytes / gradient_bytes()}), 1);
  }

  std::int64_t tasks() const override { return products() + sums_.pieces; }
  std::vector<std::int64_t> barriers() const override { return {products()}; }
  std::int64_t shared_bytes() const override { return parts_.pieces * gradient_bytes(); }
  void lend(std::byte* shared) override { gradients_ = reinterpret_cast<float*>(shared); }
  std::int64_t scratch_bytes() const override { return kFloatBytes * (b_elements() + a_elements()); }

  void run(std::int64_t task, void* scratch) const override {
    if (task >= products()) return add_up(task - products());
    const std::int64_t part = task / outputs_.pieces, outputs = task % outputs_.pieces;
    const Cut blocks(parts_.size_of(part), (parts_.size_of(part) + most_rows_ - 1) / most_rows_, 1);
    for (std::int64_t i = 0; i < blocks.pieces; ++i) {
      Block block;
      block.row = parts_.begin(part) + blocks.begin(i), block.rows = blocks.size_of(i);
      block.output = outputs_.begin(outputs), block.outputs = outputs_.size_of(outputs);
      block.b = static_cast<float*>(scratch), block.a = block.b + b_elements();
      block.gradient = of_part(part) + block.output * row_elements();
      block.add = i > 0;
      multiply(block);
    }
  }

 private:
  /// A range of rows of the result's maps, counted through all images, and a range of outputs.
  struct Block {
    std::int64_t row = 0, rows = 0, output = 0, outputs = 0;
    float *a = nullptr, *b = nullptr, *gradient = nullptr;
    bool add = false;
  };

  std::int64_t products() const { return parts_.pieces * outputs_.pieces; }
  std::int64_t row_elements() const { return area(shape_.kernel) * shape_.inputs; }
  std::int64_t gradient_bytes() const { return in_lines(row_elements() * shape_.outputs * kFloatBytes); }
  std::int64_t most_pixels() const { return most_rows_ * shape_.out.width; }
  std::int64_t b_elements() const { return most_pixels() * code_.block.columns; }
  std::int64_t a_elements() const { return most_pixels() * (outputs_.size + code_.block.rows); }
  float* of_part(std::int64_t part) const { return gradients_ + part * gradient_bytes() / kFloatBytes; }

  void multiply(const Block& block) const {
    const auto& [height, width] = code_.block;
    const std::int64_t pixels = block.rows * shape_.out.width;
    pack_panels(second_at_ + block.row * shape_.out.width * shape_.outputs + block.output, 1, shape_.outputs,
                block.outputs, pixels, height, block.a, height * pixels);
    for (std::int64_t j = 0; j < shape_.inputs; j += width) {
      for (std::int64_t tap = 0; tap < area(shape_.kernel); ++tap) {
        pack_moved(block, tap / shape_.kernel.width, tap % shape_.kernel.width, j);
        float* const c = block.gradient + tap * shape_.inputs + j;
        for (std::int64_t i = 0; i < block.outputs; i += height) {
          const std::int64_t high = std::min(height, block.outputs - i);
          code_.packed[static_cast<std::size_t>(high - 1)](
              block.a + i * pixels, 0, block.b, c + i * row_elements(), row_elements(), pixels,
              std::min(width, shape_.inputs - j), nullptr, block.add);
        }
      }
    }
  }

  /// Packs a panel of a few inputs at the pixels that element (y, x) of the kernel
  /// meets; zeros outside the maps.
  void pack_moved(const Block& block, std::int64_t y, std::int64_t x, std::int64_t input) const {
    const std::int64_t width = code_.block.columns, channels = shape_.inputs;
    const std::int64_t stride = shape_.stride.width, left = x - shape_.padding.width;
    // The pixels of a result row whose input pixel lies within the maps: left + p stride in [0, in width).
    const std::int64_t begin = std::clamp<std::int64_t>((stride - 1 - left) / stride, 0, shape_.out.width);
    const std::int64_t end =
        std::clamp<std::int64_t>((shape_.in.width - left + stride - 1) / stride, begin, shape_.out.width);
    const std::int64_t count = std::min(width, channels - input);
    std::int64_t out_row = block.row % shape_.out.height;
    const float* image = first_at_ + block.row / shape_.out.height * area(shape_.in) * channels + input;
    float* to = block.b;
    for (std::int64_t r = 0; r < block.rows; ++r, to += shape_.out.width * width) {
      const std::int64_t in_row = out_row * shape_.stride.height + y - shape_.padding.height;
      if (in_row < 0 || in_row >= shape_.in.height || begin == end) {
        std::fill_n(to, shape_.out.width * width, 0.0F);
      } else {
        if (begin > 0) std::fill_n(to, begin * width, 0.0F);
        if (end < shape_.out.width) std::fill_n(to + end * width, (shape_.out.width - end) * width, 0.0F);
        const float* const from = image + (in_row * shape_.in.width + left + begin * stride) * channels;
        if (count == width)
          copy_steps(from, stride * channels, end - begin, width, to + begin * width);
        else
          pack_panels(from, 1, stride * channels, count, end - begin, width, to + begin * width, 0);
      }
      if (++out_row == shape_.out.height) out_row = 0, image += area(shape_.in) * channels;
    }
  }

  /// Adds up the parts' gradients of a few outputs in the order of the parts. Writes them in the layout of
  /// the weights: [inputs, taps] of each output.
  void add_up(std::int64_t piece) const {
    const std::int64_t taps = area(shape_.kernel), inputs = shape_.inputs;
    const std::int64_t begin = sums_.begin(piece), end = begin + sums_.size_of(piece);
    for (std::int64_t output = begin; output < end; ++output) {
      const std::int64_t row = output * row_elements();
      for (std::int64_t part = 1; part < parts_.pieces; ++part)
        codegen::add_parts(of_part(part) + row, row_elements(), of_part(0) + row);
      const float* const from = of_part(0) + row;
      float* const to = result_at_ + row;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t i = 0; i < inputs; ++i) to[i * taps + tap] = from[tap * inputs + i];
      }
    }
  }

  const ProductCode& code_;
  const Cut outputs_, sums_;      // of the outputs: per product task, per summing task
  const std::int64_t most_rows_;  // rows of the result's maps in a block
  Cut parts_;                     // of the rows of all images
  float* gradients_ = nullptr;    // [parts][outputs, taps x inputs]
};

}  // namespace

bool takes_convolution(const codegen::Program& program, const OpCall& call) {
  if (!ir::is_convolution(call.op.code) || !ir::is_channels_last(call.op.attributes)) return false;
  if (!is_of_f32_maps(program, call)) return false;
  const ConvShape shape = conv_shape_of(call);
  const bool fills = shape.groups == 1 && shape.inputs >= kLeastChannels && shape.outputs >= kLeastChannels;
  if (call.op.code == ir::Opcode::conv2d_weight_grad) return fills;
  if (call.op.code == ir::Opcode::conv2d) return fills && shape.out.width >= kLeastWidth;
  return fills && shape.in.width >= kLeastWidth && shape.stride == ConvShape::Plane{} &&
         shape.padding.height < shape.kernel.height && shape.padding.width < shape.kernel.width;
}

std::unique_ptr<CpuLaunch> make_convolution_launch(const OpCall& call, const ProductCode& code) {
  if (call.op.code == ir::Opcode::conv2d_weight_grad) return std::make_unique<WeightsByProducts>(call, code);
  return std::make_unique<MapsByProducts>(call, code);
}

}  // namespace rewire::runtime
