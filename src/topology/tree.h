// A tree of lines, drawn with box characters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace tutti {

struct TreeNode {
  std::string text;
  std::vector<TreeNode> children;

  // The new child; valid until the next is added.
  TreeNode& add(std::string child) { return children.emplace_back(TreeNode{std::move(child), {}}); }
};

std::string render(const TreeNode& root);

// The host's line with all its facts beneath.
TreeNode tree_of(const Inventory& inventory);

// "11.2 GB/s (probe)", "80 ns (default)".
std::string rate_text(const Figure& figure);
std::string time_text(const Figure& figure);

// "shm: 11.2 GB/s (probe), one way 80 ns (probe), memory mapped; 6 pairs like ranks 0 and 1"
std::string link_text(const LinkClass& each);

}  // namespace tutti
