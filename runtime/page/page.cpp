#include "runtime/page/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rewire::runtime {
namespace {

/// Escapes '<', which occurs in strings only and would end the element that holds the data.
std::string script_text(const nlohmann::ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string make_page(const PageFiles& files, const std::string& title, const nlohmann::ordered_json& data) {
  std::string plain_title = title;
  std::ranges::replace_if(plain_title, [](char c) { return c == '<' || c == '&'; }, '_');
  const std::string json = script_text(data);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"@TITLE@", plain_title}, {"@STYLE@", files.css}, {"@SCRIPT@", files.js}, {"@DATA@", json}};
  std::string page;
  std::string_view rest = files.html;
  while (!rest.empty()) {
    std::size_t first = rest.size();
    const std::pair<std::string_view, std::string_view>* next = nullptr;
    for (const auto& part : parts) {
      const std::size_t at = rest.find(part.first);
      if (at >= first) continue;
      first = at;
      next = &part;
    }
    page += rest.substr(0, first);
    rest.remove_prefix(first);
    if (next == nullptr) continue;
    page += next->second;
    rest.remove_prefix(next->first.size());
  }
  return page;
}

}  // namespace rewire::runtime
