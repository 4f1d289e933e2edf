// The pictures that an evaluation of a run draws: RUN/pictures/epoch-0005.png after the fifth epoch. An
// objective with pictures gives a row for each of the first test images, its pictures side by side. An
// objective that samples gives samples of the classes in turn, 8 per row.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/exec/engine.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

struct RunPicture {
  DrawnImage image;
  std::vector<std::byte> png;
};

class RunPictures {
 public:
  /// All must outlive it. Removes pictures of epochs after the first `epochs`: the run is going to draw them
  /// again.
  RunPictures(const RunPlan& plan, const RunFolder& folder, Engine& engine, std::int64_t epochs);

  /// Draws from the first batch of an evaluation, which it may change and restores.
  void see(const Phase& phase, Batch& first);
  /// Writes the picture after the evaluation and returns it, if there is one; `epoch` counts from 0. Throws
  /// UserError if it cannot be written.
  std::optional<RunPicture> write(const Phase& phase, std::int64_t epoch);

 private:
  const RunPlan& plan_;
  const RunFolder& folder_;
  Engine& engine_;
  std::optional<DrawnImage> drawn_;
};

}  // namespace rewire::runtime
