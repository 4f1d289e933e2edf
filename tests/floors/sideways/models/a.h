#include "runtime/b.h"
