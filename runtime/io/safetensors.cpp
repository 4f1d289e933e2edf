// Reads and writes safetensors files. Reading trusts nothing: each number of the header is checked against
// the bytes that are there before it is used.
#include "runtime/io/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/pytorch_file.h"
#include "runtime/io/safetensors_header.h"

namespace rewire::runtime {
namespace {

using ir::DType;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kDataAlignment = 64;
/// The reference library's own limit.
constexpr std::uint64_t kLongestHeader = 100'000'000;

struct Spelling {
  std::string_view text;
  DType dtype;
};
/// In the order in which the reference library writes them.
constexpr std::array<Spelling, 8> kSpellings = {{{"I64", DType::i64},
                                                 {"F64", DType::f64},
                                                 {"F32", DType::f32},
                                                 {"I32", DType::i32},
                                                 {"BF16", DType::bf16},
                                                 {"F16", DType::f16},
                                                 {"U8", DType::u8},
                                                 {"BOOL", DType::i1}}};

template <class... Args>
[[noreturn]] void bad_file(const std::string& file_name, fmt::format_string<Args...> format, Args&&... args) {
  user_error("{}: not a readable safetensors file: {}", file_name,
             fmt::format(format, std::forward<Args>(args)...));
}

/// Returns the length word, checked against the file.
std::size_t header_length(std::span<const std::byte> bytes, const std::string& file_name) {
  if (bytes.size() < kLengthBytes) {
    bad_file(file_name, "{} bytes are too few for the header's length", bytes.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > bytes.size() - kLengthBytes) {
    bad_file(file_name, "it claims a header of {} bytes, but {} follow", length, bytes.size() - kLengthBytes);
  }
  if (length > kLongestHeader) {
    bad_file(file_name, "a header of {} bytes is longer than the format's {}", length, kLongestHeader);
  }
  return static_cast<std::size_t>(length);
}

/// Returns an entry's dtype and shape, after checks: they take exactly its bytes, and no extent is absurd.
ir::TensorType checked_type(const SafetensorsEntry& entry, const std::string& file_name) {
  const std::string name = printable(entry.name);
  const auto* spelling = std::ranges::find(kSpellings, entry.dtype, &Spelling::text);
  if (spelling == kSpellings.end()) {
    bad_file(file_name, "tensor '{}' has dtype '{}'; supported are F64 F32 BF16 F16 I64 I32 U8 BOOL", name,
             printable(entry.dtype));
  }
  const auto [begin, end] = entry.data_offsets;
  if (begin > end) bad_file(file_name, "tensor '{}' ends at {}, before it begins at {}", name, end, begin);
  const std::string shape = printable(fmt::format("{}", fmt::join(entry.shape, ",")));
  std::uint64_t bytes = ir::dtype_bytes(spelling->dtype);
  for (const std::uint64_t extent : entry.shape) {
    if (extent == 0) bad_file(file_name, "tensor '{}' of shape [{}] has no elements", name, shape);
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      bad_file(file_name, "tensor '{}' of shape [{}] has more than 2^64 bytes", name, shape);
    }
  }
  if (bytes != end - begin) {
    bad_file(file_name, "tensor '{}', {}[{}], takes {} bytes, but its data_offsets span {}", name,
             entry.dtype, shape, bytes, end - begin);
  }
  return {spelling->dtype, ir::Shape(entry.shape.begin(), entry.shape.end())};
}

/// The tensors tile the data: the first begins at 0, each next where the last ended, the last ends the file.
void check_layout(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes,
                  const std::string& file_name) {
  std::vector<const SafetensorsEntry*> in_place;
  in_place.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) in_place.push_back(&entry);
  std::ranges::sort(in_place, {}, &SafetensorsEntry::data_offsets);
  std::uint64_t covered = 0;
  for (const SafetensorsEntry* entry : in_place) {
    const auto [begin, end] = entry->data_offsets;
    const std::string name = printable(entry->name);
    if (end > data_bytes) {
      bad_file(file_name, "tensor '{}' ends at byte {} of {}: the file is truncated or the header corrupt",
               name, end, data_bytes);
    }
    if (begin < covered) bad_file(file_name, "tensor '{}' overlaps the tensor before it", name);
    if (begin > covered) {
      bad_file(file_name, "tensor '{}' leaves a gap of {} bytes before it", name, begin - covered);
    }
    covered = end;
  }
  if (covered != data_bytes) {
    bad_file(file_name, "{} bytes at its end belong to no tensor", data_bytes - covered);
  }
}

const Spelling& spelling_of(DType dtype) {
  return *std::ranges::find(kSpellings, dtype, &Spelling::dtype);
}

/// Orders tensors by the width of their elements, widest first, then by name. In aligned data, each is
/// then aligned to its elements.
std::vector<const TensorMap::value_type*> file_order(const TensorMap& tensors) {
  std::vector<const TensorMap::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::ranges::stable_sort(order, {}, [](const auto* item) {
    return &spelling_of(item->second.type().dtype) - kSpellings.data();
  });
  return order;
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& file_name) {
  const std::size_t length = header_length(bytes, file_name);
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);

  SafetensorsFile file;
  SafetensorsHeader header = parse_safetensors_header(json, file_name);
  file.metadata = std::move(header.metadata);
  std::vector<ir::TensorType> types;
  for (const SafetensorsEntry& entry : header.entries) types.push_back(checked_type(entry, file_name));
  check_layout(header.entries, data.size(), file_name);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const SafetensorsEntry& entry = header.entries[i];
    HostTensor tensor(types[i]);
    std::memcpy(tensor.bytes().data(), data.data() + entry.data_offsets[0], tensor.bytes().size());
    if (types[i].dtype == DType::i1) {
      for (std::uint8_t& truth : tensor.as<std::uint8_t>()) truth = truth != 0 ? 1 : 0;
    }
    file.tensors.emplace(entry.name, std::move(tensor));
  }
  return file;
}

SafetensorsFile read_safetensors(const FilePlace& place) {
  const std::vector<std::byte> bytes = read_file(place);
  if (is_pytorch_file(bytes)) refuse_pytorch_file(place.path());
  return parse_safetensors(bytes, place.path());
}

std::string write_safetensors(const FilePlace& place, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const auto order = file_order(tensors);
  SafetensorsHeader header{{}, metadata};
  std::uint64_t offset = 0;
  for (const auto* item : order) {
    const ir::TensorType& type = item->second.type();
    const std::uint64_t end = offset + item->second.bytes().size();
    header.entries.push_back({item->first,
                              std::string(spelling_of(type.dtype).text),
                              {type.shape.begin(), type.shape.end()},
                              {offset, end}});
    offset = end;
  }
  std::string json = print_safetensors_header(header);
  json.append((kDataAlignment - (kLengthBytes + json.size()) % kDataAlignment) % kDataAlignment, ' ');
  const std::uint64_t length = json.size();

  AtomicFile file(place);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(json.data(), json.size())));
  for (const auto* item : order) file.write(item->second.bytes());
  file.commit();
  return file.digest();
}

}  // namespace rewire::runtime
