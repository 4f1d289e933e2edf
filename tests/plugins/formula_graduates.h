// Formulas that become plugins of their own. Together they have every production of the language, every function and
// every parameter.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rewire::test {

/// Values of the plugin `formula`.
using FormulaValues = std::vector<std::pair<std::string, std::string>>;

inline const std::vector<FormulaValues>& graduates() {
  static const std::vector<FormulaValues> all = {
      // A highway gate.
      {{"weights", "w[d, d] = 0; c[d] = -2, lr_scale = 0.1"},
       {"let", "s = sigmoid(matmul(x, w) + c)"},
       {"join", "(1 - s) * x + s * f"},
       {"report", "gate = mean(s)"},
       {"after", "c = minimum(c, 0)"}},
      // Numbers of the join and of the run.
      {{"let", "depth = L == 1 ? 0 : l / (L - 1); late = progress > 0.5 ? 1 : progress"},
       {"join", "(1 - 0.4 * depth) * x + (1 + late * 0.1) * f"},
       {"report", "depth = depth"}},
      {{"join", "x + f - dot(x, f) / (dot(x, x) + 1e-6) * x"}},
      {{"join", "x + f"}, {"report", "size = norm(f) / norm(h)"}},
      {{"join", "l * x - 2 * x + f"}},
      {{"weights", "gamma[channels] = 0.1, no_decay, weight_decay = 0, beta1 = 0.8, beta2 = 0.9"},
       {"change_branch", "gamma * it"},
       {"after", "gamma = minimum(maximum(gamma, -1), 1)"},
       {"init", "last = 0.5 * it"}},
      // One weight for the joins of a block.
      {{"weights", "alpha = 0, per block, lr_scale = 2"},
       {"change_branch", "alpha * it"},
       {"after", "alpha = minimum(alpha, 1)"}},
      // A list of weights, at the end of each block.
      {{"at", "block"}, {"weights", "alpha[out] = k == K ? 1 : 0"}, {"change_sum", "weighted(out, alpha)"}},
      // Attention over all branches so far.
      {{"weights", "query[d] = 0; output_query[d] = 0"},
       {"let", "scale = rsqrt(mean(branches * branches) + 1e-6)"},
       {"norm_input", "weighted(branches, softmax(dot(branches, query) * scale))"},
       {"sum", "f"},
       {"exit", "weighted(branches, softmax(dot(branches, output_query) * scale))"}},
      {{"weights", "norm_weight[d] = 1; norm_bias[channels] = 0"},
       {"input", "x"},
       {"shortcut", "L * x"},
       {"change_sum", "layer_norm(it, norm_weight, norm_bias, 1e-5) + 0.1 * branch_norm(it)"}},
      // Draws for the batch, a block, samples, tokens and channels.
      {{"let", "noise = 0.1 * normal(tokens); flip = uniform(sample) < 0.5 ? -1 : 1"},
       {"shortcut", "(1 + 0.01 * uniform() - 0.01 * normal(channels)) * x"},
       {"branch", "drop(0.1) * drop(0.2, tokens, block) * flip * f + noise * drop(l / L / 4, channels) * f"},
       {"change_shortcut", "it * (training ? 1 + 0.1 * normal(block) : 1)"}},
      // Each function of one argument, of tensors and of numbers.
      {{"weights", "std[d] = 0.1"},
       {"let",
        "u = tanh(f); w0 = 2 + u; n = sigmoid(l) + silu(b) + gelu(L) + relu(l - 2) + rsqrt(B) + exp(-l) + "
        "floor(d / 2) + "
        "abs(-0.5) + exp(1) + 2^3 - -2^2 + (1 < 2 ? floor(2.5) : 1)"},
       {"sum",
        "x + abs(u) + cos(u) + erf(u) + exp(u) + floor(u) + gelu(u) + log(w0) + relu(u) + rsqrt(w0) + "
        "sigmoid(u) + "
        "silu(u) + sin(u) + sqrt(w0) + stop_gradient(u) * f + maximum(u, x) + minimum(0, u) - -u + u^2 - (x "
        "+ f)^2 + "
        "w0^0.5 + w0^l + 2^u + w0^u + w0^-1 + n / 1000 * f - maximum(l, 1.5) * minimum(L, 2) * f + std"}},
      {{"let", "a = x + f; two = sqrt(2)"},
       {"branch",
        "(sum(a) + mean(a, tokens) + max(a, sample) + dot(a, f, channels) + norm(a) + norm(f * f, tokens) / "
        "two - "
        "mean(f) / (norm(f, sample) + 1)) * tanh(softmax(a) + softmax(f, sample) + softmax(x, tokens)) * f"},
       {"report",
        "largest = max(f); channels_norm = norm(f); share = x > f ? 1 : 0; index = l + 1; rate = progress"}},
      {{"change_shortcut",
        "x < f ? it : x <= f ? 0.5 * it : x > 0.1 ? it : x >= 0 ? mean(it) : x == 1 ? 1 : x != 2 ? it : 0"},
       {"change_branch",
        "(training ? 0.9 : 1) * (l < 2 ? it : it + f) * (l <= 1 ? 1 : 0.5) * (b > 0) * (B >= 2) * (l == 0 ? "
        "x : 1)"}},
      // A sum that changes after that of other plugins.
      {{"norm_input", "it + 0.1 * x0"}, {"exit", "it * (0.5 < mean(it) ? 2 : mean(it))"}},
      {{"weights",
        "a[branches] = 0.1 + 0.2 * k / (K + 1), lr_scale = 0.5; q[out] = normal(0.02); g[channels] = "
        "uniform(-1, 1); "
        "e[d] = 0.3"},
       {"let", "squashed = tanh(branches * g) + f - x / 2; shares = softmax(a)"},
       {"shortcut", "x + 0.1 * sigmoid(q[0]) * weighted(out, tanh(out)) + norm(branches[0]) * 0.1"},
       {"branch",
        "f + weighted(squashed, shares) + out[-1] - branches[0 * l - 1] + branches[-2] - branches[1] + x0 * "
        "0.1 + "
        "weighted(rms_norm(out, 1e-5), norm(out) * 0.1 + 2)"},
       {"change_sum",
        "it + 0.1 * layer_norm(out[0]) + 0.01 * weighted(layer_norm(branches, 1 + e, g), mean(branches) * "
        "0.5)"}},
      {{"weights",
        "u[d, 2 * 2] = trunc_normal(0.02, 0.04); v[4, d] = xavier(), decay; gate[d, 1] = normal(0.1); "
        "position[1, 1] = 0.5, frozen"},
       {"let", "low = matmul(gelu(matmul(x, u)), v)"},
       {"branch", "f * sigmoid(matmul(x, gate)) + low * position"},
       {"after", "v = 0.999 * v; gate = minimum(gate, 1); u = u - tanh(u) * 0.01"}},
      // Other terms and weights for some joins.
      {{"weights", "g[d] = 0.5; a = 1"},
       {"let", "start = l == 0 ? 1 : sigmoid(mean(x) * g)"},
       {"join", "l == L - 1 ? x : start * x + (l < 2 ? f : a * f)"},
       {"report", "start = start"}},
      {{"at", "last"}, {"sum", "layer_norm(x + f)"}},
      // Values that are smaller than the stream, and numbers.
      {{"weights", "g[d] = 1; a = 0.5"},
       {"branch", "(g * g > a ? g : 0) + mean(f)"},
       {"shortcut", "1"},
       {"change_shortcut", "it - a * g"}},
      // Initial values alone, of the last branch of each block.
      {{"at", "block"},
       {"let", "small = 0.5 / (l + 1)"},
       {"init", "norm = b > 0 ? 1 : it^2 + 0.01 * maximum(it, small); last = exp(-l) * small"}},
      // Names that are read in another order than they are defined; numbers alone; `it` in a report.
      {{"let", "p = exp(x); q = exp(f); r = q + p; s = mean(it)"},
       {"join", "x + r * f * (1 < 2) / ((1 < 2) + (1 < 2)) * (l < 40 ? 1 : (1 < 2) / (2 > 1))"},
       {"change_branch", "it * s + rms_norm(f)"},
       {"report", "gate = mean(s)"}},
      // Names that C++ has another use for.
      {{"weights", "int[channels] = 1; int_ = 2; value = 0.5; i = 1, per block; join = 2; static_cast = 1"},
       {"let", "default = int * f; out1 = default; cast = 2; total = mean(x); choose = it"},
       {"shortcut", "total * x + cast * 0.1 * weighted(out, out)"},
       {"branch", "out1 * value * i * join * int_ * static_cast"},
       {"change_branch", "choose * choose"}},
  };
  return all;
}

}  // namespace rewire::test
