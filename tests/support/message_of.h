// The message of an expected error, so that a test can pin all of it.
#pragma once

#include <string>

namespace rewire::test {

/// Returns what() of the Error that `call` throws. Another exception passes through and fails the test.
template <class Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace rewire::test
