#pragma once
// Radio materials: what a scene says of one, and what it is at a frequency.
// Source of the table: ITU-R P.2040-3, section 2.1.4, eta_r = a f^b and sigma = c f^d with f in GHz.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise {

/// One row of the table: a class inside one closed frequency range.
struct ItuEntry {
  std::string_view name;
  double low_ghz, high_ghz;  ///< both 0 for "any"
  double a, b, c, d;
};

/// The rows of ITU-R P.2040-3 in the order of the recommendation; a class may have two rows (glass,
/// ceiling_board).
const std::vector<ItuEntry>& itu_table();

/// Whether `name` is a class of the table, spelled exactly.
bool is_itu_class(std::string_view name);

/// The class a material's name stands for: the name without a leading `itu_` or `mat-itu_`; a numeric suffix
/// as modelling programs add it (`itu_concrete.001`) is dropped, and `*note` then says so. Empty where it is
/// no class.
std::optional<std::string> itu_class_from_name(std::string_view name, std::string* note = nullptr);

/// The name without a numeric suffix as modelling programs add it to copies: `wall.001` is `wall`.
std::string_view without_numeric_suffix(std::string_view name);

/// The class whose name is nearest to `name` by edit distance, prefixes and suffixes taken off first.
std::string nearest_itu_class(std::string_view name);

/// A material as a scene states it, independent of frequency.
struct Material {
  enum class Kind {
    itu_class,  ///< eta_r and sigma follow from `itu_class` and the frequency
    constants,  ///< eta_r, sigma, mu_r as given
  };
  std::string name;  ///< as the scene spells it
  Kind kind = Kind::constants;
  std::string itu_class;   ///< for Kind::itu_class
  double eta_r = 1;        ///< relative permittivity, > 0
  double sigma = 0;        ///< S/m, >= 0; +inf is a perfect conductor
  double mu_r = 1;         ///< relative permeability, > 0
  double thickness = 0.1;  ///< of a thin wall, metres, >= 0
  double gain = 1;         ///< factor on reflected amplitudes, >= 0
  std::vector<std::pair<std::string, std::string>>
      unused;  ///< keys read and kept, but not yet used, with their text

  friend bool operator==(const Material&, const Material&) = default;
};

/// A material of class `itu_class`; throws a usage error with the nearest class where there is none of that
/// name.
Material make_itu_material(std::string name, std::string_view itu_class, double thickness = 0.1);

/// Throws a usage error that names `op`, the material, the key and the value where a constant is out of its
/// range.
void validate_material(const Material& material, const std::string& op);

/// A material at one frequency: what the kernels get, once rounded.
struct MaterialAtFrequency {
  double eta_r = 1;
  double sigma = 0;  ///< S/m; +inf where perfect_conductor
  double mu_r = 1;
  double thickness = 0.1;
  double gain = 1;
  bool perfect_conductor = false;

  friend bool operator==(const MaterialAtFrequency&, const MaterialAtFrequency&) = default;
};

/// The material at `frequency_hz`. Outside its ranges a class is extrapolated from the nearest range (by
/// ratio) with a warning in `*warnings` that names the material, class, ranges and frequency; with `strict`
/// that is a data error. Runs on the host only, once per call of an operation (std::pow).
MaterialAtFrequency evaluate(const Material& material, double frequency_hz, bool strict,
                             std::vector<std::string>* warnings);

}  // namespace shardwise
