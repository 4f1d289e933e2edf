#include "runtime/exec/cpu/product_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "codegen/compile.h"
#include "codegen/cost.h"
#include "codegen/llvm/jit.h"
#include "ir/passes/pass.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"
#include "runtime/exec/cpu/launch_bench.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {
namespace {

using codegen::Launch;
using codegen::Program;

constexpr double kLeastShare = .002;  // smallest share of a program's arithmetic that is timed

std::string product_key(const Launch& launch) {
  std::string key = fmt::format("{} {}", kProductChoice, codegen::short_name(launch));
  // The operands' shapes alone do not determine the stride, so the key has the result's shape too.
  if (const auto* call = std::get_if<codegen::OpCall>(&launch))
    key += fmt::format(" > {}", fmt::join(call->results.front().shape, "x"));
  return key;
}

struct ProductQuestion {
  Program program;  // the launch alone
  std::string key;
};

/// The launches to time, without duplicates, in the programs' order.
class ProductQuestions {
 public:
  void add(const Program& program) {
    double all = 0;
    for (const Launch& launch : program.launches) all += flops(program, launch);
    std::map<std::string, double> own;
    for (const Launch& launch : program.launches) {
      if (runs_product(program, launch)) own[product_key(launch)] += flops(program, launch);
    }
    for (const Launch& launch : program.launches) {
      if (!runs_product(program, launch)) continue;
      const std::string key = product_key(launch);
      if (own.at(key) < kLeastShare * all ||
          std::ranges::find(list_, key, &ProductQuestion::key) != list_.end())
        continue;
      list_.push_back({{program.name, program.buffers, {launch}, {}}, key});
    }
  }
  const std::vector<ProductQuestion>& list() const { return list_; }

 private:
  static double flops(const Program& program, const Launch& launch) {
    return static_cast<double>(codegen::cost_of(program, launch).flops);
  }

  std::vector<ProductQuestion> list_;
};

ProductQuestions questions_in(const ir::Module& module, const std::vector<std::string>& functions) {
  ProductQuestions questions;
  for (const ir::Function& function : module.functions) {
    if (std::ranges::find(functions, function.name) == functions.end()) continue;
    ir::PassContext context;
    questions.add(codegen::compile(module, function, {}, context).program);
  }
  return questions;
}

}  // namespace

std::vector<bool> own_products(const Program& program, const ChoiceRecord& choices, bool preferred) {
  std::vector<bool> ours;
  for (const Launch& launch : program.launches) {
    if (!runs_product(program, launch)) {
      ours.push_back(false);
      continue;
    }
    const MadeChoice* choice = choices.find(product_key(launch));
    ours.push_back(choice == nullptr ? preferred : choice->taken == kOwnKernels);
  }
  return ours;
}

void choose_products(const ir::Module& module, const std::vector<std::string>& functions,
                     const std::string& cache_directory, Tuner& tuner) {
  const ProductQuestions questions = questions_in(module, functions);
  if (questions.list().empty()) return;
  codegen::JitOptions options;
  options.cache_directory = cache_directory;
  codegen::CpuJit jit(options);
  ThreadPool pool(usable_cores());
  std::vector<std::string> answers = {std::string(kOwnKernels), std::string(kOneDnnAnswer)};
  if (!codegen::prefers_own_products()) std::ranges::reverse(answers);
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time();
  for (const ProductQuestion& question : questions.list()) {
    const auto racers = [&] {
      const auto bench = std::make_shared<LaunchBench>(question.program, pool);
      std::vector<Racer> racing;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const bool ours = answers[i] == kOwnKernels;
        const ProductsBy by = ours ? ProductsBy{&jit.product(), {true}} : ProductsBy{};
        const std::shared_ptr<CpuLaunch> launch =
            std::move(make_cpu_launches(question.program, {}, by).front());
        racing.push_back({i, [bench, launch] { return bench->run(*launch); }});
      }
      return racing;
    };
    const auto accepts = [&](const std::string& answer) {
      return std::ranges::find(answers, answer) != answers.end();
    };
    tuner.choose(TimedChoice{question.key, answers, answers, accepts, racers,
                             kProductSeconds - (tuner.seconds() - before), /*keep_untimed=*/false});
  }
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(LogLevel::warning, fmt::format("{} of {} matrix products and convolutions were not timed "
                                             "within {}: {} computes them this time",
                                             left, questions.list().size(), tuner.limit_text(kProductSeconds),
                                             codegen::prefers_own_products() ? "our own code" : "oneDNN"));
}

}  // namespace rewire::runtime
