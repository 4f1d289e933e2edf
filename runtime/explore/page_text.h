// The files of runtime/explore/page/ as text.
#pragma once

#include <string_view>

namespace rewire::runtime {

std::string_view page_html();
std::string_view page_css();
std::string_view page_js();

}  // namespace rewire::runtime
