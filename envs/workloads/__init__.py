"""Named workloads: a module for each, with one attribute `scenario`; flags override its fields."""
