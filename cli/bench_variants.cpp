#include "cli/bench_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/json.h"
#include "cli/memory.h"
#include "cli/streams.h"
#include "codegen/cost.h"
#include "codegen/object_cache.h"
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "runtime/exec/benchmark.h"
#include "runtime/recipe/variants.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kTurn = 3;  // timed steps of a variant in a row, after one that is not counted
constexpr std::int64_t kComparedRounds = 2;

struct TimedVariant {
  runtime::Variant variant;
  BenchRequest request;
  Prepared prepared;
  std::string digest;            // of its results and its state after kComparedRounds
  std::int64_t moved_bytes = 0;  // by the launches of a round
  std::vector<double> fed, resident;
  BenchResult result;

  std::int64_t memory_bytes() const {
    return result.engine.arena_bytes + result.engine.state_bytes + result.engine.packed_bytes;
  }
};

std::string_view text_of(const runtime::HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()};
}

/// Runs the first rounds from fresh weights. Returns a hash of the last round's results and of the state then.
std::string digest_of(const Prepared& prepared) {
  runtime::JitEngine& engine = *prepared.engine;
  std::string digest;
  const auto add = [&](const std::string& name, const runtime::HostTensor& tensor) {
    digest = codegen::hash_text(digest + name + codegen::hash_text(text_of(tensor)));
  };
  for (std::int64_t round = 0; round < kComparedRounds; ++round) {
    for (const runtime::TimedProgram& program : prepared.bench.programs) {
      for (std::int64_t i = 0; i < program.times; ++i) {
        for (const auto& [name, tensor] : engine.run(program.function, program.inputs)) add(name, tensor);
      }
    }
  }
  for (const ir::Parameter& parameter : prepared.bench.module.parameters)
    add(parameter.name, engine.read_state(parameter.name));
  return digest;
}

std::int64_t moved_bytes_of(const Prepared& prepared) {
  std::int64_t bytes = 0;
  for (const runtime::TimedProgram& timed : prepared.bench.programs) {
    ir::PassContext context;
    const codegen::Program program = prepared.engine->lower(timed.function, context).program;
    for (const codegen::Launch& launch : program.launches)
      bytes += codegen::cost_of(program, launch).bytes * timed.times;
  }
  return bytes;
}

TimedVariant make_variant(const BenchRequest& request, runtime::Variant variant) {
  TimedVariant made{std::move(variant), request, {}, "", 0, {}, {}, {}};
  runtime::NetworkRequest& network = made.request.network;
  network.settings.insert(network.settings.end(), made.variant.settings.begin(), made.variant.settings.end());
  if (!made.variant.plugins.empty()) network.plugins = made.variant.plugins;
  std::vector<std::string>& tune = made.request.choices.tune;
  tune.insert(tune.end(), made.variant.tune.begin(), made.variant.tune.end());
  try {
    made.prepared = prepare(made.request);
  } catch (const UserError& refusal) {
    user_error("{}: variant '{}': {}", request.variants, made.variant.name, refusal.what());
  }
  made.digest = digest_of(made.prepared);
  made.moved_bytes = moved_bytes_of(made.prepared);
  return made;
}

std::vector<TimedVariant> make_variants(const BenchRequest& request) {
  std::vector<TimedVariant> made;
  for (runtime::Variant& variant : runtime::read_variants(request.variants)) {
    made.push_back(make_variant(request, std::move(variant)));
    const std::int64_t images = made.back().prepared.bench.images, first = made[0].prepared.bench.images;
    if (images != first)
      user_error("{}: variant '{}' has a batch of {} images, the first of {}: give all the same",
                 request.variants, made.back().variant.name, images, first);
  }
  return made;
}

/// Times the variants in turn. Each turn begins with the next variant, so that none always follows the same one.
void time_in_turn(std::vector<TimedVariant>& variants, const BenchRequest& request) {
  const std::int64_t turns = (request.steps + kTurn - 1) / kTurn;
  const auto time = [](TimedVariant& one, runtime::Feed feed, std::vector<double>& all) {
    const std::vector<double> seconds =
        runtime::round_seconds(*one.prepared.engine, one.prepared.bench.programs, 1, kTurn, feed);
    all.insert(all.end(), seconds.begin(), seconds.end());
  };
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      TimedVariant& one = variants[(i + static_cast<std::size_t>(turn)) % variants.size()];
      time(one, runtime::Feed::host, one.fed);
      if (request.resident) time(one, runtime::Feed::resident, one.resident);
    }
  }
  for (TimedVariant& one : variants) {
    const Prepared& prepared = one.prepared;
    BenchResult& result = one.result;
    result.images = prepared.bench.images;
    result.tf32 = prepared.network.recipe.train.tf32;
    result.fed = runtime::times_of(std::move(one.fed));
    if (request.resident) result.resident = runtime::times_of(std::move(one.resident));
    result.engine = prepared.engine->report();
    result.choices = prepared.choices;
    if (request.profile)
      result.profile =
          prepared.engine->profile(prepared.bench.programs[0].function, prepared.bench.programs[0].inputs,
                                   static_cast<int>(request.steps));
  }
}

/// The median that variants are compared by: of resident steps, if they were timed.
double median_of(const TimedVariant& one) {
  return one.result.resident.value_or(one.result.fed).median;
}

nlohmann::ordered_json json_of(const std::vector<TimedVariant>& variants) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimedVariant& one : variants) {
    nlohmann::ordered_json json = {{"name", one.variant.name},
                                   {"set", one.variant.settings},
                                   {"plugin", one.variant.plugins},
                                   {"tune", one.variant.tune},
                                   {"ratio", median_of(one) / median_of(variants[0])},
                                   {"moved_gb", static_cast<double>(one.moved_bytes) * 1e-9},
                                   {"memory_mb", megabytes(one.memory_bytes())},
                                   {"same_bits", one.digest == variants[0].digest}};
    const nlohmann::ordered_json measured = to_json(one.request, one.result);
    for (const auto& [key, value] : measured.items()) {
      if (key != "peak_mb" && key != "device_mb") json[key] = value;  // those are all variants' together
    }
    list.push_back(std::move(json));
  }
  return {{"variants", std::move(list)}};
}

void print_table(const std::vector<TimedVariant>& variants) {
  std::size_t width = 7;
  for (const TimedVariant& one : variants) width = std::max(width, one.variant.name.size());
  print("{:<{}} {:>10} {:>8} {:>9} {:>10}  {}\n", "variant", width, "step ms", "ratio", "GB", "memory MB",
        "same bits");
  for (const TimedVariant& one : variants) {
    print("{:<{}} {:>10.3f} {:>8.4f} {:>9.4f} {:>10.1f}  {}\n", one.variant.name, width, median_of(one) * 1e3,
          median_of(one) / median_of(variants[0]), static_cast<double>(one.moved_bytes) * 1e-9,
          megabytes(one.memory_bytes()),
          &one == variants.data()            ? ""
          : one.digest == variants[0].digest ? "yes"
                                             : "no");
  }
  print(
      "step ms is the median, ratio that to the first's; GB that the launches of a step read and write; "
      "memory of "
      "tensors and state; same bits as the first after {} steps\n",
      kComparedRounds);
}

}  // namespace

void bench_variants(const BenchRequest& request) {
  if (request.kernels) user_error("bench --variants: --kernels works only without it: use --profile");
  if (!request.trace.empty()) user_error("bench --variants: --trace works only without it: drop one");
  if (!request.overrides.empty())
    user_error("bench --variants: --override-kernel works only without it: drop one");
  if (request.profile && !request.json) user_error("bench --variants: --profile needs --json");
  std::vector<TimedVariant> variants = make_variants(request);
  time_in_turn(variants, request);
  if (request.json) return print_json(json_of(variants));
  print_table(variants);
}

}  // namespace rewire::cli
