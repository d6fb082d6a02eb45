// The algorithms, one file each; select.cpp lists them.
#pragma once

#include "planner/planner.h"

namespace tutti {

extern const Algorithm kAllReduceDirectOneShot;
extern const Algorithm kAllReduceDirectTwoShot;
extern const Algorithm kAllReduceBinomialTree;
extern const Algorithm kAllReduceRing;
extern const Algorithm kAllReduceDoubleBinaryTree;
extern const Algorithm kAllReduceRecursiveDoubling;
extern const Algorithm kAllReduceHierarchical;

extern const Algorithm kReduceDirect;
extern const Algorithm kReduceDirectTwoShot;
extern const Algorithm kReduceBinomialTree;
extern const Algorithm kReduceChain;
extern const Algorithm kReduceHierarchical;

extern const Algorithm kBroadcastDirect;
extern const Algorithm kBroadcastBinomialTree;
extern const Algorithm kBroadcastChain;
extern const Algorithm kBroadcastHierarchical;

extern const Algorithm kAllGatherDirect;
extern const Algorithm kAllGatherRing;
extern const Algorithm kAllGatherBruck;
extern const Algorithm kAllGatherHierarchical;

extern const Algorithm kReduceScatterDirect;
extern const Algorithm kReduceScatterBinomialTree;
extern const Algorithm kReduceScatterRing;
extern const Algorithm kReduceScatterHierarchical;

extern const Algorithm kAllToAllDirect;
extern const Algorithm kAllToAllPairwise;

extern const Algorithm kGatherDirect;
extern const Algorithm kGatherSequential;
extern const Algorithm kGatherBinomialTree;

extern const Algorithm kScatterDirect;
extern const Algorithm kScatterSequential;
extern const Algorithm kScatterBinomialTree;

extern const Algorithm kBarrierDirect;
extern const Algorithm kBarrierDissemination;

}  // namespace tutti
