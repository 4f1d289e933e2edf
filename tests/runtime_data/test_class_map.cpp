// Labels by the names that a network learnt, and what makes data the same.
#include <algorithm>

#include "ir/error.h"
#include "runtime/data/identity.h"
#include "runtime/data/vision/class_map.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

/// A sample of each class, by name.
class Named final : public ImageSource {
 public:
  explicit Named(std::vector<std::string> classes, std::string folder = "/data/val")
      : classes_(std::move(classes)), folder_(std::move(folder)) {}
  std::string name() const override { return folder_; }
  std::int64_t count() const override { return std::ssize(classes_); }
  ir::Shape shape() const override { return {1, 1, 1}; }
  std::int64_t label(std::int64_t index) const override { return index; }
  StoredImage decode(std::int64_t, ReadBuffer& buffer, const BoxFunction&) const override {
    buffer.pixels = {7};
    return {buffer.pixels, 1, 1};
  }
  std::string sample_name(std::int64_t index) const override {
    return folder_ + "/" + classes_[static_cast<std::size_t>(index)] + "/0.png";
  }
  std::vector<std::string> class_names() const override { return classes_; }

 private:
  std::vector<std::string> classes_;
  std::string folder_;
};

TEST_CASE("Classes are labelled by their names, where folders lack some or are in another order") {
  const auto mapped =
      map_classes(std::make_unique<Named>(std::vector<std::string>{"owl", "cat"}), {"ant", "cat", "owl"});
  CHECK(mapped->label(0) == 2);
  CHECK(mapped->label(1) == 1);
  CHECK(mapped->class_names() == std::vector<std::string>{"ant", "cat", "owl"});
  CHECK(mapped->sample_name(0) == "/data/val/owl/0.png");
  const auto same =
      map_classes(std::make_unique<Named>(std::vector<std::string>{"ant", "cat"}), {"ant", "cat"});
  CHECK(same->label(1) == 1);
  CHECK(test::message_of<UserError>([] {
          map_classes(std::make_unique<Named>(std::vector<std::string>{"ant", "catt"}),
                      {"ant", "cat", "owl"});
        }) == "/data/val: its class 'catt' is not one of the 3 classes of the weights (did you mean 'cat'?)");
}

TEST_CASE("Data that have been moved are the same; other names, labels, classes and counts are not") {
  const DataIdentity then = Named({"ant", "cat"}).identity();
  CHECK(Named({"ant", "cat"}, "/elsewhere/val").identity() == then);
  CHECK(difference(then, Named({"ant", "cat"}).identity()).empty());
  CHECK(difference(then, Named({"ant", "cat", "owl"}).identity()) == "2 samples then, 3 now");
  CHECK(difference(then, Named({"ant", "owl"}).identity()) ==
        "2 samples then and now, class 1 is 'cat' then, 'owl' now");
  DataIdentity relabelled = then;
  relabelled.digest = Named({"cat", "ant"}).identity().digest;
  CHECK(difference(then, relabelled) == "2 samples then and now, but their names or labels differ");
}

}  // namespace
}  // namespace rewire::runtime
