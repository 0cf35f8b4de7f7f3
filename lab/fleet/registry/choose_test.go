package registry

import (
	"strings"
	"testing"

	"dyno/lab/fleet/agent"
)

func TestChoose(t *testing.T) {
	of := func(name string, parts int) Agent { return Agent{Info: agent.Info{Name: name, Parts: parts}} }
	cordoned, held := of("c", 0), of("h", 0)
	cordoned.Cordoned, held.Held = true, true
	all := []Agent{of("a", 2), of("b", 1), cordoned, of("d", 0), of("e", 0), of("f", 1), held}
	for _, c := range []struct {
		all   []Agent
		n     int
		alone bool
		want  string // names, or the error
	}{
		{all, 0, false, "d e b f a"},
		{all, 3, false, "d e b"},
		{all, 0, true, "d e"},
		{all, 6, false, "7 agents match, and 5 of them are free: want 6"},
		{all, 3, true, "7 agents match, and 2 of them are free: want 3"},
		{nil, 0, false, "0 agents match, and 0 of them are free: want 1"},
	} {
		chosen, err := Choose(c.all, c.n, c.alone)
		var names []string
		for _, a := range chosen {
			names = append(names, a.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d of %d, alone %v: %s, want %s", c.n, len(c.all), c.alone, got, c.want)
		}
	}
}
