#include "codegen/b.h"
