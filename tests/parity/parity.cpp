// See parity.h.
#include "tests/parity/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/verify.h"
#include "programs/objective.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/initialise.h"
#include "runtime/network/run_programs.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

using nlohmann::json;
using runtime::HostTensor;
using runtime::TensorMap;

std::filesystem::path folder_of_goldens = REWIRE_GOLDENS;

void set_value(ir::Selection& selection, const std::string& key, const json& value) {
  if (value.is_boolean()) selection.set(key, value.get<bool>());
  if (value.is_number_integer()) selection.set(key, value.get<std::int64_t>());
  if (value.is_number_float()) selection.set(key, value.get<double>());
}

ir::Selection model_options(const std::string& family, const json& j) {
  ir::Selection model{family};
  for (const ir::ParameterSpec& parameter : models::find_model(model.name).schema) {
    const auto value = j.find(parameter.name);
    if (value == j.end()) continue;
    if (value->is_boolean()) model.set(parameter.name, value->get<bool>());
    if (value->is_string()) model.set(parameter.name, value->get<std::string>());
    if (value->is_number_integer()) model.set(parameter.name, value->get<std::int64_t>());
    if (value->is_number_float()) model.set(parameter.name, value->get<double>());
    if (value->is_array()) model.set(parameter.name, ir::Doubles(value->get<std::vector<double>>()));
  }
  return model;
}

programs::TrainOptions train_options(const json& j, const ir::Selection& objective) {
  programs::TrainOptions o;
  o.objective = objective;
  const auto take = [&j](ir::Selection& selection, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto value = j.find(name);
      if (value == j.end()) continue;
      if (value->is_boolean()) selection.set(name, value->get<bool>());
      if (value->is_string()) selection.set(name, value->get<std::string>());
      if (value->is_number()) selection.set(name, value->get<double>());
      if (value->is_array()) selection.set(name, ir::Doubles(value->get<std::vector<double>>()));
    }
  };
  o.optimizer.name = j.at("optimizer");
  take(o.optimizer,
       {"lr", "weight_decay", "weight_decay_end", "decay", "beta1", "beta2", "eps", "momentum", "nesterov"});
  o.schedule.name = j.at("schedule");
  take(o.schedule, {"warmup_lr", "min_lr", "milestones", "gamma"});
  o.schedule.set("warmup_epochs", j.value("warmup_steps", 0.0));  // an epoch is a step
  o.timeline.total_steps = j.value("total_steps", std::int64_t{0});
  take(o.objective, {"label_smoothing"});
  o.timeline.steps_per_epoch = j.value("steps_per_epoch", o.timeline.steps_per_epoch);
  o.clip_norm = j.value("clip_norm", o.clip_norm);
  o.clip_each = j.value("clip", "all") == "each";
  o.ema = j.value("ema", o.ema);
  o.ema_end = j.value("ema_end", o.ema_end);
  return o;
}

using Doubles = std::vector<double>;

double norm(const Doubles& a) {
  double sum = 0;
  for (double x : a) sum += x * x;
  return std::sqrt(sum);
}

Doubles minus(Doubles a, const Doubles& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

Doubles values(const HostTensor& tensor) {
  return runtime::to_double(tensor).data;
}

Doubles golden_values(const Golden& golden, const std::string& name) {
  INFO("the golden's tensor " << name);
  const auto found = golden.tensors.find(name);
  REQUIRE(found != golden.tensors.end());
  return values(found->second);
}

/// What the softmax does to the key's bias is nothing: its gradient is zero but for rounding, and AdamW
/// divides that noise by itself. The last weights are compared without it.
void drop_key_bias(const std::string& name, Doubles& difference) {
  const std::size_t n = difference.size();
  if (name.ends_with("attn.qkv.bias") || name.ends_with("attn.c_attn.bias"))
    std::fill_n(difference.begin() + static_cast<std::ptrdiff_t>(n / 3), n / 3, 0);
  if (name.ends_with("attn.kv.bias")) std::fill_n(difference.begin(), n / 2, 0);
}

void retype(ir::Module& module, ir::DType dtype) {
  auto change = [&](ir::TensorType& type) {
    if (type.dtype == ir::DType::f32) type.dtype = dtype;
  };
  for (ir::Parameter& p : module.parameters) change(p.type);
  for (ir::Function& function : module.functions) {
    for (ir::TensorType& type : function.types) change(type);
  }
}

std::vector<std::string> weight_names(const Golden& golden) {
  const std::string prefix = "weight/";
  std::vector<std::string> names;
  for (const auto& [name, tensor] : golden.tensors) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

/// The network as training runs it, beside `forward`, which evaluates.
const std::string kTrainingForward = "training_forward";

void add_training_forward(ir::Module& module) {
  ir::Function copy = module.function("forward");
  copy.name = kTrainingForward;
  copy.trains = true;
  module.functions.push_back(std::move(copy));
}

/// A function that the golden's objective calls: of the model's own images, or of others whose positions are resized.
ir::Module build_form(const Golden& golden, const programs::NetworkFunction& form, std::int64_t batch) {
  ir::Selection model = golden.model;
  if (form.side != 0) {
    model.set("position_image", std::get<std::int64_t>(*model.values.find("image")));
    model.set("image", form.side);
  }
  return models::build(model, batch * form.images);
}

/// The golden's model in the backend's dtype, with the programs that `add` adds.
ir::Module make_module(const Golden& golden, const Backend& backend,
                       const std::function<void(ir::Module&)>& add) {
  const std::vector<programs::NetworkFunction> forms = programs::make_objective(golden.objective)->forms();
  std::vector<ir::Module> modules;
  for (const programs::NetworkFunction& form : forms) {
    modules.push_back(build_form(golden, form, golden.batch / forms.front().images));
    if (backend.rewrite) backend.rewrite(modules.back());
  }
  ir::Module module = runtime::join_forms(forms, std::move(modules));
  add(module);
  retype(module, backend.dtype);
  ir::verify(module);
  return module;
}

/// Of images or labels what step `step` takes.
HostTensor batch_of(const Golden& golden, const std::string& name, std::int64_t step, ir::DType dtype) {
  const ir::Tensor all = runtime::to_double(golden.tensors.at(name));
  ir::TensorType type = all.type;
  const std::int64_t batches = type.shape.front();
  type.shape.erase(type.shape.begin());
  const auto begin = all.data.begin() + static_cast<std::ptrdiff_t>(step % batches * type.elements());
  const Doubles slice(begin, begin + static_cast<std::ptrdiff_t>(type.elements()));
  return runtime::convert(runtime::to_host(ir::Tensor(type, slice)), dtype);
}

/// What a function of the module takes in this step.
TensorMap feed(const Golden& golden, const Backend& backend, const ir::Function& function,
               std::int64_t step) {
  const std::map<std::string, std::string> plain = {
      {"image", "images"}, {"label", "labels"},  {"noise", "noise"},    {"time", "time"},
      {"drop", "drop"},    {"tokens", "tokens"}, {"targets", "targets"}};
  TensorMap inputs;
  for (const ir::Argument& argument : function.arguments) {
    const auto known = plain.find(argument.name);
    const std::string tensor = known == plain.end() ? "input/" + argument.name : known->second;
    const ir::DType own = function.type(argument.value).dtype;
    inputs.emplace(argument.name, batch_of(golden, tensor, step, ir::is_float(own) ? backend.dtype : own));
  }
  return inputs;
}

void check_error(double error, double tolerance) {
  INFO(fmt::format("relative error {:.3e}, allowed {:.3e}", error, tolerance));
  CHECK(error <= tolerance);
}

void check_relative(const Doubles& got, const Doubles& want, double tolerance) {
  check_error(norm(minus(got, want)) / norm(want), tolerance);
}

constexpr std::int64_t kStatisticsSteps = 3;
constexpr double kRoundingAlone = 1e-12;  // of all gradients: what is smaller in f64 is nothing

/// The moving averages of weights at the end, where the golden has them: their error over the way they went.
void check_averages(const Golden& golden, const std::string& run, const runtime::Engine& engine,
                    double tolerance) {
  double error = 0, way = 0;
  for (const std::string& name : weight_names(golden)) {
    const auto average = golden.tensors.find(fmt::format("{}/average/{}", run, name));
    if (average == golden.tensors.end()) continue;
    const Doubles want = values(average->second);
    Doubles difference = minus(values(engine.read_state(programs::average_name(name))), want);
    drop_key_bias(name, difference);
    error = std::hypot(error, norm(difference));
    way = std::hypot(way, norm(minus(want, golden_values(golden, "weight/" + name))));
  }
  INFO("the averages of the weights");
  if (way > 0) check_error(error / way, tolerance);
}

/// What else the golden has of the state, under this prefix.
void check_states(const Golden& golden, const std::string& prefix, const runtime::Engine& engine,
                  double tolerance) {
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with(prefix)) continue;
    INFO(name);
    check_relative(values(engine.read_state(name.substr(prefix.size()))), values(tensor), tolerance);
  }
}

}  // namespace

const std::filesystem::path& golden_folder() {
  return folder_of_goldens;
}

void set_golden_folder(const std::filesystem::path& folder) {
  folder_of_goldens = folder;
}

Golden read_golden(const std::string& name) {
  runtime::SafetensorsFile file =
      runtime::read_safetensors((golden_folder() / (name + ".safetensors")).string());
  const json facts = json::parse(file.metadata.at("case"));
  Golden golden;
  golden.name = name;
  golden.model = model_options(facts.value("family", "vit"), facts.at("model"));
  golden.output = facts.value("output", golden.output);
  if (const auto told = facts.find("objective"); told != facts.end()) {
    golden.objective = {told->at("name")};
    for (const auto& [key, value] : told->items()) set_value(golden.objective, key, value);
  }
  golden.plugins = facts.at("plugins").get<std::vector<std::string>>();
  golden.seed = facts.value("seed", std::int64_t{0});
  golden.tensors = std::move(file.tensors);
  const char* const first = golden.tensors.contains("images") ? "images" : "tokens";
  golden.batch = golden.tensors.at(first).type().shape.at(1);
  for (const auto& [run, options] : facts.at("runs").items())
    golden.runs.emplace(run, train_options(options, golden.objective));
  return golden;
}

std::unique_ptr<runtime::Engine> start_engine(const Golden& golden, const Backend& backend,
                                              const ir::Module& module) {
  std::unique_ptr<runtime::Engine> engine = backend.make_engine(module);
  std::vector<std::string> trainable;
  for (const ir::Parameter& p : module.parameters) {
    if (p.trainable) {
      trainable.push_back(p.name);
      const auto found = golden.tensors.find("weight/" + p.name);
      INFO("the model's parameter " << p.name);
      REQUIRE(found != golden.tensors.end());
      engine->write_state(p.name, runtime::convert(found->second, backend.dtype));
    } else {
      ir::Module alone;
      alone.add_parameter(p);
      ir::Tensor initial = runtime::to_double(runtime::initialise(alone, 0).at(p.name));
      const std::string own = p.average_of.empty() ? p.name : p.average_of;
      for (const char* kind : {"frozen/", "weight/"}) {
        const auto given = golden.tensors.find(kind + own);
        if (given != golden.tensors.end()) initial = runtime::to_double(given->second);
      }
      if (p.name == "rng.seed") initial.data = {static_cast<double>(golden.seed)};
      engine->write_state(p.name, runtime::convert(runtime::to_host(initial), p.type.dtype));
    }
  }
  std::sort(trainable.begin(), trainable.end());
  CHECK(trainable == weight_names(golden));
  return engine;
}

void check_gradients(const Golden& golden, const Backend& backend, const Tolerance& tolerance) {
  CAPTURE(golden.name);
  const bool trains_differently = golden.tensors.contains("training_logits");
  const ir::Module module = make_module(golden, backend, [&](ir::Module& m) {
    programs::TrainOptions options;
    options.objective = golden.objective;
    programs::add_grad_program(m, options);
    if (trains_differently) add_training_forward(m);
  });
  const auto engine = start_engine(golden, backend, module);
  const TensorMap gradients = engine->run("grad", feed(golden, backend, module.function("grad"), 0));
  const auto check_output = [&](const std::string& function, const std::string& name) {
    INFO(name);
    const TensorMap outputs = engine->run(function, feed(golden, backend, module.function(function), 0));
    check_relative(values(outputs.at(golden.output)), golden_values(golden, name), tolerance.output);
  };
  check_output("forward", golden.output);
  if (trains_differently) check_output(kTrainingForward, "training_logits");
  {
    INFO("loss");
    check_relative(values(gradients.at("loss")), golden_values(golden, "loss"), tolerance.output);
  }
  const std::vector<std::string> names = weight_names(golden);
  CHECK(gradients.size() == names.size() + 1);
  double global = 0;
  for (const std::string& name : names)
    global = std::hypot(global, norm(golden_values(golden, "gradient/" + name)));
  for (const std::string& name : names) {
    INFO("gradient of " << name);
    REQUIRE(gradients.contains(name));
    const Doubles want = golden_values(golden, "gradient/" + name);
    // A bias that a batch norm takes away again has no gradient but rounding errors: they are held to all gradients.
    const double scale = norm(want) < kRoundingAlone * global ? global : std::max(norm(want), 1e-6 * global);
    const double error = norm(minus(values(gradients.at(name)), want)) / scale;
    check_error(error, tolerance.gradient);
  }
}

void check_run(const Golden& golden, const std::string& run, const Backend& backend,
               const Tolerance& tolerance) {
  CAPTURE(golden.name, run);
  const ir::Module module = make_module(
      golden, backend, [&](ir::Module& m) { programs::add_step_program(m, golden.runs.at(run)); });
  const auto engine = start_engine(golden, backend, module);
  const Doubles losses = golden_values(golden, run + "/losses"),
                norms = golden_values(golden, run + "/norms"), rates = golden_values(golden, run + "/rates");
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i);
    CAPTURE(step);
    const TensorMap got = engine->run("step", feed(golden, backend, module.function("step"), step));
    CHECK(values(got.at("finite")) == Doubles{1});
    check_relative(values(got.at("loss")), {losses[i]}, tolerance.losses);
    check_relative(values(got.at("grad_norm")), {norms[i]}, tolerance.gradient);
    check_relative(values(got.at("lr")), {rates[i]}, tolerance.losses);
    if (step + 1 == kStatisticsSteps) check_states(golden, run + "/statistics/", *engine, tolerance.output);
  }
  CHECK(values(engine->read_state("train.step")) == Doubles{static_cast<double>(losses.size())});
  double error = 0, way = 0;
  for (const std::string& name : weight_names(golden)) {
    const Doubles want = golden_values(golden, run + "/weight/" + name);
    Doubles difference = minus(values(engine->read_state(name)), want);
    drop_key_bias(name, difference);
    error = std::hypot(error, norm(difference));
    way = std::hypot(way, norm(minus(want, golden_values(golden, "weight/" + name))));
  }
  INFO("the weights after " << losses.size() << " steps");
  check_error(error / way, tolerance.weights);
  check_averages(golden, run, *engine, tolerance.weights);
  check_states(golden, run + "/state/", *engine, tolerance.output);
}

void check_golden(const Golden& golden, const Backend& backend, const Tolerance& tolerance) {
  check_gradients(golden, backend, tolerance);
  for (const auto& [run, options] : golden.runs) check_run(golden, run, backend, tolerance);
}

}  // namespace rewire::parity
