#include "ir/b.h"
