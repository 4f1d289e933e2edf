// Folders of token files and texts, and the sources that read them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/catalog/sources.h"
#include "runtime/data/text/token_source.h"
#include "runtime/io/files.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {

/// What a network of that context and vocabulary asks for; 0: any ids.
inline runtime::SourceContext tokens_asked(std::int64_t context, std::int64_t vocabulary = 0,
                                           runtime::Split split = runtime::Split::train,
                                           std::string cache = {}) {
  return {split,
          {{"tokens", ir::DType::i32, {context}, runtime::FieldKind::tokens, vocabulary}},
          0,
          std::move(cache)};
}

class TokenTree {
 public:
  template <class Element>
  void put(const std::string& path, const std::vector<Element>& elements,
           std::string_view before = {}) const {
    std::string bytes(before);
    bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element));
    write(path, bytes);
  }
  /// A shard of modded-nanogpt, whose header says `count` tokens.
  void put_shard(const std::string& path, const std::vector<std::uint16_t>& tokens, std::int32_t count,
                 std::int32_t version = 1) const {
    std::vector<std::int32_t> header(256, 0);
    header[0] = 20240520;
    header[1] = version;
    header[2] = count;
    put(path, tokens, {reinterpret_cast<const char*>(header.data()), 1024});
  }
  void write(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    runtime::write_file_atomically(folder_.file(path), text);
  }
  std::string file(const std::string& path) const { return folder_.file(path); }
  std::string path() const { return folder_.path().string(); }
  std::size_t entries() const { return folder_.entries(); }

  using Values = std::vector<std::pair<std::string, ir::Attribute>>;
  /// As data.format=FORMAT data.path=PATH opens it, with further values.
  std::unique_ptr<runtime::Source> open(const std::string& format, const std::string& path,
                                        const runtime::SourceContext& context,
                                        const Values& values = {}) const {
    ir::Selection selection{format};
    selection.set("path", path.empty() ? this->path() : file(path));
    for (const auto& [key, value] : values) selection.set(key, value);
    return runtime::make_source(selection, context);
  }

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::int32_t> ids_of(const runtime::Sample& sample, const std::string& field) {
  const auto ids = sample.at(field).as<const std::int32_t>();
  return {ids.begin(), ids.end()};
}

}  // namespace rewire::test
