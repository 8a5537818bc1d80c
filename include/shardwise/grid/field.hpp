#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwise/grid/blocks.hpp"

namespace shardwise {

/// Where the cells of one block lie in its memory. The owned cell (i, j, k) is element
/// origin + i stride[0] + j stride[1] + k stride[2]; ghosts are at negative indices and beyond `cells`, as
/// many layers as `halo` says (0 where the layout keeps none).
struct BlockLayout {
  std::array<std::int64_t, 3> cells{1, 1, 1}, stride{1, 1, 1};
  std::array<int, 3> halo{};
  std::int64_t origin = 0, size = 0;
};

/// One block of a field, for code of your own. `cell` is the owned cell (0, 0, 0) in the memory of the device
/// of `stream`. Work on it goes to `stream`.
template <class T>
struct FieldView {
  T* cell = nullptr;
  BlockLayout layout;
  Stream* stream = nullptr;
  int part = 0;
  Access access;  ///< all of its memory, to declare in an operation (as read; set the mode)
};

template <class T>
struct FieldStorage;

/// Values on the cells of a grid, one block a part. Owned values are data; ghost values are scratch and mean
/// nothing between calls. T is float or double. Move-only. A new field holds NaN.
template <class T>
class Field {
 public:
  Field(const Blocks& blocks, std::string name);
  /// With a layout of its own in place of the blocks'.
  Field(const Blocks& blocks, std::string name, GhostLayout layout);
  Field(Field&&) noexcept;
  Field& operator=(Field&&) noexcept;
  ~Field();

  const Blocks& blocks() const;
  const std::string& name() const;
  /// f(x, y, z) at the owned centres (0 for dimensions that the grid lacks), on the host.
  void set(const std::function<double(double, double, double)>& f);
  void fill(T value);
  /// All global cells, the first dimension fastest, on every process; or on process `root` alone (elsewhere
  /// empty). Collective.
  std::vector<T> gather(int root = -1) const;
  /// The reverse of gather(). Throws size_mismatch.
  void scatter_global(std::span<const T> values);
  void copy_from(const Field& other);

  /// The block of a local part; later work on its stream is ordered behind what the library has done to it.
  FieldView<T> view(int part);
  /// The whole memory of a block, ghosts included, on the host; and the reverse. For tests and tools.
  std::vector<T> memory(int part) const;
  void set_memory(int part, std::span<const T> values);
  const BlockLayout& layout(int part) const;

  FieldStorage<T>& storage() const { return *storage_; }

 private:
  std::unique_ptr<FieldStorage<T>> storage_;
};

extern template class Field<float>;
extern template class Field<double>;

}  // namespace shardwise
