#pragma once
// The lanes of a coverage map on the host: 64 paths side by side, the same steps with the same bits as
// coverage_lane(), over arrays.
//
// One path is a chain of dependent steps, and g++ makes scalar code of it. Here every step is a loop over all
// paths: those of plain arithmetic have no branch and become vector instructions; those with branches (cells,
// sums, materials) are short and independent of each other.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "radio/coverage_kernel.hpp"
#include "scene/ray_batch.hpp"

namespace shardwise {

/// Lanes are taken in blocks of this many, and inside a block by azimuth: neighbours then go through the same
/// nodes of the tree and hit the same walls. Sums do not depend on it: `exact` by arithmetic, `ordered` by
/// its slots.
inline constexpr std::int64_t lanes_in_order = 2048;

using LaneOrder = std::array<std::uint16_t, lanes_in_order>;

/// Places of a block's lanes in the order in which they run. Generated lanes go by azimuth: lane first + j
/// has that of `first` and j golden turns (fibonacci_direction), so the order around the circle is the same
/// for every block. The caller's own rays keep their order.
inline const LaneOrder& lane_order(bool from_rows) {
  static const auto orders = [] {
    std::array<LaneOrder, 2> orders{};
    for (LaneOrder& order : orders) std::iota(order.begin(), order.end(), std::uint16_t{0});
    std::sort(orders[0].begin(), orders[0].end(),
              [](std::uint64_t a, std::uint64_t b) { return a * golden_turn < b * golden_turn; });
    return orders;
  }();
  return orders[from_rows ? 1 : 0];
}

/// Paths at the same depth. Tracer: void closest(const RayBatch&, int count, float t_min, HitBatch&) const.
template <class Tracer, class Sink, class Hooks = NoCoverageHooks>
class CoveragePaths {
 public:
  static constexpr int capacity = RayBatch::capacity;

  CoveragePaths(const CoverageParams& params, const Tracer& tracer, Sink& sink, Hooks hooks = Hooks{})
      : params_(params), tracer_(tracer), sink_(sink), hooks_(hooks) {}

  /// Lanes first .. first + count from launch to end.
  LaneCounters run(std::uint64_t first, std::int64_t count) {
    LaneCounters counters;
    std::uint16_t places[capacity];
    int taken = 0;
    for (std::int64_t block = 0; block < count; block += lanes_in_order) {
      const auto run_taken = [&] {
        run_together(first + static_cast<std::uint64_t>(block), places, taken, counters);
        taken = 0;
      };
      for (const std::uint16_t place : lane_order(params_.launch.from_rows)) {
        if (block + place >= count) continue;
        places[taken++] = place;
        if (taken == capacity) run_taken();
      }
      if (taken > 0) run_taken();
    }
    return counters;
  }

 private:
  using Floats = float[capacity];

  /// Lanes first + places[0 .. count), count <= capacity.
  void run_together(std::uint64_t first, const std::uint16_t* places, int count, LaneCounters& counters) {
    launch(first, places, count, counters);
    for (depth_ = 0; alive_ > 0; ++depth_) {
      meet_plane_all();
      prepare();
      if (alive_ == 0) return;
      tracer_.closest(rays_, alive_, leg_t_min, hits_);
      counters.segments += static_cast<std::uint32_t>(alive_);
      add_crossings(counters);
      if (depth_ == params_.bounces) return;
      find_materials();
      find_frames();
      mend_te_axes();
      if (params_.slab_walls)
        find_slab_coefficients();
      else
        find_coefficients();
      reflect();
      keep_survivors();
    }
  }

  [[gnu::flatten]] void launch(std::uint64_t first, const std::uint16_t* places, int count,
                               LaneCounters& counters) {
    alive_ = 0;
    LaneState state;
    for (int i = 0; i < count; ++i) {
      if (!begin_lane(params_, sink_, first + places[i], state, counters)) continue;
      const int k = alive_++;
      rays_.set_origin(k, state.origin);
      rays_.set_direction(k, state.direction);
      set_field(k, state.field);
      power_[k] = state.power;
      weight_[k] = state.weight;
      t_limit_[k] = state.t_limit;
      pass_[k] = state.pass;
      lane_[k] = state.lane;
      inverse_root_gain_[k] = state.inverse_root_gain;
      if constexpr (Sink::wants_fields) image_[k] = state.image;
    }
  }

  // prepare_leg() in two loops.
  [[gnu::flatten]] void meet_plane_all() {
    const GridView grid = params_.grid;
    const SceneView scene = params_.scene;
    const int axes[3] = {grid.axis, grid.axis0(), grid.axis1()};
    const float *o0 = rays_.o[axes[0]], *o1 = rays_.o[axes[1]], *o2 = rays_.o[axes[2]];
    const float *d0 = rays_.d[axes[0]], *d1 = rays_.d[axes[1]], *d2 = rays_.d[axes[2]];
    const int count = alive_;
    for (int i = 0; i < count; ++i) {
      const Vec3f o{o0[i], o1[i], o2[i]};  // its size does not depend on the order of the axes
      const PlaneMeeting meeting = meet_plane(grid, o, {d0[i], d1[i], d2[i]}, scene.offset_at(o));
      t_cross_[i] = meeting.t;
      cosine_[i] = meeting.cosine;
      c0_[i] = meeting.c0;
      c1_[i] = meeting.c1;
      crosses_[i] = meeting.crosses & (meeting.t < t_limit_[i]);
    }
    if (depth_ == 0 && !params_.line_of_sight) std::fill_n(crosses_, count, 0u);
  }

  void prepare() {
    if (depth_ == params_.bounces) {
      int kept = 0;
      for (int i = 0; i < alive_; ++i) {
        if (!crosses_[i]) continue;
        move_path(i, kept);
        t_cross_[kept] = rays_.t_max[kept] = t_cross_[i];
        cosine_[kept] = cosine_[i];
        c0_[kept] = c0_[i];
        c1_[kept] = c1_[i];
        ++kept;
      }
      for (int i = 0; i < kept; ++i) crosses_[i] = 1;
      alive_ = kept;
    } else {
      for (int i = 0; i < alive_; ++i) rays_.t_max[i] = t_limit_[i];
    }
    for (int i = 0; i < alive_; ++i) {
      if (!crosses_[i]) continue;
      cell_[i] = cell_at(params_.grid, c0_[i], c1_[i]);
      sink_.prefetch(pass_[i], cell_[i]);
    }
  }

  // finish_leg() up to the crossing.
  void add_crossings(LaneCounters& counters) {
    int crossings = 0;
    for (int i = 0; i < alive_; ++i) {
      list_[crossings] = i;
      crossings += (crosses_[i] != 0) & (t_cross_[i] < hits_.t[i]);
    }
    for (int k = 0; k < crossings; ++k) {
      const int i = list_[k];
      const float weight_over_cosine = weight_[i] / cosine_[i];
      FieldSample sample{};
      if constexpr (Sink::wants_fields)
        sample = detail::field_sample(params_, field(i), image_[i], rays_.origin(i), rays_.direction(i),
                                      t_cross_[i], weight_over_cosine * inverse_root_gain_[i]);
      if (!sink_.add(lane_[i], pass_[i], depth_, cell_[i], weight_over_cosine * power_[i], sample))
        ++counters.overflow;
    }
  }

  // finish_leg() from there on.
  void find_materials() {
    for (int i = 0; i < alive_; ++i) {
      reflects_[i] = 0;
      if (!hits_.valid(i)) continue;
      const std::int32_t index = params_.scene.face_material[hits_.prim[i]];
      if (index < 0 || index >= params_.material_count) continue;
      const SurfaceMaterial& material = params_.materials[index];
      material_[i] = index;
      contrast_re_[i] = material.contrast_re;
      contrast_im_[i] = material.contrast_im;
      eta_re_[i] = material.eta_re;
      eta_im_[i] = material.eta_im;
      mu_r_[i] = material.mu_r;
      gain_[i] = material.gain;
      flags_[i] = material.flags;
      reflects_[i] = material.flags & SurfaceMaterial::valid;
    }
  }

  [[gnu::flatten]] void find_frames() {
    for (int i = 0; i < alive_; ++i) {
      const Vec3f corner = hits_.corner_of(i, 0);
      const SurfaceFrame frame =
          surface_frame(hits_.corner_of(i, 1) - corner, hits_.corner_of(i, 2) - corner, rays_.direction(i));
      store(normal_, i, frame.normal);
      cosine_[i] = frame.cosine;
      squared_[i] = frame.squared;
      store(te_axis_, i, te_axis_off_normal(frame.across, frame.squared));
    }
  }

  void mend_te_axes() {
    for (int i = 0; i < alive_; ++i)
      if (reflects_[i] && !(squared_[i] > least_across_squared))
        store(te_axis_, i, any_transverse(rays_.direction(i)));
  }

  void find_slab_coefficients() {
    for (int i = 0; i < alive_; ++i)
      if (reflects_[i]) store(i, reflect_slab(params_.materials[material_[i]], cosine_[i]));
  }

  [[gnu::flatten]] void find_coefficients() {
    for (int i = 0; i < alive_; ++i) {
      SurfaceMaterial material;
      material.contrast_re = contrast_re_[i];
      material.contrast_im = contrast_im_[i];
      material.eta_re = eta_re_[i];
      material.eta_im = eta_im_[i];
      material.mu_r = mu_r_[i];
      material.gain = gain_[i];
      material.flags = flags_[i];
      store(i, reflect_half_space(material, cosine_[i]));
    }
  }

  [[gnu::flatten]] void reflect() {
    for (int i = 0; i < alive_; ++i) {
      const Vec3f normal = load(normal_, i), direction = rays_.direction(i);
      const Vec3f reflected = reflect_direction(direction, normal, cosine_[i]);
      const ComplexVec3 out = reflect_field_about(field(i), {{te_[0][i], te_[1][i]}, {tm_[0][i], tm_[1][i]}},
                                                  load(te_axis_, i), direction, reflected);
      store(reflected_, i, reflected);
      set_field(i, out);
      next_power_[i] = norm(out);
      const Vec3f corner = hits_.corner_of(i, 0);
      const Vec3f edge1 = hits_.corner_of(i, 1) - corner, edge2 = hits_.corner_of(i, 2) - corner;
      const Vec3f point = corner + hits_.u[i] * edge1 + hits_.v[i] * edge2;
      store(point_, i, point);
      rays_.set_origin(i, lifted(params_.scene, point, normal));
    }
  }

  void keep_survivors() {
    int kept = 0;
    for (int i = 0; i < alive_; ++i) {
      if (!reflects_[i] || !(next_power_[i] > 0)) continue;
      hooks_.surface_hit({lane_[i], depth_, hits_.prim[i], load(point_, i), load(normal_, i),
                          rays_.direction(i), weight_[i], power_[i]});
      if constexpr (Sink::wants_fields)
        image_[i] = mirror(image_[i], hits_.corner_of(i, 0), hits_.corner_of(i, 1), hits_.corner_of(i, 2));
      if (!hooks_.survives(lane_[i], depth_ + 1, next_power_[i], weight_[i])) continue;
      move_path(i, kept);
      rays_.set_direction(kept, load(reflected_, i));
      power_[kept] = next_power_[i];
      t_limit_[kept] = infinity_f;
      ++kept;
    }
    alive_ = kept;
  }

  void move_path(int from, int to) {
    rays_.set_origin(to, rays_.origin(from));
    rays_.set_direction(to, rays_.direction(from));
    set_field(to, field(from));
    power_[to] = power_[from];
    weight_[to] = weight_[from];
    pass_[to] = pass_[from];
    lane_[to] = lane_[from];
    inverse_root_gain_[to] = inverse_root_gain_[from];
    if constexpr (Sink::wants_fields) image_[to] = image_[from];
  }

  static void store(float (&array)[3][capacity], int i, Vec3f v) {
    array[0][i] = v.x, array[1][i] = v.y, array[2][i] = v.z;
  }
  static Vec3f load(const float (&array)[3][capacity], int i) {
    return {array[0][i], array[1][i], array[2][i]};
  }
  void store(int i, const PolarizedPair<float>& r) {
    te_[0][i] = r.te.re, te_[1][i] = r.te.im;
    tm_[0][i] = r.tm.re, tm_[1][i] = r.tm.im;
  }
  ComplexVec3 field(int i) const { return {load(field_re_, i), load(field_im_, i)}; }
  void set_field(int i, const ComplexVec3& e) {
    store(field_re_, i, e.re);
    store(field_im_, i, e.im);
  }

  const CoverageParams& params_;
  const Tracer& tracer_;
  Sink& sink_;
  Hooks hooks_;
  int alive_ = 0, depth_ = 0;

  // LaneState of every path.
  RayBatch rays_{};
  alignas(64) float field_re_[3][capacity];
  alignas(64) float field_im_[3][capacity];
  alignas(64) Floats power_, weight_, t_limit_, inverse_root_gain_;
  alignas(64) std::uint32_t pass_[capacity];
  std::uint64_t lane_[capacity];
  Vec3d image_[Sink::wants_fields ? capacity : 1];

  // Of the leg.
  alignas(64) Floats t_cross_, cosine_, c0_, c1_;
  alignas(64) std::uint32_t crosses_[capacity];
  std::int64_t cell_[capacity];
  HitBatch hits_{};
  int list_[capacity + 1];

  // Of the reflection. Where a path does not reflect, its numbers are computed along with the others' and
  // left.
  std::int32_t material_[capacity] = {};
  alignas(64) Floats contrast_re_{}, contrast_im_{}, eta_re_{}, eta_im_{}, mu_r_{}, gain_{};
  alignas(64) std::uint32_t flags_[capacity] = {};
  alignas(64) std::uint32_t reflects_[capacity];
  alignas(64) float normal_[3][capacity], te_axis_[3][capacity], reflected_[3][capacity], point_[3][capacity];
  alignas(64) float te_[2][capacity] = {}, tm_[2][capacity] = {};
  alignas(64) Floats squared_, next_power_;
};

}  // namespace shardwise
