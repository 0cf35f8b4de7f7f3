package output

import "testing"

func TestColoured(t *testing.T) {
	for _, c := range []struct {
		no          bool
		environment map[string]string
		want        bool
	}{
		{false, map[string]string{"TERM": "xterm"}, true},
		{false, map[string]string{"NO_COLOR": ""}, true},
		{true, nil, false},
		{false, map[string]string{"NO_COLOR": "0"}, false},
		{false, map[string]string{"TERM": "dumb"}, false},
	} {
		if got := Coloured(c.no, func(name string) string { return c.environment[name] }); got != c.want {
			t.Errorf("--no-color %v, environment %v: %v", c.no, c.environment, got)
		}
	}
}
