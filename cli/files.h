// The files that Rewire reads and writes: `rewire help runs` and the reference show these rows.
#pragma once

#include <string_view>
#include <vector>

namespace rewire::cli {

struct FileDoc {
  std::string_view name, doc;
};

/// The files in a run folder, in the order of their importance to a reader.
inline std::vector<FileDoc> run_files() {
  return {
      {"recipe.toml",
       "every key and plugin value in force, paths absolute; rewire train RUN/recipe.toml repeats the run"},
      {"metrics.jsonl", "one line of JSON per train.log_every steps, per evaluation and per diagnosis"},
      {"checkpoints/EPOCH-STEP/",
       "weights.safetensors, with train.ema weights_ema.safetensors, state.safetensors and checkpoint.json"},
      {"checkpoints/last, checkpoints/best",
       "names of the newest checkpoint and of the one with the best evaluation"},
      {"weights.safetensors", "the weights at the end, under the names of the model's public code"},
      {"weights_ema.safetensors", "with train.ema: their moving averages under the same names"},
      {"choices.json", "what else decides the bits: engine, target, libraries, choices made by timing"},
      {"plugins.json", "the plugins' libraries: name, version, path, SHA-256, copy"},
      {"plugins/", "a copy of each library for eval and --resume, readable by its owner only"},
      {"kernels/NAME.cu", "the kernels that --override-kernel put in place of others"},
      {"network.rir", "the module, if the run began with a .rir file"},
      {"pictures/epoch-NNNN.png", "what an evaluation drew, for objectives that have pictures"},
      {"report.html", "the run as a page"},
      {"events.out.tfevents.*", "metrics, weights and graph for TensorBoard; each resume adds a file"},
      {"metrics.prom", "the latest figures for Prometheus"},
      {"log.txt", "the run's messages with times"},
  };
}

/// The file formats, by ending.
inline std::vector<FileDoc> file_formats() {
  return {
      {".toml",
       "a recipe (rewire help recipes) or a sweep: keys in sections, plugins in [[plugin]], views in "
       "[[view]]"},
      {".rir", "a network as text: the IR, readable and editable, for any batch or for one"},
      {".safetensors",
       "weights, training state, features, traced tensors; the metadata of weights names the strategy they "
       "belong to"},
      {".so", "a plugin: a shared library with the C ABI of rewire_plugin.h"},
      {".npy", "a NumPy array: images and labels as data, features, teacher outputs"},
      {".json", "objects in images, or detections, in COCO's formats"},
      {".jsonl", "metrics: one JSON object per line, \"kind\" is train, eval or diagnose"},
      {".tar", "a shard of images, as WebDataset has them"},
      {".html", "a page without external resources: report, explore, diff"},
      {".py", "a network as a PyTorch module, which rewire export writes"},
      {".cu", "CUDA C++ of one kernel, which --override-kernel takes"},
  };
}

}  // namespace rewire::cli
