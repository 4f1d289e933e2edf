#include "runtime/group/agreement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "codegen/files/digest.h"
#include "ir/error.h"

namespace rewire::runtime {

std::string text_of_first(Group& group, std::string text) {
  std::uint64_t length = text.size();
  group.broadcast(std::as_writable_bytes(std::span(&length, 1)));
  text.resize(length);
  group.broadcast(std::as_writable_bytes(std::span(text)));
  return text;
}

int agreed_signal(Group& group, int signal) {
  if (group.size() == 1) return signal;
  const std::vector<int> all = gathered(group, signal);
  const auto first = std::ranges::find_if(all, [](int one) { return one != 0; });
  return first == all.end() ? 0 : *first;
}

void require_same(Group& group, const std::vector<RankFact>& facts) {
  if (group.size() == 1) return;
  constexpr std::size_t kDigits = 64;
  using Text = std::array<char, kDigits>;
  std::vector<Text> own;
  for (const RankFact& fact : facts) {
    const std::string digest = codegen::digest_hex(std::as_bytes(std::span(fact.text)));
    std::copy_n(digest.begin(), kDigits, own.emplace_back().begin());
  }
  const std::vector<Text> all = gathered(group, std::span<const Text>(own));
  for (std::size_t i = facts.size(); i < all.size(); ++i) {
    if (all[i] == all[i % facts.size()]) continue;
    user_error("rank {} has another {} than rank 0: start all ranks by the same command, from the same files",
               i / facts.size(), facts[i % facts.size()].name);
  }
}

}  // namespace rewire::runtime
