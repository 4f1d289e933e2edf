// The C++20 wrapper of rewire_plugin.h: values have operators, joins have fields, and errors are exceptions.
// It is compiled into the plugin and passes only C types and status codes to the host.
//
//   void rewrite(const rewire::plugin::Rewrite& call) {
//     for (const Join& join : call.joins()) join.set_branch(join.branch * call.get_float("factor"));
//   }
//   REWIRE_PLUGIN("gain", "1.0.0", "scales every branch", kParameters, rewrite)
#ifndef REWIRE_PLUGIN_HPP_
#define REWIRE_PLUGIN_HPP_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rewire_plugin.h"

namespace rewire::plugin {

/// Throw Error to refuse a module: the user reads its message after the plugin's name. Any other exception
/// also ends the call with its message, but it counts as an error in the plugin, and `rewire plugin test`
/// fails.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A shape (outermost extent first, each at least 1) or a list of axes.
using Ints = std::vector<std::int64_t>;

/// Element types: floats of 64, 32 and 16 bits (bf16 has f32's range, f16 has more precision), signed
/// integers, bytes, and truth values (i1).
enum class DType : std::uint32_t {
  f64 = REWIRE_F64,
  f32 = REWIRE_F32,
  bf16 = REWIRE_BF16,
  f16 = REWIRE_F16,
  i64 = REWIRE_I64,
  i32 = REWIRE_I32,
  u8 = REWIRE_U8,
  i1 = REWIRE_I1
};

/// The type of a tensor. A scalar has an empty shape.
struct Type {
  DType dtype = DType::f32;
  Ints shape;
  bool operator==(const Type&) const = default;
};

/// A named constant of an op. Examples: {"axes", Ints{-1}}, {"epsilon", 1e-6}, {"descending", true}.
struct Attribute {
  std::string name;
  std::variant<bool, std::int64_t, double, std::string, Ints, std::vector<double>> value;

  Attribute(std::string attribute_name, bool v) : name(std::move(attribute_name)), value(v) {}
  Attribute(std::string attribute_name, std::integral auto v)
      : name(std::move(attribute_name)), value(static_cast<std::int64_t>(v)) {}
  Attribute(std::string attribute_name, double v) : name(std::move(attribute_name)), value(v) {}
  Attribute(std::string attribute_name, const char* v)
      : name(std::move(attribute_name)), value(std::string(v)) {}
  Attribute(std::string attribute_name, Ints v) : name(std::move(attribute_name)), value(std::move(v)) {}
  Attribute(std::string attribute_name, std::vector<double> v)
      : name(std::move(attribute_name)), value(std::move(v)) {}
};

namespace detail {

/// The host table and the call. Objects hold it by value, so no pointer dangles, and the host can refuse an
/// object that is used after its call.
struct Context {
  const rewire_host* host = nullptr;
  rewire_call call = 0;

  [[noreturn]] void fail() const {
    const char* message = host == nullptr ? nullptr : host->error(call);
    if (message == nullptr) throw std::logic_error("an empty value was used");
    throw Error(message);
  }
  void check(std::int32_t status) const {
    if (status != REWIRE_OK) fail();
  }
  rewire_value check(rewire_value value) const {
    if (value.call == 0) fail();
    return value;
  }
  /// Returns `result`, whose type cannot express a failure. Throws if the call has failed.
  template <class T>
  T checked(T result) const {
    if (host->error(call) != nullptr) fail();
    return result;
  }
};

inline rewire_type to_c(const Type& type) {
  if (type.shape.size() > REWIRE_MAX_RANK) throw std::logic_error("a tensor has at most 8 axes");
  rewire_type result{};
  result.dtype = static_cast<std::uint32_t>(type.dtype);
  result.rank = static_cast<std::uint32_t>(type.shape.size());
  std::copy(type.shape.begin(), type.shape.end(), result.shape);
  return result;
}

inline Type from_c(const rewire_type& type) {
  return {static_cast<DType>(type.dtype), Ints(type.shape, type.shape + type.rank)};
}

inline rewire_attribute to_c(const Attribute& attribute) {
  rewire_attribute result{};
  result.name = attribute.name.c_str();
  result.kind = static_cast<std::uint32_t>(attribute.value.index());
  std::visit(
      [&result](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t>) {
          result.integer = v;
        } else if constexpr (std::is_same_v<T, double>) {
          result.real = v;
        } else if constexpr (std::is_same_v<T, std::string>) {
          result.text = v.c_str();
        } else {
          result.count = static_cast<std::uint32_t>(v.size());
          if constexpr (std::is_same_v<T, Ints>) {
            result.integers = v.data();
          } else {
            result.reals = v.data();
          }
        }
      },
      attribute.value);
  return result;
}

}  // namespace detail

/// A tensor value, or an empty value, which converts to false. A copy refers to the same tensor. A value
/// remembers the last join in the network that it depends on. Ops on the value are named after that join.
class Value {
 public:
  Value() = default;
  Value(detail::Context context, std::uint32_t join, rewire_value handle)
      : context_(context), join_(join), handle_(handle) {}
  explicit operator bool() const { return handle_.call != 0; }

  /// Returns dtype and shape. Throws if the value is empty.
  Type type() const {
    rewire_type type;
    if (!*this) context_.fail();
    context_.check(context_.host->type(context_.call, handle_, &type));
    return detail::from_c(type);
  }
  Ints shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }

  // emit() uses these: the call that the value belongs to, its join, and the host's handle.
  detail::Context context() const { return context_; }
  std::uint32_t join() const { return join_; }
  rewire_value handle() const { return handle_; }

 private:
  detail::Context context_;
  std::uint32_t join_ = 0;
  rewire_value handle_{};
};

namespace detail {

inline std::vector<Value> emit(Context context, std::uint32_t join, const char* name,
                               std::span<const Value> operands, std::span<const Attribute> attributes,
                               const std::optional<Type>& type, std::uint32_t results) {
  std::vector<rewire_value> handles;
  for (const Value& operand : operands) {
    if (!operand) throw std::logic_error(std::string(name) + " has an empty operand");
    handles.push_back(operand.handle());
  }
  std::vector<rewire_attribute> c_attributes;
  for (const Attribute& attribute : attributes) c_attributes.push_back(to_c(attribute));
  rewire_type c_type;
  if (type) c_type = to_c(*type);

  rewire_op op{};
  op.name = name;
  op.operands = handles.data();
  op.operand_count = static_cast<std::uint32_t>(handles.size());
  op.attributes = c_attributes.data();
  op.attribute_count = static_cast<std::uint32_t>(c_attributes.size());
  op.type = type ? &c_type : nullptr;
  std::vector<rewire_value> out(results);
  context.check(context.host->emit(context.call, join, &op, out.data(), results));
  std::vector<Value> values;
  for (const rewire_value& handle : out) values.emplace_back(context, join, handle);
  return values;
}

}  // namespace detail

// --- Ops: emit() takes any op by its name; the usual ops have functions -----------------------------------

/// Emits the op `op` of rewire_ops.txt and returns its first result. Pass `type` if the list says "typed".
/// For an op without operands, use Join::emit. Throws Error with the host's message if operands or
/// attributes do not fit.
inline Value emit(const char* op, std::span<const Value> operands,
                  std::initializer_list<Attribute> attributes = {}, const std::optional<Type>& type = {}) {
  std::uint32_t join = 0;
  for (const Value& operand : operands) join = std::max(join, operand.join());
  if (operands.empty()) throw std::logic_error(std::string(op) + " has no operand: emit it at a join");
  return detail::emit(operands.front().context(), join, op, operands, attributes, type, 1).front();
}
inline Value emit(const char* op, std::initializer_list<Value> operands,
                  std::initializer_list<Attribute> attributes = {}, const std::optional<Type>& type = {}) {
  return emit(op, std::span<const Value>(operands.begin(), operands.size()), attributes, type);
}

/// Returns a scalar constant of x's dtype, placed at x's join.
inline Value constant_like(const Value& x, double value) {
  const Attribute attributes[] = {{"value", value}};
  return detail::emit(x.context(), x.join(), "constant", {}, attributes, Type{x.dtype(), {}}, 1).front();
}

// Pointwise ops. Operands broadcast as in NumPy and must
// have one dtype. A number takes the dtype of the value.
// clang-format off
inline Value operator-(const Value& x) { return emit("neg", {x}); }
inline Value operator+(const Value& a, const Value& b) { return emit("add", {a, b}); }
inline Value operator-(const Value& a, const Value& b) { return emit("sub", {a, b}); }
inline Value operator*(const Value& a, const Value& b) { return emit("mul", {a, b}); }
inline Value operator/(const Value& a, const Value& b) { return emit("div", {a, b}); }
inline Value operator+(const Value& a, double b) { return a + constant_like(a, b); }
inline Value operator-(const Value& a, double b) { return a - constant_like(a, b); }
inline Value operator*(const Value& a, double b) { return a * constant_like(a, b); }
inline Value operator/(const Value& a, double b) { return a / constant_like(a, b); }
inline Value operator+(double a, const Value& b) { return constant_like(b, a) + b; }
inline Value operator-(double a, const Value& b) { return constant_like(b, a) - b; }
inline Value operator*(double a, const Value& b) { return constant_like(b, a) * b; }
inline Value operator/(double a, const Value& b) { return constant_like(b, a) / b; }
// These operators assign the result to a. `a += b` sets a to b if a is empty, so that a sum can start with
// an empty value.
inline Value& operator+=(Value& a, const Value& b) { return a = a ? a + b : b; }
inline Value& operator-=(Value& a, const Value& b) { return a = a - b; }
inline Value& operator*=(Value& a, const Value& b) { return a = a * b; }
inline Value& operator/=(Value& a, const Value& b) { return a = a / b; }
inline Value& operator+=(Value& a, double b) { return a = a + b; }
inline Value& operator-=(Value& a, double b) { return a = a - b; }
inline Value& operator*=(Value& a, double b) { return a = a * b; }
inline Value& operator/=(Value& a, double b) { return a = a / b; }

inline Value abs(const Value& x) { return emit("abs", {x}); }
inline Value exp(const Value& x) { return emit("exp", {x}); }
inline Value log(const Value& x) { return emit("log", {x}); }
inline Value sqrt(const Value& x) { return emit("sqrt", {x}); }
inline Value rsqrt(const Value& x) { return emit("rsqrt", {x}); }
inline Value tanh(const Value& x) { return emit("tanh", {x}); }
inline Value erf(const Value& x) { return emit("erf", {x}); }
inline Value sigmoid(const Value& x) { return emit("sigmoid", {x}); }
/// Returns the exact form, with erf. For the tanh form, write emit("gelu", {x}, {{"approximate", "tanh"}}).
inline Value gelu(const Value& x) { return emit("gelu", {x}); }
inline Value silu(const Value& x) { return emit("silu", {x}); }
/// Returns max(x, 0). The gradient at 0 is 0.
inline Value relu(const Value& x) { return emit("relu", {x}); }
/// Returns x, but no gradient flows back through it, as with detach() in PyTorch.
inline Value stop_gradient(const Value& x) { return emit("stop_gradient", {x}); }
// If a and b are equal, each of them gets half the gradient.
inline Value maximum(const Value& a, const Value& b) { return emit("maximum", {a, b}); }
inline Value minimum(const Value& a, const Value& b) { return emit("minimum", {a, b}); }
/// Returns a^b. Either a > 0, or b is a whole number.
inline Value pow(const Value& a, const Value& b) { return emit("pow", {a, b}); }
/// Returns an i1 tensor. `direction` is one of lt, le, gt, ge, eq and ne.
inline Value compare(const char* direction, const Value& a, const Value& b) {
  return emit("compare", {a, b}, {{"direction", direction}});
}
/// Returns, for each element, if_true where `condition` (i1) is true, else if_false, as torch.where does.
inline Value select(const Value& condition, const Value& if_true, const Value& if_false) {
  return emit("select", {condition, if_true, if_false});
}
// clang-format on

/// Converts x to `dtype`; returns x itself if it has that dtype.
inline Value cast(const Value& x, DType dtype) {
  const Type type = x.type();
  return type.dtype == dtype ? x : emit("cast", {x}, {}, Type{dtype, type.shape});
}

/// Returns x in f32 if its dtype is narrower, else x. Use it for the operands of sums.
inline Value at_least_f32(const Value& x) {
  const DType dtype = x.dtype();
  return dtype == DType::bf16 || dtype == DType::f16 ? cast(x, DType::f32) : x;
}

// Reductions keep the reduced axes with extent 1. A negative axis counts from
// the end. Without axes they reduce all axes: mean(g) is [1, 1, 1] for tokens
// and [1, 1, 1, 1] for feature maps. In max, ties share the gradient evenly.
inline Value sum(const Value& x, const Ints& axes) {
  return emit("sum", {x}, {{"axes", axes}});
}
inline Value max(const Value& x, const Ints& axes) {
  return emit("max", {x}, {{"axes", axes}});
}
inline Value mean(const Value& x, const Ints& axes) {
  const auto elements = [](const Value& v) {
    double count = 1;
    for (std::int64_t extent : v.shape()) count *= static_cast<double>(extent);
    return count;
  };
  const Value total = sum(x, axes);
  return total / (elements(x) / elements(total));
}
/// Returns the axes 0 to rank - 1.
inline Ints all_axes(const Value& x) {
  Ints axes(x.shape().size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = static_cast<std::int64_t>(axis);
  return axes;
}
// These functions reduce all axes. They return a scalar unchanged, because it has no axes.
inline Value sum(const Value& x) {
  const Ints axes = all_axes(x);
  return axes.empty() ? x : sum(x, axes);
}
inline Value max(const Value& x) {
  const Ints axes = all_axes(x);
  return axes.empty() ? x : max(x, axes);
}
inline Value mean(const Value& x) {
  const Ints axes = all_axes(x);
  return axes.empty() ? x : mean(x, axes);
}

/// Returns exp(x - max) divided by its sum along the axis, in x's shape.
inline Value softmax(const Value& x, std::int64_t axis) {
  return emit("softmax", {x}, {{"axis", axis}});
}
/// Returns the elements of x, in row-major order, in a shape with the same number of elements.
inline Value reshape(const Value& x, const Ints& shape) {
  return emit("reshape", {x}, {}, Type{x.dtype(), shape});
}
/// Permutes axes: axis i of the result is axis permutation[i] of x.
inline Value transpose(const Value& x, const Ints& permutation) {
  return emit("transpose", {x}, {{"permutation", permutation}});
}
/// Returns the elements of one axis from `start` up to, but not including, `limit`.
inline Value slice(const Value& x, std::int64_t axis, std::int64_t start, std::int64_t limit) {
  Ints limits = x.shape();
  Ints starts(limits.size(), 0);
  const auto i = static_cast<std::size_t>(axis < 0 ? axis + std::ssize(limits) : axis);
  starts.at(i) = start;
  limits.at(i) = limit;
  return emit("slice", {x}, {{"starts", starts}, {"limits", limits}});
}
/// Concatenates the parts along the axis; all other extents must be equal.
inline Value concat(std::span<const Value> parts, std::int64_t axis) {
  return emit("concat", parts, {{"axis", axis}});
}
inline Value concat(std::initializer_list<Value> parts, std::int64_t axis) {
  return concat(std::span<const Value>(parts.begin(), parts.size()), axis);
}
/// Returns the product of a [..., m, k] and b [..., k, n], which is [..., m, n]. Either the leading axes are
/// equal, or b has rank 2 and is used for all of them. transpose_a and transpose_b first swap the last two
/// axes of a or b.
inline Value matmul(const Value& a, const Value& b, bool transpose_a = false, bool transpose_b = false) {
  return emit("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// --- Joins and weights ------------------------------------------------------------------------------------

/// The initial values of a new weight. Random ones are drawn from the seed and the weight's name. Use the
/// static functions to make an Init.
struct Init {
  std::uint32_t kind = REWIRE_INIT_ZEROS;  // a REWIRE_INIT_… constant, which defines the meaning of a and b
  double a = 0;
  double b = 0;
  std::vector<double> numbers = {};  // the numbers of values()

  static Init zeros() { return {}; }
  static Init ones() { return {REWIRE_INIT_ONES, 0, 0}; }
  static Init constant(double value) { return {REWIRE_INIT_CONSTANT, value, 0}; }
  /// Takes the given numbers, row-major, one per element.
  static Init values(std::vector<double> numbers) { return {REWIRE_INIT_ZEROS, 0, 0, std::move(numbers)}; }
  /// Draws normal numbers with mean 0.
  static Init normal(double std) { return {REWIRE_INIT_NORMAL, std, 0}; }
  /// Draws normal numbers with mean 0, none beyond +-cut.
  /// The cut is in the weight's units, not in deviations.
  static Init trunc_normal(double std, double cut) { return {REWIRE_INIT_TRUNC_NORMAL, std, cut}; }
  /// Draws uniform numbers in [low, high).
  static Init uniform(double low, double high) { return {REWIRE_INIT_UNIFORM, low, high}; }
  /// Draws uniform numbers in +-sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010). The fans are the
  /// last two axes, out by in.
  static Init xavier_uniform() { return {REWIRE_INIT_XAVIER_UNIFORM, 0, 0}; }
};

/// How a weight trains. `decay` is with weight decay, as for matrices. `no_decay` is without, as for norms
/// and biases. A `frozen` weight does not train.
enum class Group { decay, no_decay, frozen };

/// Optimizer settings of one weight. An empty field keeps the run's value.
struct WeightHint {
  std::optional<double> lr_scale = {};      // multiplies the run's learning rate; finite, > 0
  std::optional<double> weight_decay = {};  // replaces the run's weight decay; finite, >= 0; 0: none
  std::optional<double> beta1 = {};         // in [0, 1); optimizers without betas (SGD) ignore both
  std::optional<double> beta2 = {};
};

/// Facts about a weight of the model. Initialise::read and Initialise::write access its values.
struct Weight {
  std::string name;         // full name: "blocks.3.attn.qkv.weight"
  std::string role;         // "norm", "qkv", "proj", "fc1", "fc2", "conv", ...
  std::string site;         // the site of its branch; "" outside a branch
  std::int64_t block = -1;  // -1 outside the blocks
  bool trainable = false;   // whether an optimizer changes it
  bool decay = false;       // whether it is in the weight-decay group
  Type type;

  explicit Weight(const rewire_weight& weight)
      : name(weight.name),
        role(weight.role),
        site(weight.site),
        block(weight.block),
        trainable(weight.trainable != 0),
        decay(weight.decay != 0),
        type(detail::from_c(weight.type)) {}

  /// Returns the number of elements, the product of the extents.
  std::size_t elements() const {
    std::size_t count = 1;
    for (std::int64_t extent : type.shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

/// A line of the plugin's source. It replaces std::source_location, which clang 14 lacks.
struct Place {
  const char* file;
  int line;
  /// Returns the place of the call that uses it as a default argument.
  static constexpr Place current(const char* file_name = __builtin_FILE(),
                                 int line_number = __builtin_LINE()) {
    return {file_name, line_number};
  }
};

/// A residual join, where a branch is added to the stream. Its fields are facts, and its functions access
/// its slots. In initialise(), its values are empty.
class Join {
 public:
  Join(detail::Context context, std::uint32_t index) : context_(context), index_(index) {
    const rewire_join join = read();
    name = join.name;
    site = join.site;
    scope = join.scope;
    last_weight = join.last_weight;
    block = join.block;
    stage = join.stage;
    join_index = join.join_index;
    join_count = join.join_count;
    heads = join.heads;
    block_count = join.block_count;
    drop_path = join.drop_path;
    batch_axis = join.batch_axis;
    token_axis = join.token_axis;
    channel_axis = join.channel_axis;
    stream = from_host(join.stream);
    branch = from_host(join.branch);
    input = from_host(join.input);
  }

  std::string name;                       // "blocks.3.attn"; "decoder_blocks.3.attn"
  std::string site;                       // "attn", "mlp", "conv"
  std::string scope;                      // "encoder", "decoder"
  std::string last_weight;                // full name of the weight that ends the branch
  std::int64_t block, stage;              // counted from 0
  std::int64_t join_index, join_count;    // over all joins of the scope; filters do not renumber them
  std::int64_t heads;                     // attention heads; 0 if there are none
  std::int64_t batch_axis;                // the batch axis of stream and branch, counted from 0
  std::int64_t token_axis, channel_axis;  // in [N, C, H, W]: 2, the first spatial axis; and 1
  std::int64_t block_count;               // blocks of the join's scope; filters do not change it
  double drop_path;                       // the rate at which training drops a sample's branch; 0: never
  Value stream;                           // x: [N, T, D] or [N, C, H, W]
  Value branch;                           // f, after drop path; it has the stream's type
  Value input;                            // the branch's input: LN(x) in a pre-norm block

  /// Returns all axes of the stream except the batch axis.
  Ints axes_within_sample() const {
    Ints axes;
    for (std::int64_t axis = 0; axis < std::ssize(stream.shape()); ++axis) {
      if (axis != batch_axis) axes.push_back(axis);
    }
    return axes;
  }

  /// Returns the axes of the tokens or pixels: {1} for [N, T, D], {2, 3} for [N, C, H, W].
  Ints token_axes() const {
    Ints axes = axes_within_sample();
    std::erase(axes, channel_axis);
    return axes;
  }

  /// Returns the stream's shape with every extent but the channels' set to 1: [1, 1, D] or [1, C, 1, 1]. Use
  /// it for a weight with one number per channel, which broadcasts over the other axes.
  Ints channel_shape() const {
    const Ints shape = stream.shape();
    Ints result(shape.size(), 1);
    const auto axis = static_cast<std::size_t>(channel_axis);
    result.at(axis) = shape.at(axis);
    return result;
  }

  /// Returns the weights that the branch reads. With a role, returns only the weights of that role: "norm",
  /// "qkv", "proj", "fc1", "fc2", "conv".
  std::vector<Weight> weights(std::string_view role = {}) const {
    std::vector<Weight> result;
    for (std::uint32_t i = 0; i < read().weight_count; ++i) {
      rewire_weight weight{};
      weight.size = sizeof(weight);
      context_.check(context_.host->join_weight(context_.call, index_, i, &weight));
      if (role.empty() || role == weight.role) result.emplace_back(weight);
    }
    return result;
  }

  /// Returns the weight and, if it has one, the bias of the branch's last layer.
  std::vector<Weight> last_layer() const {
    std::vector<Weight> all = weights();
    const std::string layer = last_weight.substr(0, last_weight.rfind('.'));
    std::erase_if(all, [&](const Weight& weight) {
      return weight.name != last_weight && weight.name != layer + ".bias";
    });
    return all;
  }

  // These functions return the current terms of the sum.
  Value shortcut() const { return from_host(read().shortcut); }
  Value branch_slot() const { return from_host(read().branch_slot); }
  std::vector<Value> paths() const {
    std::vector<Value> result;
    for (std::uint32_t i = 0; i < read().path_count; ++i) {
      result.push_back(from_host(context_.check(context_.host->join_path(context_.call, index_, i))));
    }
    return result;
  }

  /// Returns the current sum of the terms: the join's result.
  Value sum() const {
    Value total = shortcut();
    total += branch_slot();
    for (const Value& path : paths()) total += path;
    return total;
  }

  // Setting or clearing a slot claims it for this plugin. It throws Error if another plugin has claimed the
  // slot. Adding a path claims nothing. Each value must have the stream's type.
  void set_shortcut(const Value& v, Place place = Place::current()) const {
    set("set_shortcut", context_.host->set_shortcut, v, place);
  }
  void clear_shortcut() const { context_.check(context_.host->clear_shortcut(context_.call, index_)); }
  void set_branch(const Value& v, Place place = Place::current()) const {
    set("set_branch", context_.host->set_branch, v, place);
  }
  void add_path(const Value& v, Place place = Place::current()) const {
    set("add_path", context_.host->add_path, v, place);
  }
  /// Makes v the join's result, x' = v. Claims both slots and all paths. Throws Error if any of them was
  /// set, changed or added before. After set_sum, only change_sum is allowed at this join.
  void set_sum(const Value& v, Place place = Place::current()) const {
    set("set_sum", context_.host->set_sum, v, place);
  }
  // These functions replace the current shortcut(), branch_slot() or sum() by v. Compute
  // v from the value that it replaces. The functions claim nothing. Several plugins may
  // use them, and their changes apply in the order in which the user names the plugins. A
  // plugin that sets a slot must be named before a plugin that changes it. A plugin that
  // sets, changes or adds a term must be named before a plugin that changes the sum.
  void change_shortcut(const Value& v, Place place = Place::current()) const {
    set("change_shortcut", context_.host->change_shortcut, v, place);
  }
  void change_branch(const Value& v, Place place = Place::current()) const {
    set("change_branch", context_.host->change_branch, v, place);
  }
  void change_sum(const Value& v, Place place = Place::current()) const {
    set("change_sum", context_.host->change_sum, v, place);
  }

  // Values within the network, by their role at this join:
  //   "norm_input"  the input of the branch's norm, of the stream's type: x in a pre-norm block
  //   "input"       the branch's input: the norm's result
  //   "q" "k" "v"   the operands of the branch's attention, [batch, heads, tokens, width of a head]
  //   "attention"   the result of the branch's attention
  //   "hidden"      the input of the branch's last layer
  //   "entry"       the stream of the scope's first join: the embedding
  //   "exit"        the result of the scope's last join, which the final norm reads
  bool has(const std::string& role) const {
    return context_.checked(context_.host->role_value(context_.call, index_, role.c_str())).call != 0;
  }
  /// Returns the current value of a role. Throws Error if the join has none.
  Value value(const std::string& role) const {
    const rewire_value found =
        context_.checked(context_.host->role_value(context_.call, index_, role.c_str()));
    if (found.call == 0)
      throw Error(name + " has no '" + role + "'; leave it out by sites=, layers= or stages=");
    return from_host(found);
  }
  /// Makes every reader of the value read v instead. For the roles "norm_input" to "hidden", it affects only
  /// readers in the branch. v has the same type. If another plugin has replaced the value before, v must be
  /// computed from that replacement. "input" and "exit" can be replaced once.
  void replace(const std::string& role, const Value& v, Place place = Place::current()) const {
    const auto replace_value = [&role, this](rewire_call call, std::uint32_t index, rewire_value handle) {
      return context_.host->replace_value(call, index, role.c_str(), handle);
    };
    set("replace", replace_value, v, place);
  }
  /// Makes the branch read v instead of the norm's result. It is the same as replace("input", v).
  void set_input(const Value& v, Place place = Place::current()) const { replace("input", v, place); }

  /// Emits an op at this join. Use it for ops without operands, and for ops that must be placed here.
  Value emit(const char* op, std::initializer_list<Value> operands = {},
             std::initializer_list<Attribute> attributes = {}, const std::optional<Type>& type = {}) const {
    return detail::emit(context_, index_, op, operands, attributes, type, 1).front();
  }
  /// Returns a tensor of this type whose elements are all v.
  Value constant(double v, const Type& type) const { return emit("constant", {}, {{"value", v}}, type); }
  /// Returns an i1 scalar: true in a training step, false in evaluation and inference.
  Value is_training() const { return take(context_.host->is_training(context_.call, index_)); }
  /// Returns uniform numbers in [0, 1), which are new in every step.
  /// Each (join, plugin, name) has a random stream of its own.
  Value rng_stream(const char* stream_name, const Type& type) const {
    const rewire_type c_type = detail::to_c(type);
    return take(context_.host->rng_stream(context_.call, index_, stream_name, &c_type));
  }
  /// Adds a weight of this type and returns its value. Its full name is "blocks.3.join_attn.<name>".
  Value add_weight(const char* weight_name, const Type& type, Init init, Group group) const {
    const rewire_type c_type = detail::to_c(type);
    rewire_new_weight weight{};
    weight.name = weight_name;
    weight.type = &c_type;
    weight.init = init.kind;
    weight.a = init.a;
    weight.b = init.b;
    weight.trainable = group != Group::frozen;
    weight.decay = group == Group::decay;
    if (!init.numbers.empty()) {
      return take(context_.host->add_weight_of(context_.call, index_, &weight, init.numbers.data(),
                                               init.numbers.size()));
    }
    return take(context_.host->add_weight(context_.call, index_, &weight));
  }
  /// Adds a weight and returns its value, cast to the stream's dtype. The weight is stored in f32, which
  /// optimizers need, whatever the stream's dtype. If the stream is f64, it is stored in f64.
  Value add_weight(const char* weight_name, const Ints& shape, Init init, Group group) const {
    const DType dtype = stream.dtype();
    const DType kept = dtype == DType::f64 ? DType::f64 : DType::f32;
    return cast(add_weight(weight_name, Type{kept, shape}, init, group), dtype);
  }
  /// Adds a weight of one number, stored in the same way. Its shape is [1], which broadcasts to any shape.
  Value add_scalar(const char* weight_name, Init init, Group group = Group::no_decay) const {
    return add_weight(weight_name, Ints{1}, init, group);
  }
  Value add_scalar(const std::string& weight_name, Init init, Group group = Group::no_decay) const {
    return add_scalar(weight_name.c_str(), init, group);
  }
  Value add_weight(const std::string& weight_name, const Type& type, Init init, Group group) const {
    return add_weight(weight_name.c_str(), type, init, group);
  }
  Value add_weight(const std::string& weight_name, const Ints& shape, Init init, Group group) const {
    return add_weight(weight_name.c_str(), shape, init, group);
  }
  /// Returns the value of any weight of the module, by the weight's full name.
  Value weight_value(const std::string& full_name) const {
    return take(context_.host->weight_value(context_.call, index_, full_name.c_str()));
  }

  // Hooks: what a training step does in addition to the forward pass. Name a weight as in add_weight at this
  // join, or by its full name. A scalar is a float value with one element.
  /// Sets optimizer settings of a weight. Throws Error if an earlier hint gave one of them another number,
  /// or if the weight does not train.
  void weight_hint(const std::string& weight, const WeightHint& hint) const {
    rewire_weight_hint c{};
    c.size = sizeof(c);
    const auto give = [&c](std::uint32_t field, double& to, const std::optional<double>& from) {
      if (!from) return;
      c.fields |= field;
      to = *from;
    };
    give(REWIRE_HINT_LR_SCALE, c.lr_scale, hint.lr_scale);
    give(REWIRE_HINT_WEIGHT_DECAY, c.weight_decay, hint.weight_decay);
    give(REWIRE_HINT_BETA1, c.beta1, hint.beta1);
    give(REWIRE_HINT_BETA2, c.beta2, hint.beta2);
    context_.check(context_.host->weight_hint(context_.call, index_, weight.c_str(), &c));
  }
  /// Adds "report.<join>.<plugin>.<name>" to the training lines of metrics.jsonl: the scalar's mean over the
  /// line's steps. Throws Error if this plugin has already reported this name at this join.
  void report(const std::string& report_name, const Value& scalar, Place place = Place::current()) const {
    hook("report", context_.host->report, report_name, scalar, place);
  }
  /// Returns an f32 scalar: the share of the run's optimizer steps that are done, 0 in the first step and
  /// below 1 in the last. In evaluation, it is the share that was done when the weights were saved.
  Value progress() const { return take(context_.host->progress(context_.call, index_)); }
  /// Adds a term to the training loss. The loss in evaluation does not include it.
  void add_loss(const Value& scalar, Place place = Place::current()) const {
    set("add_loss", context_.host->add_loss, scalar, place);
  }
  /// Makes each training step set a frozen weight to v, which has the weight's shape. The forward pass of
  /// that step still reads the old value.
  void update_state(const std::string& weight, const Value& v, Place place = Place::current()) const {
    hook("update_state", context_.host->update_state, weight, v, place);
  }
  /// Sets the weight to v after every optimizer update. v has the weight's shape. Write v as a function of
  /// the weight (the value that add_weight or weight_value returns) and of frozen weights; it is evaluated
  /// with the optimizer's new value of the weight.
  void after_step(const std::string& weight, const Value& v, Place place = Place::current()) const {
    hook("after_step", context_.host->after_step, weight, v, place);
  }

 private:
  rewire_join read() const {
    rewire_join join{};
    join.size = sizeof(join);
    context_.check(context_.host->join(context_.call, index_, &join));
    return join;
  }
  Value from_host(rewire_value handle) const { return {context_, index_, handle}; }
  Value take(rewire_value handle) const { return from_host(context_.check(handle)); }
  /// Calls a host function. An error message names the line of the plugin that made the call.
  template <class Function>
  void set(const char* what, const Function& function, const Value& v, const Place& place) const {
    at_place(what, v, place, [&] { return function(context_.call, index_, v.handle()); });
  }
  using Hook = std::int32_t (*)(rewire_call, std::uint32_t, const char*, rewire_value);
  void hook(const char* what, Hook function, const std::string& hooked, const Value& v,
            const Place& place) const {
    at_place(what, v, place, [&] { return function(context_.call, index_, hooked.c_str(), v.handle()); });
  }
  template <class Function>
  void at_place(const char* what, const Value& v, const Place& place, const Function& function) const {
    const std::string file = place.file;
    const std::string at =
        std::string(what) + ", " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line);
    if (!v) throw std::logic_error("a value for " + name + " is empty (" + at + ")");
    context_.check(context_.host->locate(context_.call, at.c_str()));
    context_.check(function());
    context_.check(context_.host->locate(context_.call, nullptr));
  }

  detail::Context context_;
  std::uint32_t index_;
};

/// Moves the channels of a value of this rank from the join's channel axis to the last one, and back. Use it around
/// ops over the last axis: matmul, layer_norm, rms_norm. It adds no op where the channels are last.
class ChannelsLast {
 public:
  ChannelsLast(const Join& join, std::int64_t rank) : moves_(join.channel_axis != rank - 1) {
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != join.channel_axis) there_.push_back(axis);
      back_.push_back(axis == join.channel_axis ? rank - 1 : axis - (axis > join.channel_axis ? 1 : 0));
    }
    there_.push_back(join.channel_axis);
  }
  Value there(const Value& x) const { return moves_ ? transpose(x, there_) : x; }
  Value back(const Value& x) const { return moves_ ? transpose(x, back_) : x; }

 private:
  bool moves_;
  Ints there_, back_;
};

// --- The two calls ----------------------------------------------------------------------------------------

/// The results of Call::qr (a = q r) and Call::svd (a = u diag(s) vt), row-major, for `count` matrices.
struct Qr {
  std::vector<double> q, r;
};
struct Svd {
  std::vector<double> u, s, vt;
};

/// What both calls offer: parameters, the seed, the joins
/// that pass the user's filters, decompositions, the log.
class Call {
 public:
  Call(const rewire_host* host, rewire_call call) : context_{host, call} {}

  // These return the value of a parameter. They throw Error if the schema has no such name or another kind.
  bool get_bool(const char* name) const {
    return context_.checked(context_.host->get_bool(context_.call, name)) != 0;
  }
  std::int64_t get_int(const char* name) const {
    return context_.checked(context_.host->get_int(context_.call, name));
  }
  double get_float(const char* name) const {
    return context_.checked(context_.host->get_float(context_.call, name));
  }
  /// Returns the value of a str or enum parameter.
  std::string get_text(const char* name) const {
    return context_.checked(context_.host->get_text(context_.call, name));
  }
  /// Returns the seed of the run.
  std::uint64_t seed() const { return context_.checked(context_.host->seed(context_.call)); }

  /// Returns the joins that pass the user's filters, in network order.
  std::vector<Join> joins() const {
    const std::uint32_t count = context_.checked(context_.host->join_count(context_.call));
    std::vector<Join> result;
    for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(context_, i);
    return result;
  }

  /// Decomposes each matrix a = q r. It needs rows >= cols. q [rows, cols] has orthonormal columns, and r
  /// [cols, cols] is upper triangular with a diagonal >= 0.
  Qr qr(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols) const {
    if (a.size() != count * rows * cols)
      throw std::logic_error("qr: the number of elements does not fit the matrices' sizes");
    Qr result{std::vector<double>(a.size()), std::vector<double>(count * cols * cols)};
    context_.check(
        context_.host->qr(context_.call, count, rows, cols, a.data(), result.q.data(), result.r.data()));
    return result;
  }
  /// Decomposes each matrix a = u diag(s) vt. With k = min(rows, cols), u is [rows, k], s is [k] in
  /// descending order, and vt is [k, cols]. In each column of u, the entry of largest magnitude is > 0.
  Svd svd(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols) const {
    if (a.size() != count * rows * cols)
      throw std::logic_error("svd: the number of elements does not fit the matrices' sizes");
    const std::size_t k = std::min(rows, cols);
    Svd result{std::vector<double>(count * rows * k), std::vector<double>(count * k),
               std::vector<double>(count * k * cols)};
    context_.check(context_.host->svd(context_.call, count, rows, cols, a.data(), result.u.data(),
                                      result.s.data(), result.vt.data()));
    return result;
  }

  /// Computes only the first `largest` triples of svd. This is several times as fast if they are few. For
  /// each matrix, u is [rows, largest], s is [largest] and vt is [largest, cols].
  Svd svd_of_largest(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols,
                     std::size_t largest) const {
    if (a.size() != count * rows * cols || largest > std::min(rows, cols))
      throw std::logic_error("svd_of_largest: the number of elements does not fit the matrices' sizes");
    Svd result{std::vector<double>(count * rows * largest), std::vector<double>(count * largest),
               std::vector<double>(count * largest * cols)};
    context_.check(context_.host->svd_of_largest(context_.call, count, rows, cols, largest, a.data(),
                                                 result.u.data(), result.s.data(), result.vt.data()));
    return result;
  }

  /// Writes a line to the user's log, after the plugin's
  /// name. `level` is REWIRE_LOG_DEBUG, _INFO or _WARNING.
  void log(std::uint32_t level, const std::string& message) const {
    context_.host->log(context_.call, level, message.c_str());
  }

 protected:
  detail::Context context_;
};

/// The argument of `rewrite`. It is valid until rewrite returns, and so are all values that it returned.
class Rewrite : public Call {
 public:
  using Call::Call;
};

/// The argument of `initialise`. It gives access to fresh weights,
/// as the model and the earlier plugins initialised them.
class Initialise : public Call {
 public:
  using Call::Call;

  /// Returns all weights of the module.
  std::vector<Weight> weights() const {
    const std::uint32_t count = context_.checked(context_.host->weight_count(context_.call));
    std::vector<Weight> result;
    for (std::uint32_t i = 0; i < count; ++i) {
      rewire_weight weight{};
      weight.size = sizeof(weight);
      context_.check(context_.host->weight(context_.call, i, &weight));
      result.emplace_back(weight);
    }
    return result;
  }
  /// Returns the weight's values, row-major, as doubles whatever its dtype.
  std::vector<double> read(const Weight& weight) const {
    std::vector<double> data(weight.elements());
    context_.check(context_.host->read_weight(context_.call, weight.name.c_str(), data.data(), data.size()));
    return data;
  }
  /// Writes the weight's values; `data` has one number per element.
  void write(const Weight& weight, std::span<const double> data) const {
    context_.check(context_.host->write_weight(context_.call, weight.name.c_str(), data.data(), data.size()));
  }
  // These random numbers depend only on the seed, the plugin's name, `stream` and the index.
  /// Returns uniform numbers in [0, 1).
  std::vector<double> uniform(const std::string& stream, std::size_t count) const {
    return draw(context_.host->draw_uniform, stream, count);
  }
  /// Returns normal numbers with mean 0 and standard deviation 1.
  std::vector<double> normal(const std::string& stream, std::size_t count) const {
    return draw(context_.host->draw_normal, stream, count);
  }

 private:
  std::vector<double> draw(std::int32_t (*function)(rewire_call, const char*, double*, std::uint64_t),
                           const std::string& stream, std::size_t count) const {
    std::vector<double> data(count);
    context_.check(function(context_.call, stream.c_str(), data.data(), data.size()));
    return data;
  }
};

// --- The schema and the descriptor ------------------------------------------------------------------------

/// The range of a number. It includes both ends, unless the flags exclude them.
struct Bounds {
  std::uint32_t flags = 0;
  double min = 0;
  double max = 0;
};
constexpr Bounds at_least(double min) {
  return {REWIRE_MIN, min, 0};
}
constexpr Bounds above(double min) {
  return {REWIRE_MIN | REWIRE_MIN_EXCLUDED, min, 0};
}
constexpr Bounds between(double min, double max) {
  return {REWIRE_MIN | REWIRE_MAX, min, max};
}

// These functions make a parameter from its name ([a-z][a-z0-9_]*), its default as a user would write it,
// and one line of documentation. The texts must live as long as the library, as literals do.
constexpr rewire_parameter bool_parameter(const char* name, const char* default_value, const char* doc) {
  return {name, default_value, doc, nullptr, REWIRE_PARAMETER_BOOL, 0, 0, 0};
}
constexpr rewire_parameter int_parameter(const char* name, const char* default_value, const char* doc,
                                         Bounds bounds = {}) {
  return {name, default_value, doc, nullptr, REWIRE_PARAMETER_INT, bounds.flags, bounds.min, bounds.max};
}
constexpr rewire_parameter float_parameter(const char* name, const char* default_value, const char* doc,
                                           Bounds bounds = {}) {
  return {name, default_value, doc, nullptr, REWIRE_PARAMETER_FLOAT, bounds.flags, bounds.min, bounds.max};
}
/// `values` lists the choices: "feature|global".
constexpr rewire_parameter enum_parameter(const char* name, const char* default_value, const char* values,
                                          const char* doc) {
  return {name, default_value, doc, values, REWIRE_PARAMETER_ENUM, 0, 0, 0};
}
constexpr rewire_parameter text_parameter(const char* name, const char* default_value, const char* doc) {
  return {name, default_value, doc, nullptr, REWIRE_PARAMETER_STR, 0, 0, 0};
}
/// The schema of a plugin without parameters.
inline constexpr std::span<const rewire_parameter> kNoParameters;

namespace detail {

/// Calls the author's function from the C boundary. No
/// exception leaves it, and the host keeps the first error.
template <class CallType, auto Function>
std::int32_t boundary(const rewire_host* host, rewire_call call) noexcept {
  try {
    Function(CallType(host, call));
    return REWIRE_OK;
  } catch (const Error& e) {
    host->set_error(call, e.what());
    return REWIRE_ERROR;
  } catch (const std::exception& e) {
    host->set_error(call, e.what());
  } catch (...) {
    host->set_error(call, "it threw something other than a std::exception");
  }
  return REWIRE_FAULT;
}

template <auto RewriteFunction, auto InitialiseFunction = nullptr>
constexpr rewire_plugin describe(const char* name, const char* version, const char* doc,
                                 std::span<const rewire_parameter> parameters) {
  rewire_plugin plugin{};
  plugin.magic = REWIRE_PLUGIN_MAGIC;
  plugin.size = sizeof(rewire_plugin);
  plugin.abi = REWIRE_ABI_VERSION;
  plugin.sanitizer = REWIRE_SANITIZER;
  plugin.build_id = REWIRE_BUILD_ID;
  plugin.name = name;
  plugin.version = version;
  plugin.doc = doc;
  plugin.parameters = parameters.data();
  plugin.parameter_count = static_cast<std::uint32_t>(parameters.size());
  plugin.parameter_size = sizeof(rewire_parameter);
  plugin.rewrite = &boundary<Rewrite, RewriteFunction>;
  if constexpr (!std::is_null_pointer_v<decltype(InitialiseFunction)>) {
    plugin.initialise = &boundary<Initialise, InitialiseFunction>;
  }
  return plugin;
}

}  // namespace detail
}  // namespace rewire::plugin

/// REWIRE_PLUGIN(name, version, doc, parameters, rewrite [, initialise]) defines the plugin's exported
/// symbol. Use it once in the library, outside any namespace. rewrite: void(const rewire::plugin::Rewrite&);
/// initialise: void(const rewire::plugin::Initialise&).
#define REWIRE_PLUGIN(name, version, doc, parameters, ...)                               \
  extern "C" REWIRE_EXPORT const rewire_plugin* rewire_plugin_query(std::uint32_t) {     \
    static constexpr rewire_plugin plugin =                                              \
        ::rewire::plugin::detail::describe<__VA_ARGS__>(name, version, doc, parameters); \
    return &plugin;                                                                      \
  }

#endif
