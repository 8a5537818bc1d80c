// The watch of a rank: beats, deadlines, and the dump of who waits for what.

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cluster/mpi_process.hpp"

namespace shardwise {
namespace {

using namespace std::chrono_literals;

constexpr int beat_tag = 1;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void MpiProcess::start_watch() {
  peers_.resize(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    peer.heard = peer.since = Clock::now();
    if (r == rank_ || (rank_ != 0 && r != 0)) continue;
    // Rank 0 hears one beat from each and tells all of them.
    peer.outgoing.resize(rank_ == 0 ? static_cast<std::size_t>(size_) : 1);
    peer.incoming.resize(rank_ == 0 ? 1 : static_cast<std::size_t>(size_));
  }
  watch_thread_ = std::thread([this] { watch(); });
}

MpiProcess::Beat MpiProcess::own_beat() {
  const std::lock_guard lock(state_mutex_);
  Beat beat;
  beat.failures = failures_;
  beat.failing = failing_ ? 1 : 0;
  beat.state = state_;
  auto since = state_since_;
  std::string_view what = what_;
  if (state_ == State::computing) {
    what = step_;
    if (messages_waiting_ > 0) {
      beat.state = State::message;
      since = message_since_;
      what = message_what_;
    }
  }
  what.copy(beat.what, sizeof beat.what - 1);
  beat.since_s = seconds(Clock::now() - since);
  return beat;
}

void MpiProcess::take_beats(int peer, const std::vector<Beat>& beats) {
  const auto now = Clock::now();
  const auto take = [&](int r, const Beat& beat, double heard_s) {
    Peer& entry = peers_[static_cast<std::size_t>(r)];
    entry.beat = beat;
    entry.heard = now - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(heard_s));
    entry.since = entry.heard -
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(beat.since_s));
    if (beat.failing != 0 && beat.failures == failures_ && r != rank_ && signal_->failing_rank(-1) < 0) {
      signal_->announce(r);
      hurry_ = true;
      tell_failure_ = true;
    }
  };
  const std::lock_guard lock(state_mutex_);
  if (rank_ == 0) {
    take(peer, beats.front(), 0);
    return;
  }
  for (int r = 0; r < size_; ++r)
    if (r != rank_) take(r, beats[static_cast<std::size_t>(r)], beats[static_cast<std::size_t>(r)].heard_s);
  peers_[0].left = beats[0].last != 0;
}

std::unique_lock<std::mutex> MpiProcess::lock_for_watch() {
  watch_waits_.store(true, std::memory_order_relaxed);  // whoever waits in a loop leaves room then
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (const auto start = Clock::now(); !lock.owns_lock(); (void)lock.try_lock()) {
    std::this_thread::sleep_for(50us);
    if (const double held = seconds(Clock::now() - start); held > options_.deadline_s)
      end_run(fmt::format("rank {} ({}): an MPI call has not returned for {:.1f} s (the deadline is {:g} s), "
                          "where none should wait; the run ends",
                          rank_, host(rank_), held, options_.deadline_s),
              1);
  }
  watch_waits_.store(false, std::memory_order_relaxed);
  return lock;
}

void MpiProcess::exchange_beats(bool send) {
  const Beat own = own_beat();
  const std::unique_lock lock = lock_for_watch();
  const auto now = Clock::now();
  const auto check = [](int) {};  // a link that is gone shows as silence
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (peer.incoming.empty() || peer.left) continue;
    while (true) {
      if (peer.receive == MPI_REQUEST_NULL)
        check(MPI_Irecv(peer.incoming.data(), static_cast<int>(peer.incoming.size() * sizeof(Beat)), MPI_BYTE,
                        r, beat_tag, watch_comm_, &peer.receive));
      int done = 0;
      check(MPI_Test(&peer.receive, &done, MPI_STATUS_IGNORE));
      if (done == 0) break;
      take_beats(r, peer.incoming);
      if (rank_ == 0) peer.left = peer.incoming[0].last != 0;
      if (peer.left) break;
    }
  }
  const bool all_left =
      std::ranges::all_of(peers_, [](const Peer& peer) { return peer.incoming.empty() || peer.left; });
  bool leave_now = false;
  {
    const std::lock_guard state(state_mutex_);
    // The last beat of a rank says so; rank 0 says it when it has heard it from all.
    leave_now = may_leave_ && (rank_ != 0 || all_left);
  }
  bool sent_last = leave_now;
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (peer.outgoing.empty()) continue;
    if (peer.send != MPI_REQUEST_NULL) {
      int done = 0;
      check(MPI_Test(&peer.send, &done, MPI_STATUS_IGNORE));
      if (done == 0) {
        sent_last = false;
        continue;
      }
    }
    if (peer.outgoing[0].last != 0 || !(send || leave_now)) continue;
    if (rank_ == 0) {
      for (int other = 1; other < size_; ++other) {
        const Peer& known = peers_[static_cast<std::size_t>(other)];
        Beat& beat = peer.outgoing[static_cast<std::size_t>(other)];
        beat = known.beat;
        beat.heard_s = seconds(now - known.heard);
      }
    }
    peer.outgoing[0] = own;
    peer.outgoing[0].last = leave_now ? 1 : 0;
    check(MPI_Isend(peer.outgoing.data(), static_cast<int>(peer.outgoing.size() * sizeof(Beat)), MPI_BYTE, r,
                    beat_tag, watch_comm_, &peer.send));
    sent_last = false;  // until it was tested
  }
  const std::lock_guard state(state_mutex_);
  stop_ = sent_last && all_left;
  if (leave_now && !stop_) hurry_ = true;
}

void MpiProcess::watch() {
  // Few ranks hear of each other several times a second; many share what rank 0 can send.
  const auto interval = std::min<Clock::duration>(
      std::chrono::milliseconds(std::max(200, size_ * 4)),
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.deadline_s / 5)));
  auto last_sent = Clock::now() - interval;
  auto last_round = Clock::now();
  while (true) {
    bool hurry = false;
    {
      std::unique_lock lock(state_mutex_);
      wake_.wait_for(lock, hurry_ ? 2ms : std::min<Clock::duration>(interval / 4, 50ms),
                     [this] { return hurry_; });
      if (stop_) return;
      hurry = std::exchange(hurry_, false);
    }
    const auto now = Clock::now();
    // This process was held up, or stopped and continued: it has heard nothing because it did not listen.
    if (seconds(now - last_round) > options_.deadline_s / 4) {
      const std::lock_guard lock(state_mutex_);
      for (Peer& peer : peers_) peer.heard = now;
    }
    last_round = now;
    const bool send = hurry || now - last_sent >= interval;
    if (send) last_sent = now;
    exchange_beats(send);
    if (std::exchange(tell_failure_, false) && options_.on_failure) options_.on_failure();
    if (stop_) return;
    check_deadlines();
    if (hurry) std::this_thread::sleep_for(1ms);
  }
}

void MpiProcess::check_deadlines() {
  const auto now = Clock::now();
  const double deadline = options_.deadline_s;
  for (int r = 0; r < size_; ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (peer.incoming.empty() || peer.left) continue;
    const double silent = seconds(now - peer.heard);
    if (silent > deadline)
      end_run(fmt::format(
                  "rank {} ({}) was not heard of for {:.1f} s (the deadline is {:g} s): it is dead, stopped, "
                  "or the link to it is cut; the run ends",
                  r, host(r), silent, deadline),
              1);
  }
  if (rank_ != 0) return;
  // Rank 0 judges those that are alive.
  const Beat own = own_beat();
  int computing = 0, waiting = 0, slowest = 0;
  double least_wait = own.since_s, longest_wait = 0, longest_work = -1;
  for (int r = 0; r < size_; ++r) {
    const State state = r == 0 ? own.state : peers_[static_cast<std::size_t>(r)].beat.state;
    const double since = r == 0 ? own.since_s : seconds(now - peers_[static_cast<std::size_t>(r)].since);
    if (state == State::computing || state == State::moving) {
      ++computing;
      if (state == State::computing && since > longest_work) longest_work = since, slowest = r;
    } else {
      waiting += state != State::leaving;
      if (state != State::leaving) longest_wait = std::max(longest_wait, since);
      least_wait = std::min(least_wait, since);
    }
  }
  if (computing == 0 && waiting > 0 && least_wait > deadline)
    end_run(fmt::format(
                "all ranks have waited for each other for {:.1f} s (the deadline is {:g} s); the run ends. "
                "This is a bug in the order of their calls, please report it",
                least_wait, deadline),
            1);
  const double busy = options_.busy_deadline_s;
  if (busy > 0 && longest_wait > busy && longest_work > busy)
    end_run(fmt::format(
                "rank {} ({}) has computed for {:.1f} s while others wait for it (the deadline is {:g} s); "
                "the run ends. Give it less work, or a longer deadline",
                slowest, host(slowest), longest_work, busy),
            1);
}

std::string MpiProcess::dump() const {
  const auto now = Clock::now();
  std::string text;
  // Nobody holds it for long, but a run that ends waits for nobody.
  std::unique_lock lock(state_mutex_, std::try_to_lock);
  for (int again = 0; again < 100 && !lock.owns_lock(); ++again) {
    std::this_thread::sleep_for(1ms);
    (void)lock.try_lock();
  }
  if (!lock.owns_lock()) return "  (what the ranks are doing cannot be told)\n";
  for (int r = 0; r < size_ && size_ > 1; ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    State state = peer.beat.state;
    double since = seconds(now - peer.since);
    std::string what = peer.beat.what;
    std::string heard = fmt::format(", heard of {:.1f} s ago", seconds(now - peer.heard));
    if (r == rank_) {
      state = state_;
      what = state_ == State::computing ? step_ : what_;
      since = seconds(now - state_since_);
      heard.clear();
      if (state_ == State::computing && messages_waiting_ > 0) {
        state = State::message;
        what = message_what_;
        since = seconds(now - message_since_);
      }
    }
    std::string doing;
    switch (state) {
      case State::computing:
        doing = what.empty() ? "computes" : fmt::format("computes '{}'", what);
        break;
      case State::waiting:
        doing = fmt::format("waits for the others in '{}'", what);
        break;
      case State::moving:
        doing = fmt::format("moves the data of '{}'", what);
        break;
      case State::message:
        doing = fmt::format("waits for a message {}", what);
        break;
      case State::leaving:
        doing = "is at its end";
        break;
    }
    text += fmt::format("  rank {} ({}) {} for {:.1f} s{}\n", r, host(r), doing, since, heard);
  }
  return text;
}

}  // namespace shardwise
