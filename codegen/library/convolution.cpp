// oneDNN 2 takes an op descriptor, oneDNN 3 takes its arguments at once. Only the three functions that
// describe a primitive differ.
#include "codegen/library/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/library/onednn.h"
#include "codegen/library/vector_clones.h"
#include "codegen/library_call.h"

namespace rewire::codegen {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

// The elements of a piece of weights that is worth a task of its own.
constexpr std::int64_t kPieceElements = 65536;
// The most channels in a block of a layout. Pieces are cut between blocks.
constexpr std::int64_t kMostBlocked = 64;

struct Descriptions {
  memory::desc input, weight, output;
  memory::dims stride, padding;
};

memory::dims pair_of(const ir::ConvShape::Plane& plane) {
  return {plane.height, plane.width};
}

memory::desc map_desc(std::int64_t batch, std::int64_t channels, const ir::ConvShape::Plane& plane,
                      bool channels_last) {
  return {{batch, channels, plane.height, plane.width},
          memory::data_type::f32,
          channels_last ? memory::format_tag::nhwc : memory::format_tag::nchw};
}

memory::desc weight_desc(const ir::ConvShape& s, memory::format_tag plain, memory::format_tag of_groups) {
  const std::int64_t inputs = s.inputs / s.groups;
  if (s.groups == 1)
    return {{s.outputs, inputs, s.kernel.height, s.kernel.width}, memory::data_type::f32, plain};
  return {{s.groups, s.outputs / s.groups, inputs, s.kernel.height, s.kernel.width},
          memory::data_type::f32,
          of_groups};
}

#if DNNL_VERSION_MAJOR >= 3
dnnl::convolution_forward::primitive_desc forward(const Descriptions& d) {
  return {cpu_engine(),
          prop_kind::forward_training,
          algorithm::convolution_direct,
          d.input,
          d.weight,
          d.output,
          d.stride,
          d.padding,
          d.padding,
          user_scratch()};
}
dnnl::convolution_backward_data::primitive_desc backward_data(const Descriptions& d) {
  return {cpu_engine(), algorithm::convolution_direct,
          d.input,      d.weight,
          d.output,     d.stride,
          d.padding,    d.padding,
          forward(d),   user_scratch()};
}
dnnl::convolution_backward_weights::primitive_desc backward_weights(const Descriptions& d) {
  return {cpu_engine(), algorithm::convolution_direct,
          d.input,      d.weight,
          d.output,     d.stride,
          d.padding,    d.padding,
          forward(d),   user_scratch()};
}
#else
dnnl::convolution_forward::primitive_desc forward(const Descriptions& d) {
  const dnnl::convolution_forward::desc op(prop_kind::forward_training, algorithm::convolution_direct,
                                           d.input, d.weight, d.output, d.stride, d.padding, d.padding);
  return {op, user_scratch(), cpu_engine()};
}
dnnl::convolution_backward_data::primitive_desc backward_data(const Descriptions& d) {
  const dnnl::convolution_backward_data::desc op(algorithm::convolution_direct, d.input, d.weight, d.output,
                                                 d.stride, d.padding, d.padding);
  return {op, user_scratch(), cpu_engine(), forward(d)};
}
dnnl::convolution_backward_weights::primitive_desc backward_weights(const Descriptions& d) {
  const dnnl::convolution_backward_weights::desc op(algorithm::convolution_direct, d.input, d.weight,
                                                    d.output, d.stride, d.padding, d.padding);
  return {op, user_scratch(), cpu_engine(), forward(d)};
}
#endif

struct Reorder {
  memory::desc from, to, scratch;
  dnnl::reorder primitive;

  Reorder(const memory::desc& source, const memory::desc& target) : from(source), to(target) {
    const dnnl::reorder::primitive_desc description(cpu_engine(), source, cpu_engine(), target,
                                                    user_scratch());
    scratch = description.scratchpad_desc();
    primitive = dnnl::reorder(description);
  }
  void run(const float* source, float* target, void* memory) const {
    try {
      execute(source, target, memory);
    } catch (const dnnl::error& error) {
      fail_of_onednn(error, "cannot pack weights");
    }
  }
  void execute(const float* source, float* target, void* memory) const {
    primitive.execute(cpu_stream(), {{DNNL_ARG_FROM, wrap(from, source)},
                                     {DNNL_ARG_TO, wrap(to, target)},
                                     {DNNL_ARG_SCRATCHPAD, wrap(scratch, memory)}});
    cpu_stream().wait();
  }
};

/// A range of output channels, cut between whole blocks. With groups, one piece has all channels.
struct Piece {
  std::int64_t first, count;
};
std::vector<Piece> pieces_of(const ir::ConvShape& shape) {
  if (shape.groups > 1) return {{0, shape.outputs}};
  const std::int64_t a_channel = ir::element_count(shape.weight()) / shape.outputs;
  const std::int64_t wanted = std::max<std::int64_t>(1, kPieceElements / a_channel);
  const std::int64_t size = (wanted + kMostBlocked - 1) / kMostBlocked * kMostBlocked;
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < shape.outputs; first += size)
    pieces.push_back({first, std::min(size, shape.outputs - first)});
  return pieces;
}

}  // namespace

struct Convolution::Impl {
  ConvProduct product = ConvProduct::output;
  memory::desc first, second, result, scratch, packed;
  dnnl::primitive primitive;
  std::vector<Reorder>
      reorders;  // one per piece: into the packed layout, or out of it for a gradient of weights

  template <class Descriptor>
  void take(const Descriptor& description) {
    scratch = description.scratchpad_desc();
    if constexpr (std::is_same_v<Descriptor, dnnl::convolution_forward::primitive_desc>) {
      packed = second = description.weights_desc();
      primitive = dnnl::convolution_forward(description);
    } else if constexpr (std::is_same_v<Descriptor, dnnl::convolution_backward_data::primitive_desc>) {
      packed = second = description.weights_desc();
      primitive = dnnl::convolution_backward_data(description);
    } else {
      packed = result = description.diff_weights_desc();
      primitive = dnnl::convolution_backward_weights(description);
    }
  }

  void make(const Descriptions& d) {
    switch (product) {
      case ConvProduct::output:
        first = d.input, result = d.output;
        return take(forward(d));
      case ConvProduct::input:
        first = d.output, result = d.input;
        return take(backward_data(d));
      case ConvProduct::weight:
        first = d.input, second = d.output;
        return take(backward_weights(d));
    }
  }

  void make_reorders(const ir::ConvShape& shape) {
    const memory::desc plain = weight_desc(shape, memory::format_tag::oihw, memory::format_tag::goihw);
    std::vector<Piece> pieces = pieces_of(shape);
    // Some layouts cannot be cut.
    if (pieces.size() > 1 && !part_of(packed, shape, pieces.front())) pieces = {{0, shape.outputs}};
    for (const Piece& piece : pieces) {
      memory::desc outer = plain, inner = packed;
      if (pieces.size() > 1) {
        outer = part_of(plain, shape, piece).value();
        inner = part_of(packed, shape, piece).value();
      }
      if (product == ConvProduct::weight) std::swap(outer, inner);
      reorders.emplace_back(outer, inner);
    }
  }

  static std::optional<memory::desc> part_of(const memory::desc& weights, const ir::ConvShape& shape,
                                             const Piece& piece) {
    const memory::dims extents = {piece.count, shape.inputs, shape.kernel.height, shape.kernel.width};
    const memory::desc part = weights.submemory_desc(extents, {piece.first, 0, 0, 0}, true);
#if DNNL_VERSION_MAJOR >= 3
    const bool refused = part.get(true) == nullptr;
#else
    const bool refused = part == memory::desc();
#endif
    return refused ? std::nullopt : std::optional(part);
  }
};

Convolution::Convolution(ConvProduct product, const ir::ConvShape& shape, bool channels_last,
                         const Convolution* like)
    : impl_(std::make_unique<Impl>()) {
  use_one_thread();
  impl_->product = product;
  const LibraryCall call(kGemmHeadroom);
  try {
    Descriptions d;
    d.input = map_desc(shape.batch, shape.inputs, shape.in, channels_last);
    d.output = map_desc(shape.batch, shape.outputs, shape.out, channels_last);
    d.weight = like != nullptr ? like->impl_->packed
                               : weight_desc(shape, memory::format_tag::any, memory::format_tag::any);
    d.stride = pair_of(shape.stride);
    d.padding = pair_of(shape.padding);

    impl_->make(d);
    if (like == nullptr) impl_->make_reorders(shape);
  } catch (const dnnl::error& error) {
    fail_of_onednn(error,
                   fmt::format("has no convolution of {} x {} x {} x {} by {} x {} x {} x {}", shape.batch,
                               shape.inputs, shape.in.height, shape.in.width, shape.outputs,
                               shape.inputs / shape.groups, shape.kernel.height, shape.kernel.width));
  }
}

Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;

std::int64_t Convolution::scratch_bytes() const {
  std::size_t bytes = impl_->scratch.get_size();
  for (const Reorder& reorder : impl_->reorders) bytes = std::max(bytes, reorder.scratch.get_size());
  return static_cast<std::int64_t>(bytes);
}

std::int64_t Convolution::packed_bytes() const {
  return static_cast<std::int64_t>(impl_->packed.get_size());
}

std::int64_t Convolution::pieces() const {
  return static_cast<std::int64_t>(impl_->reorders.size());
}

void Convolution::pack(std::int64_t piece, const float* weight, float* packed, void* scratch) const {
  use_one_thread();
  impl_->reorders[static_cast<std::size_t>(piece)].run(weight, packed, scratch);
}

void Convolution::unpack(std::int64_t piece, const float* packed, float* weight, void* scratch) const {
  use_one_thread();
  impl_->reorders[static_cast<std::size_t>(piece)].run(packed, weight, scratch);
}

void Convolution::run(const float* first, const float* second, float* result, void* scratch) const {
  use_one_thread();
  const Impl& impl = *impl_;
  const bool forward = impl.product == ConvProduct::output, weight = impl.product == ConvProduct::weight;
  const std::unordered_map<int, memory> arguments = {
      {forward || weight ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, wrap(impl.first, first)},
      {weight ? DNNL_ARG_DIFF_DST : DNNL_ARG_WEIGHTS, wrap(impl.second, second)},
      {forward  ? DNNL_ARG_DST
       : weight ? DNNL_ARG_DIFF_WEIGHTS
                : DNNL_ARG_DIFF_SRC,
       wrap(impl.result, result)},
      {DNNL_ARG_SCRATCHPAD, wrap(impl.scratch, scratch)}};
  try {
    impl.primitive.execute(cpu_stream(), arguments);
    cpu_stream().wait();
  } catch (const dnnl::error& error) {
    fail_of_onednn(error, "cannot convolve");
  }
}

REWIRE_VECTOR_CLONES
void add_parts(const float* __restrict part, std::int64_t count, float* __restrict sum) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += part[i];
}

}  // namespace rewire::codegen
