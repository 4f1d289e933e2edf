// Self-distillation without labels (Caron et al., ICCV 2021). A student sees all views of an image. Its
// teacher, the moving average of its weights, sees the two global views. z are the projections. The
// teacher's q_t = softmax((z_t - c) / tau_t) and the student's p_s = softmax(z_s / tau_s) give
//   loss = mean over the pairs of views t != s of the batch's mean of  -sum_k q_tk log p_sk
//   c <- m c + (1 - m) mean of the z_t
// tau_t changes from warmup_teacher_temp to teacher_temp in equal steps, one per epoch.
#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

constexpr const char* kLocalForm = "forward_local";
constexpr const char* kGlobalViews[] = {"global1", "global2"};

struct Distillation {
  std::int64_t local_crops, local_size;
  double student_temp, teacher_temp, warmup_teacher_temp, warmup_epochs, center_momentum, freeze_last_layer;
};

class SelfDistillation : public Objective {
 public:
  explicit SelfDistillation(const Distillation& settings) : s_(settings) {}

  std::vector<NetworkFunction> forms() const override {
    std::vector<NetworkFunction> forms = {{.images = 2}};
    if (s_.local_crops > 0) forms.push_back({kLocalForm, s_.local_crops, s_.local_size});
    return forms;
  }

  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    const Value image = forward.argument("image"), projection = forward.result("projection");
    if (!image || !projection || !forward.result("features") || forward.arguments.size() != 1) {
      user_error(
          "the objective dino takes 'image' alone and gives 'projection' and 'features', as the networks of "
          "the "
          "family dino do with model.head=true; this network does not");
    }
    if (forward.type(image).rank() != 4 || forward.type(projection).rank() != 2) {
      user_error(
          "the objective dino takes 'image' [batch,channels,height,width] and gives 'projection' "
          "[batch,outputs]; "
          "the network has {} and {}",
          to_string(forward.type(image)), to_string(forward.type(projection)));
    }
    return {{"image", forward.type(image)}};
  }

  Inputs training_inputs(const ir::Module& module) const override {
    ir::Shape shape = inputs(module).front().type.shape;
    shape[0] /= 2;
    Inputs views;
    const auto add = [&](const char* name, std::int64_t count) {
      ir::TensorType type{DType::f32, {count}};
      type.shape.insert(type.shape.end(), shape.begin(), shape.end());
      views.push_back({.name = name, .type = type, .batch_axis = 1});
    };
    for (const char* name : kGlobalViews) add(name, 1);
    if (s_.local_crops == 0) return views;
    shape[2] = shape[3] = s_.local_size;
    add("local", s_.local_crops);
    return views;
  }

  std::vector<Remembered> states(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    return {{"center", {DType::f32, {1, forward.type(forward.result("projection")).shape[1]}}}};
  }

  std::vector<FrozenWeight> frozen_weights(const ir::Module& module) const override {
    std::vector<FrozenWeight> held;
    for (const ir::Parameter& parameter : module.parameters) {
      if (parameter.is_weight() && parameter.name.find("last_layer") != std::string::npos)
        held.push_back({parameter.name, s_.freeze_last_layer});
    }
    return held;
  }

  bool reads_averages() const override { return true; }

  Trained train(Builder& b, Network& network, const NamedValues& inputs) const override {
    const Value views[] = {inputs.at(kGlobalViews[0]), inputs.at(kGlobalViews[1])};
    const Value global = images(b, b.concat(views, 0));
    const Value student = projection(b, network.call("forward", {{"image", global}}));
    Value local;
    if (s_.local_crops > 0)
      local = projection(b, network.call(kLocalForm, {{"image", images(b, inputs.at("local"))}}));
    const Value teacher = projection(b, network.call("forward", {{"image", global}}, Reads::averages));
    b.set_location("loss");
    const std::int64_t batch = b.shape(student).at(0) / 2, outputs = b.shape(student).at(1);
    const Value center = b.param(state_name(states(b.module()).front()));
    const Value q = targets(b, teacher, center, b.cast(temperature(b, network), b.type(teacher).dtype));
    const Value of_first = b.slice(q, 0, 0, batch), of_second = b.slice(q, 0, batch, 2 * batch);
    const Value others[] = {of_second, of_first};
    // The costs are sums over the pairs of views and over the batch.
    Value costs = sum_all(b, cross_entropy(b, b.concat(others, 0), student));
    if (local) {
      const Value both = b.reshape(b.add(of_first, of_second), {1, batch, outputs});
      const Value crops = b.reshape(local, {s_.local_crops, batch, outputs});
      costs = b.add(costs, sum_all(b, cross_entropy(b, both, crops)));
    }
    const auto pairs = static_cast<double>(2 * (s_.local_crops + 1));
    const Value loss = b.div(costs, pairs * static_cast<double>(batch));
    const Value mean = b.mean(teacher, {0});
    const Value next = b.add(b.mul(center, s_.center_momentum), b.mul(mean, 1 - s_.center_momentum));
    return {loss, {{{"entropy", "entropy"}, mean_all(b, entropy(b, q))}}, {{"center", next}}};
  }

  /// Measures the network as student and teacher at once. Both see the same image.
  std::vector<Measured> evaluate(Builder& b, Network& network, const NamedValues& inputs,
                                 Value weight) const override {
    const Value z = projection(b, network.call("forward", {{"image", inputs.at("image")}}));
    b.set_location("loss");
    const Value center = b.param(state_name(states(b.module()).front()));
    const Value q = targets(b, z, center, b.constant(s_.teacher_temp, b.type(z).dtype));
    const Value count = sum_all(b, weight);
    const auto total = [&](Value each) {
      return sum_all(b, b.mul(b.reshape(each, b.shape(weight)), weight));
    };
    return {{{"loss", "loss_sum", "count"}, total(cross_entropy(b, q, z)), count},
            {{"entropy", "entropy_sum", "count"}, total(entropy(b, q)), count}};
  }

 private:
  /// [count, B, C, H, W] -> [count B, C, H, W].
  static Value images(Builder& b, Value views) {
    ir::Shape shape = b.shape(views);
    shape[1] *= shape[0];
    shape.erase(shape.begin());
    return b.reshape(views, shape);
  }

  static Value projection(Builder& b, const NamedValues& results) {
    const Value z = results.at("projection");
    return b.type(z).dtype == DType::f64 ? z : b.cast(z, DType::f32);
  }

  static Value targets(Builder& b, Value teacher, Value center, Value temperature) {
    const Value sharpened = b.div(b.sub(teacher, center), temperature);
    return b.unary(Opcode::stop_gradient, b.emit(Opcode::softmax, {sharpened}));
  }

  /// Returns -sum_k q_k log softmax(z / tau_s)_k. q is broadcast.
  Value cross_entropy(Builder& b, Value q, Value z) const {
    return b.sum(b.mul(q, surprisals(b, b.div(z, s_.student_temp))), {-1});
  }

  static Value entropy(Builder& b, Value q) {
    const Value zero = b.constant_like(q, 0), one = b.constant_like(q, 1);
    const Value none = b.compare("eq", q, zero);
    const Value logs = b.unary(Opcode::log, b.select(none, one, q));
    return b.unary(Opcode::neg, b.sum(b.mul(q, logs), {-1}));
  }

  /// Returns tau_t, f64[].
  Value temperature(Builder& b, Network& network) const {
    const double from = s_.warmup_teacher_temp, to = s_.teacher_temp, epochs = s_.warmup_epochs;
    if (epochs == 0 || from == to) return b.constant(to, DType::f64);
    const Value steps = scheduled_step(b, network.updates(), network.timeline());
    const Value epoch = b.unary(Opcode::floor, b.div(steps, network.timeline().steps_per_epoch));
    const Value warm = b.add(b.mul(epoch, epochs > 1 ? (to - from) / (epochs - 1) : 0), from);
    return b.select(b.compare("lt", epoch, b.constant_like(epoch, epochs)), warm, b.constant_like(epoch, to));
  }

  Distillation s_;
};

ir::ParameterSpec temperature_parameter(std::string_view name, double value, std::string_view doc) {
  return ir::float_parameter(name, value, doc).above(0).at_most(1e3);
}

}  // namespace

extern const ObjectiveRow kSelfDistillation{
    "dino",
    "self-distillation without labels: the student's projections of views against those of its moving "
    "average",
    {{"loss", "loss", Shown::number}, {"entropy", "teacher's entropy", Shown::number, Better::higher}},
    {ir::int_parameter("local_crops", 8, "number of views 'local', which only the student sees")
         .at_least(0)
         .at_most(1000),
     ir::int_parameter("local_size", 96, "side of a local view in pixels").at_least(1).at_most(16384),
     temperature_parameter("student_temp", 0.1, "temperature of the student's softmax"),
     temperature_parameter("teacher_temp", 0.04, "temperature of the teacher's softmax, after its warm-up"),
     temperature_parameter("warmup_teacher_temp", 0.04, "temperature of the teacher's softmax at the start"),
     ir::int_parameter(
         "warmup_teacher_temp_epochs", 0,
         "epochs in which the teacher's temperature rises from warmup_teacher_temp to teacher_temp")
         .at_least(0)
         .at_most(1e9),
     ir::float_parameter("center_momentum", 0.9,
                         "momentum of the centre, the running mean of the teacher's outputs")
         .at_least(0)
         .at_most(1),
     ir::int_parameter("freeze_last_layer", 1,
                       "number of first epochs in which the projection head's last layer is frozen")
         .at_least(0)
         .at_most(1e9)},
    [](const ir::Attributes& values) -> std::unique_ptr<Objective> {
      const auto count = [&](std::string_view name) { return values.get_int(name); };
      const auto number = [&](std::string_view name) { return values.get_double(name); };
      return std::make_unique<SelfDistillation>(
          Distillation{.local_crops = count("local_crops"),
                       .local_size = count("local_size"),
                       .student_temp = number("student_temp"),
                       .teacher_temp = number("teacher_temp"),
                       .warmup_teacher_temp = number("warmup_teacher_temp"),
                       .warmup_epochs = static_cast<double>(count("warmup_teacher_temp_epochs")),
                       .center_momentum = number("center_momentum"),
                       .freeze_last_layer = static_cast<double>(count("freeze_last_layer"))});
    }};

}  // namespace rewire::programs
