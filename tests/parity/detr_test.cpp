// The detection transformer against PyTorch in float64: logits and boxes of every decoder layer, and the gradients of
// their mean squares. An image in a padded batch against the image alone.
#include <algorithm>
#include <cmath>

#include "tests/parity/mean_squares.h"
#include "tests/parity/parity.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

using runtime::HostTensor;

Golden detr_golden(const std::string& backbone) {
  mean_squares();
  return read_golden("detr_" + backbone);
}

void check(const std::string& backbone, const Backend& backend, const Tolerance& tolerance) {
  Golden golden = detr_golden(backbone);
  for (const char* output : {"logits", "boxes"}) {
    golden.output = output;
    check_gradients(golden, backend, tolerance);
  }
}

/// Images of one size with zeros in the padding, and where they are image.
struct PaddedImages {
  ir::Tensor images, mask;
};

PaddedImages padded_images(std::int64_t batch, std::int64_t height, std::int64_t width) {
  return {ir::Tensor({ir::DType::f32, {batch, 1, height, width}}),
          ir::Tensor({ir::DType::f32, {batch, height, width}})};
}

/// Writes image `index`, a sum of waves in rows x columns pixels; `outside` is in its padding.
void draw_image(PaddedImages& to, std::int64_t index, std::int64_t rows, std::int64_t columns,
                double outside = 0) {
  const std::int64_t height = to.mask.type.shape[1], width = to.mask.type.shape[2];
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const bool inside = y < rows && x < columns;
      const auto at = static_cast<std::size_t>((index * height + y) * width + x);
      const auto fy = static_cast<double>(y), fx = static_cast<double>(x);
      to.images.data[at] = inside ? std::sin(0.7 * fy + 0.3 * fx) + std::cos(0.05 * fy * fx) : outside;
      to.mask.data[at] = inside ? 1 : 0;
    }
  }
}

/// Returns the first rows x columns places of a grid with `to` rows from one with the given columns, after `prefix`.
HostTensor part_of_grid(const HostTensor& positions, std::int64_t from_columns, std::int64_t rows,
                        std::int64_t columns, std::int64_t prefix) {
  const ir::Tensor all = runtime::to_double(positions);
  const std::int64_t width = all.type.shape[2];
  ir::Tensor part({ir::DType::f32, {1, prefix + rows * columns, width}});
  auto to = part.data.begin();
  const auto take = [&](std::int64_t place) {
    to = std::copy_n(all.data.begin() + static_cast<std::ptrdiff_t>(place * width), width, to);
  };
  for (std::int64_t i = 0; i < prefix; ++i) take(i);
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) take(prefix + y * from_columns + x);
  }
  return runtime::to_host(part);
}

/// Runs the golden's network on images of this size, in double precision. Position embeddings, of a 64 x 96 image
/// in the golden, are cut to it.
std::map<std::string, ir::Tensor> detect(const Golden& golden, const PaddedImages& images) {
  const std::int64_t batch = images.mask.type.shape[0], height = images.mask.type.shape[1],
                     width = images.mask.type.shape[2];
  ir::Selection model = golden.model;
  model.set("image_height", height).set("image_width", width);
  const ir::Module module = models::build(model, batch);
  const auto engine = runtime::make_evaluator_engine(module);
  for (const ir::Parameter& p : module.parameters) {
    auto found = golden.tensors.find("weight/" + p.name);
    if (found == golden.tensors.end()) found = golden.tensors.find("frozen/" + p.name);
    CAPTURE(p.name);
    REQUIRE(found != golden.tensors.end());
    HostTensor value = found->second.clone();
    if (p.role == "pos_embed" && value.type() != p.type) {
      const std::int64_t given = value.type().shape[1],
                         prefix = given % 2;  // grids have even numbers of places
      std::int64_t stride = 1;                // of a token; a golden's image has 64 x 96 pixels
      while (64 / stride * (96 / stride) + prefix != given) stride *= 2;
      value = part_of_grid(value, 96 / stride, height / stride, width / stride, prefix);
    }
    engine->write_state(p.name, value);
  }
  std::map<std::string, ir::Tensor> results;
  runtime::TensorMap inputs;
  inputs.emplace("image", runtime::to_host(images.images));
  inputs.emplace("image_mask", runtime::to_host(images.mask));
  const runtime::TensorMap got = engine->run("forward", inputs);
  for (const char* name : {"logits", "boxes"}) results.emplace(name, runtime::to_double(got.at(name)));
  return results;
}

/// The largest difference between the results [L, B, queries, n] for image `index` of a batch and for image `other`
/// of another.
double difference(const std::map<std::string, ir::Tensor>& a, std::int64_t index,
                  const std::map<std::string, ir::Tensor>& b, std::int64_t other) {
  double largest = 0;
  for (const auto& [name, in_a] : a) {
    const ir::Tensor& in_b = b.at(name);
    const ir::Shape& of_a = in_a.type.shape;
    const std::int64_t count = of_a[2] * of_a[3];
    for (std::int64_t layer = 0; layer < of_a[0]; ++layer) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = [&](std::int64_t batch, std::int64_t image) {
          return static_cast<std::size_t>((layer * batch + image) * count + i);
        };
        const double error = in_a.data[at(of_a[1], index)] - in_b.data[at(in_b.type.shape[1], other)];
        largest = std::isfinite(error) ? std::max(largest, std::abs(error)) : INFINITY;
      }
    }
  }
  return largest;
}

/// How much the results for an image of 32 x 64 pixels change when it is padded to 64 x 96, with zeros.
double change_by_padding(const std::string& backbone, double outside) {
  const Golden golden = detr_golden(backbone);
  PaddedImages padded = padded_images(2, 64, 96), alone = padded_images(1, 32, 64);
  draw_image(padded, 0, 64, 96);
  draw_image(padded, 1, 32, 64, outside);
  draw_image(alone, 0, 32, 64);
  return difference(detect(golden, padded), 1, detect(golden, alone), 0);
}

TEST_CASE("With DeiT an image in a padded batch gives what it gives alone, whatever the padding holds") {
  CHECK(change_by_padding("deit", 0) < 1e-6);
  CHECK(change_by_padding("deit", 7) < 1e-6);
}

TEST_CASE("With PVT and ResNet-50 padding changes the results, by the convolutions and keys at the edge") {
  for (const char* backbone : {"pvt", "resnet"}) {
    const double change = change_by_padding(backbone, 0);
    CAPTURE(backbone, change);
    CHECK(change > 1e-4);
    CHECK(change < 3);
  }
}

TEST_CASE("An image that is padding alone gives finite results, and changes none of another image") {
  for (const char* backbone : {"deit", "pvt", "resnet"}) {
    const Golden golden = detr_golden(backbone);
    CAPTURE(backbone);
    PaddedImages whole = padded_images(2, 64, 96);
    draw_image(whole, 0, 64, 96);
    draw_image(whole, 1, 64, 96);
    PaddedImages without = padded_images(2, 64, 96);
    draw_image(without, 0, 64, 96);
    draw_image(without, 1, 0, 0);
    const auto seen = detect(golden, whole), unseen = detect(golden, without);
    CHECK(difference(seen, 0, unseen, 0) == 0);
    CHECK(std::isfinite(difference(seen, 1, unseen, 1)));
  }
}

TEST_CASE(
    "The evaluator computes PyTorch's detection transformer, forward and backward, with each backbone") {
  const Backend evaluator{
      [](const ir::Module& module) { return runtime::make_evaluator_engine(module); }, ir::DType::f64, {}};
  for (const char* backbone : {"deit", "pvt", "resnet"}) check(backbone, evaluator, kExact);
}

TEST_CASE("Compiled in f32 the detection transformer is as near as PyTorch's own f32") {
  const Backend compiled{[](const ir::Module& module) -> std::unique_ptr<runtime::Engine> {
                           runtime::JitEngineOptions options;
                           options.threads = 1;
                           return runtime::make_jit_engine(module, options);
                         },
                         ir::DType::f32,
                         {}};
  for (const char* backbone : {"deit", "pvt", "resnet"}) check(backbone, compiled, kSingle);
}

}  // namespace
}  // namespace rewire::parity
