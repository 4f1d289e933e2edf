#include "runtime/data/text/tokenizer.h"

#include <fmt/format.h>

#include <array>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/tokenizers/rows.h"

namespace rewire::runtime {
namespace {

struct TokenizerRow {
  std::string_view kind, place;  // place: what follows the colon; "": nothing
  std::unique_ptr<const Tokenizer> (*make)(const std::string& path);
};
constexpr std::array<TokenizerRow, 4> kTokenizers = {{{"bytes", "", make_bytes},
                                                      {"gpt2", "FOLDER", make_gpt2},
                                                      {"tiktoken", "FILE", make_tiktoken},
                                                      {"sentencepiece", "FILE", make_sentencepiece}}};

}  // namespace

std::unique_ptr<const Tokenizer> make_tokenizer(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string_view kind = std::string_view(name).substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : name.substr(colon + 1);
  for (const TokenizerRow& row : kTokenizers) {
    if (row.kind != kind) continue;
    if (path.empty() == row.place.empty()) return row.make(path);
    if (row.place.empty()) user_error("data.tokenizer={}: {} takes no path", visible(name), kind);
    user_error("data.tokenizer={}: give its path: {}:{}", visible(name), kind, row.place);
  }
  user_error("data.tokenizer={} is unknown: it takes bytes, gpt2:FOLDER, tiktoken:FILE or sentencepiece:FILE",
             visible(name));
}

ir::ParameterSpec tokenizer_parameter(std::string_view default_name, std::string_view doc) {
  ir::ParameterSpec parameter = ir::text_parameter("tokenizer", default_name, doc);
  parameter.ends_in_path = true;
  return parameter;
}

void require_utf8(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const TextCharacter character = first_character(text.substr(at));
    if (!character.valid)
      user_error("{}: byte {} is not UTF-8: convert the file, or use data.tokenizer=bytes", name, at);
    at += character.bytes.size();
  }
}

}  // namespace rewire::runtime
