#include "runtime/export/onnx_model.h"

#include <fmt/format.h>
#include <onnx_model.pb.h>

#include <filesystem>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/dce.h"
#include "ir/passes/fourier.h"
#include "ir/passes/specialise_training.h"
#include "runtime/export/onnx_translation.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kOperators = 18, kFormat = 8;
constexpr const char* kBatchDimension = "batch";
/// A message of protobuf has less than 2 GiB; names and nodes need some of it.
/// So weights beyond it lie beside the model.
constexpr std::uint64_t kMostInside = (std::uint64_t{2} << 30) - (std::uint64_t{64} << 20);
/// What runtimes map into memory begins at a page; what is smaller stays in the model.
constexpr std::uint64_t kPage = 4096, kSmallest = 1024;

/// Returns the network for inference, of ops that ONNX has.
ir::Module for_inference(const ir::Module& network) {
  ir::Module module = network;
  ir::PassContext context;
  context.fourier = [](const ir::FourierRows& rows) {
    return ir::has_fourier_product(rows) ? ir::FourierWay::product : ir::FourierWay::op;
  };
  ir::specialise_training(module, context);
  for (const ir::Function& function : module.functions)
    if (function.trains) user_error("export: '{}' trains; a model of ONNX is for inference", function.name);
  take_apart(module, [](const ir::Op& op) { return is_onnx(op.code); });
  ir::lower_fourier(module, context);
  ir::dce(module, context);
  return module;
}

void set_attribute(onnx::Attribute& out, const ir::Attribute& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    out.set_i(*number);
    out.set_type(onnx::Attribute::INT);
  } else if (const auto* real = std::get_if<double>(&value)) {
    out.set_f(static_cast<float>(*real));
    out.set_type(onnx::Attribute::FLOAT);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out.set_s(*text);
    out.set_type(onnx::Attribute::STRING);
  } else {
    for (const std::int64_t item : std::get<ir::Ints>(value)) out.add_ints(item);
    out.set_type(onnx::Attribute::INTS);
  }
}

void set_value(onnx::ValueInfo& out, const std::string& name, ir::DType dtype, const ExportShape& shape) {
  out.set_name(name);
  auto& tensor = *out.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<std::int32_t>(onnx_element_type(dtype)));
  tensor.mutable_shape();  // a scalar has a shape too
  for (const ExportExtent& extent : shape) {
    auto& dimension = *tensor.mutable_shape()->add_dim();
    if (extent.coefficient == 0) {
      dimension.set_dim_value(extent.constant);
    } else if (extent == ExportExtent{1, 0}) {
      dimension.set_dim_param(kBatchDimension);
    } else {
      dimension.set_dim_param(fmt::format("{} * {}{}", extent.coefficient, kBatchDimension,
                                          extent.constant == 0 ? "" : fmt::format(" + {}", extent.constant)));
    }
  }
}

void set_entry(onnx::Entry& out, const std::string& key, const std::string& value) {
  out.set_key(key);
  out.set_value(value);
}

/// Puts tensors into the model, or those of some size into the file beside it.
class Initializers {
 public:
  Initializers(onnx::Graph& graph, AtomicFile* beside, std::string location)
      : graph_(graph), beside_(beside), location_(std::move(location)) {}

  void add(const std::string& name, const HostTensor& tensor) {
    onnx::Tensor& out = *graph_.add_initializer();
    out.set_name(name);
    out.set_data_type(static_cast<std::int32_t>(onnx_element_type(tensor.type().dtype)));
    for (const std::int64_t extent : tensor.type().shape) out.add_dims(extent);
    const std::span<const std::byte> bytes = tensor.bytes();
    if (beside_ == nullptr || bytes.size() < kSmallest) {
      out.set_raw_data(bytes.data(), bytes.size());
      return;
    }
    const std::vector<std::byte> gap((kPage - offset_ % kPage) % kPage);
    beside_->write(gap);
    beside_->write(bytes);
    offset_ += gap.size();
    set_entry(*out.add_external_data(), "location", location_);
    set_entry(*out.add_external_data(), "offset", std::to_string(offset_));
    set_entry(*out.add_external_data(), "length", std::to_string(bytes.size()));
    out.set_data_location(onnx::Tensor::EXTERNAL);
    offset_ += bytes.size();
  }

 private:
  onnx::Graph& graph_;
  AtomicFile* beside_;
  std::string location_;
  std::uint64_t offset_ = 0;
};

}  // namespace

std::int64_t onnx_element_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f64:
      return onnx::Tensor::DOUBLE;
    case ir::DType::f32:
      return onnx::Tensor::FLOAT;
    case ir::DType::bf16:
      return onnx::Tensor::BFLOAT16;
    case ir::DType::f16:
      return onnx::Tensor::FLOAT16;
    case ir::DType::i64:
      return onnx::Tensor::INT64;
    case ir::DType::i32:
      return onnx::Tensor::INT32;
    case ir::DType::u8:
      return onnx::Tensor::UINT8;
    case ir::DType::i1:
      return onnx::Tensor::BOOL;
  }
  internal_error("a dtype without a number");
}

std::string onnx_data_file(const std::string& output) {
  std::error_code ignored;  // the file is then made where it is named
  const std::filesystem::path target = std::filesystem::weakly_canonical(output, ignored);
  return (target.empty() ? output : target.string()) + ".data";
}

void write_onnx(const std::string& output, const OnnxRequest& request) {
  const ir::Module small = for_inference(*request.network);
  const ir::Module large = request.larger == nullptr ? ir::Module{} : for_inference(*request.larger);
  ExportFunction forward{.module = &small, .function = &small.function("forward"), .batch = request.batch};
  if (request.larger != nullptr) {
    forward.larger = &large.function("forward");
    forward.larger_batch = request.larger_batch;
  }
  OnnxTranslation translation(forward);
  const OnnxGraph written = translation.take();

  onnx::Model model;
  model.set_ir_version(kFormat);
  model.set_producer_name("rewire");
  model.set_producer_version(REWIRE_VERSION);
  model.add_opset_import()->set_version(kOperators);
  for (const auto& [key, value] : request.metadata) set_entry(*model.add_metadata_props(), key, value);
  onnx::Graph& graph = *model.mutable_graph();
  graph.set_name(small.name.empty() ? "network" : small.name);
  for (const ir::Argument& argument : forward.function->arguments) {
    set_value(*graph.add_input(), argument.name, translation.type(argument.value).dtype,
              translation.extents(argument.value));
  }
  for (const ir::Argument& result : forward.function->results) {
    if (is_onnx_update(forward, result)) continue;
    set_value(*graph.add_output(), result.name, translation.type(result.value).dtype,
              translation.extents(result.value));
  }
  for (const OnnxNode& node : written.nodes) {
    onnx::Node& out = *graph.add_node();
    out.set_op_type(node.type);
    out.set_name(node.name);
    for (const std::string& input : node.inputs) out.add_input(input);
    for (const std::string& result : node.outputs) out.add_output(result);
    for (const auto& [key, value] : node.attributes) {
      onnx::Attribute& attribute = *out.add_attribute();
      attribute.set_name(key);
      set_attribute(attribute, value);
    }
  }
  std::uint64_t bytes = 0;
  for (const std::string& name : written.weights) bytes += request.weights->at(name).bytes().size();
  for (const auto& [name, tensor] : written.constants) bytes += tensor.bytes().size();
  const bool is_external = request.is_external || bytes > kMostInside;
  const std::string beside = onnx_data_file(output);
  std::optional<AtomicFile> data;
  if (is_external) data.emplace(beside);
  Initializers initializers(graph, data ? &*data : nullptr,
                            std::filesystem::path(beside).filename().string());
  for (const std::string& name : written.weights) initializers.add(name, request.weights->at(name));
  for (const auto& [name, tensor] : written.constants) initializers.add(name, tensor);
  std::string text;
  if (!model.SerializeToString(&text)) {
    user_error("export: {} is too large for one file; use --external-data", output);
  }
  AtomicFile file(output);
  file.write(std::as_bytes(std::span(text)));
  if (data) data->commit();  // the two files change together, but for a moment
  file.commit();
}

}  // namespace rewire::runtime
