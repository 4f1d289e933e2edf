// What an evaluation of a run draws: RUN/pictures/epoch-0005.png, as the run stands behind its fifth epoch. Of an
// objective's pictures, a row for each of the first test images, its pictures side by side; of an objective that samples,
// samples of one class after the other, 8 a row.
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
  /// All outlive it. What lies there of epochs behind the first `epochs` is removed: the run is going to draw it again.
  RunPictures(const RunPlan& plan, const RunFolder& folder, Engine& engine, std::int64_t epochs);

  /// The first batch of an evaluation, which it may change and puts back.
  void see(const Phase& phase, Batch& first);
  /// Behind the evaluation; `epoch` counts from 0. What was drawn, if anything was. UserError where nothing can be written.
  std::optional<RunPicture> write(const Phase& phase, std::int64_t epoch);

 private:
  const RunPlan& plan_;
  const RunFolder& folder_;
  Engine& engine_;
  std::optional<DrawnImage> drawn_;
};

}  // namespace rewire::runtime
