// What devices of the fake driver offer NICs, for fake_cuda_give_direct_access().
#pragma once

enum FakeDirectAccess : int {
  kFakeDmaBuf = 1,   // their memory as files
  kFakeOrdered = 2,  // they see in time what is written there
  kFakeFlushes = 4,  // or behind a flush by a stream
};
