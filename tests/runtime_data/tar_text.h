// Tar files byte by byte, whole or broken, for the tests of what reads shards.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace rewire::test {

/// A header of 512 bytes; `type` is '0' for a file, '5' a folder, '1' and '2' links.
inline std::string tar_header(std::string_view name, std::size_t size, char type = '0',
                              std::string_view link = "") {
  std::string header(512, '\0');
  const auto put = [&header](std::size_t at, std::string_view text) {
    header.replace(at, text.size(), text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000600");
  put(108, "0001750");
  put(116, "0001750");
  put(124, fmt::format("{:011o}", size));
  put(136, "14000000000");
  put(148, "        ");
  header[156] = type;
  put(157, link);
  put(257, "ustar");
  put(263, "00");
  std::uint32_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + '\0');
  return header;
}

/// An entry: its header, its bytes and zeros up to a whole block.
inline std::string tar_entry(std::string_view name, std::string_view bytes, char type = '0') {
  std::string text = tar_header(name, bytes.size(), type);
  text += bytes;
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

/// What POSIX puts before an entry to say more than its header can: "path", "GNU.sparse.…".
inline std::string tar_pax(std::string_view key, std::string_view value, char type = 'x') {
  std::size_t size = key.size() + value.size() + 3;
  while (fmt::format("{}", size).size() + key.size() + value.size() + 3 != size) ++size;
  return tar_entry("PaxHeaders/x", fmt::format("{} {}={}\n", size, key, value), type);
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

/// A sample: KEY.jpg and KEY.cls.
inline std::string tar_sample(const std::string& key, std::string_view image, std::string_view label) {
  return tar_entry(key + ".jpg", image) + tar_entry(key + ".cls", label);
}

}  // namespace rewire::test
