#include "runtime/data/text/tokenizers/word_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <new>
#include <string>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

/// PCRE2's \s has U+180E besides, which is no white space since Unicode 6.3.
#define REWIRE_SPACE \
  R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
/// Possessive where the next part cannot match what is given back: a match takes no stack.
constexpr std::string_view kWords =
    R"('(?:[stmd]|re|ve|ll)| ?\p{L}++| ?\p{N}++| ?[^)" REWIRE_SPACE R"(\p{L}\p{N}]++|[)" REWIRE_SPACE
    R"(]+(?![^)" REWIRE_SPACE R"(])|[)" REWIRE_SPACE R"(]+)";
#undef REWIRE_SPACE

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct WordPattern::Code {
  struct FreeCode {
    void operator()(pcre2_code* compiled) const { pcre2_code_free(compiled); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool is_compiled = false;
};

WordPattern::WordPattern() {
  auto made = std::make_unique<Code>();
  int error = 0;
  std::size_t place = 0;
  made->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWords.data()), kWords.size(),
                                 PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr));
  if (!made->code) internal_error("the pattern of words, at {}: {}", place, pcre2_message(error));
  // Without its own compiler, PCRE2 interprets the pattern.
  made->is_compiled = pcre2_jit_compile(made->code.get(), PCRE2_JIT_COMPLETE) == 0;
  code_ = std::move(made);
}

WordPattern::~WordPattern() = default;

void WordPattern::for_each(std::string_view text,
                           const std::function<void(std::string_view word)>& take) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  if (!data) throw std::bad_alloc();
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    const int found = pcre2_match(code_->code.get(), subject, text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, data.get(), nullptr);
    if (found < 0) internal_error("words of a text, at byte {}: {}", at, pcre2_message(found));
    const std::size_t end = pcre2_get_ovector_pointer(data.get())[1];
    take(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace rewire::runtime
