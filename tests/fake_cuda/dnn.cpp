// The ABI of cuDNN's backend: descriptors are judged as the real one judges them (attributes by kind, type
// and count, what must be final before what), attention and convolutions are what its engines take
// (dnn_engines.h), a graph is computed in double precision and put on a stream like any other work. A test
// may have either refused (controls.h).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ir/error.h"
#include "tests/fake_cuda/dnn_engines.h"
#include "tests/fake_cuda/dnn_graph.h"
#include "tests/fake_cuda/dnn_rules.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/objects.h"
#include "tests/fake_cuda/stream.h"

namespace rewire::fake_cuda::dnn {
namespace {

struct DnnHandle {
  void* stream = nullptr;
};

struct Attribute {
  int type = 0;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;

  template <class Value>
  std::vector<Value> values() const {
    std::vector<Value> list(bytes.size() / sizeof(Value));
    if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    return list;
  }
};

struct Descriptor {
  int kind = 0;
  bool is_final = false;
  std::map<int, Attribute> attributes;
  // What a final one is, of its own kind.
  Tensor tensor = {};
  Operation operation = {};
  Convolution convolution = {};
  std::shared_ptr<const Graph> graph = {};  // of a graph, and of all that is made for one
  std::int64_t engine = 0;                  // of a configuration, an engine, a plan, a knob
  int mode = 0;                             // of a heuristic

  template <class Value = std::int64_t>
  Value one(int attribute, Value otherwise = {}) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? otherwise : found->second.values<Value>().front();
  }
};

Objects<DnnHandle> handles("cudnn handle");
Objects<Descriptor> descriptors("cudnn descriptor");
std::string last_error;

/// What a caller did wrong: a fault beside the answer.
int wrong(const char* call, int status, const std::string& why) {
  last_error = why;
  fault(std::string(call) + ": " + why);
  return status;
}

/// What the library does not do: an answer.
int unsupported(int status, const std::string& why) {
  last_error = why;
  return status;
}

template <class Body>
int guarded(const char* call, Body body) {
  const std::lock_guard lock(World::get().mutex);
  if (const int status = enter(call); status != kGood) return unsupported(status, "a test wants it so");
  return body();
}

Tensor tensor_of(const Descriptor& descriptor) {
  Tensor tensor;
  tensor.id = descriptor.one(906);
  tensor.alignment = descriptor.one(900);
  tensor.type = descriptor.one<int>(901);
  tensor.dims = descriptor.attributes.at(902).values<std::int64_t>();
  tensor.strides = descriptor.attributes.at(903).values<std::int64_t>();
  tensor.is_virtual = descriptor.one<std::uint8_t>(907) != 0;
  tensor.by_value = descriptor.one<std::uint8_t>(908) != 0;
  return tensor;
}

std::string fault_of_tensor(const Tensor& tensor) {
  if (tensor.type != kF32 && tensor.type != kBf16) return "a type that the fake library has not";
  if (tensor.dims.size() != tensor.strides.size()) return "as many strides as dimensions, please";
  if (std::ranges::any_of(tensor.dims, [](std::int64_t dim) { return dim < 1; })) return "no elements";
  if (std::ranges::any_of(tensor.strides, [](std::int64_t stride) { return stride < 1; }))
    return "a stride below 1";
  if (tensor.alignment < 1 || (tensor.alignment & (tensor.alignment - 1)) != 0) return "no such alignment";
  if (tensor.by_value && (tensor.is_virtual || tensor.count() != 1)) return "no value";
  return "";
}

const Tensor& named_tensor(const Descriptor& descriptor, int attribute) {
  return descriptors.find(descriptor.one<void*>(attribute))->tensor;
}

Operation operation_of(const Descriptor& descriptor) {
  const auto of = [&](Operation::Kind kind, int mode, std::vector<int> inputs, int output) {
    Operation operation{kind, mode, {}, named_tensor(descriptor, output)};
    for (const int input : inputs) {
      if (descriptor.attributes.contains(input)) operation.inputs.push_back(named_tensor(descriptor, input));
    }
    return operation;
  };
  const auto mode = [&](int described, int attribute) {
    return descriptors.find(descriptor.one<void*>(described))->one<int>(attribute);
  };
  const auto convolution = [&](Convolution::Product product, int described, std::vector<int> inputs,
                               int output) {
    Operation operation = of(Operation::Kind::convolution, 0, std::move(inputs), output);
    operation.convolution = descriptors.find(descriptor.one<void*>(described))->convolution;
    operation.convolution.product = product;
    return operation;
  };
  switch (descriptor.kind) {
    case kPointwiseOperation:
      return of(Operation::Kind::pointwise, mode(750, 0), {751, 752}, 753);
    case kMatmulOperation:
      return of(Operation::Kind::matmul, 0, {1520, 1521}, 1522);
    case kReductionOperation:
      return of(Operation::Kind::reduction, mode(1612, 1600), {1610}, 1611);
    case kConvolutionForward:
      return convolution(Convolution::Product::forward, 702, {704, 703}, 705);
    case kConvolutionData:
      return convolution(Convolution::Product::data, 708, {711, 709}, 710);
    case kConvolutionFilter:
      return convolution(Convolution::Product::filter, 714, {716, 717}, 715);
    default:
      return of(Operation::Kind::reshape, 0, {2200}, 2201);
  }
}

struct Execution {
  std::shared_ptr<const Graph> graph;
  std::int64_t engine = 0;
  std::map<std::int64_t, void*> memory;
  std::map<std::int64_t, double> values;
  void* workspace = nullptr;
};

void execute(const Execution& execution) {
  for (const auto& [id, tensor] : execution.graph->with_memory()) {
    if (!tensor.by_value &&
        device_bytes_at(execution.memory.at(id)) < static_cast<std::size_t>(tensor.bytes()))
      throw RuntimeFailure("cudnnBackendExecute: tensor " + std::to_string(id) +
                           " does not lie within an allocation");
  }
  const auto workspace = static_cast<std::size_t>(workspace_of(*execution.graph, execution.engine));
  if (device_bytes_at(execution.workspace) < workspace)
    throw RuntimeFailure("cudnnBackendExecute: the workspace does not lie within an allocation");
  if (workspace > 0) std::memset(execution.workspace, 0xFF, workspace);
  run(*execution.graph, execution.memory, execution.values,
      engine_of(*execution.graph, execution.engine).arithmetic);
  World::get().check_guards("cudnnBackendExecute");
}

int complete_convolution(Descriptor& d) {
  const auto list = [&](int attribute) { return d.attributes.at(attribute).values<std::int64_t>(); };
  d.convolution = {{}, list(103), list(102), list(105), list(104)};
  std::string why = fault_of(d.convolution);
  if (d.one(106) != 2) why = "a convolution over other than two dimensions";
  if (d.one<int>(100) != kF32) why = "a convolution that adds in other than f32";
  if (d.one<int>(101) != 1) why = "a convolution that is no cross-correlation";
  return why.empty() ? static_cast<int>(kGood) : wrong("cudnnBackendFinalize", kBadParameter, why);
}

/// What finalizing a descriptor makes of it.
int complete(Descriptor& d) {
  static constexpr const char* kCall = "cudnnBackendFinalize";
  switch (d.kind) {
    case kTensor:
      d.tensor = tensor_of(d);
      if (const std::string why = fault_of_tensor(d.tensor); !why.empty())
        return wrong(kCall, kBadParameter, why);
      return kGood;
    case kPointwiseOperation:
    case kMatmulOperation:
    case kReductionOperation:
    case kReshapeOperation:
      d.operation = operation_of(d);
      return kGood;
    case kConvolution:
      return complete_convolution(d);
    case kConvolutionForward:
    case kConvolutionData:
    case kConvolutionFilter: {
      d.operation = operation_of(d);
      const Operation& op = d.operation;
      const int scales = d.kind == kConvolutionForward ? 700 : d.kind == kConvolutionData ? 706 : 712;
      if (d.one<float>(scales) != 1 || d.one<float>(scales + 1) != 0)
        return wrong(kCall, kBadParameter, "a convolution that is scaled, or added to its result");
      const std::string why = fault_of(op.convolution, op.x(), op.w(), op.y());
      return why.empty() ? static_cast<int>(kGood) : wrong(kCall, kBadParameter, why);
    }
    case kGraph: {
      Graph graph;
      for (void* operation : d.attributes.at(801).values<void*>())
        graph.operations.push_back(descriptors.find(operation)->operation);
      if (const std::string why = fault_of(graph); !why.empty()) return wrong(kCall, kBadParameter, why);
      if (const std::string why = refusal_of(graph); !why.empty()) return unsupported(kUnsupportedGraph, why);
      d.graph = std::make_shared<const Graph>(std::move(graph));
      return kGood;
    }
    case kHeuristic:
      d.graph = descriptors.find(d.one<void*>(201))->graph;
      d.mode = d.one<int>(200);
      return kGood;
    case kPlan: {
      const Descriptor* const config = descriptors.find(d.one<void*>(401));
      if (const int status = enter("cudnnBackendFinalize of a plan"); status != kGood)
        return unsupported(status, "a test wants it so");
      if (refuses_plan(*config->graph, config->engine))
        return unsupported(kUnsupported, "a test wants no plan");
      d.graph = config->graph, d.engine = config->engine;
      return kGood;
    }
    default:
      return kGood;
  }
}

int finalize(Descriptor& d) {
  static constexpr const char* kCall = "cudnnBackendFinalize";
  if (d.is_final) return wrong(kCall, kBadParameter, "it is final already");
  for (const Rule& rule : rules()) {
    if (rule.kind == d.kind && rule.is_required && !d.attributes.contains(rule.attribute))
      return wrong(kCall, kBadParameter, "it lacks attribute " + std::to_string(rule.attribute));
  }
  const int status = complete(d);
  d.is_final = status == kGood;
  return status;
}

int set(Descriptor& d, int attribute, int type, std::int64_t count, const void* array) {
  static constexpr const char* kCall = "cudnnBackendSetAttribute";
  if (d.is_final) return wrong(kCall, kBadParameter, "it is final");
  const auto rule = std::ranges::find_if(
      rules(), [&](const Rule& r) { return r.kind == d.kind && r.attribute == attribute; });
  const std::string name = "attribute " + std::to_string(attribute);
  if (rule == rules().end())
    return wrong(kCall, kBadParameter, "a descriptor of kind " + std::to_string(d.kind) + " has no " + name);
  if (rule->type != type) return wrong(kCall, kWrongType, name + " has another type");
  if (count < 1 || count > rule->most || array == nullptr)
    return wrong(kCall, kBadParameter, name + " has another count");
  Attribute made{type, count,
                 std::vector<std::byte>(static_cast<std::size_t>(count) * attribute_bytes(type))};
  std::memcpy(made.bytes.data(), array, made.bytes.size());
  if (type == kDescriptorType) {
    for (void* named : made.values<void*>()) {
      const Descriptor* const found = descriptors.find(named);
      if (found == nullptr || std::ranges::count(rule->names, found->kind) == 0)
        return wrong(kCall, kBadParameter, name + " names a descriptor of another kind");
      if (!found->is_final) return wrong(kCall, kNotFinal, name + " names what is not final");
    }
  }
  if (type == kHandleType && handles.find(made.values<void*>().front()) == nullptr) return kBadParameter;
  d.attributes.insert_or_assign(attribute, std::move(made));
  return kGood;
}

/// Makes configurations, an engine or a knob of descriptors that the caller has created for that.
int fill(const Descriptor& from, int kind, std::vector<std::int64_t> engines, std::int64_t most,
         std::int64_t* count, void* array) {
  *count = static_cast<std::int64_t>(engines.size());
  if (most == 0) return kGood;
  *count = std::min(*count, most);
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
    Descriptor* const to = descriptors.find(static_cast<void**>(array)[i]);
    if (to == nullptr || to->kind != kind || to->is_final)
      return wrong("cudnnBackendGetAttribute", kBadParameter, "not a fresh descriptor of the right kind");
    to->graph = from.graph, to->engine = engines[i], to->is_final = true;
  }
  return kGood;
}

int get(const Descriptor& d, int attribute, int type, std::int64_t most, std::int64_t* count, void* array) {
  static constexpr const char* kCall = "cudnnBackendGetAttribute";
  if (!d.is_final) return wrong(kCall, kNotFinal, "it is not final");
  const auto number = [&](int expected_type, std::int64_t value) {
    if (type != expected_type || most < 1) return wrong(kCall, kWrongType, "an attribute of another type");
    std::memcpy(array, &value, attribute_bytes(type));
    *count = 1;
    return static_cast<int>(kGood);
  };
  const bool asks_descriptors = type == kDescriptorType;
  if (d.kind == kHeuristic && attribute == 202 && asks_descriptors) {
    std::vector<std::int64_t> engines;
    for (const Engine& engine : engines_of(*d.graph, d.mode)) engines.push_back(engine.index);
    return fill(d, kConfig, engines, most, count, array);
  }
  if (d.kind == kConfig && attribute == 300 && asks_descriptors)
    return fill(d, kEngine, {d.engine}, most, count, array);
  if (d.kind == kConfig && attribute == 302 && asks_descriptors) {
    const bool has_knob = engine_of(*d.graph, d.engine).has_knob;
    return fill(d, kKnob, has_knob ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{}, most, count,
                array);
  }
  if (d.kind == kEngine && attribute == 1303) {
    if (type != kNoteType) return wrong(kCall, kWrongType, "an attribute of another type");
    const std::vector<int> notes = engine_of(*d.graph, d.engine).notes;
    *count = std::min(most, static_cast<std::int64_t>(notes.size()));
    if (*count > 0) std::memcpy(array, notes.data(), static_cast<std::size_t>(*count) * sizeof(int));
    return kGood;
  }
  if ((d.kind == kConfig && attribute == 303) || (d.kind == kPlan && attribute == 402))
    return number(kInt64, workspace_of(*d.graph, d.engine));
  if (d.kind == kEngine && attribute == 1301) return number(kInt64, d.engine);
  if (d.kind == kKnob && attribute == 600) return number(9, 24);
  if (d.kind == kKnob && attribute == 601) return number(kInt64, 7);
  return wrong(kCall, kBadParameter, "nothing to read as attribute " + std::to_string(attribute));
}

/// The variant pack as what is to run; the status of what is wrong with it.
int read_pack(const Descriptor& pack, Execution& execution) {
  static constexpr const char* kCall = "cudnnBackendExecute";
  const std::vector<std::int64_t> ids = pack.attributes.at(1000).values<std::int64_t>();
  const std::vector<void*> pointers = pack.attributes.at(1001).values<void*>();
  const std::map<std::int64_t, Tensor> tensors = execution.graph->with_memory();
  if (ids.size() != pointers.size() || ids.size() != tensors.size())
    return wrong(kCall, kBadParameter, "as many pointers as tensors with memory, please");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = tensors.find(ids[i]);
    if (found == tensors.end() || !execution.memory.emplace(ids[i], pointers[i]).second)
      return wrong(kCall, kBadParameter, "an id that no tensor has, or twice");
    if (pointers[i] == nullptr) return wrong(kCall, kBadParameter, "a tensor without memory");
    if (found->second.by_value) {
      float value = 0;
      std::memcpy(&value, pointers[i], sizeof(value));
      execution.values.emplace(ids[i], value);
    } else if (reinterpret_cast<std::uintptr_t>(pointers[i]) %
                   static_cast<std::uintptr_t>(found->second.alignment) !=
               0) {
      return wrong(kCall, kBadParameter, "a tensor that is aligned to less than its descriptor says");
    }
  }
  execution.workspace = pack.one<void*>(1003);
  if (reinterpret_cast<std::uintptr_t>(execution.workspace) % 256 != 0)
    return wrong(kCall, kBadParameter, "a workspace that is not aligned to 256 bytes");
  return kGood;
}

}  // namespace
}  // namespace rewire::fake_cuda::dnn

namespace dnn = rewire::fake_cuda::dnn;

REWIRE_FAKE_API std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(rewire::fake_cuda::machine().cudnn);
}
REWIRE_FAKE_API std::size_t cudnnGetCudartVersion() {
  return static_cast<std::size_t>(rewire::fake_cuda::machine().cudnn_for);
}
REWIRE_FAKE_API const char* cudnnGetErrorString(int status) {
  return status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS of the fake library";
}
REWIRE_FAKE_API void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t size = std::min(dnn::last_error.size(), bytes - 1);
  std::memcpy(text, dnn::last_error.data(), size);
  text[size] = '\0';
  dnn::last_error.clear();
}

REWIRE_FAKE_API int cudnnCreate(void** handle) {
  return dnn::guarded("cudnnCreate", [&]() -> int {
    if (rewire::fake_cuda::World::get().context_uses == 0)
      return dnn::wrong("cudnnCreate", dnn::kUninitialized, "there is no context");
    *handle = dnn::handles.make({});
    return dnn::kGood;
  });
}
REWIRE_FAKE_API int cudnnDestroy(void* handle) {
  const std::lock_guard lock(rewire::fake_cuda::World::get().mutex);
  const int status = rewire::fake_cuda::enter("cudnnDestroy");
  return dnn::handles.destroy(handle) ? status : dnn::kBadParameter;
}
REWIRE_FAKE_API int cudnnSetStream(void* handle, void* stream) {
  return dnn::guarded("cudnnSetStream", [&]() -> int {
    dnn::DnnHandle* const found = dnn::handles.find(handle);
    if (found == nullptr) return dnn::kBadParameter;
    found->stream = stream;
    return dnn::kGood;
  });
}

REWIRE_FAKE_API int cudnnBackendCreateDescriptor(std::int32_t kind, void** descriptor) {
  static constexpr const char* kCall = "cudnnBackendCreateDescriptor";
  return dnn::guarded(kCall, [&]() -> int {
    if (!dnn::is_kind(kind))
      return dnn::wrong(kCall, dnn::kBadParameter, "a kind that the fake library has not");
    dnn::Descriptor made;
    made.kind = kind;
    *descriptor = dnn::descriptors.make(std::move(made));
    return dnn::kGood;
  });
}
REWIRE_FAKE_API int cudnnBackendDestroyDescriptor(void* descriptor) {
  const std::lock_guard lock(rewire::fake_cuda::World::get().mutex);
  const int status = rewire::fake_cuda::enter("cudnnBackendDestroyDescriptor");
  return dnn::descriptors.destroy(descriptor) ? status : dnn::kBadParameter;
}
REWIRE_FAKE_API int cudnnBackendFinalize(void* descriptor) {
  return dnn::guarded("cudnnBackendFinalize", [&]() -> int {
    dnn::Descriptor* const found = dnn::descriptors.find(descriptor);
    return found == nullptr ? dnn::kBadParameter : dnn::finalize(*found);
  });
}
REWIRE_FAKE_API int cudnnBackendSetAttribute(void* descriptor, std::int32_t attribute, std::int32_t type,
                                             std::int64_t count, const void* array) {
  return dnn::guarded("cudnnBackendSetAttribute", [&]() -> int {
    dnn::Descriptor* const found = dnn::descriptors.find(descriptor);
    return found == nullptr ? dnn::kBadParameter : dnn::set(*found, attribute, type, count, array);
  });
}
REWIRE_FAKE_API int cudnnBackendGetAttribute(void* descriptor, std::int32_t attribute, std::int32_t type,
                                             std::int64_t most, std::int64_t* count, void* array) {
  return dnn::guarded("cudnnBackendGetAttribute", [&]() -> int {
    const dnn::Descriptor* const found = dnn::descriptors.find(descriptor);
    return found == nullptr ? dnn::kBadParameter : dnn::get(*found, attribute, type, most, count, array);
  });
}

REWIRE_FAKE_API int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  static constexpr const char* kCall = "cudnnBackendExecute";
  return dnn::guarded(kCall, [&]() -> int {
    const dnn::DnnHandle* const library = dnn::handles.find(handle);
    const dnn::Descriptor* const what = dnn::descriptors.find(plan);
    const dnn::Descriptor* const where = dnn::descriptors.find(pack);
    if (library == nullptr || what == nullptr || where == nullptr) return dnn::kBadParameter;
    if (what->kind != dnn::kPlan || where->kind != dnn::kPack || !what->is_final || !where->is_final)
      return dnn::wrong(kCall, dnn::kNotFinal, "not a plan and a variant pack that are final");
    dnn::Execution execution;
    execution.graph = what->graph, execution.engine = what->engine;
    if (const int status = dnn::read_pack(*where, execution); status != dnn::kGood) return status;
    const int status =
        rewire::fake_cuda::enqueue(library->stream, kCall, [execution] { dnn::execute(execution); });
    return status == 0 ? dnn::kGood : dnn::wrong(kCall, dnn::kFailed, "the stream takes no work");
  });
}
