// The zoo by name, and the check that options fit each other before anything is built.
#include <array>
#include <cmath>
#include <utility>

#include "ir/error.h"
#include "models/model.h"
#include "models/vit.h"

namespace rewire::models {
namespace {

struct ZooRow {
  std::string_view name;
  std::int64_t dim, depth, heads, patch, image, channels, classes;
};
constexpr std::array<ZooRow, 4> kZoo = {{{"vit_tiny_28", 192, 12, 3, 4, 28, 1, 10},
                                         {"vit_s_cifar", 384, 6, 6, 4, 32, 3, 10},
                                         {"vit_s16_224", 384, 12, 6, 16, 224, 3, 1000},
                                         {"vit_b16_224", 768, 12, 12, 16, 224, 3, 1000}}};

/// The bounds keep every product of extents far from overflow; no network of this kind comes near.
void check_range(std::string_view key, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    user_error("model.{} is {}; it must lie between {} and {}", key, value, low, high);
  }
}

void check_rate(std::string_view key, double value) {
  if (!(value >= 0 && value < 1)) {
    user_error("model.{} is {}; it is a probability and must lie in [0, 1)", key, value);
  }
}

void check(const ModelOptions& options, std::int64_t batch) {
  check_range("dim", options.dim, 1, 65536);
  check_range("depth", options.depth, 1, 4096);
  check_range("heads", options.heads, 1, 65536);
  check_range("patch", options.patch, 1, 16384);
  check_range("image", options.image, 1, 16384);
  check_range("channels", options.channels, 1, 4096);
  check_range("classes", options.classes, 1, 10'000'000);
  if (batch < 1 || batch > 1'000'000) user_error("the batch is {}; it must lie between 1 and 1000000", batch);
  if (options.dim % options.heads != 0) {
    user_error("model.dim={} is no multiple of model.heads={}; set dim to heads times a head's width",
               options.dim, options.heads);
  }
  if (options.image % options.patch != 0) {
    user_error("model.image={} is no multiple of model.patch={}; patches must tile the image", options.image,
               options.patch);
  }
  if (!(options.mlp_ratio > 0 && options.mlp_ratio <= 64)) {
    user_error("model.mlp_ratio is {}; it must lie in (0, 64]", options.mlp_ratio);
  }
  if (static_cast<double>(options.dim) * options.mlp_ratio < 1) {
    user_error("model.dim={} times model.mlp_ratio={} leaves no hidden unit; raise one of them", options.dim,
               options.mlp_ratio);
  }
  if (options.pool != "token" && options.pool != "avg") {
    user_error("model.pool is '{}'; it is token or avg{}", options.pool,
               did_you_mean(options.pool, {"token", "avg"}));
  }
  if (options.act_layer != "gelu" && options.act_layer != "gelu_tanh") {
    user_error("model.act_layer is '{}'; it is gelu or gelu_tanh{}", options.act_layer,
               did_you_mean(options.act_layer, {"gelu", "gelu_tanh"}));
  }
  check_rate("drop_path", options.drop_path);
  check_rate("dropout", options.dropout);
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooRow& row : kZoo) names.emplace_back(row.name);
  return names;
}

ModelOptions zoo(std::string_view name) {
  for (const ZooRow& row : kZoo) {
    if (row.name != name) continue;
    ModelOptions options;
    options.name = row.name;
    options.dim = row.dim;
    options.depth = row.depth;
    options.heads = row.heads;
    options.patch = row.patch;
    options.image = row.image;
    options.channels = row.channels;
    options.classes = row.classes;
    return options;
  }
  user_error("unknown model '{}'{}; `rewire models` lists the zoo", name, did_you_mean(name, zoo_names()));
}

ir::Module build(const ModelOptions& options, std::int64_t batch) {
  check(options, batch);
  return build_vit(options, batch);
}

}  // namespace rewire::models
