#pragma once

/// What fake_set_mode() of fake_nccl.cpp takes.
enum FakeNcclMode { works, never_ends, call_never_returns, call_fails, init_fails, init_never_returns };
