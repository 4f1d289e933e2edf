// An error whose message has lines by design, as the place in a text, and is printed with them. In
// every other message a line feed came from outside, and is printed as \x0a.
#pragma once

#include <string>

#include "ir/error.h"

namespace rewire::ir {

class TextError : public UserError {
 public:
  /// `message`: all that came from outside is made printable already.
  explicit TextError(const std::string& message) : UserError(message) {}
};

}  // namespace rewire::ir
