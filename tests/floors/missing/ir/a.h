#include "ir/nowhere.h"
