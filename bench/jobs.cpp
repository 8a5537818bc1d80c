#include "bench/jobs.hpp"

#include <iterator>

#include "bench/jobs_parts.hpp"

namespace shardwise::bench {

std::vector<Case> jobs_cases(const Settings& settings) {
  std::vector<Case> cases;
  const auto add = [&cases](std::vector<Case> more) {
    cases.insert(cases.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(job_placing_cases(settings));
  add(job_cost_cases(settings));
  add(virtual_makespan_cases(settings));
  add(job_cache_cases(settings));
  add({sleeping_case(settings)});
  return cases;
}

}  // namespace shardwise::bench
