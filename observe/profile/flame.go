package profile

import (
	"cmp"
	"slices"

	pprof "github.com/google/pprof/profile"
)

// Bounds of a flame graph.
const (
	maxFlameDepth = 256
	maxFlameNodes = 20_000
	// Rest is the node for functions that are too small to be shown.
	Rest = "…"
)

// A Node is a box of a flame graph: a function, called by the one that it is a child
// of. The root has no function.
type Node struct {
	Function
	Self, Total float64
	// The same for the profile that this one is compared with; zero if there is none.
	BaseSelf, BaseTotal float64
	Children            []*Node // by name

	index map[Function]*Node // while it is built
}

// FlameDifference makes one flame graph of two profiles. Self and Total come from b, per request if
// requests are given. BaseSelf and BaseTotal come from a. A node with at least the share of the whole
// in either profile is kept. Smaller ones become one child named Rest, without children, and so do the
// smallest of more than 20,000.
func FlameDifference(a, b *pprof.Profile, value string, requestsA, requestsB, share float64) (*Node, error) {
	root := &Node{}
	for _, side := range []struct {
		p        *pprof.Profile
		requests float64
		at       func(*Node) (*float64, *float64)
	}{
		{a, requestsA, func(n *Node) (*float64, *float64) { return &n.BaseSelf, &n.BaseTotal }},
		{b, requestsB, func(n *Node) (*float64, *float64) { return &n.Self, &n.Total }},
	} {
		by := side.requests
		if !(by > 0) {
			by = 1
		}
		if _, _, err := eachStack(side.p, value, func(stack []Function, v float64) { root.grow(stack, side.at, v/by) }); err != nil {
			return nil, err
		}
	}
	root.finish(share)
	return root, nil
}

// grow adds a stack, the leaf first. Beyond the bound of depth callers are kept.
func (n *Node) grow(stack []Function, at func(*Node) (self, total *float64), v float64) {
	for depth := 0; ; depth++ {
		self, total := at(n)
		*total += v
		if len(stack) == 0 || depth == maxFlameDepth {
			*self += v
			return
		}
		f := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		child := n.index[f]
		if child == nil {
			if n.index == nil {
				n.index = map[Function]*Node{}
			}
			child = &Node{Function: f}
			n.index[f] = child
		}
		n = child
	}
}

// finish turns indexes into sorted children, without nodes that are too small.
func (n *Node) finish(share float64) {
	least, leastBase := n.Total*share, n.BaseTotal*share
	if kept := n.sizes(nil); len(kept) > maxFlameNodes {
		// The share that the largest nodes have, if it is more.
		slices.SortFunc(kept, func(x, y float64) int { return cmp.Compare(y, x) })
		above := kept[maxFlameNodes] * (1 + 1e-9) // and no node of the same size
		least, leastBase = max(least, above*n.Total), max(leastBase, above*n.BaseTotal)
	}
	n.prune(least, leastBase)
}

// sizes appends the nodes' shares of the whole: the larger of both profiles'.
func (n *Node) sizes(all []float64) []float64 {
	var visit func(*Node)
	visit = func(c *Node) {
		all = append(all, max(ratio(c.Total, n.Total), ratio(c.BaseTotal, n.BaseTotal)))
		for _, child := range c.index {
			visit(child)
		}
	}
	visit(n)
	return all
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (n *Node) prune(least, leastBase float64) {
	rest := &Node{Function: Function{Name: Rest}}
	for _, c := range n.index {
		if c.Total > 0 && c.Total >= least || c.BaseTotal > 0 && c.BaseTotal >= leastBase {
			c.prune(least, leastBase)
			n.Children = append(n.Children, c)
			continue
		}
		rest.Total += c.Total
		rest.BaseTotal += c.BaseTotal
	}
	if rest.Total != 0 || rest.BaseTotal != 0 {
		rest.Self, rest.BaseSelf = rest.Total, rest.BaseTotal
		n.Children = append(n.Children, rest)
	}
	n.index = nil
	slices.SortFunc(n.Children, func(x, y *Node) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Mapping, y.Mapping))
	})
}
