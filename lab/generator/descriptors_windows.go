package generator

import "dyno/load/engine/subscribe"

// DescriptorLimit returns how many connections one process may have: Windows bounds them by its memory only.
func DescriptorLimit() (uint64, error) { return subscribe.Max, nil }
