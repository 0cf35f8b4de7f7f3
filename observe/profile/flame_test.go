package profile

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestFlame(t *testing.T) {
	p := made("cpu", map[string]int64{"main.g main.f main.main": 30, "main.f main.main": 10, "main.h main.main": 58, "main.tiny main.main": 1, "main.small main.main": 1})
	root, err := FlameDifference(made("cpu", nil), p, "cpu", 0, 0, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	want := &Node{Total: 100, Children: []*Node{{
		Function: Function{Name: "main.main"}, Total: 100, Children: []*Node{
			{Function: Function{Name: "main.f"}, Self: 10, Total: 40, Children: []*Node{{Function: Function{Name: "main.g"}, Self: 30, Total: 30}}},
			{Function: Function{Name: "main.h"}, Self: 58, Total: 58},
			{Function: Function{Name: Rest}, Self: 2, Total: 2},
		},
	}}}
	if d := cmp.Diff(want, root, cmpopts.IgnoreUnexported(Node{})); d != "" {
		t.Error(d)
	}
}

func TestFlameDifference(t *testing.T) {
	a := made("cpu", map[string]int64{"main.f main.main": 10, "main.old main.main": 30})
	b := made("cpu", map[string]int64{"main.f main.main": 40, "main.new main.main": 20})
	root, err := FlameDifference(a, b, "cpu", 10, 20, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &Node{Total: 3, BaseTotal: 4, Children: []*Node{{
		Function: Function{Name: "main.main"}, Total: 3, BaseTotal: 4, Children: []*Node{
			{Function: Function{Name: "main.f"}, Self: 2, Total: 2, BaseSelf: 1, BaseTotal: 1},
			{Function: Function{Name: "main.new"}, Self: 1, Total: 1},
			{Function: Function{Name: "main.old"}, BaseSelf: 3, BaseTotal: 3},
		},
	}}}
	if d := cmp.Diff(want, root, cmpopts.IgnoreUnexported(Node{})); d != "" {
		t.Error(d)
	}
	if _, err := FlameDifference(a, b, "none", 1, 1, 0); err == nil {
		t.Error("a value that is not there is no error")
	}
}

// Every node is its own part and its children's, and nothing is lost in what is left out.
func TestFlameSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := stacks(t, "p")
		c, err := Table(p, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		root, err := FlameDifference(made("cpu", nil), p, "cpu", 0, 0, rapid.Float64Range(0, 0.5).Draw(t, "share"))
		if err != nil {
			t.Fatal(err)
		}
		if root.Total != c.Total {
			t.Fatalf("%v of %v", root.Total, c.Total)
		}
		var visit func(n *Node)
		visit = func(n *Node) {
			sum := n.Self
			for _, child := range n.Children {
				sum += child.Total
				visit(child)
			}
			if math.Abs(sum-n.Total) > 1e-9 {
				t.Fatalf("%v: %v of %v", n.Function, sum, n.Total)
			}
		}
		visit(root)
	})
}

func TestFlameIsBounded(t *testing.T) {
	all := map[string]int64{strings.Repeat("main.deep ", 2*maxFlameDepth): 1}
	for i := range maxFlameNodes + 5000 {
		all[fmt.Sprintf("main.f%d main.main", i)] = 1 + int64(i%2)
	}
	root, err := FlameDifference(made("cpu", nil), made("cpu", all), "cpu", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	count, depth := 0, 0
	var visit func(n *Node, d int)
	visit = func(n *Node, d int) {
		count++
		depth = max(depth, d)
		for _, child := range n.Children {
			visit(child, d+1)
		}
	}
	visit(root, 0)
	if count > maxFlameNodes+1000 || count < maxFlameNodes/4 || depth > maxFlameDepth { // a few nodes of Rest come on top
		t.Errorf("%d nodes, %d deep", count, depth)
	}
}
