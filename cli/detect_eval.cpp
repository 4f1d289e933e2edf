// rewire detect eval: average precision and recall of detected boxes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "runtime/data/vision/coco_annotations.h"
#include "runtime/measure/average_precision.h"
#include "runtime/measure/coco_detections.h"

namespace rewire::cli {
namespace {

struct DetectEvalRequest {
  std::string annotations, predictions;
  bool json = false;
};

void declare(DetectEvalRequest& request, Options& options) {
  options
      .text("--annotations", request.annotations,
            "the images and their objects, as COCO instance annotations", Options::Need::required)
      .takes(Values::file, {".json"});
  options
      .text("--predictions", request.predictions, "the detections, as COCO results", Options::Need::required)
      .takes(Values::file, {".json"});
  options.flag("--json", request.json, "print an object; null where no object counts");
  options.example("rewire detect eval --annotations instances_val2017.json --predictions boxes.json",
                  "print AP and AR as COCO counts them");
}

void print_table(const std::array<double, 12>& values) {
  Table table(3);
  table.add({"metric", "IoU", "area", "detections", "value"});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const runtime::DetectionMetric& metric = runtime::kDetectionMetrics[i];
    table.add({std::string(metric.name), std::string(metric.iou), std::string(metric.area),
               std::to_string(metric.most_detections),
               values[i] < 0 ? std::string("-") : fmt::format("{:.4f}", values[i])});
  }
  table.print();
}

void print_values(const std::array<double, 12>& values) {
  nlohmann::ordered_json object;
  for (std::size_t i = 0; i < values.size(); ++i)
    object[runtime::kDetectionMetrics[i].name] =
        values[i] < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(values[i]);
  print_json(object);
}

void run(const DetectEvalRequest& request) {
  const runtime::ObjectAnnotations annotations =
      runtime::read_coco_annotations(runtime::FilePlace::of_user(request.annotations));
  const std::vector<runtime::Detection> detections =
      runtime::read_coco_detections(runtime::FilePlace::of_user(request.predictions), annotations);
  const std::array<double, 12> values = runtime::average_precision(annotations, detections);
  if (request.json) {
    print_values(values);
    return;
  }
  const auto crowds = std::ranges::count_if(annotations.objects, &runtime::ObjectAnnotation::is_crowd);
  print("images {}, categories {}, objects {}, crowds {}, detections {}\n\n", annotations.images.size(),
        annotations.categories.size(), std::ssize(annotations.objects) - crowds, crowds, detections.size());
  print_table(values);
}

}  // namespace

Command detect_eval_command() {
  return make_command<DetectEvalRequest>("detect eval", "score detected boxes by average precision", declare,
                                         run, "a file of fewer images");
}

}  // namespace rewire::cli
