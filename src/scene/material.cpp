#include "shardwise/scene/material.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

const std::vector<ItuEntry>& itu_table() {
  static const std::vector<ItuEntry> table{
      {"vacuum", 0, 0, 1, 0, 0, 0},
      {"concrete", 1, 100, 5.24, 0, 0.0462, 0.7822},
      {"brick", 1, 40, 3.91, 0, 0.0238, 0.16},
      {"plasterboard", 1, 100, 2.73, 0, 0.0085, 0.9395},
      {"wood", 0.001, 100, 1.99, 0, 0.0047, 1.0718},
      {"glass", 0.1, 100, 6.31, 0, 0.0036, 1.3394},
      {"glass", 220, 450, 5.79, 0, 0.0004, 1.658},
      {"ceiling_board", 1, 100, 1.48, 0, 0.0011, 1.0750},
      {"ceiling_board", 220, 450, 1.52, 0, 0.0029, 1.029},
      {"chipboard", 1, 100, 2.58, 0, 0.0217, 0.7800},
      {"plywood", 1, 40, 2.71, 0, 0.33, 0},
      {"marble", 1, 60, 7.074, 0, 0.0055, 0.9262},
      {"floorboard", 50, 100, 3.66, 0, 0.0044, 1.3515},
      {"metal", 1, 100, 1, 0, 1e7, 0},
      {"very_dry_ground", 1, 10, 3.0, 0, 0.00015, 2.52},
      {"medium_dry_ground", 1, 10, 15, -0.1, 0.035, 1.63},
      {"wet_ground", 1, 10, 30, -0.4, 0.15, 1.30},
  };
  return table;
}

namespace {

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"mat-itu_", "itu_"}) {
    if (name.substr(0, prefix.size()) == prefix) return name.substr(prefix.size());
  }
  return name;
}

/// Levenshtein distance with unit costs.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

std::string unknown_class(std::string_view name) {
  return fmt::format("'{}' is no material class; the nearest is '{}'", name, nearest_itu_class(name));
}

/// How far outside [low, high] a frequency lies, as the logarithm of a ratio; 0 inside.
double distance_to_range(const ItuEntry& entry, double ghz) {
  if (entry.high_ghz == 0) return 0;
  if (ghz < entry.low_ghz) return std::log(entry.low_ghz / ghz);
  if (ghz > entry.high_ghz) return std::log(ghz / entry.high_ghz);
  return 0;
}

}  // namespace

bool is_itu_class(std::string_view name) {
  const auto& table = itu_table();
  return std::any_of(table.begin(), table.end(), [&](const ItuEntry& entry) { return entry.name == name; });
}

std::string_view without_numeric_suffix(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return name;
  const std::string_view digits = name.substr(dot + 1);
  const bool numeric = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return numeric ? name.substr(0, dot) : name;
}

std::optional<std::string> itu_class_from_name(std::string_view name, std::string* note) {
  const std::string_view stem = without_prefix(name);
  if (is_itu_class(stem)) return std::string(stem);
  const std::string_view shorter = without_numeric_suffix(stem);
  if (shorter != stem && is_itu_class(shorter)) {
    if (note) *note = fmt::format("material '{}' is taken as class '{}'", name, shorter);
    return std::string(shorter);
  }
  return std::nullopt;
}

std::string nearest_itu_class(std::string_view name) {
  std::string stem(without_numeric_suffix(without_prefix(name)));
  if (stem.rfind("mat-", 0) == 0) stem.erase(0, 4);
  std::transform(stem.begin(), stem.end(), stem.begin(), [](char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
    return c == '-' || c == ' ' ? '_' : c;
  });
  std::string_view best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const ItuEntry& entry : itu_table()) {
    const std::size_t distance = edit_distance(stem, entry.name);
    if (distance < best_distance) {
      best_distance = distance;
      best = entry.name;
    }
  }
  return std::string(best);
}

Material make_itu_material(std::string name, std::string_view itu_class, double thickness) {
  if (!is_itu_class(itu_class)) throw_usage("material " + unknown_class(itu_class));
  Material material;
  material.name = std::move(name);
  material.kind = Material::Kind::itu_class;
  material.itu_class = std::string(itu_class);
  material.thickness = thickness;
  return material;
}

void validate_material(const Material& material, const std::string& op) {
  const auto require = [&](bool good, const char* key, const char* rule, double value) {
    if (!good)
      throw_usage(
          fmt::format("{}: {} of material '{}' must be {} (got {})", op, key, material.name, rule, value));
  };
  if (material.kind == Material::Kind::itu_class) {
    if (!is_itu_class(material.itu_class)) {
      throw_usage(fmt::format("{}: material '{}': {}", op, material.name, unknown_class(material.itu_class)));
    }
  } else {
    require(std::isfinite(material.eta_r) && material.eta_r > 0, "eta_r", "finite and positive",
            material.eta_r);
    require(material.sigma >= 0, "sigma", "at least 0 S/m, inf for a perfect conductor", material.sigma);
    require(std::isfinite(material.mu_r) && material.mu_r > 0, "mu_r", "finite and positive", material.mu_r);
  }
  require(std::isfinite(material.thickness) && material.thickness >= 0, "thickness",
          "finite and at least 0 m", material.thickness);
  require(std::isfinite(material.gain) && material.gain >= 0, "gain", "finite and at least 0", material.gain);
}

MaterialAtFrequency evaluate(const Material& material, double frequency_hz, bool strict,
                             std::vector<std::string>* warnings) {
  if (!(std::isfinite(frequency_hz) && frequency_hz > 0)) {
    throw_usage(fmt::format("frequency must be finite and positive (got {} Hz)", frequency_hz));
  }
  validate_material(material, "evaluate");
  MaterialAtFrequency result;
  result.thickness = material.thickness;
  result.gain = material.gain;
  if (material.kind == Material::Kind::constants) {
    result.eta_r = material.eta_r;
    result.sigma = material.sigma;
    result.mu_r = material.mu_r;
    result.perfect_conductor = std::isinf(material.sigma);
    return result;
  }

  const double ghz = frequency_hz / 1e9;
  const ItuEntry* best = nullptr;
  std::string ranges;
  for (const ItuEntry& entry : itu_table()) {
    if (entry.name != material.itu_class) continue;
    if (!ranges.empty()) ranges += " and ";
    ranges += fmt::format("{} to {} GHz", entry.low_ghz, entry.high_ghz);
    if (!best || distance_to_range(entry, ghz) < distance_to_range(*best, ghz)) best = &entry;
  }
  if (distance_to_range(*best, ghz) > 0) {
    const std::string text = fmt::format("material '{}': class {} is given for {}, not for {} GHz",
                                         material.name, material.itu_class, ranges, ghz);
    if (strict)
      throw_data(text + "; choose a frequency inside, another class, or leave --strict-materials out");
    if (warnings) warnings->push_back(text + "; its formula is extrapolated");
  }
  result.eta_r = best->a * std::pow(ghz, best->b);
  result.sigma = best->c * std::pow(ghz, best->d);
  return result;
}

}  // namespace shardwise
