// Files of token ids: nanoGPT's train.bin and val.bin, the shards of llm.c and modded-nanogpt, NumPy's arrays.
#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/split.h"
#include "runtime/data/text/token_source.h"

namespace rewire::runtime {
namespace {

const std::vector<std::string> kTokenEndings = {".bin", ".npy"};

TokenStream open_shards(const std::vector<std::string>& paths, TokenType raw) {
  TokenStream::Files files;
  for (const std::string& path : paths) files.push_back(std::make_shared<const TokenFile>(path, raw));
  return TokenStream(std::move(files));
}

/// Returns the tokens of the split: files of their own, or a part of the stream.
TokenStream open_split_tokens(const ir::Attributes& values, Split split) {
  const std::string& path = values.get_string("path");
  if (path.empty()) user_error("data.path is empty: set it to a file or folder of tokens");
  const TokenType raw = token_type(values.get_string("dtype"));
  const std::string& validation = values.get_string("validation");
  if (split == Split::test && !validation.empty())
    return open_shards(files_of_path(validation, kTokenEndings, false), raw);
  std::vector<std::string> files = files_of_path(path, kTokenEndings, false);
  if (files.size() == 1 && !validation.empty()) return open_shards(files, raw);
  const auto rest = std::stable_partition(files.begin(), files.end(),
                                          [](const std::string& file) { return !is_validation_name(file); });
  const std::vector<std::string> held(rest, files.end());
  const std::vector<std::string> trained(files.begin(), rest);
  if (!trained.empty() && !held.empty()) return open_shards(split == Split::train ? trained : held, raw);
  const TokenStream all = open_shards(files, raw);
  if (!validation.empty()) return all;
  const std::int64_t begin = validation_begin(all.count(), values.get_double("validation_fraction"));
  return split == Split::train ? all.part(0, begin) : all.part(begin, all.count());
}

std::unique_ptr<Source> read_tokens(const ir::Attributes& values, const SourceContext& context) {
  TokenOptions options;
  const std::string& validation = values.get_string("validation");
  options.name =
      visible(context.split == Split::test && !validation.empty() ? validation : values.get_string("path"));
  if (const std::string& tokenizer = values.get_string("tokenizer"); !tokenizer.empty()) {
    options.tokenizer = make_tokenizer(tokenizer);
    options.separator = options.tokenizer->end();
  }
  set_windows(options, values);
  if (const std::int64_t separator = values.get_int("separator"); separator >= 0)
    options.separator = static_cast<std::int32_t>(separator);
  return std::make_unique<TokenSource>(open_split_tokens(values, context.split), std::move(options), context);
}

/// A .bin file, nanoGPT's two, or shards that name their split; CIFAR-100 has a train.bin and a test.bin.
bool are_tokens(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path.ends_with(".bin") || path.ends_with(".npy");
  if (fs::exists(fs::path(path) / "train.bin", error)) return fs::exists(fs::path(path) / "val.bin", error);
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".bin") && name.find("_train_") != std::string::npos) return true;
  }
  return false;
}

ir::Schema schema_of_tokens() {
  ir::Schema schema = {
      ir::path_parameter("path", "", "file, folder or pattern of files of token ids"),
      ir::enum_parameter(
          "dtype", {"uint16", "uint8", "int32", "uint32"},
          "element type of files without a header; uint16, uint8, int32 or uint32, little-endian"),
      tokenizer_parameter("",
                          "tokenizer of the ids, for bits per byte and to show text: bytes, gpt2:FOLDER, "
                          "tiktoken:FILE or sentencepiece:FILE; empty: unknown"),
      ir::int_parameter("separator", -1, "id between documents; -1: that of data.tokenizer, if it is given")
          .at_least(-1)
          .below(2147483648.0)};
  for (ir::ParameterSpec& parameter : window_parameters()) schema.push_back(std::move(parameter));
  for (ir::ParameterSpec& parameter : split_parameters()) schema.push_back(std::move(parameter));
  return schema;
}

}  // namespace

extern const SourceRow kTokensSource{
    "tokens", "files of token ids: nanoGPT's .bin, shards of llm.c and modded-nanogpt, NumPy arrays",
    schema_of_tokens(), read_tokens, are_tokens};

}  // namespace rewire::runtime
