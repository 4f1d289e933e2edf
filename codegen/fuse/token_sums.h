// Sums over the batch and the tokens of what attention's gradient computes. The gradient of a bias of the
// projection to q, k and v is such a sum. The kernel that computes dq, dk and dv can add them up over the tokens
// of its head while it has them on chip. What is left is a sum over the batch, of few numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace rewire::codegen {

/// An op sum over all axes but the last of a tensor of results of one attention_grad, as rounded to bf16.
struct TokenSums {
  /// The column of channel d of head h of a result: offset + head h + channel d.
  struct Columns {
    int result = 0;  // 0: dq, 1: dk, 2: dv
    std::int64_t offset = 0, head = 0, channel = 0;
  };
  int op = -1;             // its body index
  std::int64_t width = 0;  // columns in all
  std::vector<Columns> columns;
};

/// Its partial sums, f32 [batch, width].
struct PartialTokenSums {
  const TokenSums* sums = nullptr;
  std::int32_t buffer = -1;
};

}  // namespace rewire::codegen
