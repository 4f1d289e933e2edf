// An error whose message has several lines by design, such as a place in a text. They are printed as lines;
// in any other message a line feed is foreign and is printed as \x0a.
#pragma once

#include <string>

#include "ir/error.h"

namespace rewire::ir {

class TextError : public UserError {
 public:
  /// `message` must have all foreign text made printable.
  explicit TextError(const std::string& message) : UserError(message) {}
};

}  // namespace rewire::ir
