#include "runtime/train/run_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/vision/picture_grid.h"
#include "runtime/io/files.h"
#include "runtime/measure/sample.h"

namespace rewire::runtime {
namespace {

constexpr const char* kPictures = "pictures";
constexpr std::string_view kBefore = "epoch-", kBehind = ".png";
constexpr std::int64_t kSampleSteps = 50;  // of Euler's method
constexpr std::int64_t kSampleColumns = 8;

std::string picture_name(std::int64_t epochs) {
  return fmt::format("{}{:04}{}", kBefore, epochs, kBehind);
}

/// Returns the number in such a name; 0 if it is another file's name.
std::int64_t epochs_of(const std::string& name) {
  std::int64_t epochs = 0;
  if (!name.starts_with(kBefore)) return 0;
  std::from_chars(name.data() + kBefore.size(), name.data() + name.size(), epochs);
  return name == picture_name(epochs) ? epochs : 0;
}

/// Counts up to the last sample of weight 1; padding follows it.
std::int64_t images_in(const Batch& batch) {
  const std::span<const float> weights = batch.tensors.at("weight").as<float>();
  return std::find(weights.rbegin(), weights.rend(), 1.0F).base() - weights.begin();
}

}  // namespace

RunPictures::RunPictures(const RunPlan& plan, const RunFolder& folder, Engine& engine, std::int64_t epochs)
    : plan_(plan), folder_(folder), engine_(engine) {
  for (const std::string& name : names_in(folder.place(kPictures))) {
    if (epochs_of(name) > epochs) remove_file(folder.place(fmt::format("{}/{}", kPictures, name)));
  }
}

void RunPictures::see(const Phase& phase, Batch& first) {
  if (phase.pictures.empty()) return;
  const std::int64_t rows = std::min(plan_.recipe.eval.pictures, images_in(first));
  if (rows == 0) return;
  const ir::Function& program = plan_.programs.module.function(phase.program("pictures"));
  TensorMap inputs = take_inputs(program, first);
  TensorMap results = engine_.run(program.name, inputs);
  put_back(std::move(inputs), first);
  std::vector<HostTensor> columns;
  for (const std::string& name : phase.pictures) columns.push_back(std::move(results.at(name)));
  drawn_ = picture_rows(columns, rows, transform_values(plan_.recipe));
}

std::optional<RunPicture> RunPictures::write(const Phase& phase, std::int64_t epoch) {
  if (plan_.programs.module.find_function(phase.program("sample_step")) != nullptr) {
    const SampleRequest request{.images = plan_.recipe.eval.pictures,
                                .steps = kSampleSteps,
                                .classes = label_classes(plan_.face.inputs),
                                .seed = static_cast<std::uint64_t>(plan_.recipe.seed)};
    drawn_ = picture_grid(draw_samples(engine_, plan_.programs.module, request, phase.suffix), kSampleColumns,
                          transform_values(plan_.recipe));
  }
  if (!drawn_) return std::nullopt;
  make_folder(folder_.place(kPictures));
  RunPicture picture{std::move(*drawn_), {}};
  drawn_.reset();
  picture.png = encode_png(picture.image);
  write_file_atomically(folder_.place(fmt::format("{}/{}", kPictures, picture_name(epoch + 1))), picture.png);
  return picture;
}

}  // namespace rewire::runtime
