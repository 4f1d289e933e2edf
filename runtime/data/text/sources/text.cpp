// Text files: documents, tokenised once into a cache.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/documents.h"
#include "runtime/data/text/split.h"
#include "runtime/data/text/token_cache.h"
#include "runtime/data/text/token_source.h"
#include "runtime/exec/make_engine.h"

namespace rewire::runtime {
namespace {

bool is_middle_of_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Moves the place back to the beginning of a character.
std::int64_t character_at(std::string_view text, std::int64_t place) {
  while (place > 0 && place < std::ssize(text) &&
         is_middle_of_character(text[static_cast<std::size_t>(place)]))
    --place;
  return place;
}

/// Returns the part of the text before the validation split, or that split.
TextPart part_of(const Documents& documents, Split split, double fraction) {
  const TextPart whole{0, documents.count(), 0, documents.bytes()};
  if (fraction == 0 && split == Split::train) return whole;
  if (fraction == 0)
    user_error("{}: data.validation_fraction is 0: set data.validation to the validation text",
               documents.name());
  const std::int64_t begin = validation_begin(documents.bytes(), fraction);
  if (documents.count() == 1) {
    std::int64_t cut = 0;
    documents.for_each([&](const Document& document) { cut = character_at(document.text, begin); });
    return split == Split::train ? TextPart{0, 1, 0, cut} : TextPart{0, 1, cut, documents.bytes()};
  }
  std::int64_t at = 0, first = 0;
  while (first + 1 < documents.count() && (first == 0 || at < begin))
    at += documents.sizes()[static_cast<std::size_t>(first++)];
  return split == Split::train ? TextPart{0, first, 0, at}
                               : TextPart{first, documents.count(), 0, documents.bytes() - at};
}

/// Passes on the part's tokens.
void tokenise(const Documents& documents, const TextPart& part, const Tokenizer& tokenizer,
              const TakeTokens& take) {
  std::int64_t number = 0;
  documents.for_each([&](const Document& document) {
    const std::int64_t index = number++;
    if (index < part.first || index >= part.last) return;
    std::string_view text = document.text;
    const bool is_cut = documents.count() == 1;
    if (is_cut)
      text =
          text.substr(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.end - part.begin));
    tokenizer.encode(text, document.name, take);
    const bool ends = !is_cut || part.end == documents.bytes();
    const std::int32_t end = tokenizer.end();
    if (ends && end >= 0) take({&end, 1});
  });
}

std::string key_of(const Documents& documents, const TextPart& part, const Tokenizer& tokenizer) {
  codegen::Digest digest;
  const std::string head = fmt::format("{}\n{}\n{} {} {} {}\n", tokenizer.digest(), documents.sha256(),
                                       part.first, part.last, part.begin, part.end);
  digest.update(std::as_bytes(std::span(head)));
  digest.update(std::as_bytes(std::span(documents.sizes())));
  return digest.hex();
}

std::unique_ptr<Source> read_text(const ir::Attributes& values, const SourceContext& context) {
  const std::string& validation = values.get_string("validation");
  const bool is_other = context.split == Split::test && !validation.empty();
  const Documents documents(is_other ? validation : values.get_string("path"));
  const double fraction = values.get_double("validation_fraction");
  auto text = std::make_shared<TextFacts>();
  text->name = documents.name();
  text->sha256 = documents.sha256();
  text->bytes = documents.bytes();
  text->documents = documents.count();
  text->part = validation.empty() ? part_of(documents, context.split, fraction)
                                  : TextPart{0, documents.count(), 0, documents.bytes()};
  TokenOptions options;
  options.name = documents.name();
  options.tokenizer = make_tokenizer(values.get_string("tokenizer"));
  options.separator = options.tokenizer->end();
  set_windows(options, values);
  options.text = text;
  TokenCacheOptions cache;
  cache.folder = context.cache;
  cache.is_asked = !context.cache.empty();
  if (const std::string own = kernel_cache_directory(); cache.folder.empty() && !own.empty())
    cache.folder = own + "/tokens";
  cache.key = key_of(documents, text->part, *options.tokenizer);
  cache.vocabulary = options.tokenizer->vocabulary();
  cache.name = options.name;
  auto tokens = cached_tokens(
      cache, [&](const TakeTokens& take) { tokenise(documents, text->part, *options.tokenizer, take); });
  return std::make_unique<TokenSource>(TokenStream({std::move(tokens)}), std::move(options), context);
}

/// A file of text by its name, or a folder with nothing but such files.
bool is_text(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::string_view kTextEndings[] = {".txt", ".md", ".jsonl", ".pod"};
  const auto is_named = [&](const fs::path& file) {
    return std::ranges::find(kTextEndings, file.extension().string()) != std::end(kTextEndings);
  };
  std::error_code error;
  if (fs::is_regular_file(path, error)) return is_named(path);
  bool any = false;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) continue;
    if (!it->is_regular_file(error) || !is_named(it->path())) return false;
    any = true;
  }
  return any;
}

ir::Schema schema_of_text() {
  ir::Schema schema = {
      ir::path_parameter(
          "path", "",
          "file, folder or pattern of UTF-8 text, one document a file, or .jsonl with one a line; "
          "empty: Perl's manual, of Debian's package perl-doc"),
      tokenizer_parameter("bytes", "tokenizer: bytes, gpt2:FOLDER, tiktoken:FILE or sentencepiece:FILE")};
  for (ir::ParameterSpec& parameter : window_parameters()) schema.push_back(std::move(parameter));
  for (ir::ParameterSpec& parameter : split_parameters()) schema.push_back(std::move(parameter));
  return schema;
}

}  // namespace

extern const SourceRow kTextSource{
    "text", "text files, tokenised; without data.path, Perl's manual", schema_of_text(), read_text, is_text,
    true};

}  // namespace rewire::runtime
