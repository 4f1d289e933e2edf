// An HTML page that needs no other file: a template, its style and script, and data as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rewire::runtime {

/// The parts of a page: page.html, page.css and the scripts of a folder in the order of
/// runtime/CMakeLists.txt, after common.css and common.js. The template has @TITLE@, @STYLE@, @SCRIPT@ and
/// @DATA@ once each.
struct PageFiles {
  std::string_view html, css, js;
};
/// Return runtime/explore/page/, runtime/report/page/ and runtime/diff/page/, as they were when the program
/// was built.
PageFiles explorer_files();
PageFiles report_files();
PageFiles diff_files();

/// Returns the page. Text in the data that is not UTF-8 gets replacement characters.
std::string make_page(const PageFiles& files, const std::string& title, const nlohmann::ordered_json& data);

}  // namespace rewire::runtime
