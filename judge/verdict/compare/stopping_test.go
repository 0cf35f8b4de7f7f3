package compare

import (
	"testing"

	"dyno/judge/stat"
)

func TestWhyDecided(t *testing.T) {
	for want, d := range map[string]stat.Decision{
		"7 of 8 rounds":                                {Rounds: 7, Most: 8},
		"all 8 rounds were measured":                   {Rounds: 8, Most: 8, Wanted: 1, Look: 1},
		"half-width 0.005 after 8 rounds, want 0.0099": {Rounds: 8, Most: 20, HalfWidth: 0.005, Wanted: 0.0099},
		"look 2 of 3: p 0.0015, stops at 0.014":        {Rounds: 16, Most: 24, Look: 2, Looks: 3, P: 0.0015, Level: 0.014},
	} {
		if got := WhyDecided(d); got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
