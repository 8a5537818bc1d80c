#include "grid/binned_total.hpp"

#include <cmath>
#include <limits>

namespace shardwise {

void BinnedTotal::raise_to(std::int32_t top) {
  const std::int32_t by = top - top_;
  if (by <= 0) return;
  for (std::int32_t k = 2; k >= 0; --k) digit_[k] = k >= by ? digit_[k - by] : 0;
  top_ = top;
}

void BinnedTotal::add(const BinnedSum& sum) {
  raise_to(sum.top);
  const std::int32_t below = top_ - sum.top;
  for (std::int32_t k = 0; k + below < 3; ++k) digit_[k + below] += sum.digit[k];
  bad_ = bad_ || sum.bad != 0;
}

void BinnedTotal::add(const BinnedTotal& other) {
  raise_to(other.top_);
  const std::int32_t below = top_ - other.top_;
  for (std::int32_t k = 0; k + below < 3; ++k) digit_[k + below] += other.digit_[k];
  bad_ = bad_ || other.bad_;
}

void BinnedTotal::append_to(std::vector<std::int64_t>& out) const {
  for (const Wide digit : digit_) {
    out.push_back(static_cast<std::int64_t>(digit >> 64));
    out.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(digit)));
  }
  out.push_back(top_);
  out.push_back(bad_ ? 1 : 0);
}

BinnedTotal BinnedTotal::from_words(std::span<const std::int64_t> in) {
  BinnedTotal total;
  for (std::size_t k = 0; k < 3; ++k)
    total.digit_[k] = static_cast<Wide>(in[2 * k]) * (static_cast<Wide>(1) << 64) +
                      static_cast<Wide>(static_cast<std::uint64_t>(in[2 * k + 1]));
  total.top_ = static_cast<std::int32_t>(in[6]);
  total.bad_ = in[7] != 0;
  return total;
}

double BinnedTotal::value() const {
  if (bad_) return std::numeric_limits<double>::quiet_NaN();
  // Carries, so that the digits are unique: the lower two in [0, 2^32).
  Wide d[3] = {digit_[0], digit_[1], digit_[2]};
  d[1] += d[2] >> 32;
  d[2] &= 0xffffffff;
  d[0] += d[1] >> 32;
  d[1] &= 0xffffffff;
  const Wide limit = static_cast<Wide>(1) << 62, low = (d[1] << 32) + d[2];
  if (d[0] > -limit && d[0] < limit)
    return std::ldexp(static_cast<double>(d[0] * (static_cast<Wide>(1) << 64) + low), 32 * (top_ - 2));
  // So many bits that what is below matters as "there is more" alone.
  const Wide sticky = low != 0 ? d[0] | 1 : d[0];
  return std::ldexp(static_cast<double>(sticky), 32 * top_);
}

}  // namespace shardwise
