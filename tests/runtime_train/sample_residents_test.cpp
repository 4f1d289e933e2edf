// Samples that are no labelled images, each of a source, an objective or a file that Rewire has not got, trained through the whole
// runtime: text, logits of a teacher, boxes.
#include <cmath>
#include <filesystem>
#include <map>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "programs/sums.h"
#include "runtime/data/catalog/data_info.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_pipeline.h"
#include "runtime/io/npy.h"
#include "runtime/measure/given.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/initialise.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/runtime_train/stopped_run.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {

extern const SourceRow kLetterSource;

}  // namespace rewire::runtime

namespace rewire::programs {

extern const ObjectiveRow kNextLetter;

namespace {

using ir::Builder;
using ir::Value;

/// A student's logits against a teacher's, by squared error: in training the teacher's are a row of a file.
class Teacher final : public Objective {
 public:
  explicit Teacher(std::string file) : file_(std::move(file)) {}
  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    return {{"image", forward.type(forward.argument("image"))}};
  }
  Inputs training_inputs(const ir::Module& module) const override {
    Inputs inputs = this->inputs(module);
    const ir::Function& forward = module.function("forward");
    inputs.push_back({.name = "teacher",
                      .type = forward.type(forward.result("logits")),
                      .filler = Filler::file,
                      .file = file_});
    return inputs;
  }
  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const Value logits = network.call("forward", {{"image", inputs.at("image")}}).at("logits");
    const Value error = b.sub(logits, inputs.at("teacher"));
    return {mean_all(b, b.mul(error, error)), {}};
  }
  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value logits = network.call("forward", {{"image", inputs.at("image")}}).at("logits");
    const Value each = b.reshape(b.sum(b.mul(logits, logits), {1}), b.shape(weight));
    return {{{"loss", "loss_sum", "count"}, sum_all(b, b.mul(each, weight)), sum_all(b, weight)}};
  }

 private:
  std::string file_;
};
const ObjectiveRow kTeacher{"teacher",
                            "a teacher's logits",
                            {{"loss", "loss", Shown::number}},
                            {ir::path_parameter("teacher_logits", "", "a .npy [samples, classes]")},
                            [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
                              return std::make_unique<Teacher>(values.get_string("teacher_logits"));
                            }};

/// Every box of an image by one prediction [batch, 4], squared error over the boxes that are there.
class OneBox final : public Objective {
 public:
  static constexpr std::int64_t kMost = 5;
  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const ir::TensorType image = forward.type(forward.argument("image"));
    return {{"image", image},
            {.name = "boxes", .type = {ir::DType::f32, {image.shape[0], kMost, 4}}, .kind = FieldKind::boxes},
            {"boxes_mask", {ir::DType::f32, {image.shape[0], kMost}}}};
  }
  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const auto [error, count] = errors(b, network, inputs, {});
    return {b.div(error, b.add(count, 1e-6)), {}};
  }
  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const auto [error, count] = errors(b, network, inputs, weight);
    return {{{"loss", "loss_sum", "count"}, error, count}};
  }

 private:
  static std::pair<Value, Value> errors(Builder& b, Network& network, const NamedValues& inputs,
                                        Value weight) {
    const Value boxes = inputs.at("boxes"),
                predicted = network.call("forward", {{"image", inputs.at("image")}}).at("logits");
    const ir::Shape shape = b.shape(boxes);
    Value mask = b.reshape(inputs.at("boxes_mask"), {shape[0], shape[1], 1});
    if (weight) mask = b.mul(mask, b.reshape(weight, {shape[0], 1, 1}));
    const Value error = b.sub(boxes, b.reshape(predicted, {shape[0], 1, 4}));
    return {sum_all(b, b.mul(b.mul(error, error), mask)), sum_all(b, mask)};
  }
};
const ObjectiveRow kOneBox{
    "one_box",
    "the mean box",
    {{"loss", "loss", Shown::number}},
    {},
    [](const ir::Attributes&) -> std::unique_ptr<Objective> { return std::make_unique<OneBox>(); }};

}  // namespace
}  // namespace rewire::programs

namespace rewire::runtime {
namespace {

using test::message_of;

/// Images of 12 x 16, black but for what is in their boxes: image i has i % 4 of them, box k white in row and column 3 k to 3 k + 2.
class Boxes final : public ImageSource {
 public:
  std::string name() const override { return "boxes"; }
  std::int64_t count() const override { return 37; }
  ir::Shape shape() const override { return {1, 12, 16}; }
  std::int64_t label(std::int64_t) const override { return 0; }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction&) const override {
    buffer.pixels.assign(12 * 16, 0);
    for (std::size_t k = 0; k < static_cast<std::size_t>(index % 4); ++k) {
      for (std::size_t y = 3 * k; y < 3 * k + 2; ++y)
        std::fill_n(buffer.pixels.begin() + static_cast<std::ptrdiff_t>(16 * y + 3 * k), 2,
                    std::uint8_t{255});
    }
    return {buffer.pixels, 12, 16};
  }
  std::vector<Field> further_fields() const override {
    return {{"boxes", ir::DType::f32, {kRagged, 4}, FieldKind::boxes}};
  }
  void read_further(std::int64_t index, Sample& sample) const override {
    const std::span<float> boxes = place_in(sample, "boxes", {ir::DType::f32, {index % 4, 4}}).as<float>();
    for (std::size_t k = 0; k < boxes.size(); ++k)
      boxes[k] = static_cast<float>(3 * (k / 4) + (k % 4 < 2 ? 0 : 2));
  }
};
const SourceRow kBoxes{"boxes",
                       "images with boxes",
                       {},
                       [](const ir::Attributes&, const SourceContext&) -> std::unique_ptr<Source> {
                         return std::make_unique<Boxes>();
                       }};

void add_sample_residents() {
  static const bool added = [] {
    add_source(kLetterSource);
    add_source(kBoxes);
    programs::add_objective(programs::kNextLetter);
    programs::add_objective(programs::kTeacher);
    programs::add_objective(programs::kOneBox);
    return true;
  }();
  static_cast<void>(added);
}

TrainRequest request_of(const Recipe& recipe, std::function<ir::Module(std::int64_t)> forward) {
  TrainRequest request;
  request.recipe = recipe;
  request.engine = engine_names().front();
  request.choices.autotune = false;
  request.network.forward = std::move(forward);
  return request;
}

/// forward(tokens i64 [batch, n]) -> logits: a row of a table for each token.
ir::Module bigrams(std::int64_t batch) {
  constexpr std::int64_t kWindow = 15, kVocabulary = 128;
  ir::Module module;
  module.name = "bigrams";
  ir::Parameter table;
  table.name = "table";
  table.type = {ir::DType::f32, {kVocabulary, kVocabulary}};
  module.add_parameter(table);
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Value tokens =
      b.reshape(b.argument("tokens", {ir::DType::i64, {batch, kWindow}}), {batch * kWindow});
  const ir::Value rows = b.emit(ir::Opcode::gather, {b.param("table"), tokens}, {{"axis", std::int64_t{0}}});
  b.result("logits", b.reshape(rows, {batch, kWindow, kVocabulary}));
  module.functions.push_back(std::move(forward));
  return module;
}

/// A text of which each letter has two that may follow, drawn by Philox; and the entropy of its letters in nats.
std::pair<std::string, double> chain_of_letters(std::size_t size) {
  const ir::PhiloxStream stream{5, 0, ir::stream_hash("letters")};
  std::string text = "a";
  std::map<char, double> counts;
  while (text.size() < size) {
    const int step = stream.bits(text.size()) % 4 == 0 ? 7 : 3;
    text += static_cast<char>('a' + (text.back() - 'a' + step) % 26);
    ++counts[text.back()];
  }
  double entropy = 0;
  for (const auto& [letter, count] : counts) {
    const double share = count / static_cast<double>(size - 1);
    entropy -= share * std::log(share);
  }
  return {text, entropy};
}

TEST_CASE(
    "A text and an objective of next tokens train below the entropy of its letters, and resume to the bit") {
  add_sample_residents();
  const test::TemporaryFolder folder;
  const auto [text, entropy] = chain_of_letters(15 * 83 + 4);
  write_file_atomically(folder.file("text"), std::string_view(text));
  const Recipe recipe = parse_recipe(R"(
[data]
format = "letters"
[objective]
name = "next_letter"
[optimizer]
name = "adamw"
lr = 0.3
weight_decay = 0.0
[train]
batch = 4
epochs = 8
[eval]
batch = 16
)",
                                     "test.toml", {"data.path=" + folder.file("text")});
  const TrainRequest request = request_of(recipe, bigrams);
  const TrainResult result = check_resumes(request, 23);
  REQUIRE(result.evaluation.has_value());
  CAPTURE(entropy);
  CHECK(entropy > 3);
  CHECK(result.evaluation->loss() < entropy / 2);  // of the chain itself .562

  // A batch in order, and its padding.
  const NetworkFace face = network_face(bigrams(1), recipe.objective);
  const DataFeed feed(recipe, Split::test, face);
  CHECK(feed.count() == 83);
  CHECK(feed.batches() == 6);
  const auto loader = feed.load({0, 5, 80});
  Batch batch;
  loader->next(batch);
  const auto tokens = batch.tensors.at("tokens").as<std::int64_t>();
  const auto weight = batch.tensors.at("weight").as<float>();
  for (std::size_t i = 0; i < 16 * 16; ++i)
    CHECK(tokens[i] == (i / 16 < 3 ? text[(80 + i / 16) * 15 + i % 16] : 0));
  for (std::size_t i = 0; i < 16; ++i) CHECK(weight[i] == (i < 3 ? 1 : 0));

  // What data info says of it.
  ir::Selection selection{"letters"};
  const DataInfo info = examine_data(selection.set("path", folder.file("text")), {});
  const SplitInfo& split = info.splits.at(0);
  CHECK(split.channels == 0);
  CHECK(split.count == (std::ssize(text) - 1) / 63);
  REQUIRE(split.fields.size() == 1);
  CHECK(to_string(split.fields[0].field) == "i64[64]");
  CHECK(split.fields[0].least == 'a');
  CHECK(split.fields[0].greatest == 'z');
  CHECK(message_of<UserError>([&] { draw_classes(selection); }) ==
        folder.file("text") + ": its samples are not images, so no sheet can be drawn");
  // A byte that the network has no row for, a transform, and another vocabulary are refused.
  write_file_atomically(folder.file("odd"),
                        std::string_view("abcdefghijklmnop\xe9 and some more text of ascii"));
  Recipe odd = recipe;
  odd.source.set("path", folder.file("odd"));
  const DataFeed of_odd(odd, Split::test, face);
  CHECK(message_of<DataError>([&] { of_odd.load()->next(batch); }) ==
        folder.file("odd") + ": sample 1: its 'tokens' has 233, but the network's classes are 0 to 127");
  Recipe flipped = recipe;
  flipped.transforms.set("horizontal_flip", true);
  CHECK(message_of<UserError>([&] { DataFeed(flipped, Split::train, face); }) ==
        "transforms.horizontal_flip needs labelled images, but " + folder.file("text") +
            " has none: remove it");
  // What is of labelled images.
  const auto refusal = [&](const std::string& setting) {
    Recipe other = recipe;
    if (setting == "fraction") other.data.train_fraction = 0.5;
    if (setting == "list") other.data.train_list = "list";
    return message_of<UserError>([&] { DataFeed(other, Split::train, face); });
  };
  CHECK(refusal("fraction") ==
        "data.train_fraction needs labelled images, but " + folder.file("text") + " has none: remove it");
  CHECK(refusal("list") ==
        "data.train_list needs labelled images, but " + folder.file("text") + " has none: remove it");
}

/// Lists of numbers, i64 and of any length, and a vector of three.
class Lists final : public Source {
 public:
  std::string name() const override { return "lists"; }
  std::int64_t count() const override { return 4; }
  std::vector<Field> fields() const override {
    return {{"list", ir::DType::i64, {kRagged, 2}, FieldKind::tokens, 50},
            {"vector", ir::DType::f32, {3}, FieldKind::latent},
            {"other", ir::DType::f32, {3}, FieldKind::latent}};
  }
  void read(std::int64_t index, Sample& sample) const override {
    const std::span<std::int64_t> list =
        place_in(sample, "list", {ir::DType::i64, {index, 2}}).as<std::int64_t>();
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = 10 * index + static_cast<std::int64_t>(i);
    std::ranges::fill(place_in(sample, "vector", {ir::DType::f32, {3}}).as<float>(),
                      static_cast<float>(index));
    std::ranges::fill(place_in(sample, "other", {ir::DType::f32, {3}}).as<float>(), -1.0F);
  }
};

TEST_CASE(
    "Fields are found by name or kind, padded where they are ragged, and masked; what does not fit is "
    "named") {
  const Lists lists;
  const auto pipeline = field_pipeline(lists, {{"tokens", ir::DType::i64, {3, 2}, FieldKind::tokens, 64},
                                               {"list_mask", ir::DType::f32, {3}},
                                               {"vector", ir::DType::f32, {3}}});
  std::vector<std::int64_t> tokens(6);
  std::vector<float> mask(3), vector(3);
  const std::span<std::byte> row[] = {std::as_writable_bytes(std::span(tokens)),
                                      std::as_writable_bytes(std::span(mask)),
                                      std::as_writable_bytes(std::span(vector))};
  for (const std::int64_t sample : {3, 0, 2}) {
    pipeline->read({0, sample, 0}, row);
    for (std::int64_t i = 0; i < 6; ++i)
      CHECK(tokens[static_cast<std::size_t>(i)] == (i < 2 * sample ? 10 * sample + i : 0));
    for (std::int64_t i = 0; i < 3; ++i) CHECK(mask[static_cast<std::size_t>(i)] == (i < sample ? 1 : 0));
    CHECK(vector == std::vector<float>(3, static_cast<float>(sample)));
  }
  const auto refusal = [&](const Field& asked) {
    return message_of<UserError>([&] { field_pipeline(lists, {asked}); });
  };
  CHECK(refusal({"noise", ir::DType::f32, {3}, FieldKind::latent}) ==
        "lists: 'noise' may be its 'vector' or 'other': give one of them this name");
  CHECK(refusal({"vector", ir::DType::f32, {4}}) ==
        "lists: its 'vector' is f32[3], but the network takes 'vector' f32[4]");
  CHECK(refusal({"tokens", ir::DType::i64, {3, 2}, FieldKind::tokens, 20}) ==
        "lists: its 'list' has 50 categories, but the network has 20");
  CHECK(refusal({"vector_mask", ir::DType::f32, {3}}) ==
        "lists: a sample has 'list' i64[?,2], 'vector' f32[3], 'other' f32[3]; the network takes "
        "'vector_mask' f32[3]");
  const auto narrow = field_pipeline(lists, {{"list", ir::DType::i64, {2, 2}}});
  CHECK_NOTHROW(narrow->read({0, 2, 0}, row));
  CHECK(message_of<DataError>([&] { narrow->read({0, 3, 0}, row); }) ==
        "lists: sample 3: its 'list' is i64[3,2], but the network takes at most i64[2,2]");
}

TEST_CASE("Tokens that are given as a file are checked as images are, and step") {
  add_sample_residents();
  ir::Module module = bigrams(2);
  programs::TrainOptions options;
  options.objective = {"next_letter"};
  programs::add_step_program(module, options);
  const auto engine = make_engine(engine_names().front(), module);
  for (const auto& [name, value] : initialise(module, 3)) engine->write_state(name, value);
  HostTensor tokens({ir::DType::i64, {3, 2, 16}});
  for (std::size_t i = 0; i < 96; ++i) tokens.as<std::int64_t>()[i] = static_cast<std::int64_t>(i % 128);
  GivenInputs inputs;
  inputs["tokens"] = {tokens.clone(), "tokens.npy"};
  CHECK(run_given_steps(*engine, module, inputs, 3, options).size() == 3);
  HostTensor beyond({ir::DType::i64, {2, 16}});
  beyond.as<std::int64_t>()[7] = 128;
  CHECK_THAT(message_of<UserError>([&] {
               check_batch(module, module.function("step"), "tokens", {beyond.clone(), "tokens.npy"});
             }),
             REWIRE_CATCH_CONTAINS("128"));
}

TEST_CASE(
    "A teacher's logits come from a file by the sample, whatever the order and the part that is taken") {
  add_sample_residents();
  const test::TemporaryFolder folder;
  HostTensor logits({ir::DType::f32, {40, 3}});
  for (std::size_t i = 0; i < 120; ++i) logits.as<float>()[i] = static_cast<float>(i) / 64;
  write_npy(folder.file("logits.npy"), logits);
  const Recipe recipe = parse_recipe(R"(
[data]
format = "synthetic"
count = 40
[objective]
name = "teacher"
[optimizer]
name = "sgd"
lr = 0.05
[train]
batch = 8
epochs = 3
[eval]
batch = 16
)",
                                     "test.toml", {"objective.teacher_logits=" + folder.file("logits.npy")});
  const auto student = [](std::int64_t batch) { return linear_model(batch, 9, 3); };
  const TrainRequest request = request_of(recipe, student);
  check_resumes(request, 7);
  // Diagnostics are of test images, which have no row in the file.
  ir::Module module = student(4);
  programs::add_observed_program(module, recipe.objective, "observed");
  CHECK_FALSE(module.function("observed").argument("teacher"));

  Recipe part = recipe;
  part.data.train_fraction = 0.5;
  for (const Recipe* taken : {&recipe, static_cast<const Recipe*>(&part)}) {
    const NetworkFace face = training_face(request.network, taken->objective);
    const DataFeed feed(*taken, Split::train, face);
    const auto loader = feed.load();
    const std::vector<std::uint32_t> order = feed.source().order(0, 0);
    Batch batch;
    loader->next(batch);
    for (std::size_t row = 0; row < 8; ++row) {
      const std::int64_t sample = feed.source().origin(order[row]);
      for (std::size_t k = 0; k < 3; ++k)
        CHECK(batch.tensors.at("teacher").as<float>()[3 * row + k] ==
              logits.as<float>()[3 * static_cast<std::size_t>(sample) + k]);
    }
    // An evaluation reads no file.
    const DataFeed evaluated(*taken, Split::test, face);
    evaluated.load()->next(batch = {});
    CHECK_FALSE(batch.tensors.contains("teacher"));
  }
  // A file that changes under a run is no sample's fault.
  Recipe skips = recipe;
  skips.data.unreadable = "skip";
  const DataFeed feed(skips, Split::train, training_face(request.network, recipe.objective));
  write_file_atomically(folder.file("copy"), read_file(folder.file("logits.npy")));
  std::filesystem::resize_file(folder.file("logits.npy"), 200);
  Batch batch;
  CHECK(message_of<DataError>([&] { feed.load()->next(batch); }) ==
        folder.file("logits.npy") + ": the file has changed since it was opened: run the command again");
  const auto refusal = [&](const HostTensor& rows) {
    write_npy(folder.file("logits.npy"), rows);
    return message_of<UserError>(
        [&] { DataFeed(recipe, Split::train, training_face(request.network, recipe.objective)); });
  };
  CHECK(refusal(HostTensor({ir::DType::f32, {39, 3}})) ==
        folder.file("logits.npy") +
            ": it has 39 rows f32[3], but 'teacher' needs a row f32[3] for each of the 40 samples of "
            "synthetic data");
  CHECK_THAT(refusal(HostTensor({ir::DType::f32, {40, 4}})), REWIRE_CATCH_CONTAINS("40 rows f32[4]"));
}

/// Where `batch` has white pixels in image `row`: left, top, right, bottom.
std::vector<std::array<float, 4>> white_boxes(std::span<const float> image, std::int64_t height,
                                              std::int64_t width) {
  std::vector<std::array<float, 4>> found;
  std::vector<bool> seen(image.size(), false);
  const auto is_white = [&](std::int64_t y, std::int64_t x) {
    return y < height && x < width && image[static_cast<std::size_t>(y * width + x)] > 0.5F;
  };
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (!is_white(y, x) || seen[static_cast<std::size_t>(y * width + x)]) continue;
      std::int64_t bottom = y, right = x;
      while (is_white(bottom, x)) ++bottom;
      while (is_white(y, right)) ++right;
      for (std::int64_t i = y; i < bottom; ++i)
        for (std::int64_t k = x; k < right; ++k) seen[static_cast<std::size_t>(i * width + k)] = true;
      found.push_back({static_cast<float>(x), static_cast<float>(y), static_cast<float>(right),
                       static_cast<float>(bottom)});
    }
  }
  return found;
}

TEST_CASE("Flips and crops move boxes with the pixels in them; what is cut off whole is masked") {
  add_sample_residents();
  const auto source = std::make_unique<Boxes>();
  PipelineContext context;
  context.asked = {{"image", ir::DType::f32, {1, 12, 16}, FieldKind::image},
                   {"boxes", ir::DType::f32, {5, 4}, FieldKind::boxes},
                   {"boxes_mask", ir::DType::f32, {5}}};
  context.transforms = {{"horizontal_flip", true}, {"crop_padding", std::int64_t{3}}};
  context.seed = 4;
  const ImagePipeline pipeline(*source, context);
  std::vector<float> image(192), boxes(20), mask(5);
  std::int64_t label = 0;
  const std::span<std::byte> row[] = {
      std::as_writable_bytes(std::span(image)), std::as_writable_bytes(std::span(&label, 1)),
      std::as_writable_bytes(std::span(boxes)), std::as_writable_bytes(std::span(mask))};
  int moved = 0, lost = 0;
  for (std::int64_t sample = 0; sample < 37; ++sample) {
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      CAPTURE(sample, epoch);
      pipeline.read({epoch, sample, 0}, row);
      std::vector<std::array<float, 4>> told;
      for (std::size_t k = 0; k < 5; ++k) {
        if (mask[k] == 0) {
          lost += static_cast<std::int64_t>(k) < sample % 4;
          continue;
        }
        told.push_back({boxes[4 * k], boxes[4 * k + 1], boxes[4 * k + 2], boxes[4 * k + 3]});
        moved += told.back()[0] != static_cast<float>(3 * k);
      }
      std::vector<std::array<float, 4>> seen = white_boxes(image, 12, 16);
      std::ranges::sort(told);
      std::ranges::sort(seen);
      CHECK(told == seen);
    }
  }
  CHECK(moved > 100);
  CHECK(lost > 5);

  // A crop that is enlarged: a box of white is the image's middle, and so it stays where it was enlarged to.
  context.transforms = {{"resize", std::string("bilinear")}, {"scale", ir::Doubles{0.3, 0.9}}};
  const ImagePipeline crops(*source, context);
  int checked = 0;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    crops.read({epoch, 3, 0}, row);
    for (std::size_t k = 0; k < 3; ++k) {
      if (mask[k] == 0) continue;
      const float* box = boxes.data() + 4 * k;
      const auto x = static_cast<std::size_t>((box[0] + box[2]) / 2),
                 y = static_cast<std::size_t>((box[1] + box[3]) / 2);
      if (box[2] - box[0] < 2 || box[3] - box[1] < 2) continue;
      CHECK(image[16 * y + x] > 0.4F);
      ++checked;
    }
  }
  CHECK(checked > 40);
  context.transforms = {{"rand_augment", std::string("timm")}};
  CHECK(message_of<UserError>([&] { ImagePipeline(*source, context); }) ==
        "transforms.rand_augment rotates, shears and shifts images, but not their boxes: set it to none");
}

TEST_CASE("Images with boxes, padded with a mask, train and resume to the bit; too many boxes are named") {
  add_sample_residents();
  const Recipe recipe = parse_recipe(R"(
[data]
format = "boxes"
[transforms]
horizontal_flip = true
crop_padding = 2
[objective]
name = "one_box"
[optimizer]
name = "adamw"
lr = 0.02
[train]
batch = 6
epochs = 4
[eval]
batch = 8
)",
                                     "test.toml");
  const auto network = [](std::int64_t batch) {
    ir::Module module;
    module.name = "boxes";
    ir::Parameter w;
    w.name = "w";
    w.type = {ir::DType::f32, {4, 192}};
    w.init = {ir::InitKind::normal, 0.02};
    module.add_parameter(w);
    ir::Function forward;
    forward.name = "forward";
    ir::Builder b(module, forward);
    const ir::Value image = b.argument("image", {ir::DType::f32, {batch, 1, 12, 16}});
    b.result("logits", b.linear(b.reshape(image, {batch, 192}), b.param("w")));
    module.functions.push_back(std::move(forward));
    return module;
  };
  const TrainResult result = check_resumes(request_of(recipe, network), 9);
  REQUIRE(result.evaluation.has_value());
  CHECK(std::isfinite(result.evaluation->loss()));

  const SplitInfo split = examine_data({"boxes"}, {}).splits.at(0);
  REQUIRE(split.fields.size() == 1);
  CHECK(split.channels == 1);
  CHECK(to_string(split.fields[0].field) == "f32[?,4]");
  CHECK(split.fields[0].extent.least == 0);
  CHECK(split.fields[0].extent.greatest == 3);
  CHECK(split.fields[0].greatest == 8);

  Boxes source;
  PipelineContext context;
  context.asked = {{"image", ir::DType::f32, {1, 12, 16}, FieldKind::image},
                   {"boxes", ir::DType::f32, {2, 4}, FieldKind::boxes}};
  const ImagePipeline pipeline(source, context);
  std::vector<float> image(192), boxes(8);
  std::int64_t label = 0;
  const std::span<std::byte> row[] = {std::as_writable_bytes(std::span(image)),
                                      std::as_writable_bytes(std::span(&label, 1)),
                                      std::as_writable_bytes(std::span(boxes))};
  CHECK(message_of<DataError>([&] { pipeline.read({0, 3, 0}, row); }) ==
        "boxes: image 3: its 'boxes' is f32[3,4], but the network takes at most f32[2,4]");
}

}  // namespace
}  // namespace rewire::runtime
