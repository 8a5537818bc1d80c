#pragma once
// What is promised to each device: cost of jobs, bytes of memory. Promises are tokens; a promise ends with
// its token, whatever way the code that holds it ends, so that nothing leaks and loads at rest are zero.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardwise {

/// Thread-safe. Tokens may outlive the account.
class LoadAccount {
  struct State;

 public:
  /// A promise of `amount()` to `device()`. Move-only; released on destruction. A moved-from token is empty.
  class Token {
   public:
    Token() = default;
    Token(Token&& other) noexcept;
    Token& operator=(Token&& other) noexcept;
    ~Token() { release(); }
    int device() const { return device_; }  ///< -1: empty
    std::uint64_t amount() const { return amount_; }
    /// Ends the promise now.
    void release() noexcept;

   private:
    friend class LoadAccount;
    Token(std::shared_ptr<State> state, int device, std::uint64_t amount)
        : state_(std::move(state)), device_(device), amount_(amount) {}
    std::shared_ptr<State> state_;
    int device_ = -1;
    std::uint64_t amount_ = 0;
  };

  /// Without limits but 64 bits. Throws std::invalid_argument where devices < 1.
  explicit LoadAccount(int devices);
  /// At most capacities[d] on device d.
  explicit LoadAccount(std::vector<std::uint64_t> capacities);

  int devices() const;
  std::uint64_t capacity(int device) const;
  std::uint64_t load(int device) const;
  /// A snapshot.
  std::vector<std::uint64_t> loads() const;

  /// Throws std::invalid_argument for an unknown device, and where the load would pass the capacity (with the
  /// numbers).
  Token reserve(int device, std::uint64_t amount);
  /// Empty where the load would pass the capacity.
  std::optional<Token> try_reserve(int device, std::uint64_t amount);

 private:
  std::size_t checked(int device, const char* call) const;
  std::shared_ptr<State> state_;
};

}  // namespace shardwise
