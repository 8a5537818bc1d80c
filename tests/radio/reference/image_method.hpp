#pragma once
// Paths by the image method, in double precision with std::complex, every sequence of faces tried: the
// independent reference of the coverage kernels. It shares only the scene's numbers with them.

#include <array>
#include <cmath>
#include <complex>
#include <vector>

#include "reference/test_scene.hpp"

namespace shardwise::test {

using ComplexNumber = std::complex<double>;
using ComplexField = std::array<ComplexNumber, 3>;

struct ReferencePath {
  std::vector<int> faces;
  double length = 0;
  ComplexField field{};  ///< unit at the source, before spreading and phase

  /// |E|^2 (lambda / 4 pi L)^2
  double gain(double wavelength) const {
    const double spread = wavelength / (4 * pi * length);
    return spread * spread * (std::norm(field[0]) + std::norm(field[1]) + std::norm(field[2]));
  }
  /// E lambda / (4 pi L) exp(-j 2 pi L / lambda)
  ComplexField transfer(double wavelength) const {
    const double turns = length / wavelength;
    const ComplexNumber factor =
        std::polar(wavelength / (4 * pi * length), -2 * pi * (turns - std::floor(turns)));
    return {field[0] * factor, field[1] * factor, field[2] * factor};
  }
  static constexpr double pi = 3.14159265358979323846;
};

class ImageMethod {
 public:
  ImageMethod(const TestScene& scene, double frequency_hz, bool slab_walls = false)
      : frequency_(frequency_hz), slab_(slab_walls) {
    for (std::uint32_t k = 0; k < scene.triangles().size(); ++k) {
      const BvhTriangle& t = scene.triangles()[k];
      Face face{
          to_double(t.v0), to_double(t.v1) - to_double(t.v0), to_double(t.v2) - to_double(t.v0), {}, {}};
      const Vec3d n = cross(face.edge1, face.edge2);
      face.normal = (1 / std::sqrt(dot(n, n))) * n;
      face.numbers = scene.numbers(k);
      faces_.push_back(face);
    }
  }

  double wavelength() const { return 299792458.0 / frequency_; }

  /// All unblocked paths with exactly `order` reflections.
  std::vector<ReferencePath> paths(Vec3d source, Vec3d receiver, int order, Vec3d polarization) const {
    std::vector<ReferencePath> found;
    std::vector<int> sequence;
    std::vector<Vec3d> images{source};
    extend(found, sequence, images, receiver, order, polarization);
    return found;
  }

  /// The sum of the path gains of all orders from `first` to `last`.
  double gain(Vec3d source, Vec3d receiver, int first, int last, Vec3d polarization) const {
    double sum = 0;
    for (int order = first; order <= last; ++order)
      for (const ReferencePath& path : paths(source, receiver, order, polarization))
        sum += path.gain(wavelength());
    return sum;
  }

  /// The mean of gain() over a rectangle of the plane z = height, by points x points midpoints.
  double cell_gain(Vec3d source, double x0, double x1, double y0, double y1, double height, int points,
                   int first, int last, Vec3d polarization) const {
    double sum = 0;
    for (int j = 0; j < points; ++j)
      for (int i = 0; i < points; ++i)
        sum +=
            gain(source, {x0 + (i + 0.5) / points * (x1 - x0), y0 + (j + 0.5) / points * (y1 - y0), height},
                 first, last, polarization);
    return sum / (points * points);
  }

 private:
  struct Face {
    Vec3d corner, edge1, edge2, normal;
    MaterialNumbers numbers;
  };

  void extend(std::vector<ReferencePath>& found, std::vector<int>& sequence, std::vector<Vec3d>& images,
              Vec3d receiver, int order, Vec3d polarization) const {
    if (order == 0) {
      close(found, sequence, images, receiver, polarization);
      return;
    }
    for (int k = 0; k < static_cast<int>(faces_.size()); ++k) {
      const double distance = dot(images.back() - faces_[k].corner, faces_[k].normal);
      if (std::fabs(distance) < 1e-9) continue;  // the (image) source lies in the plane
      sequence.push_back(k);
      images.push_back(images.back() - (2 * distance) * faces_[k].normal);
      extend(found, sequence, images, receiver, order - 1, polarization);
      images.pop_back();
      sequence.pop_back();
    }
  }

  // Walks back from the receiver through the images; then checks the legs and carries the field along them.
  void close(std::vector<ReferencePath>& found, const std::vector<int>& sequence,
             const std::vector<Vec3d>& images, Vec3d receiver, Vec3d polarization) const {
    const int order = static_cast<int>(sequence.size());
    std::vector<Vec3d> points(order + 2);
    points[0] = images[0];
    points[order + 1] = receiver;
    for (int b = order; b >= 1; --b) {
      const Face& face = faces_[sequence[b - 1]];
      const Vec3d from = points[b + 1], along = images[b] - from;
      const double slope = dot(along, face.normal);
      if (slope == 0) return;
      const double t = dot(face.corner - from, face.normal) / slope;
      if (!(t > 1e-12 && t < 1 - 1e-12)) return;
      points[b] = from + t * along;
      if (!contains(face, points[b])) return;
    }
    for (int leg = 0; leg <= order; ++leg)
      if (blocked(points[leg], points[leg + 1], leg > 0 ? sequence[leg - 1] : -1,
                  leg < order ? sequence[leg] : -1))
        return;
    ReferencePath path;
    path.faces = sequence;
    path.length = length(receiver - images[order]);
    Vec3d k = normalized(points[1] - points[0]);
    const Vec3d start = normalized(polarization - dot(polarization, k) * k);
    path.field = {start.x, start.y, start.z};
    for (int b = 1; b <= order; ++b) {
      const Vec3d next = normalized(points[b + 1] - points[b]);
      path.field = reflect(path.field, faces_[sequence[b - 1]], k, next);
      k = next;
    }
    found.push_back(path);
  }

  static bool contains(const Face& face, Vec3d p) {
    const Vec3d r = p - face.corner;
    const double a = dot(face.edge1, face.edge1), b = dot(face.edge1, face.edge2),
                 c = dot(face.edge2, face.edge2);
    const double d = dot(r, face.edge1), e = dot(r, face.edge2), determinant = a * c - b * b;
    const double u = (c * d - b * e) / determinant, v = (a * e - b * d) / determinant;
    return u >= 0 && v >= 0 && u + v <= 1;
  }

  bool blocked(Vec3d from, Vec3d to, int skip1, int skip2) const {
    const Vec3d along = to - from;
    for (int k = 0; k < static_cast<int>(faces_.size()); ++k) {
      if (k == skip1 || k == skip2) continue;
      const double slope = dot(along, faces_[k].normal);
      if (slope == 0) continue;
      const double t = dot(faces_[k].corner - from, faces_[k].normal) / slope;
      if (t > 1e-9 && t < 1 - 1e-9 && contains(faces_[k], from + t * along)) return true;
    }
    return false;
  }

  ComplexField reflect(const ComplexField& e, const Face& face, Vec3d k, Vec3d next) const {
    const double cosine = std::fabs(dot(k, face.normal)), sine2 = 1 - cosine * cosine;
    ComplexNumber te = -1, tm = 1;
    if (std::isfinite(face.numbers.sigma)) {
      const ComplexNumber eta(face.numbers.eta_r,
                              -face.numbers.sigma / (2 * ReferencePath::pi * frequency_ * 8.8541878128e-12));
      ComplexNumber rho = std::sqrt(face.numbers.mu_r * eta - sine2);
      if (rho.imag() > 0) rho = -rho;
      te = (face.numbers.mu_r * cosine - rho) / (face.numbers.mu_r * cosine + rho);
      tm = (eta * cosine - rho) / (eta * cosine + rho);
      if (slab_) {
        const ComplexNumber round_trip =
            std::exp(ComplexNumber(0, -4 * ReferencePath::pi * face.numbers.thickness / wavelength()) * rho);
        te = te * (1.0 - round_trip) / (1.0 - te * te * round_trip);
        tm = tm * (1.0 - round_trip) / (1.0 - tm * tm * round_trip);
      }
    }
    te *= face.numbers.gain;
    tm *= face.numbers.gain;
    // The component along s turns with r_TE; the rest, in the plane of incidence, is turned with the ray.
    Vec3d s = cross(face.normal, k);
    s = dot(s, s) < 1e-20 ? normalized(cross(k, std::fabs(k.x) < 0.5 ? Vec3d{1, 0, 0} : Vec3d{0, 1, 0}))
                          : normalized(s);
    const Vec3d in = cross(s, k), out = cross(s, next);
    const ComplexNumber along_s = e[0] * s.x + e[1] * s.y + e[2] * s.z;
    const ComplexNumber along_in = e[0] * in.x + e[1] * in.y + e[2] * in.z;
    return {te * along_s * s.x + tm * along_in * out.x, te * along_s * s.y + tm * along_in * out.y,
            te * along_s * s.z + tm * along_in * out.z};
  }

  double frequency_;
  bool slab_;
  std::vector<Face> faces_;
};

}  // namespace shardwise::test
