// PyTorch's weight files (.pth, .pt, .bin): pickles, which hold code and so are not read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rewire::runtime {

/// Returns true for an archive of torch.save, or a pickle from PyTorch before 1.6.
bool is_pytorch_file(std::span<const std::byte> bytes);

/// Throws UserError with the two lines of Python that convert the file to safetensors.
[[noreturn]] void refuse_pytorch_file(const std::string& path);

}  // namespace rewire::runtime
