// rewire data try: draws what transforms do to one image.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_settings.h"
#include "cli/json.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/preview.h"
#include "runtime/io/files.h"

namespace rewire::cli {
namespace {

struct DataTryRequest {
  std::string image, output;
  std::vector<std::string> settings;
  runtime::TryOptions options;
  std::int64_t seed = 0;
  bool json = false;
};

void declare(DataTryRequest& request, Options& options) {
  options.text("IMAGE", request.image, "a JPEG or PNG file", Options::Need::required)
      .takes(Values::file, {".jpg", ".jpeg", ".png", ".JPEG"});
  options.text("--output", request.output, "the PNG file to write", Options::Need::required)
      .takes(Values::file, {".png"});
  options.list("--set", request.settings, "transforms.key=value: a key of [transforms]; repeatable")
      .takes(Values::setting, {"transforms"});
  options.integer("--count", request.options.count, 1, "number of draws beside the original");
  options.integer("--seed", request.seed, 0, "seed of the draws");
  options.integer("--size", request.options.size, 1,
                  "height and width that the network takes; without transforms.resize the image is first "
                  "scaled down to fit it");
  options.flag("--json", request.json, "print an object");
  options.example("rewire data try cat.jpg --set transforms.preset=deit --output page.png",
                  "draw eight results of the preset beside the original");
}

void run(const DataTryRequest& request) {
  constexpr std::int64_t kMostSize = 8192;
  if (request.options.size > kMostSize)
    user_error("data try: --size {}: at most {}", request.options.size, kMostSize);
  check_output(request.output, {request.image});
  const runtime::Recipe recipe = with_settings("data try", "transforms", request.settings, {});
  runtime::DrawnImage image{3, 0, 0, {}};
  const runtime::ImageSize size = runtime::decode_image(
      runtime::read_file(runtime::FilePlace::of_user(request.image), runtime::kMostImageBytes), request.image,
      image.channels, image.pixels);
  image.height = size.height;
  image.width = size.width;
  runtime::TryOptions options = request.options;
  options.seed = static_cast<std::uint64_t>(request.seed);
  const runtime::DrawnImage sheet =
      runtime::try_transforms(image, runtime::transform_values(recipe), options);
  write_picture(request.output, sheet);
  if (request.json) {
    print_json({{"file", request.output},
                {"original", {{"file", request.image}, {"height", image.height}, {"width", image.width}}},
                {"draws", options.count},
                {"seed", request.seed},
                {"height", sheet.height},
                {"width", sheet.width}});
  } else {
    print("{}: {} ({} x {}), and {} draws of its transforms\n", request.output, request.image, image.height,
          image.width, options.count);
  }
}

}  // namespace

Command data_try_command() {
  return make_command<DataTryRequest>("data try", "draw what transforms do to an image", declare, run,
                                      "fewer draws (--count N)");
}

}  // namespace rewire::cli
