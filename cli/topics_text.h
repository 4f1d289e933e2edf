// The texts of cli/topics, compiled into the program (topics_text.cpp.in).
#pragma once

#include <string_view>
#include <vector>

namespace rewire::cli {

/// One file cli/topics/NAME.txt: a line that says what the topic is about, an empty line, and the page.
struct TopicText {
  std::string_view name, text;
};
std::vector<TopicText> topic_texts();

}  // namespace rewire::cli
