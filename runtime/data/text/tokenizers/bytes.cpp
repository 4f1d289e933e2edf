// Bytes as tokens: ids 0 to 255 are the bytes, 256 ends a document. No byte is free for that: text of any
// encoding may hold all 256.
#include <array>
#include <vector>

#include "runtime/data/text/tokenizers/rows.h"

namespace rewire::runtime {
namespace {

constexpr std::int32_t kBytesEnd = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
  }
  std::int64_t vocabulary() const override { return kBytesEnd + 1; }
  std::int32_t end() const override { return kBytesEnd; }
  void encode(std::string_view text, std::string_view, const TakeTokens& take) const override {
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    std::vector<std::int32_t> ids;
    for (; !text.empty(); text.remove_prefix(ids.size())) {
      const std::string_view piece = text.substr(0, kPiece);
      ids.assign(reinterpret_cast<const unsigned char*>(piece.data()),
                 reinterpret_cast<const unsigned char*>(piece.data()) + piece.size());
      take(ids);
    }
  }
  std::string_view text_of(std::int32_t id) const override {
    if (id < 0 || id >= kBytesEnd) return {};
    return {&bytes_[static_cast<std::size_t>(id)], 1};
  }
  std::string digest() const override { return "bytes"; }

 private:
  std::array<char, kBytesEnd> bytes_;
};

}  // namespace

std::unique_ptr<const Tokenizer> make_bytes(const std::string&) {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace rewire::runtime
