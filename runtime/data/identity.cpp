#include "runtime/data/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "codegen/files/digest.h"
#include "ir/printable.h"

namespace rewire::runtime {

DataIdentity identity_by(std::int64_t count, const std::vector<std::string>& classes,
                         const std::function<std::string(std::int64_t index)>& line) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  DataIdentity identity{count, {}, ""};
  for (const std::string& name : classes) identity.classes.push_back(visible(name));
  codegen::Digest digest;
  std::string text;
  const auto flush = [&] {
    digest.update(std::as_bytes(std::span(text.data(), text.size())));
    text.clear();
  };
  for (std::int64_t i = 0; i < count; ++i) {
    text += line(i);
    if (text.size() >= kChunk) flush();
  }
  flush();
  identity.digest = digest.hex();
  return identity;
}

std::string relative_name(std::string_view sample, std::string_view source) {
  if (sample.starts_with(source))
    sample.remove_prefix(std::min(sample.find_first_not_of('/', source.size()), sample.size()));
  return std::string(sample);
}

std::string difference(const DataIdentity& one, const DataIdentity& other, std::string_view then,
                       std::string_view now) {
  if (one == other) return "";
  if (one.count != other.count) return fmt::format("{} samples {}, {} {}", one.count, then, other.count, now);
  const std::string images = fmt::format("{} samples {} and {}, ", one.count, then, now);
  if (one.classes.size() != other.classes.size()) {
    return images + fmt::format("{} classes have names {}, {} {}", one.classes.size(), then,
                                other.classes.size(), now);
  }
  const auto [first, second] = std::ranges::mismatch(one.classes, other.classes);
  if (first != one.classes.end()) {
    return images + fmt::format("class {} is '{}' {}, '{}' {}", first - one.classes.begin(), visible(*first),
                                then, visible(*second), now);
  }
  return images + "but their names or labels differ";
}

}  // namespace rewire::runtime
