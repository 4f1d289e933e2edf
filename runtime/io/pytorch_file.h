// PyTorch's own files of weights (.pth, .pt, .bin): pickles, which hold code and so are not read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rewire::runtime {

/// An archive of torch.save, or a pickle as PyTorch before 1.6 wrote it.
bool is_pytorch_file(std::span<const std::byte> bytes);

/// UserError with the two lines of Python that make a safetensors file of it.
[[noreturn]] void refuse_pytorch_file(const std::string& path);

}  // namespace rewire::runtime
