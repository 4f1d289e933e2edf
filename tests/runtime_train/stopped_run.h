// That a run which was stopped and resumed ends with the weights of one that was not.
#pragma once

#include "runtime/io/files.h"
#include "runtime/train/trainer.h"
#include "tests/runtime_train/step_watch.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {

/// Trains twice, once stopped behind step `at`; the result of the run that was not.
inline TrainResult check_resumes(const TrainRequest& request, std::int64_t at) {
  const test::TemporaryFolder folder;
  StepWatch whole, stopped;
  const TrainResult result = train(request, folder.file("whole"), OutFolder::exact, whole);
  TrainRequest first = request;
  first.stop_signal = [&] { return stopped.step >= at ? 15 : 0; };
  CHECK(train(first, folder.file("stopped"), OutFolder::exact, stopped).position.step == at);
  resume_training(request, folder.file("stopped"), stopped);
  CHECK(stopped.step == whole.step);
  CHECK(read_file(folder.file("stopped/weights.safetensors")) ==
        read_file(folder.file("whole/weights.safetensors")));
  return result;
}

}  // namespace rewire::runtime
