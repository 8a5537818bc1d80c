#include "shardwise/shard/load_account.hpp"

#include <atomic>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace shardwise {

struct LoadAccount::State {
  explicit State(std::vector<std::uint64_t> limits)
      : capacities(std::move(limits)), loads(capacities.size()) {}
  std::vector<std::uint64_t> capacities;
  std::vector<std::atomic<std::uint64_t>> loads;
};

LoadAccount::Token::Token(Token&& other) noexcept
    : state_(std::move(other.state_)),
      device_(std::exchange(other.device_, -1)),
      amount_(std::exchange(other.amount_, 0)) {}

LoadAccount::Token& LoadAccount::Token::operator=(Token&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
    device_ = std::exchange(other.device_, -1);
    amount_ = std::exchange(other.amount_, 0);
  }
  return *this;
}

void LoadAccount::Token::release() noexcept {
  if (state_) state_->loads[static_cast<std::size_t>(device_)].fetch_sub(amount_);
  state_.reset();
  device_ = -1;
  amount_ = 0;
}

LoadAccount::LoadAccount(int devices) {
  if (devices < 1) {
    std::ostringstream text;
    text << "LoadAccount: " << devices << " devices; give at least one";
    throw std::invalid_argument(text.str());
  }
  state_ = std::make_shared<State>(std::vector<std::uint64_t>(static_cast<std::size_t>(devices),
                                                              std::numeric_limits<std::uint64_t>::max()));
}

LoadAccount::LoadAccount(std::vector<std::uint64_t> capacities) {
  if (capacities.empty()) throw std::invalid_argument("LoadAccount: no devices; give at least one");
  state_ = std::make_shared<State>(std::move(capacities));
}

int LoadAccount::devices() const {
  return static_cast<int>(state_->loads.size());
}

std::size_t LoadAccount::checked(int device, const char* call) const {
  if (device < 0 || device >= devices()) {
    std::ostringstream text;
    text << "LoadAccount::" << call << ": there is no device " << device << "; give 0 to " << devices() - 1;
    throw std::invalid_argument(text.str());
  }
  return static_cast<std::size_t>(device);
}

std::uint64_t LoadAccount::capacity(int device) const {
  return state_->capacities[checked(device, "capacity")];
}

std::uint64_t LoadAccount::load(int device) const {
  return state_->loads[checked(device, "load")].load();
}

std::vector<std::uint64_t> LoadAccount::loads() const {
  std::vector<std::uint64_t> result;
  for (const auto& load : state_->loads) result.push_back(load.load());
  return result;
}

std::optional<LoadAccount::Token> LoadAccount::try_reserve(int device, std::uint64_t amount) {
  const std::size_t at = checked(device, "try_reserve");
  std::atomic<std::uint64_t>& load = state_->loads[at];
  for (std::uint64_t now = load.load();;) {
    if (now > state_->capacities[at] || amount > state_->capacities[at] - now) return std::nullopt;
    if (load.compare_exchange_weak(now, now + amount)) return Token(state_, device, amount);
  }
}

LoadAccount::Token LoadAccount::reserve(int device, std::uint64_t amount) {
  checked(device, "reserve");
  if (auto token = try_reserve(device, amount)) return std::move(*token);
  std::ostringstream text;
  text << "LoadAccount::reserve: " << amount << " more on device " << device << ", which has " << load(device)
       << " of at most " << capacity(device);
  throw std::invalid_argument(text.str());
}

}  // namespace shardwise
