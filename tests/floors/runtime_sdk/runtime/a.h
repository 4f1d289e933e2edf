#include "wrapper.h"
