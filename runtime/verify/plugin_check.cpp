#include "runtime/verify/plugin_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/side_results.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "programs/programs.h"
#include "runtime/device/process.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/step_summary.h"
#include "runtime/network/initialise.h"
#include "runtime/network/weights.h"
#include "runtime/plugin/filters.h"
#include "runtime/plugin/isolated.h"
#include "runtime/verify/engine_check.h"
#include "runtime/verify/gradient_check.h"
#include "runtime/verify/perturbed_state.h"
#include "runtime/verify/rewrite_check.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kSeed = 3;
constexpr int kSteps = 3;

/// Thrown by a check that fails, with the row's detail.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown if nothing is wrong but the author should know something, with the row's detail.
class Remark : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Time limit for all values of a schema. Later values are tried by their rewrite alone.
constexpr std::chrono::seconds kValuesTime{60};

template <class... Args>
[[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) {
  throw Wrong(fmt::format(format, std::forward<Args>(args)...));
}

/// Returns true if an error is worse than another; both are relative to what is allowed. NaN is the worst.
bool is_worse(double error, double than) {
  return !std::isnan(than) && !(error <= than);
}

/// Returns the name of the first tensor in which two maps differ in a bit; "" if they do not.
std::string first_difference(const TensorMap& a, const TensorMap& b) {
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || !std::ranges::equal(tensor.bytes(), other->second.bytes())) return name;
  }
  return a.size() == b.size() ? "" : b.begin()->first;
}

/// Returns the first line in which two texts differ, as the second has it.
std::string first_other_line(std::string_view a, std::string_view b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  const auto at = static_cast<std::size_t>(in_b - b.begin());
  const std::size_t before = at == 0 ? std::string_view::npos : b.rfind('\n', at - 1);
  std::string_view line = b.substr(before == std::string_view::npos ? 0 : before + 1);
  line = line.substr(0, line.find('\n'));
  return std::string(line.substr(std::min(line.find_first_not_of(' '), line.size())));
}

class Checker {
 public:
  Checker(const PluginSpec& spec, const std::vector<std::string>& plugin_path,
          const std::vector<CheckNetwork>& networks, const std::optional<CheckNetwork>& causal,
          const Send& send)
      : spec_(spec), plugin_path_(plugin_path), networks_(networks), causal_(causal), send_(send) {
    plugins_ = {load_plugin(spec, plugin_path)};
  }

  void check() {
    row("schema", "", [&] { return check_schema(); });
    for (const CheckNetwork& network : networks_) {
      row("rewrite", network.name, [&] { return check_rewrite(network); });
    }
    if (rewritten_.empty()) {
      if (left_alone_ == 0) return;  // all are refused, as their rows say
      return row("rewrite", "", []() -> std::string {
        wrong("it changes no join and writes no weight of any network: the plain network would be trained");
      });
    }
    row("values", "", [&] { return check_values(); });
    row("same_text", "", [&] { return check_same_text(); });
    row("initialise", "", [&] { return check_initialise(); });
    row("leak", "", [&] { return check_leak(); });
    row("unused", "", [&] { return check_unused(); });
    row("cuts", "", [&] { return check_cuts(); });
    if (causal_) row("causal", causal_->name, [&] { return check_causal(); });
    for (const CheckNetwork& network : rewritten_) {
      row("gradients", network.name, [&] { return check_gradients_of(network); });
      row("weights", network.name, [&] { return check_weights(network); });
      row("samples", network.name, [&] { return check_samples(network); });
      row("compiled", network.name, [&] { return check_compiled(network); });
      row("same_bits", network.name, [&] { return check_same_bits(network); });
      row("cost", network.name, [&] {
        return short_text(summarise_step({original(network.name)}, plugins_, kSeed, lower_for_cpu));
      });
    }
  }

 private:
  template <class Body>
  void row(std::string name, const std::string& network, Body body) {
    PluginCheckRow row{std::move(name), network, Verdict::passed, ""};
    send_({row.check, row.network});
    try {
      row.detail = body();
    } catch (const PluginRefusal& refusal) {
      const bool must_take = network.empty() || network == networks_.front().name;
      row.verdict = must_take ? Verdict::failed : Verdict::refused;
      row.detail = one_line(refusal.what());
    } catch (const Remark& remark) {
      row.verdict = Verdict::remark;
      row.detail = remark.what();
    } catch (const std::exception& error) {
      row.verdict = Verdict::failed;
      row.detail = error.what();
    }
    send_({row.check, row.network, std::to_string(static_cast<int>(row.verdict)), row.detail});
  }

  ir::Module rewrite(const ir::Module& original, const std::vector<PluginHandle>& plugins) const {
    ir::Module module = original;
    apply_plugins(module, plugins, kSeed);
    return module;
  }
  const ir::Module& original(const std::string& name) const {
    return std::ranges::find(networks_, name, &CheckNetwork::name)->module;
  }

  /// The host checked names, defaults and ranges when it loaded the plugin. What is
  /// left is for human readers.
  std::string check_schema() const {
    const PluginInfo& info = plugin_info(*plugins_.front());
    if (info.doc.empty()) wrong("the plugin has no doc: one line that `rewire plugins` prints");
    if (info.version.empty()) wrong("the plugin has no version");
    int own = 0;
    for (const ir::ParameterInfo& parameter : info.parameters) {
      if (Filters::is_filter(parameter.name)) continue;
      ++own;
      if (parameter.doc.empty()) wrong("parameter '{}' has no doc", parameter.name);
    }
    return fmt::format("{} {}, {} parameter{}", info.name, info.version, own, own == 1 ? "" : "s");
  }

  std::string check_rewrite(const CheckNetwork& network) {
    ir::Module module = rewrite(network.module, plugins_);
    const JoinCounts joins = count_joins(module);
    const auto added = std::ranges::count_if(module.parameters, [&](const ir::Parameter& parameter) {
      return parameter.is_weight() && parameter.role != ir::kProgressRole &&
             network.module.find_parameter(parameter.name) == nullptr;
    });
    const std::string hints = hints_of(module);
    const bool has_hooks = !hints.empty() || module.function("forward").results.size() >
                                                 network.module.function("forward").results.size();
    TensorMap state = initialise(module, kSeed);
    std::size_t written = 0;
    for (const Initialised& hook : initialise_plugins(module, plugins_, kSeed, state))
      written += hook.weights.size();
    if (joins.changed == 0 && written == 0 && !has_hooks) {
      ++left_alone_;
      throw Remark("nothing to do here: it changes no join and writes no weight");
    }
    rewritten_.push_back({network.name, std::move(module)});
    return fmt::format("verified; {} of {} joins changed, {} weights added{}", joins.changed, joins.all,
                       added, hints);
  }

  /// Returns "; 2 weights with lr_scale 10", one such part for each hint that is used.
  static std::string hints_of(const ir::Module& module) {
    std::map<std::string, int> weights;
    for (const ir::Parameter& parameter : module.parameters) {
      if (const std::string hint = ir::to_string(parameter.hint); !hint.empty()) ++weights[hint];
    }
    std::string text;
    for (const auto& [hint, count] : weights)
      text += fmt::format("; {} weight{} with {}", count, count == 1 ? "" : "s", hint);
    return text;
  }

  /// Tries each value of each bool and enum, and each bound of a number, with the other values as
  /// requested. On the first network that the plugin changes it rewrites and, while there is time, checks
  /// gradients and compiled program.
  std::string check_values() const {
    const auto start = std::chrono::steady_clock::now();
    const std::string& on = rewritten_.front().name;
    int tried = 0, computed = 0;
    for (const ir::ParameterInfo& parameter : plugin_info(*plugins_.front()).parameters) {
      if (Filters::is_filter(parameter.name)) continue;
      for (const std::string& value : parameter.edges) {
        ++tried;
        PluginSpec spec = spec_;
        spec.values.emplace_back(parameter.name, value);  // the last one counts
        try {
          const std::vector<PluginHandle> plugins = {load_plugin(spec, plugin_path_)};
          const CheckNetwork network{on, rewrite(original(on), plugins)};
          if (std::chrono::steady_clock::now() - start > kValuesTime) continue;
          compare_gradients(network, plugins);
          compare_compiled(network, plugins, /*optimise=*/false);
          ++computed;
        } catch (const PluginRefusal&) {  // the plugin refuses it together with the other values
        } catch (const std::exception& error) {
          wrong("{}={} on {}: {}", parameter.name, value, on, error.what());
        }
      }
    }
    if (tried == 0) return "it has no parameter with values to try";
    return fmt::format("{} parameter values, one at a time; {} of them evaluated", tried, computed);
  }

  /// Begins with the last network, so that state that a plugin keeps between calls shows.
  std::string check_same_text() const {
    for (auto network = rewritten_.rbegin(); network != rewritten_.rend(); ++network) {
      const std::string first = ir::print(network->module);
      const std::string again = ir::print(rewrite(original(network->name), plugins_));
      if (first != again) {
        wrong("a second rewrite of {} gives different IR, first at: {}", network->name,
              first_other_line(first, again));
      }
    }
    return "a second rewrite gives the same IR";
  }

  std::string check_initialise() const {
    for (const CheckNetwork& network : rewritten_) {
      const TensorMap first = fresh_weights(network.module, plugins_, kSeed);
      const std::string other = first_difference(first, fresh_weights(network.module, plugins_, kSeed));
      if (!other.empty()) wrong("a second initialisation of {} gives a different {}", network.name, other);
      for (const auto& [name, tensor] : first) {
        if (!std::ranges::all_of(to_double(tensor).data, [](double x) { return std::isfinite(x); }))
          wrong("{} of {} starts with a number that is not finite", name, network.name);
      }
    }
    return "the same weights each time, all finite";
  }

  /// Returns the heap after `calls` more calls. They run on a thread of their own, whose end empties its
  /// cache of freed memory. So only held memory is left.
  std::optional<std::int64_t> heap_after(int calls) const {
    const auto call_all = [&] {
      for (int call = 0; call < calls; ++call) {
        for (const CheckNetwork& network : rewritten_)
          fresh_weights(rewrite(original(network.name), plugins_), plugins_, kSeed);
      }
    };
    try {
      std::async(std::launch::async, call_all).get();
    } catch (const std::system_error& error) {
      user_error("cannot start a thread to look for a leak: {}", error.code().message());
    }
    return heap_bytes();
  }

  /// Continued growth is a leak. Memory that is kept once, or has stopped growing, is not.
  std::string check_leak() const {
    constexpr int kCalls = 8, kRounds = 4;
    std::optional<std::int64_t> held = heap_after(kCalls);
    std::int64_t kept = 0;
    bool grows = true;
    for (int round = 0; round < kRounds; ++round) {
      const std::optional<std::int64_t> after = heap_after(kCalls);
      if (!after) return "left to the sanitizer of this build";
      grows = grows && *after > *held;
      kept += *after - *held;
      held = after;
    }
    const int calls = kCalls * kRounds * static_cast<int>(rewritten_.size());
    if (grows) wrong("{} bytes are not freed by {} calls of rewrite and initialise", kept, calls);
    return fmt::format("no memory is kept by {} calls of rewrite and initialise", calls);
  }

  static ir::Module with_gradients(const CheckNetwork& network) {
    ir::Module module = network.module;
    programs::add_grad_program(module, {});
    return module;
  }

  std::string check_gradients_of(const CheckNetwork& network) const {
    return compare_gradients(network, plugins_);
  }

  static std::string compare_gradients(const CheckNetwork& network,
                                       const std::vector<PluginHandle>& plugins) {
    const ir::Module module = with_gradients(network);
    const GradientCheck result = check_gradients(module, fresh_weights(module, plugins, kSeed), kSeed, 1);
    const GradientCheckRow* worst = nullptr;
    for (const GradientCheckRow& row : result.rows) {
      if (worst == nullptr || is_worse(row.error, worst->error)) worst = &row;
    }
    if (!result.passed()) {
      wrong("along {} the gradient is {:.8e}, but the loss difference is {:.8e}", worst->role,
            worst->gradient, worst->difference);
    }
    return worst == nullptr ? "no weight trains"
                            : fmt::format("worst error {:.1e} ({})", worst->error, worst->role);
  }

  /// The plugin's own weights must learn. Weights of the model that no longer learn are reported.
  std::string check_weights(const CheckNetwork& network) const {
    const ir::Module module = with_gradients(network);
    const CheckNetwork before{network.name, original(network.name)};
    const std::vector<std::string> still =
        weights_without_gradient(with_gradients(before), fresh_weights(before.module, {}, kSeed), kSeed);
    std::vector<std::string> all =
        weights_without_gradient(module, fresh_weights(module, plugins_, kSeed), kSeed);
    for (const ir::Parameter& parameter : module.parameters) {  // those that forward does not even read
      if (parameter.trainable && !module.function("grad").result(parameter.name))
        all.push_back(parameter.name);
    }
    std::vector<std::string> own, others;
    for (const std::string& name : all) {
      if (before.module.find_parameter(name) == nullptr) {
        own.push_back(name);
      } else if (std::ranges::find(still, name) == still.end()) {
        others.push_back(name);
      }
    }
    if (!own.empty()) {
      wrong("no gradient reaches {}, so it never learns: add it as frozen, or let the loss depend on it",
            list(own));
    }
    if (!others.empty())
      throw Remark(fmt::format("no gradient reaches {} of the model any more", list(others)));
    return "every weight receives a gradient";
  }

  std::string check_samples(const CheckNetwork& network) const {
    const std::vector<std::string> modes =
        modes_that_mix_samples(network.module, fresh_weights(network.module, plugins_, kSeed), kSeed);
    if (!modes.empty())
      throw Remark(fmt::format("the samples of a batch depend on each other {}", fmt::join(modes, " and ")));
    return "each sample's result is its own";
  }

  std::string check_unused() const {
    for (const CheckNetwork& network : rewritten_) {
      const std::vector<std::string> parts =
          unused_parts(original(network.name), network.module, plugin_info(*plugins_.front()).name);
      if (!parts.empty()) throw Remark(fmt::format("on {} nothing reads {}", network.name, list(parts)));
    }
    return "everything it adds is read";
  }

  /// Reports where the gradient is cut. Only the author knows whether that is on purpose.
  std::string check_cuts() const {
    for (const CheckNetwork& network : rewritten_) {
      const std::vector<std::string> cuts = gradient_cuts(with_gradients(network));
      if (!cuts.empty())
        throw Remark(fmt::format("on {} stop_gradient cuts the gradient at {}", network.name, list(cuts)));
    }
    return "no stop_gradient keeps a gradient from a weight";
  }

  std::string check_causal() const {
    const ir::Module module = rewrite(causal_->module, plugins_);
    const std::string later =
        token_that_reads_a_later_one(module, fresh_weights(module, plugins_, kSeed), kSeed);
    if (!later.empty()) wrong("{}", later);
    return "no token reads a later one";
  }

  /// Lists the first three names.
  static std::string list(const std::vector<std::string>& names) {
    constexpr std::ptrdiff_t kMost = 3;
    const auto end = names.begin() + std::min(kMost, std::ssize(names));
    const std::string text = fmt::format("{}", fmt::join(names.begin(), end, "; "));
    return end == names.end() ? text : fmt::format("{} and {} more", text, names.end() - end);
  }

  std::string check_compiled(const CheckNetwork& network) const {
    return compare_compiled(network, plugins_, /*optimise=*/true);
  }

  static std::string compare_compiled(const CheckNetwork& network, const std::vector<PluginHandle>& plugins,
                                      bool optimise) {
    const ir::Module module = with_gradients(network);
    JitEngineOptions options;
    options.optimise = optimise;
    const std::unique_ptr<Engine> compiled =
        optimise ? make_engine("jit", module) : make_jit_engine(module, options);
    const std::unique_ptr<Engine> evaluator = make_engine("evaluator", module);
    const EngineCheck result =
        check_engine(*compiled, *evaluator, module, fresh_weights(module, plugins, kSeed), kSeed);
    const EngineCheckRow* worst = nullptr;
    for (const EngineCheckRow& row : result.rows) {
      if (worst == nullptr || is_worse(row.error / row.tolerance, worst->error / worst->tolerance))
        worst = &row;
    }
    const std::string bound = worst->bound == "fixed" ? "" : ", " + worst->bound;
    if (!result.passed()) {
      wrong("compiled, {} has the relative error {:.1e} (at most {:.0e}{})", worst->worst, worst->error,
            worst->tolerance, bound);
    }
    return fmt::format("worst error {:.1e} of {:.0e} allowed ({}{})", worst->error, worst->tolerance,
                       worst->worst, bound);
  }

  /// Runs some training steps from the start. Returns all results, and all state at the end.
  static TensorMap train(const ir::Module& module, const TensorMap& weights, int threads) {
    const std::unique_ptr<Engine> engine = make_engine("jit", module, {.threads = threads});
    start_state(*engine, module, weights, kSeed);
    TensorMap inputs;
    const ir::Function& step = module.function("step");
    for (const ir::Argument& argument : step.arguments)
      inputs.emplace(argument.name, to_host(random_argument(module, step, argument, kSeed)));
    TensorMap seen;
    for (int i = 0; i < kSteps; ++i) {
      for (auto& [name, tensor] : engine->run("step", inputs))
        seen.insert_or_assign(fmt::format("{} of step {}", name, i + 1), tensor.clone());
    }
    for (const ir::Parameter& parameter : module.parameters)
      seen.insert_or_assign(parameter.name, engine->read_state(parameter.name));
    return seen;
  }

  std::string check_same_bits(const CheckNetwork& network) const {
    ir::Module module = network.module;
    programs::add_step_program(module, {});
    const TensorMap weights = fresh_weights(module, plugins_, kSeed);
    const TensorMap first = train(module, weights, 1);
    if (first.at("train.finite").as<std::uint8_t>()[0] == 0)
      wrong("the loss or a gradient of the first {} steps is not finite", kSteps);
    const std::string other = first_difference(first, train(module, weights, 2));
    if (!other.empty()) wrong("a second run, on two threads, gives a different {}", other);
    return fmt::format("{} steps give the same bits on one thread and on two", kSteps);
  }

  const PluginSpec& spec_;
  const std::vector<std::string>& plugin_path_;
  const std::vector<CheckNetwork>& networks_;
  const std::optional<CheckNetwork>& causal_;
  const Send& send_;  // a row's check and network as it begins, and all of it as it ends
  std::vector<PluginHandle> plugins_;
  std::vector<CheckNetwork> rewritten_;  // networks that the plugin accepts and changes
  int left_alone_ = 0;                   // networks that it accepts and does not change
};

/// Minutes for one row, although a sound plugin takes seconds; memory for what is compiled.
constexpr IsolationLimits kLimits = {std::chrono::minutes(5), 3600, std::int64_t{16} << 30, true};

}  // namespace

bool PluginCheck::passed() const {
  return std::ranges::none_of(rows, [](const PluginCheckRow& r) { return r.verdict == Verdict::failed; });
}

PluginCheck check_plugin(const PluginSpec& spec, const std::vector<std::string>& plugin_path,
                         const std::vector<CheckNetwork>& networks, const std::optional<CheckNetwork>& causal,
                         const std::function<void(const PluginCheckRow&)>& report) {
  PluginCheck check;
  std::optional<PluginCheckRow> begun;
  const auto end_row = [&](PluginCheckRow row) {
    begun.reset();
    report(row);
    check.rows.push_back(std::move(row));
  };
  const std::optional<std::string> fault = run_isolated(
      kLimits, [&](const Send& send) { Checker(spec, plugin_path, networks, causal, send).check(); },
      [&](const Fields& fields) {
        constexpr std::string_view kVerdicts = "0123";
        if (fields.size() == 2) begun = {fields[0], fields[1], Verdict::failed, ""};
        if (fields.size() != 4 || fields[2].size() != 1) return;
        const std::size_t verdict = kVerdicts.find(fields[2]);
        const bool known = verdict != std::string_view::npos;
        end_row({fields[0], fields[1], known ? static_cast<Verdict>(verdict) : Verdict::failed, fields[3]});
      });
  if (!fault) return check;
  if (!begun) user_error("plugin '{}': {}", spec.name, *fault);
  begun->detail = *fault;
  end_row(*begun);
  return check;
}

}  // namespace rewire::runtime
