#include "runtime/recipe/variants.h"

#include <algorithm>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/place.h"
#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostVariants = 64;

class VariantsReader {
 public:
  explicit VariantsReader(const std::string& file) : file_(file) {}

  std::vector<Variant> read(std::string_view text) {
    const toml::table root = parse_toml(text, file_);
    for (const auto& [key, node] : root) {
      if (key.str() != "variant")
        user_error("{}: unknown key {}{}", place(key.source()), printable(key.str()),
                   did_you_mean(key.str(), {"variant"}));
      const toml::array* list = node.as_array();
      if (list == nullptr || !std::ranges::all_of(*list, [](const auto& one) { return one.is_table(); }))
        user_error("{}: variant is a list of sections: write [[variant]]", place(key.source()));
      for (const toml::node& one : *list) read_variant(*one.as_table());
    }
    if (variants_.size() < 2 || variants_.size() > kMostVariants)
      user_error("{}: {} variants: it takes from 2 to {}, each a [[variant]]", file_, variants_.size(),
                 kMostVariants);
    return std::move(variants_);
  }

 private:
  std::string place(const toml::source_region& source) const { return Place::of(file_, source).text; }

  void read_variant(const toml::table& table) {
    Variant variant;
    for (const auto& [key, node] : table) {
      const std::string where = place(key.source());
      if (key.str() == "name") {
        variant.name = string_of(node, where, "name");
      } else if (key.str() == "set") {
        variant.settings = strings_of(node, where, "set");
      } else if (key.str() == "plugin") {
        variant.plugins = strings_of(node, where, "plugin");
      } else if (key.str() == "tune") {
        variant.tune = strings_of(node, where, "tune");
      } else {
        user_error("{}: unknown key {}{}", where, printable(key.str()),
                   did_you_mean(key.str(), {"name", "set", "plugin", "tune"}));
      }
    }
    const std::string where = place(table.source());
    if (variant.name.empty()) user_error("{}: a variant needs a name: add name = \"…\"", where);
    if (std::ranges::find(variants_, variant.name, &Variant::name) != variants_.end())
      user_error("{}: two variants have the name '{}'", where, printable(variant.name));
    variants_.push_back(std::move(variant));
  }

  static std::string string_of(const toml::node& node, const std::string& where, std::string_view key) {
    if (!node.is_string()) user_error("{}: {} takes strings, not {}", where, key, describe(node));
    return without_nul(node.ref<std::string>(), where, key);
  }

  static std::vector<std::string> strings_of(const toml::node& node, const std::string& where,
                                             std::string_view key) {
    const toml::array* list = node.as_array();
    if (list == nullptr) user_error("{}: {} takes a list of strings, not {}", where, key, describe(node));
    std::vector<std::string> strings;
    for (const toml::node& element : *list) strings.push_back(string_of(element, where, key));
    return strings;
  }

  const std::string& file_;
  std::vector<Variant> variants_;
};

}  // namespace

std::vector<Variant> read_variants(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(FilePlace::of_user(file), kLargestToml);
  return VariantsReader(file).read({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace rewire::runtime
