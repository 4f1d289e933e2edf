#include "runtime/measure/sample.h"

#include <algorithm>
#include <span>

#include "ir/philox.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kNoiseStream = "sample.noise";

HostTensor scalar(double value) {
  HostTensor tensor(ir::TensorType{ir::DType::f32, {}});
  tensor.as<float>()[0] = static_cast<float>(value);
  return tensor;
}

/// One batch on its way from noise to samples.
class Way {
 public:
  Way(Engine& engine, const SampleRequest& request, std::string_view suffix)
      : engine_(engine),
        request_(request),
        step_program_("sample_step" + std::string(suffix)),
        correct_program_("sample_correct" + std::string(suffix)) {}

  /// From noise to samples.
  HostTensor run(HostTensor image, const HostTensor& labels) {
    const auto time = [&](std::int64_t done) {
      return static_cast<double>(done) / static_cast<double>(request_.steps);
    };
    for (std::int64_t i = 0; i < request_.steps; ++i) {
      TensorMap inputs = inputs_at(time(i), labels);
      inputs.emplace("image", image.clone());
      TensorMap results = engine_.run(step_program_, inputs);
      if (request_.heun) {
        TensorMap end = inputs_at(time(i + 1), labels);
        end.insert(results.extract("image"));
        end.insert(results.extract("velocity"));
        end.emplace("before", std::move(image));
        results = engine_.run(correct_program_, end);
      }
      image = std::move(results.at("image"));
    }
    return image;
  }

 private:
  TensorMap inputs_at(double time, const HostTensor& labels) const {
    TensorMap inputs;
    inputs.emplace("time", scalar(time));
    inputs.emplace("step", scalar(1 / static_cast<double>(request_.steps)));
    inputs.emplace("label", labels.clone());
    if (request_.guidance) inputs.emplace("guidance", scalar(*request_.guidance));
    return inputs;
  }

  Engine& engine_;
  const SampleRequest& request_;
  const std::string step_program_, correct_program_;
};

}  // namespace

std::int64_t label_classes(const programs::Inputs& inputs) {
  const auto label = std::ranges::find(inputs, "label", &programs::Input::name);
  return label == inputs.end() ? 1 : std::max<std::int64_t>(label->categories, 1);
}

HostTensor draw_samples(Engine& engine, const ir::Module& module, const SampleRequest& request,
                        std::string_view suffix) {
  const ir::Function& program = module.function("sample_step" + std::string(suffix));
  const ir::TensorType type = program.type(program.argument("image"));
  const std::int64_t batch = type.shape[0], size = type.elements() / batch;
  ir::TensorType all_type = type;
  all_type.shape[0] = request.images;
  HostTensor all(all_type);
  const ir::PhiloxStream stream{request.seed, 0, ir::stream_hash(kNoiseStream)};
  Way way(engine, request, suffix);
  for (std::int64_t first = 0; first < request.images; first += batch) {
    HostTensor image(type), labels(ir::TensorType{ir::DType::i64, {batch}});
    const std::span<float> noise = image.as<float>();
    for (std::size_t k = 0; k < noise.size(); ++k)
      noise[k] = static_cast<float>(stream.normal(static_cast<std::uint64_t>(first * size) + k));
    for (std::int64_t i = 0; i < batch; ++i) {
      labels.as<std::int64_t>()[static_cast<std::size_t>(i)] =
          request.label < 0 ? (first + i) % request.classes : request.label;
    }
    const HostTensor samples = way.run(std::move(image), labels);
    const std::int64_t taken = std::min(batch, request.images - first) * size;
    std::copy_n(samples.as<const float>().begin(), taken, all.as<float>().begin() + first * size);
  }
  return all;
}

}  // namespace rewire::runtime
