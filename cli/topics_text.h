// Texts of the source tree that stand in the program (topics_text.cpp.in).
#pragma once

#include <string_view>
#include <vector>

namespace rewire::cli {

/// cli/topics/NAME.txt: a line that says what it is about, an empty line, and the page.
struct TopicText {
  std::string_view name, text;
};
std::vector<TopicText> topic_texts();

/// The rows "| `key` | type | default | meaning |" of docs/guide/train.md.
std::string_view key_table();

}  // namespace rewire::cli
