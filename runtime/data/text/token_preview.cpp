#include "runtime/data/text/token_preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ir/printable.h"

namespace rewire::runtime {
namespace {

std::span<const std::int32_t> field_of(const Sample& sample, std::string_view name) {
  return sample.find(name)->second.as<const std::int32_t>();
}

/// Positions before the padding: the last token of a packed document has no target, but the same document.
std::size_t positions_of(const TokenSource& source, const Sample& sample) {
  const std::span<const std::int32_t> targets = field_of(sample, kTargetsField);
  std::size_t end = targets.size();
  while (end > 0 && targets[end - 1] < 0) --end;
  if (!source.options().pack) return end;
  const std::span<const std::int32_t> documents = field_of(sample, kDocumentsField);
  return end + (end < targets.size() && end > 0 && documents[end] == documents[end - 1] ? 1 : 0);
}

}  // namespace

std::string window_text(const TokenSource& source, const Sample& sample) {
  const TokenOptions& options = source.options();
  const std::span<const std::int32_t> tokens = field_of(sample, kTokensField);
  std::span<const std::int32_t> documents;
  if (options.pack) documents = field_of(sample, kDocumentsField);
  const std::size_t count = positions_of(source, sample);
  std::string text, run;
  const auto flush = [&] {
    text += visible_lines(run);
    run.clear();
  };
  const auto begin_line = [&] {
    flush();
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (options.pack && (i == 0 || documents[i] != documents[i - 1])) {
      begin_line();
      text += fmt::format("--- document {} ---\n", documents[i]);
    }
    if (tokens[i] == options.separator) {
      flush();
      text += "<|end|>";
    } else if (options.tokenizer) {
      run += options.tokenizer->text_of(tokens[i]);
    } else {
      text += fmt::format("{}{}", text.empty() || text.ends_with('\n') ? "" : " ", tokens[i]);
    }
  }
  if (count < tokens.size()) {
    begin_line();
    text += fmt::format("--- {} position{} of padding ---", tokens.size() - count,
                        tokens.size() - count == 1 ? "" : "s");
  }
  begin_line();
  return text;
}

}  // namespace rewire::runtime
