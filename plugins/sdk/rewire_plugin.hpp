// The C++20 face of rewire_plugin.h, compiled into the plugin: values with operators, joins with fields,
// exceptions inside, status codes at the boundary. Nothing of it crosses to the host.
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

/// Throw it to refuse a module: the user reads the message after the plugin's name. Any other exception ends
/// the call with its message as well, but as a mistake of the plugin, which `rewire plugin test` does not
/// forgive.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes (outermost extent first, each at least 1) and lists of axes.
using Ints = std::vector<std::int64_t>;

/// Element types: floats of 64, 32 and 16 bits (bf16 with f32's range, f16 with more precision), signed
/// integers, bytes, truth values.
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

/// Of a tensor; an empty shape is a scalar.
struct Type {
  DType dtype = DType::f32;
  Ints shape;
  bool operator==(const Type&) const = default;
};

/// A named constant of an op: {"axes", Ints{-1}}, {"epsilon", 1e-6}, {"descending", true}.
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

/// Host table and call by value, so that an object kept past its call is refused by the host and never
/// dangles.
struct Context {
  const rewire_host* host = nullptr;
  rewire_call call = 0;

  [[noreturn]] void fail() const {
    const char* message = host == nullptr ? nullptr : host->error(call);
    if (message == nullptr) throw std::logic_error("a value that is none was used");
    throw Error(message);
  }
  void check(std::int32_t status) const {
    if (status != REWIRE_OK) fail();
  }
  rewire_value check(rewire_value value) const {
    if (value.call == 0) fail();
    return value;
  }
  /// For results that have no room for a failure.
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

/// A tensor value, or none, which converts to false. It remembers the latest join that went into it, after
/// which is named what is computed from it. A copy is the same tensor.
class Value {
 public:
  Value() = default;
  Value(detail::Context context, std::uint32_t join, rewire_value handle)
      : context_(context), join_(join), handle_(handle) {}
  explicit operator bool() const { return handle_.call != 0; }

  /// Dtype and shape; throws where there is no value.
  Type type() const {
    rewire_type type;
    if (!*this) context_.fail();
    context_.check(context_.host->type(context_.call, handle_, &type));
    return detail::from_c(type);
  }
  Ints shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }

  // What emit() hands to the host: the call it belongs to, the join it stands at, the host's own name for it.
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
    if (!operand) throw std::logic_error(std::string(name) + " has an operand that is none");
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

// --- Ops: any op of the boundary by name, the usual ones as functions
// -----------------------------------------

/// The first result of the op, by the name and with the attributes that rewire_ops.txt has; `type` where it
/// says "typed". At least one operand; Join::emit serves ops that have none. Error, with the host's words,
/// for operands or attributes that do not fit.
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

/// A scalar constant of x's dtype, standing where x stands.
inline Value constant_like(const Value& x, double value) {
  const Attribute attributes[] = {{"value", value}};
  return detail::emit(x.context(), x.join(), "constant", {}, attributes, Type{x.dtype(), {}}, 1).front();
}

// Pointwise: operands broadcast as NumPy's do and have one dtype; a number takes that of the value beside it.
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
// a becomes the result; a sum that is begun with none is its first term.
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
/// The exact form, by erf; emit("gelu", {x}, {{"approximate", "tanh"}}) is the other.
inline Value gelu(const Value& x) { return emit("gelu", {x}); }
inline Value silu(const Value& x) { return emit("silu", {x}); }
/// max(x, 0); gradient 0 at 0.
inline Value relu(const Value& x) { return emit("relu", {x}); }
/// x; no gradient goes back through it.
inline Value stop_gradient(const Value& x) { return emit("stop_gradient", {x}); }
// At a tie each operand gets half the gradient.
inline Value maximum(const Value& a, const Value& b) { return emit("maximum", {a, b}); }
inline Value minimum(const Value& a, const Value& b) { return emit("minimum", {a, b}); }
/// a > 0, or b a whole number.
inline Value pow(const Value& a, const Value& b) { return emit("pow", {a, b}); }
/// An i1 tensor. direction: lt le gt ge eq ne.
inline Value compare(const char* direction, const Value& a, const Value& b) {
  return emit("compare", {a, b}, {{"direction", direction}});
}
/// Where `condition` (i1) holds if_true, else if_false.
inline Value select(const Value& condition, const Value& if_true, const Value& if_false) {
  return emit("select", {condition, if_true, if_false});
}
// clang-format on

/// x itself if it is of that dtype already.
inline Value cast(const Value& x, DType dtype) {
  const Type type = x.type();
  return type.dtype == dtype ? x : emit("cast", {x}, {}, Type{dtype, type.shape});
}

/// x in f32 if its dtype is narrower: what sums accumulate in.
inline Value at_least_f32(const Value& x) {
  const DType dtype = x.dtype();
  return dtype == DType::bf16 || dtype == DType::f16 ? cast(x, DType::f32) : x;
}

// Reductions keep their axes with extent 1; a negative axis counts from the end. Without axes they reduce
// all, whatever the rank: mean(g) of tokens is [1, 1, 1], of feature maps [1, 1, 1, 1]. Of max, ties share the
// gradient evenly.
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
/// 0 to rank - 1.
inline Ints all_axes(const Value& x) {
  Ints axes(x.shape().size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = static_cast<std::int64_t>(axis);
  return axes;
}
// A scalar has no axes and is its own sum.
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

/// exp(x - max) over its sum along the axis; the shape of x.
inline Value softmax(const Value& x, std::int64_t axis) {
  return emit("softmax", {x}, {{"axis", axis}});
}
/// The same elements in row-major order; `shape` has as many.
inline Value reshape(const Value& x, const Ints& shape) {
  return emit("reshape", {x}, {}, Type{x.dtype(), shape});
}
/// Axis i of the result is axis permutation[i] of x.
inline Value transpose(const Value& x, const Ints& permutation) {
  return emit("transpose", {x}, {{"permutation", permutation}});
}
/// The elements from `start` up to `limit` of one axis.
inline Value slice(const Value& x, std::int64_t axis, std::int64_t start, std::int64_t limit) {
  Ints limits = x.shape();
  Ints starts(limits.size(), 0);
  const auto i = static_cast<std::size_t>(axis < 0 ? axis + std::ssize(limits) : axis);
  starts.at(i) = start;
  limits.at(i) = limit;
  return emit("slice", {x}, {{"starts", starts}, {"limits", limits}});
}
/// One behind the other along the axis; all other extents are equal.
inline Value concat(std::span<const Value> parts, std::int64_t axis) {
  return emit("concat", parts, {{"axis", axis}});
}
inline Value concat(std::initializer_list<Value> parts, std::int64_t axis) {
  return concat(std::span<const Value>(parts.begin(), parts.size()), axis);
}
/// [..., m, k] times [..., k, n] is [..., m, n]; leading axes are equal, or b has rank 2 and serves them all.
/// transpose_a, transpose_b: stored with its last two axes swapped.
inline Value matmul(const Value& a, const Value& b, bool transpose_a = false, bool transpose_b = false) {
  return emit("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// --- Joins and weights
// --------------------------------------------------------------------------------------

/// How a new weight begins: drawn from the seed and the weight's name. Made by its functions.
struct Init {
  std::uint32_t kind = REWIRE_INIT_ZEROS;  // REWIRE_INIT_…, which says what a and b are
  double a = 0;
  double b = 0;
  std::vector<double> numbers = {};  // of values()

  static Init zeros() { return {}; }
  static Init ones() { return {REWIRE_INIT_ONES, 0, 0}; }
  static Init constant(double value) { return {REWIRE_INIT_CONSTANT, value, 0}; }
  /// These numbers, row-major, one an element.
  static Init values(std::vector<double> numbers) { return {REWIRE_INIT_ZEROS, 0, 0, std::move(numbers)}; }
  /// Mean 0.
  static Init normal(double std) { return {REWIRE_INIT_NORMAL, std, 0}; }
  /// Mean 0, nothing beyond -cut and cut, which are in the weight's units, not in deviations.
  static Init trunc_normal(double std, double cut) { return {REWIRE_INIT_TRUNC_NORMAL, std, cut}; }
  /// In [low, high).
  static Init uniform(double low, double high) { return {REWIRE_INIT_UNIFORM, low, high}; }
  /// In +-sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010); the fans are the last two axes, out by in.
  static Init xavier_uniform() { return {REWIRE_INIT_XAVIER_UNIFORM, 0, 0}; }
};

/// Which group a weight trains in: decayed as matrices are, undecayed as norms and biases are, or not at all.
enum class Group { decay, no_decay, frozen };

/// What the optimizer is told of one weight; a number that is not given stays the run's.
struct WeightHint {
  std::optional<double> lr_scale = {};      // the learning rate is the run's times this; finite, > 0
  std::optional<double> weight_decay = {};  // whichever group the weight is in; finite, >= 0; 0: none
  std::optional<double> beta1 = {};         // of AdamW, in [0, 1); SGD has no betas and ignores them
  std::optional<double> beta2 = {};
};

/// Facts about a weight of the model. Its values are read and written in initialise.
struct Weight {
  std::string name;         // in full: "blocks.3.attn.qkv.weight"
  std::string role;         // "norm", "qkv", "proj", "fc1", "fc2", "conv", ...
  std::string site;         // of the branch that it belongs to; "" outside
  std::int64_t block = -1;  // -1 outside the blocks
  bool trainable = false;   // an optimizer changes it
  bool decay = false;       // in the weight-decay group
  Type type;

  explicit Weight(const rewire_weight& weight)
      : name(weight.name),
        role(weight.role),
        site(weight.site),
        block(weight.block),
        trainable(weight.trainable != 0),
        decay(weight.decay != 0),
        type(detail::from_c(weight.type)) {}

  /// How many numbers it has: the product of its extents.
  std::size_t elements() const {
    std::size_t count = 1;
    for (std::int64_t extent : type.shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

/// A line of the plugin's source. (std::source_location, which clang 14 has not.)
struct Place {
  const char* file;
  int line;
  /// Of the call whose default argument this is.
  static constexpr Place current(const char* file_name = __builtin_FILE(),
                                 int line_number = __builtin_LINE()) {
    return {file_name, line_number};
  }
};

/// A residual join: facts as fields, slots as functions. During initialise its values are none.
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
  std::int64_t join_index, join_count;    // over all joins of the scope; filters do not renumber
  std::int64_t heads;                     // of attention; 0 where there is none
  std::int64_t batch_axis;                // axes of stream and branch, counted from the front
  std::int64_t token_axis, channel_axis;  // of [N, C, H, W]: 2, the first of two, and 1
  std::int64_t block_count;               // of the join's scope
  double drop_path;                       // the rate at which training drops a sample's branch
  Value stream;                           // x, [N, T, D] or [N, C, H, W]
  Value branch;                           // f, after drop path; the stream's type
  Value input;                            // what the branch read: LN(x) in a pre-norm block

  /// All axes of the stream but the batch's.
  Ints axes_within_sample() const {
    Ints axes;
    for (std::int64_t axis = 0; axis < std::ssize(stream.shape()); ++axis) {
      if (axis != batch_axis) axes.push_back(axis);
    }
    return axes;
  }

  /// Those over which the tokens or the pixels lie: {1} of [N, T, D], {2, 3} of [N, C, H, W].
  Ints token_axes() const {
    Ints axes = axes_within_sample();
    std::erase(axes, channel_axis);
    return axes;
  }

  /// The stream's shape with every extent but the channels' 1, [1, 1, D] or [1, C, 1, 1]: of a weight that
  /// has one number a channel and broadcasts over the rest.
  Ints channel_shape() const {
    const Ints shape = stream.shape();
    Ints result(shape.size(), 1);
    const auto axis = static_cast<std::size_t>(channel_axis);
    result.at(axis) = shape.at(axis);
    return result;
  }

  /// The weights that the branch reads; those of one role: "norm", "qkv", "proj", "fc1", "fc2", "conv".
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

  // The terms of the sum as they stand.
  Value shortcut() const { return from_host(read().shortcut); }
  Value branch_slot() const { return from_host(read().branch_slot); }
  std::vector<Value> paths() const {
    std::vector<Value> result;
    for (std::uint32_t i = 0; i < read().path_count; ++i) {
      result.push_back(from_host(context_.check(context_.host->join_path(context_.call, index_, i))));
    }
    return result;
  }

  /// Their sum as it stands.
  Value sum() const {
    Value total = shortcut();
    total += branch_slot();
    for (const Value& path : paths()) total += path;
    return total;
  }

  // Setting or clearing a slot claims it: Error where another plugin has. A path claims nothing. Each takes a
  // value of the stream's type.
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
  /// x' = v. Claims both slots and the paths: Error where another plugin has a part in the sum, or wants one
  /// later.
  void set_sum(const Value& v, Place place = Place::current()) const {
    set("set_sum", context_.host->set_sum, v, place);
  }
  // v is computed from shortcut(), branch_slot() or sum() as they stand, and takes their place: what several
  // plugins do so is done in the order in which the user names them. Claims nothing; whoever would set what
  // was changed, or add to a sum that was, must be named before.
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
  //   "norm_input"  what the branch's norm reads, of the stream's type: x in a pre-norm block
  //   "input"       what the branch reads: the norm's result
  //   "q" "k" "v"   the operands of the branch's attention, [batch, heads, tokens, width of a head]
  //   "attention"   its result
  //   "hidden"      what the branch's last layer reads
  //   "entry"       the stream of the scope's first join: the embedding
  //   "exit"        the result of the scope's last join: what the final norm reads
  bool has(const std::string& role) const {
    return context_.checked(context_.host->role_value(context_.call, index_, role.c_str())).call != 0;
  }
  /// As it stands; Error where the join has no such value.
  Value value(const std::string& role) const {
    const rewire_value found =
        context_.checked(context_.host->role_value(context_.call, index_, role.c_str()));
    if (found.call == 0)
      throw Error(name + " has no '" + role + "'; leave it out by sites=, layers= or stages=");
    return from_host(found);
  }
  /// What reads it (of "norm_input" to "hidden": in the branch) reads v instead, which is of its type. What
  /// another plugin has replaced must go into v; "input" and "exit" can be replaced once.
  void replace(const std::string& role, const Value& v, Place place = Place::current()) const {
    const auto replace_value = [&role, this](rewire_call call, std::uint32_t index, rewire_value handle) {
      return context_.host->replace_value(call, index, role.c_str(), handle);
    };
    set("replace", replace_value, v, place);
  }
  /// The branch reads v, and nothing of the norm: replace("input", v).
  void set_input(const Value& v, Place place = Place::current()) const { replace("input", v, place); }

  /// An op with no operand, or one that must stand at this join.
  Value emit(const char* op, std::initializer_list<Value> operands = {},
             std::initializer_list<Attribute> attributes = {}, const std::optional<Type>& type = {}) const {
    return detail::emit(context_, index_, op, operands, attributes, type, 1).front();
  }
  /// v everywhere.
  Value constant(double v, const Type& type) const { return emit("constant", {}, {{"value", v}}, type); }
  /// i1 scalar: whether this is a step of training; evaluation and inference: no.
  Value is_training() const { return take(context_.host->is_training(context_.call, index_)); }
  /// Uniform in [0, 1), new numbers every step, one stream a (join, plugin, name).
  Value rng_stream(const char* stream_name, const Type& type) const {
    const rewire_type c_type = detail::to_c(type);
    return take(context_.host->rng_stream(context_.call, index_, stream_name, &c_type));
  }
  /// Adds "blocks.3.join_attn.<name>", of this type, and gives its value.
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
  /// The same kept in f32 whatever the stream's dtype (in f64 beside an f64 stream), as the optimizers want
  /// it; the value has the stream's dtype.
  Value add_weight(const char* weight_name, const Ints& shape, Init init, Group group) const {
    const DType dtype = stream.dtype();
    const DType kept = dtype == DType::f64 ? DType::f64 : DType::f32;
    return cast(add_weight(weight_name, Type{kept, shape}, init, group), dtype);
  }
  /// One number, kept so: of shape [1], which broadcasts against everything.
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
  /// A weight of the module, by its full name, as a value.
  Value weight_value(const std::string& full_name) const {
    return take(context_.host->weight_value(context_.call, index_, full_name.c_str()));
  }

  // What a step of training does beside the forward pass. A weight is named as add_weight had it at this
  // join, or in full. A scalar is a float value of one element.
  /// Error where an earlier hint of the weight has another number, and for a weight that does not train.
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
  /// A number of the forward pass for the metrics: "report.<join>.<plugin>.<name>" in the training lines, the
  /// mean over the line's steps. Error where this plugin has reported the name at this join.
  void report(const std::string& report_name, const Value& scalar, Place place = Place::current()) const {
    hook("report", context_.host->report, report_name, scalar, place);
  }
  /// An f32 scalar: the share of the run's optimizer steps that are done, 0 in the first step and below 1 in
  /// the last; in evaluation, that of the weights.
  Value progress() const { return take(context_.host->progress(context_.call, index_)); }
  /// Adds a term to the loss that is trained. Evaluation has the plain loss.
  void add_loss(const Value& scalar, Place place = Place::current()) const {
    set("add_loss", context_.host->add_loss, scalar, place);
  }
  /// Each step of training gives a frozen weight this value, of its shape. The forward pass of that step
  /// reads the value before.
  void update_state(const std::string& weight, const Value& v, Place place = Place::current()) const {
    hook("update_state", context_.host->update_state, weight, v, place);
  }
  /// Behind every update of the optimizer the weight takes this value, of its shape: a function of the weight
  /// as add_weight or weight_value gives it, and of frozen ones. It is computed from the optimizer's value.
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
  /// What goes wrong is told with the line that asked for it.
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
    if (!v) throw std::logic_error("a value for " + name + " is none (" + at + ")");
    context_.check(context_.host->locate(context_.call, at.c_str()));
    context_.check(function());
    context_.check(context_.host->locate(context_.call, nullptr));
  }

  detail::Context context_;
  std::uint32_t index_;
};

// --- The two calls
// ------------------------------------------------------------------------------------------

/// Matrices [count, rows, cols], row-major. Qr: a = q r. Svd: a = u diag(s) vt. See the host's qr and svd.
struct Qr {
  std::vector<double> q, r;
};
struct Svd {
  std::vector<double> u, s, vt;
};

/// What both calls offer: the parameters in force, the seed, the joins that pass the user's filters, the log.
class Call {
 public:
  Call(const rewire_host* host, rewire_call call) : context_{host, call} {}

  // A parameter that the schema has, of that kind; Error for a name or kind that it has not.
  bool get_bool(const char* name) const {
    return context_.checked(context_.host->get_bool(context_.call, name)) != 0;
  }
  std::int64_t get_int(const char* name) const {
    return context_.checked(context_.host->get_int(context_.call, name));
  }
  double get_float(const char* name) const {
    return context_.checked(context_.host->get_float(context_.call, name));
  }
  /// str and enum parameters.
  std::string get_text(const char* name) const {
    return context_.checked(context_.host->get_text(context_.call, name));
  }
  /// The run's.
  std::uint64_t seed() const { return context_.checked(context_.host->seed(context_.call)); }

  /// The joins that pass the user's filters, in the order of the network.
  std::vector<Join> joins() const {
    const std::uint32_t count = context_.checked(context_.host->join_count(context_.call));
    std::vector<Join> result;
    for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(context_, i);
    return result;
  }

  /// Of each matrix, rows >= cols: q [rows, cols] with orthonormal columns, r [cols, cols] upper triangular
  /// with a diagonal >= 0.
  Qr qr(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols) const {
    if (a.size() != count * rows * cols)
      throw std::logic_error("qr: the matrices' sizes do not fit their numbers");
    Qr result{std::vector<double>(a.size()), std::vector<double>(count * cols * cols)};
    context_.check(
        context_.host->qr(context_.call, count, rows, cols, a.data(), result.q.data(), result.r.data()));
    return result;
  }
  /// Of each matrix, k = min(rows, cols): u [rows, k], its columns' largest entries > 0; s [k], descending;
  /// vt [k, cols].
  Svd svd(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols) const {
    if (a.size() != count * rows * cols)
      throw std::logic_error("svd: the matrices' sizes do not fit their numbers");
    const std::size_t k = std::min(rows, cols);
    Svd result{std::vector<double>(count * rows * k), std::vector<double>(count * k),
               std::vector<double>(count * k * cols)};
    context_.check(context_.host->svd(context_.call, count, rows, cols, a.data(), result.u.data(),
                                      result.s.data(), result.vt.data()));
    return result;
  }

  /// The first `largest` triples alone, several times as fast where they are few: of each matrix u [rows,
  /// largest], s [largest], vt [largest, cols].
  Svd svd_of_largest(std::span<const double> a, std::size_t count, std::size_t rows, std::size_t cols,
                     std::size_t largest) const {
    if (a.size() != count * rows * cols || largest > std::min(rows, cols))
      throw std::logic_error("svd_of_largest: the matrices' sizes do not fit their numbers");
    Svd result{std::vector<double>(count * rows * largest), std::vector<double>(count * largest),
               std::vector<double>(count * largest * cols)};
    context_.check(context_.host->svd_of_largest(context_.call, count, rows, cols, largest, a.data(),
                                                 result.u.data(), result.s.data(), result.vt.data()));
    return result;
  }

  /// A line of the user's log, after the plugin's name. level: REWIRE_LOG_DEBUG, _INFO or _WARNING.
  void log(std::uint32_t level, const std::string& message) const {
    context_.host->log(context_.call, level, message.c_str());
  }

 protected:
  detail::Context context_;
};

/// What `rewrite` gets. It and all that it hands out die when rewrite returns.
class Rewrite : public Call {
 public:
  using Call::Call;
};

/// What `initialise` gets: fresh weights as the model and the plugins before have them.
class Initialise : public Call {
 public:
  using Call::Call;

  /// All weights of the module.
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
  /// Its values, row-major, as doubles whatever its dtype.
  std::vector<double> read(const Weight& weight) const {
    std::vector<double> data(weight.elements());
    context_.check(context_.host->read_weight(context_.call, weight.name.c_str(), data.data(), data.size()));
    return data;
  }
  /// The same the other way; `data` has one number an element.
  void write(const Weight& weight, std::span<const double> data) const {
    context_.check(context_.host->write_weight(context_.call, weight.name.c_str(), data.data(), data.size()));
  }
  // Functions of the seed, the plugin's name, `stream` and the index alone.
  /// Uniform in [0, 1).
  std::vector<double> uniform(const std::string& stream, std::size_t count) const {
    return draw(context_.host->draw_uniform, stream, count);
  }
  /// Mean 0, standard deviation 1.
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

// --- The schema and the descriptor
// --------------------------------------------------------------------------

/// The range of a number, both ends included unless it says otherwise.
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

// One parameter each: name ([a-z][a-z0-9_]*), default as a user would write it, one line of doc. The text
// must live as long as the library: literals do.
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
/// values, one of which it takes: "feature|global"
constexpr rewire_parameter enum_parameter(const char* name, const char* default_value, const char* values,
                                          const char* doc) {
  return {name, default_value, doc, values, REWIRE_PARAMETER_ENUM, 0, 0, 0};
}
constexpr rewire_parameter text_parameter(const char* name, const char* default_value, const char* doc) {
  return {name, default_value, doc, nullptr, REWIRE_PARAMETER_STR, 0, 0, 0};
}
/// The schema of a plugin that has none.
inline constexpr std::span<const rewire_parameter> kNoParameters;

namespace detail {

/// Runs the author's function as the C boundary wants it: no exception leaves, the first error stays.
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
    host->set_error(call, "it threw something that is no std::exception");
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

/// REWIRE_PLUGIN(name, version, doc, parameters, rewrite [, initialise]), once in the library, outside any
/// namespace. rewrite: void(const rewire::plugin::Rewrite&); initialise: void(const
/// rewire::plugin::Initialise&).
#define REWIRE_PLUGIN(name, version, doc, parameters, ...)                               \
  extern "C" REWIRE_EXPORT const rewire_plugin* rewire_plugin_query(std::uint32_t) {     \
    static constexpr rewire_plugin plugin =                                              \
        ::rewire::plugin::detail::describe<__VA_ARGS__>(name, version, doc, parameters); \
    return &plugin;                                                                      \
  }

#endif
