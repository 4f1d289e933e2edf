#include "runtime/exec/cuda/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kInputSlots = 2;
constexpr std::int64_t kCopyPiece = std::int64_t{1} << 20;  // bytes that one thread copies at a time
constexpr int kMostCopiers = 8;                             // threads: more only wait for memory

}  // namespace

InputRing::InputRing(const CudaProgram& program, bool poison)
    : program_(program),
      what_(fmt::format("of the inputs of '{}'", program.program().name)),
      poison_(poison) {
  const std::int64_t bytes = program.arguments().bytes;
  for (std::size_t i = 0; i < (bytes > 0 ? kInputSlots : 0); ++i) {
    const std::string what = what_.substr(3);
    slots_.push_back({cuda::PinnedMemory(bytes, what), cuda::DeviceMemory(bytes, what), {}, {}});
  }
}

/// Several threads copy a large input. A batch of 256 images of 224 x 224 in f32 has 154 MB: one thread
/// takes longer to copy it than a fast device takes for the step.
void InputRing::copy(std::span<const std::byte> from, std::byte* to) {
  const auto bytes = static_cast<std::int64_t>(from.size());
  const auto piece = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    std::memcpy(to + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
  };
  if (bytes <= kCopyPiece) return piece(0, bytes, 0);
  if (!copiers_) copiers_.emplace(std::min(usable_cores(), kMostCopiers));
  copiers_->run(bytes, kCopyPiece, piece);
}

void InputRing::send(const std::vector<const HostTensor*>& inputs, const CudaStreams& streams) {
  sent_ = true;
  if (slots_.empty()) return;
  const PackedBuffers& arguments = program_.arguments();
  const Slot& slot = slots_[next_];
  slot.copied.synchronise(what_);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    copy(inputs[i]->bytes(), slot.host.bytes().data() + arguments.offsets[i]);
  }
  streams.copy.wait_for(slot.taken);
  if (poison_) streams.copy.fill(slot.staging.address(), kPoison, arguments.bytes, what_);
  streams.copy.copy_in(slot.staging.address(), slot.host.bytes().data(), arguments.bytes, what_);
  slot.copied.record(streams.copy);
  streams.compute.wait_for(slot.copied);
  if (poison_) streams.compute.fill(program_.argument_memory(), kPoison, arguments.bytes, what_);
  streams.compute.copy(program_.argument_memory(), slot.staging.address(), arguments.bytes, what_);
  slot.taken.record(streams.compute);
  next_ = (next_ + 1) % slots_.size();
}

ResultSlots::ResultSlots(const CudaProgram& program)
    : program_(program), what_(fmt::format("of the results of '{}'", program.program().name)) {}

std::size_t ResultSlots::receive(const CudaStreams& streams) {
  const std::int64_t bytes = program_.results().bytes;
  auto slot = std::ranges::find_if(slots_, [](const auto& candidate) { return !candidate->used; });
  if (slot == slots_.end()) {
    slots_.push_back(std::make_unique<Slot>(Slot{cuda::PinnedMemory(bytes, what_.substr(3)), {}}));
    slot = slots_.end() - 1;
  }
  streams.compute.copy_out((*slot)->host.bytes().data(), program_.result_memory(), bytes, what_);
  (*slot)->copied.record(streams.compute);
  (*slot)->used = true;
  return static_cast<std::size_t>(slot - slots_.begin());
}

TensorMap ResultSlots::take(std::size_t index) {
  Slot& slot = *slots_[index];
  slot.copied.synchronise(what_);
  const PackedBuffers& packed = program_.results();
  TensorMap results;
  for (std::size_t i = 0; i < packed.buffers.size(); ++i) {
    HostTensor tensor(packed.buffers[i]->type);
    std::memcpy(tensor.bytes().data(), slot.host.bytes().data() + packed.offsets[i], tensor.bytes().size());
    results.emplace(packed.buffers[i]->name, std::move(tensor));
  }
  slot.used = false;
  return results;
}

}  // namespace rewire::runtime
