// The modules and methods of a network in PyTorch. The tree of modules follows the names of the weights; each
// step belongs to the body of one method: a module's forward, or a method for what a plugin added at a join.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/export/torch_steps.h"

namespace rewire::runtime {

struct TorchNode {
  std::string name = {}, path = {};  // "attn", "blocks.0.attn"; both "" for the network
  int parent = -1;
  std::vector<int> children = {};         // in the order of the weights
  std::vector<std::string> weights = {};  // names of its own weights
  bool is_layer = false;                  // a layer of PyTorch
  bool is_list = false;                   // its children are numbered, and it has nothing else
  bool is_sequence = false;               // a list whose numbers are 0, 1, 2, …
  int height = 0;                         // over its deepest module
};

/// What a body does, in order: a step, or a call of another body.
struct TorchItem {
  bool is_call = false;
  std::size_t index = 0;  // of the step or the body
};

struct TorchBody {
  int owner = 0;  // the node that has the method
  int parent = -1;
  std::string method = {};  // "forward", or the plugin's name
  std::string plugin = {};
  std::string site = {};  // of a plugin's body: the module that its join ends, "blocks.0.attn"
  std::vector<TorchItem> items = {};
  std::vector<ir::Value> inputs = {}, outputs = {};
};

struct TorchTree {
  std::vector<TorchNode> nodes;              // the network first
  std::vector<TorchBody> bodies;             // the network's first
  std::map<std::int32_t, std::size_t> free;  // the steps of free values, by value

  /// Returns the path as an expression: "self.blocks[0].attn" for blocks.0.attn of the network.
  std::string expression(int from, const std::string& path) const;
  bool covers(int node, const std::string& path) const;
};

TorchTree torch_tree(const ExportFunction& forward, const TorchSteps& steps);

}  // namespace rewire::runtime
