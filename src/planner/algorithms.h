// The algorithms, one file each; select.cpp lists them.
#pragma once

#include "planner/planner.h"

namespace tutti {

extern const Algorithm kDirectOneShot;
extern const Algorithm kDirectTwoShot;
extern const Algorithm kRing;
extern const Algorithm kDoubleBinaryTree;
extern const Algorithm kRecursiveDoubling;

}  // namespace tutti
