#include "runtime/network/weights_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/device/log.h"
#include "runtime/network/weights_hint.h"

namespace rewire::runtime {
namespace {

HostTensor transposed(const HostTensor& matrix) {
  const ir::Shape& shape = matrix.type().shape;
  HostTensor result({matrix.type().dtype, {shape[1], shape[0]}});
  const std::size_t size = ir::dtype_bytes(matrix.type().dtype);
  const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const std::span<const std::byte> from = matrix.bytes().subspan((i * columns + j) * size, size);
      std::ranges::copy(from, result.bytes().subspan((j * rows + i) * size, size).begin());
    }
  }
  return result;
}

/// Returns whether the file has matrices of this name's end with their axes swapped.
bool is_swapped(const ir::Module& network, const TensorMap& tensors, std::string_view end) {
  return std::ranges::any_of(tensors, [&](const auto& entry) {
    const ir::Parameter* parameter = network.find_parameter(entry.first);
    if (parameter == nullptr || !entry.first.ends_with(end)) return false;
    const ir::Shape& given = entry.second.type().shape;
    const ir::Shape& wanted = parameter->type.shape;
    return given.size() == 2 && wanted.size() == 2 && given != wanted && given[0] == wanted[1] &&
           given[1] == wanted[0];
  });
}

bool ends_with_one_of(const std::string& name, const std::vector<std::string_view>& ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Keeps the first rows of a table of positions that has more than the network.
void shorten(const ir::Parameter& parameter, HostTensor& table, const std::string& path) {
  const ir::Shape& given = table.type().shape;
  const ir::Shape& wanted = parameter.type.shape;
  if (given.size() != 2 || wanted.size() != 2 || given[1] != wanted[1] || given[0] <= wanted[0]) return;
  write_log(LogLevel::info,
            fmt::format("{}: the first {} of {} positions are used", path, wanted[0], given[0]));
  HostTensor first({table.type().dtype, wanted});
  std::ranges::copy(table.bytes().first(first.bytes().size()), first.bytes().begin());
  table = std::move(first);
}

}  // namespace

void take_forms(const ir::Module& network, TensorMap& tensors, const std::string& path) {
  const models::Model* model = zoo_model_of(network);
  if (model == nullptr) return;
  const models::FileForms& forms = model->family->files;
  std::erase_if(tensors, [&](const auto& entry) {
    return network.find_parameter(entry.first) == nullptr && ends_with_one_of(entry.first, forms.constants);
  });
  for (const auto& [second, first] : forms.copies) {
    const auto copy = tensors.find(second), weight = tensors.find(first);
    if (copy == tensors.end() || weight == tensors.end() || network.find_parameter(second) != nullptr)
      continue;
    if (copy->second.type() != weight->second.type() ||
        !std::ranges::equal(copy->second.bytes(), weight->second.bytes()))
      user_error("{}: '{}' differs from '{}', but the model has one for both; model.tied=false has two", path,
                 second, first);
    tensors.erase(copy);
  }
  for (auto& [name, tensor] : tensors) {
    const ir::Parameter* parameter = network.find_parameter(name);
    if (parameter != nullptr && ends_with_one_of(name, forms.positions)) shorten(*parameter, tensor, path);
  }
  if (forms.transposed.empty() || !is_swapped(network, tensors, forms.transposed.front())) return;
  std::size_t count = 0;
  for (auto& [name, tensor] : tensors) {
    if (!ends_with_one_of(name, forms.transposed) || tensor.type().rank() != 2) continue;
    tensor = transposed(tensor);
    ++count;
  }
  write_log(LogLevel::info,
            fmt::format("{}: {} matrices are [inputs, outputs] there: they are transposed", path, count));
}

}  // namespace rewire::runtime
