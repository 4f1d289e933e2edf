#include "runtime/data/vision/class_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

class Relabelled final : public ImagesOver {
 public:
  Relabelled(std::unique_ptr<ImageSource> source, std::vector<std::int64_t> labels,
             std::vector<std::string> classes)
      : ImagesOver(std::move(source)), labels_(std::move(labels)), classes_(std::move(classes)) {}

  std::int64_t label(std::int64_t index) const override {
    return labels_[static_cast<std::size_t>(ImagesOver::label(index))];
  }
  std::vector<std::string> class_names() const override { return classes_; }

 private:
  std::vector<std::int64_t> labels_;  // by the source's own label
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<ImageSource> map_classes(std::unique_ptr<ImageSource> source,
                                         const std::vector<std::string>& classes) {
  std::vector<std::string> named;
  for (const std::string& name : source->class_names()) named.push_back(visible(name));
  if (named.empty() || classes.empty() || named == classes) return source;
  std::vector<std::int64_t> labels;
  for (const std::string& name : named) {
    const auto found = std::ranges::find(classes, name);
    if (found == classes.end()) {
      user_error("{}: its class '{}' is not one of the {} classes of the weights{}", source->name(), name,
                 classes.size(), did_you_mean(name, classes));
    }
    labels.push_back(found - classes.begin());
  }
  write_log(LogLevel::info,
            fmt::format("{}: its {} classes get their labels by name from the {} classes of the weights",
                        source->name(), named.size(), classes.size()));
  return std::make_unique<Relabelled>(std::move(source), std::move(labels), classes);
}

}  // namespace rewire::runtime
