#pragma once
// Faults of sim devices: what goes wrong, where and when, scripted or drawn from a seed. Give a script to
// OpenOptions::sim_faults, or to SimWorld::set_faults() between calls.
//
//   device 1 launch 7 fails               its seventh launch fails, what is behind it is dropped
//   device 1 copy 2 lost                  the device is gone from its second copy on, with all it holds
//   device 2 allocation 1 fails           no memory
//   device 1 launch 3 hangs               it never ends: after the deadline the device counts as lost
//   device 1 launch 1 of "trace" fails    the first launch whose name has this text
//   device * copy * of "gather" fails     any device, each such copy
//   device 1 slow 10                      everything on it takes ten times as long
//   link 0 1 slow 20                      copies from device 0 to device 1
//   link 0 1 no-peer                      copies are staged; fixed when the devices are opened
//   random 42 0.001                       each step fails, is lost or hangs with this chance
//   deadline 5                            virtual seconds that a hanging operation is waited for (60)
//
// One fault a line, or several with ';' between them; '#' begins a comment. Devices are numbered as in their
// set. The steps of a device are counted from 1 since the script was set, each kind on its own: allocations
// as they are asked for, launches (host work too) and copies as they run, `operation` counts launches and
// copies together.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise {

enum class FaultKind { fails, lost, hangs, slow_device, slow_link, no_peer };
enum class FaultStep { allocation, launch, copy, operation };
const char* to_string(FaultKind kind) noexcept;
const char* to_string(FaultStep step) noexcept;

/// One fault. Which members count depends on its kind.
struct Fault {
  static constexpr int any = -1;  ///< device, number

  FaultKind kind = FaultKind::fails;
  int device = any;                    ///< all but links
  FaultStep step = FaultStep::launch;  ///< fails, lost, hangs; an allocation cannot hang
  std::int64_t number = 1;             ///< of the step, from 1; `any`: each
  std::string name;                    ///< counts steps whose name has this text only; empty: all
  double factor = 1;                   ///< slow_device, slow_link: above 0
  int from = 0, to = 0;                ///< slow_link, no_peer
  /// As a line of a script.
  std::string text() const;
};

struct FaultScript {
  std::vector<Fault> faults;
  std::uint64_t random_seed = 0;
  double random_rate = 0;  ///< in [0, 1]
  double deadline_s = 60;  ///< virtual, of what hangs
  bool empty() const { return faults.empty() && random_rate == 0; }
  std::string text() const;
};

/// Reads a script. Throws a usage Error that names `option`, the line, the word that was not expected and the
/// nearest known one.
FaultScript parse_faults(std::string_view text, std::string_view option = "faults");

/// How many steps a device has made since its script was set.
struct FaultSteps {
  std::int64_t allocations = 0, launches = 0, copies = 0;
};

}  // namespace shardwise
