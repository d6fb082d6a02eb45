#include "topology/describe.h"
#include "topology/inventory.h"
#include "topology/json_document.h"
#include "topology/json_reader.h"

namespace tutti {
namespace {
constexpr std::string_view kFormat = "tutti.inventory";
constexpr int kVersion = 1;
}  // namespace

std::string to_json(const Inventory& inventory) { return write_document(inventory, kFormat, kVersion); }

Result<Inventory> parse_inventory(std::string_view json) { return read_document<Inventory>(json, kFormat, kVersion); }

}  // namespace tutti
