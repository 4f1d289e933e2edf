// rewire probe: measures how well a simple classifier finds the labels in a network's features.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/backbone.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "programs/optimizer.h"
#include "runtime/analyze/pca_map.h"
#include "runtime/analyze/pixel_labels.h"
#include "runtime/analyze/probe.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/measure/knn.h"

namespace rewire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSets = 1000;  // each set is held in memory

struct ProbeRequest {
  FeatureRequest features{.kind = "class"};
  std::string kind = "linear", output, labels = "threshold", test_labels, scales = "both";
  runtime::ProbeTraining training;
  std::int64_t sets = 0, images = 0, test_images = 0, neighbours = 20;
  double temperature = 0.07, threshold = 0.1;
  bool norm = false, json = false;
};

std::vector<std::string> optimizer_names() {
  return ir::row_names(programs::optimizers());
}

void declare(ProbeRequest& request, Options& options) {
  declare_features(request.features, options, "--features");
  options.choice(
      "--kind", request.kind, {"linear", "knn", "dense"},
      "linear: train a linear layer; knn: let the nearest neighbours vote; dense: train a linear layer on "
      "each patch");
  options.integer("--images", request.images, 0, "number of training images; 0: all, for dense at most 3000");
  options.integer("--test-images", request.test_images, 0,
                  "number of test images; 0: all, for dense at most 1000");
  options.integer(
      "--sets", request.sets, 0,
      "for linear: number of sets of augmented images besides the plain set; each epoch draws one set");
  options.integer("--epochs", request.training.epochs, 1, "passes over a set");
  options.integer("--batch", request.training.batch, 1, "images per step");
  options.choice("--optimizer", request.training.optimizer, optimizer_names(),
                 "the optimizer that trains the probe");
  options.number("--lr", request.training.lr, 0, "learning rate at the peak of the schedule");
  options.number("--weight-decay", request.training.weight_decay, 0, "weight decay of the probe's matrix");
  options.number("--warmup", request.training.warmup, 0, "warm-up epochs before a cosine decay to 0");
  options.flag("--norm", request.norm,
               "put a batch norm without weights before the layer, as in MAE's linear probe");
  options.integer("--neighbours", request.neighbours, 1, "for knn: number of neighbours that vote");
  options.number("--temperature", request.temperature, 0,
                 "for knn: a neighbour votes exp(cosine / temperature)");
  options.text("--labels", request.labels,
               "for dense: threshold, masks made from the images (the image's class above --threshold, else "
               "background); a .npy of masks; or a folder of .png masks");
  options.text("--test-labels", request.test_labels, "for dense: the .npy of the test images' masks")
      .takes(Values::file, {".npy"});
  options.number("--threshold", request.threshold, 0, "for --labels threshold: brightness, 0 to 1");
  options.choice("--scales", request.scales, {"both", "single", "multi"},
                 "for dense: single: the last block; multi: the last four; both: a probe of each");
  options.text("--output", request.output, "a .json file to write the numbers to")
      .takes(Values::file, {".json"});
  options.flag("--json", request.json, "print an object");
  options.example("rewire probe runs/fashion_vit-none-s0", "train a linear layer on the features");
  options.example("rewire probe runs/fashion_vit-none-s0 --kind knn --neighbours 10",
                  "let the ten nearest neighbours vote");
}

runtime::ProbeSet view_of(const runtime::FeatureSet& set, const std::vector<std::int64_t>& labels) {
  return {set.rows, labels, set.count()};
}

runtime::ProbeTraining training_of(const ProbeRequest& request, const runtime::Backbone& backbone) {
  runtime::ProbeTraining training = request.training;
  training.seed = static_cast<std::uint64_t>(backbone.recipe().seed);
  training.engine = engine_of(request.features.engine);
  training.threads = static_cast<int>(backbone.recipe().train.threads);
  return training;
}

Json facts_of(const ProbeRequest& request, const runtime::Backbone& backbone) {
  return {{"weights", backbone.weights()},
          {"kind", request.kind},
          {"features", request.features.kind},
          {"layers", backbone.facts().layers},
          {"width", backbone.facts().width}};
}

void require_vectors(const runtime::Backbone& backbone, const ProbeRequest& request) {
  if (backbone.facts().patches > 0)
    user_error("probe: --kind {} takes one vector per image: use --features class or mean", request.kind);
  if (backbone.recipe().eval.only_present()) {
    runtime::write_log(
        runtime::LogLevel::info,
        "eval.classes=present applies only to evaluations: the probe chooses among all classes");
  }
}

Json run_knn(const ProbeRequest& request) {
  runtime::Backbone backbone = open_backbone(request.features);
  require_vectors(backbone, request);
  const runtime::FeatureSet bank =
                                backbone.collect({.split = runtime::Split::train, .images = request.images}),
                            queries = backbone.collect(
                                {.split = runtime::Split::test, .images = request.test_images});
  const runtime::KnnAccuracy accuracy =
      runtime::knn_accuracy(bank.rows, bank.labels, queries.rows, queries.labels, backbone.facts().width,
                            {.neighbours = request.neighbours,
                             .temperature = request.temperature,
                             .classes = backbone.count_classes()});
  Json told = facts_of(request, backbone);
  told.update({{"train_images", bank.count()},
               {"test_images", queries.count()},
               {"neighbours", request.neighbours},
               {"temperature", request.temperature},
               {"top1", accuracy.top1}});
  if (programs::tells_top5(backbone.count_classes())) told["top5"] = accuracy.top5;
  return told;
}

void add_training(Json& told, const ProbeRequest& request) {
  const runtime::ProbeTraining& training = request.training;
  told.update({{"optimizer", training.optimizer},
               {"lr", training.lr},
               {"weight_decay", training.weight_decay},
               {"warmup", training.warmup},
               {"epochs", training.epochs},
               {"batch", training.batch},
               {"norm", request.norm}});
}

Json run_linear(const ProbeRequest& request) {
  if (request.sets > 0 && request.images > 0)
    user_error(
        "probe: --images cannot choose among augmented images, which come in another order: with --sets, set "
        "data.train_fraction or data.train_list");
  runtime::Backbone backbone = open_backbone(request.features);
  require_vectors(backbone, request);
  std::vector<runtime::FeatureSet> sets;
  sets.push_back(backbone.collect({.split = runtime::Split::train, .images = request.images}));
  for (std::int64_t i = 0; i < request.sets; ++i)
    sets.push_back(backbone.collect({.split = runtime::Split::train, .epoch = i, .images = request.images}));
  const runtime::FeatureSet test =
      backbone.collect({.split = runtime::Split::test, .images = request.test_images});
  std::vector<runtime::ProbeSet> train;
  for (const runtime::FeatureSet& set : sets) train.push_back(view_of(set, set.labels));
  const runtime::ProbeOutcome outcome =
      runtime::train_linear_probe(train, view_of(test, test.labels), backbone.count_classes(), request.norm,
                                  training_of(request, backbone));
  Json told = facts_of(request, backbone);
  told.update(
      {{"train_images", sets.front().count()}, {"test_images", test.count()}, {"sets", request.sets}});
  add_training(told, request);
  told.update({{"train_loss", outcome.train_loss}, {"loss", outcome.loss}, {"top1", outcome.top1}});
  if (programs::tells_top5(backbone.count_classes())) told["top5"] = outcome.top5;
  return told;
}

constexpr std::int64_t kDenseImages = 3000, kDenseTestImages = 1000, kScales = 4;

std::vector<std::int64_t> pixel_labels(const ProbeRequest& request, const runtime::Backbone& backbone,
                                       const runtime::FeatureSet& set, runtime::Split split) {
  if (request.labels == "threshold") {
    const ir::Attributes transforms = runtime::transform_values(backbone.recipe());
    return runtime::threshold_labels({set.images, set.labels, backbone.image(), transforms},
                                     request.threshold);
  }
  if (!request.labels.ends_with(".npy"))
    return runtime::mask_folder(request.labels, set.names, backbone.image());
  const bool trains = split == runtime::Split::train;
  return runtime::mask_file(trains ? request.labels : request.test_labels, backbone.image(), set.count());
}

/// Runs a probe of these layers.
Json run_scale(const ProbeRequest& request, const std::vector<std::string>& layers) {
  FeatureRequest features = request.features;
  features.layers = layers;
  runtime::Backbone backbone = open_backbone(features);
  const runtime::FeatureFacts& facts = backbone.facts();
  runtime::require_grid(facts, "probe: --kind dense");
  const auto collect = [&](runtime::Split split, std::int64_t images, std::int64_t most) {
    return backbone.collect({.split = split, .images = images, .most = most, .keeps_images = true});
  };
  const runtime::FeatureSet train = collect(runtime::Split::train, request.images, kDenseImages),
                            test = collect(runtime::Split::test, request.test_images, kDenseTestImages);
  for (const runtime::FeatureSet* set : {&train, &test}) {
    if (request.labels != "threshold") runtime::require_all_read(*set, "--labels");
  }
  const std::vector<std::int64_t> train_labels =
                                      pixel_labels(request, backbone, train, runtime::Split::train),
                                  test_labels = pixel_labels(request, backbone, test, runtime::Split::test);
  const std::int64_t classes =
      std::max(runtime::pixel_classes(train_labels), runtime::pixel_classes(test_labels));
  if (classes < 2)
    user_error("probe: all pixels have the same class, so there is nothing to find: see --labels");
  const runtime::ProbeOutcome outcome = runtime::train_dense_probe(
      view_of(train, train_labels), view_of(test, test_labels), classes, request.norm,
      {facts.rows, facts.columns, backbone.image().at(1), backbone.image().at(2)},
      training_of(request, backbone));
  Json told = facts_of(request, backbone);
  told.update({{"train_images", train.count()}, {"test_images", test.count()}, {"classes", classes}});
  add_training(told, request);
  told.update({{"train_loss", outcome.train_loss},
               {"loss", outcome.loss},
               {"pixel_accuracy", outcome.pixel_accuracy},
               {"mean_iou", outcome.mean_iou}});
  return told;
}

Json run_dense(ProbeRequest request) {
  if (request.features.kind == "class") request.features.kind = "tokens";
  if (!request.features.layers.empty()) return Json::array({run_scale(request, request.features.layers)});
  Json all = Json::array();
  if (request.scales != "multi") all.push_back(run_scale(request, {}));
  std::vector<std::string> last;
  for (std::int64_t i = std::min(kScales, open_backbone(request.features).facts().blocks); i > 0; --i)
    last.push_back(std::to_string(-i));
  if (request.scales != "single") all.push_back(run_scale(request, last));
  return all;
}

void print_line(const Json& told) {
  const auto number = [&](const char* name) { return told.at(name).get<double>(); };
  std::string layers;
  for (const Json& layer : told.at("layers"))
    layers += (layers.empty() ? "" : "+") + layer.get<std::string>();
  const std::string head = fmt::format("{} probe of {} at {}: ", told.at("kind").get<std::string>(),
                                       told.at("features").get<std::string>(), layers);
  std::string text;
  if (told.contains("loss")) text = fmt::format("loss {:.4f}, ", number("loss"));
  if (told.contains("mean_iou")) {
    text += fmt::format("pixel accuracy {:.2f}%, mIoU {:.2f}%", 100 * number("pixel_accuracy"),
                        100 * number("mean_iou"));
  } else {
    text += fmt::format("top-1 {:.2f}%", 100 * number("top1"));
    if (told.contains("top5")) text += fmt::format(", top-5 {:.2f}%", 100 * number("top5"));
  }
  print("{}{} on {} images\n", head, text, told.at("test_images").get<std::int64_t>());
}

/// Refuses wrong options before any features are computed.
void check_request(const ProbeRequest& request) {
  const bool dense = request.kind == "dense", has_masks = request.labels != "threshold";
  if (request.sets > 0 && request.kind != "linear")
    user_error("probe: --sets works only with --kind linear, not with {}", request.kind);
  if (request.sets > kMostSets) user_error("probe: --sets {}: at most {}", request.sets, kMostSets);
  if (request.threshold > 1)
    user_error("probe: --threshold {}: brightness is 0 to 1, so no pixel would be brighter",
               request.threshold);
  if (!dense && (has_masks || !request.test_labels.empty()))
    user_error(
        "probe: --labels and --test-labels work only with --kind dense: the others use the images' labels");
  if (!dense || !has_masks) return;
  for (const std::string& file : {request.labels, request.test_labels}) {
    if (!file.empty() && !std::filesystem::exists(file))
      user_error("probe: there are no masks at {}; --labels threshold makes them from the images", file);
  }
  if (request.labels.ends_with(".npy") && request.test_labels.empty())
    user_error("probe: --labels {} has the masks of the training images; also give --test-labels FILE.npy",
               request.labels);
}

void run(const ProbeRequest& request) {
  check_request(request);
  if (!request.output.empty())
    check_output(request.output, {request.features.backbone.trained.network.model,
                                  request.features.backbone.trained.weights});
  const Json told = request.kind == "linear" ? run_linear(request)
                    : request.kind == "knn"  ? run_knn(request)
                                             : run_dense(request);
  if (!request.output.empty()) runtime::write_file_atomically(request.output, told.dump(2) + "\n");
  if (request.json) return print_json(told);
  if (!told.is_array()) return print_line(told);
  for (const Json& one : told) print_line(one);
}

}  // namespace

Command probe_command() {
  return make_command<ProbeRequest>("probe", "classify features by a linear layer or nearest neighbours",
                                    declare, run, "fewer --images");
}

}  // namespace rewire::cli
