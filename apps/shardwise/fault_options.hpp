#pragma once
// --sim-faults: the script as given, what a plan takes of it, and what of it never happened.

#include <string>
#include <vector>

#include "device_options.hpp"

namespace shardwise::program {

/// The script of --sim-faults, read from its file for @FILE, and --deadline, which is of virtual time on sim
/// devices. Usage errors name the option and the file.
std::string fault_script(const DeviceOptions& options);

/// The part of a script that changes how long things take: slow devices and links, absent peer access. In a
/// plan nothing fails.
std::string faults_of_plan(const std::string& script);

/// A warning for each line of the script that no step has met by now: a call that came through all the same
/// has not been tried against it.
std::vector<std::string> faults_not_met(const DeviceOptions& options, const DeviceSet& devices);

}  // namespace shardwise::program
