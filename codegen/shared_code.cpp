// Sorts launches by the size of their kernels first. Most kernels differ in more than numbers or in nothing,
// and a structure is a long text to compare; see shared_code.h.
#include "codegen/shared_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using tile::Kernel;
using tile::Node;
using tile::TileValue;

/// A number in a kernel's text: the value of a Constant, or the stream of a Random.
struct Number {
  std::uint64_t bits = 0;
  bool may_be_data = false;
  bool operator==(const Number&) const = default;
};

/// Returns which values something other than arithmetic reads. A printer may look at such a value's number.
std::vector<bool> looked_at(const Kernel& kernel) {
  std::vector<bool> looked(kernel.values.size());
  const auto look = [&](TileValue value) {
    if (value) looked[static_cast<std::size_t>(value.id)] = true;
  };
  visit_nodes(kernel, [&](const Node& node) {
    const auto* op = std::get_if<tile::Pointwise>(&node);
    if (op != nullptr && op->code != ir::Opcode::pow) return;
    for (TileValue operand : tile::operands_of(node)) look(operand);
  });
  for (const tile::Carried& carried : kernel.carried) {
    look(carried.initial);
    look(carried.next);
  }
  return looked;
}

bool is_data_type(ir::DType dtype) {
  return dtype == ir::DType::f32 || dtype == ir::DType::f64 || dtype == ir::DType::i64;
}

/// Returns the numbers of a kernel, in the order of its nodes.
std::vector<Number> numbers_of(const Kernel& kernel) {
  const std::vector<bool> looked = looked_at(kernel);
  std::vector<Number> numbers;
  visit_nodes(kernel, [&](const Node& node) {
    if (const auto* constant = std::get_if<tile::Constant>(&node)) {
      const auto id = static_cast<std::size_t>(constant->result.id);
      const tile::ValueInfo& info = kernel.values[id];
      numbers.push_back({std::bit_cast<std::uint64_t>(constant->value),
                         !looked[id] && info.lanes.empty() && is_data_type(info.dtype)});
    } else if (const auto* random = std::get_if<tile::Random>(&node)) {
      numbers.push_back({random->stream, true});
    }
  });
  return numbers;
}

/// Takes numbers out of a launch's kernel, into buffers of one dtype each.
class Extraction {
 public:
  Extraction(Program& program, KernelLaunch& launch) : program_(program), launch_(launch) {}

  /// Takes out the numbers that vary. `varies` is in the order of numbers_of().
  void run(const std::vector<bool>& varies) {
    Kernel& kernel = launch_.kernel;
    std::size_t next = 0;
    for (auto* list : {&kernel.prologue, &kernel.body, &kernel.epilogue}) {
      std::vector<Node> kept;
      for (Node& node : *list) {
        const bool number =
            std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Random>(node);
        if (!number || !varies[next++]) {
          kept.push_back(std::move(node));
        } else if (const auto* constant = std::get_if<tile::Constant>(&node)) {
          load(constant->result, constant->value);
        } else {
          auto& random = std::get<tile::Random>(node);
          random.stream_low = half(random.stream & 0xffffffff);
          random.stream_high = half(random.stream >> 32);
          random.stream = 0;
          kept.push_back(std::move(node));
        }
      }
      *list = std::move(kept);
    }
    kernel.prologue.insert(kernel.prologue.begin(), std::make_move_iterator(loads_.begin()),
                           std::make_move_iterator(loads_.end()));
    tile::verify(kernel);
  }

 private:
  struct Home {
    std::int32_t argument = 0;
    std::int32_t buffer = 0;
  };

  TileValue half(std::uint64_t word) {
    const TileValue value{static_cast<std::int32_t>(launch_.kernel.values.size())};
    launch_.kernel.values.push_back({ir::DType::i64, {}});
    load(value, static_cast<double>(word));
    return value;
  }

  void load(TileValue result, double number) {
    Kernel& kernel = launch_.kernel;
    const Home home = home_of(kernel.values[static_cast<std::size_t>(result.id)].dtype);
    Buffer& buffer = program_.buffers[static_cast<std::size_t>(home.buffer)];
    const auto place = static_cast<std::int64_t>(buffer.values.size());
    buffer.values.push_back(number);
    buffer.type.shape = {place + 1};
    const std::vector<std::int64_t> nowhere(kernel.axes.size(), 0);
    loads_.push_back(tile::Load{result, {home.argument, place, nowhere, 0}, {}, 0, 0});
  }

  Home home_of(ir::DType dtype) {
    const auto [it, fresh] = homes_.try_emplace(dtype);
    if (fresh) {
      Kernel& kernel = launch_.kernel;
      it->second = {static_cast<std::int32_t>(kernel.arguments.size()),
                    static_cast<std::int32_t>(program_.buffers.size())};
      const std::string name = fmt::format("{}_numbers", ir::dtype_name(dtype));
      kernel.arguments.push_back({name, dtype, tile::ArgumentUse::read});
      launch_.buffers.push_back(it->second.buffer);
      program_.buffers.push_back({kernel.name + "." + name, BufferKind::constant, {dtype, {}}, {}});
    }
    return it->second;
  }

  Program& program_;
  KernelLaunch& launch_;
  std::map<ir::DType, Home> homes_;
  std::vector<Node> loads_;
};

struct Candidate {
  std::size_t launch = 0;
  std::vector<Number> numbers;
};

/// Returns a key that is cheap to compute and that separates most kernels.
auto size_of(const Kernel& kernel) {
  std::int64_t points = kernel.partitions;
  for (const tile::Axis& axis : kernel.axes) points = points * 31 + axis.extent;
  return std::tuple(kernel.prologue.size(), kernel.body.size(), kernel.epilogue.size(),
                    kernel.arguments.size(), kernel.values.size(), points);
}

/// Returns the text of a kernel, without the numbers that may become data.
std::string identity(const Kernel& kernel, const std::vector<Number>& numbers) {
  std::string text = tile::structure(kernel, tile::Numbers::hidden);
  for (const Number& number : numbers) {
    if (!number.may_be_data) fmt::format_to(std::back_inserter(text), "{:x};", number.bits);
  }
  return text;
}

std::vector<bool> varying(const std::vector<Candidate>& candidates) {
  std::vector<bool> varies(candidates[0].numbers.size());
  for (const Candidate& candidate : candidates) {
    for (std::size_t i = 0; i < varies.size(); ++i)
      varies[i] = varies[i] || !(candidate.numbers[i] == candidates[0].numbers[i]);
  }
  return varies;
}

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

}  // namespace

void share_code(Program& program) {
  std::map<decltype(size_of(std::declval<Kernel>())), std::vector<Candidate>> sizes;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const auto* launch = std::get_if<KernelLaunch>(&program.launches[i]);
    if (launch == nullptr) continue;
    std::vector<Number> numbers = numbers_of(launch->kernel);
    if (!numbers.empty()) sizes[size_of(launch->kernel)].push_back({i, std::move(numbers)});
  }
  const auto kernel_of = [&](const Candidate& candidate) -> KernelLaunch& {
    return std::get<KernelLaunch>(program.launches[candidate.launch]);
  };
  // By launch, so that new buffers are in the order of the launches.
  std::map<std::size_t, std::vector<bool>> taken;
  for (auto& of_one_size : sizes) {
    std::vector<Candidate>& candidates = of_one_size.second;
    const bool alike = std::all_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return candidate.numbers == candidates[0].numbers;
    });
    if (alike) continue;
    std::map<std::string, std::vector<Candidate>> classes;
    for (Candidate& candidate : candidates)
      classes[identity(kernel_of(candidate).kernel, candidate.numbers)].push_back(std::move(candidate));
    for (const auto& [text, members] : classes) {
      const std::vector<bool> varies = varying(members);
      if (!any(varies)) continue;
      for (const Candidate& member : members) taken[member.launch] = varies;
    }
  }
  for (const auto& [launch, varies] : taken)
    Extraction(program, std::get<KernelLaunch>(program.launches[launch])).run(varies);
}

}  // namespace rewire::codegen
