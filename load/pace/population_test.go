package pace

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPopulationIsTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.IntRange(0, 40)
		var stages []Stage
		total := time.Duration(0)
		for range rapid.IntRange(1, 5).Draw(t, "stages") {
			s := Stage{Duration: time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond}
			s.From, s.To = float64(level.Draw(t, "from")), float64(level.Draw(t, "to"))
			stages, total = append(stages, s), total+s.Duration
		}
		p, err := NewPopulation(stages)
		if err != nil {
			return // nobody at all
		}
		at := time.Duration(rapid.Int64Range(0, int64(total)-1).Draw(t, "at"))
		want, rest := 0.0, at
		for _, s := range stages {
			if rest < s.Duration {
				want = s.From + (s.To-s.From)*float64(rest)/float64(s.Duration)
				break
			}
			rest -= s.Duration
		}
		have := 0
		for user := range p.Most() + 1 {
			begin, end, ok := p.Presence(user, at)
			if ok && begin <= at {
				have++
			}
			if ok && (end <= at || begin >= end) {
				t.Fatalf("user %d is present from %v to %v after %v", user, begin, end, at)
			}
		}
		if math.Abs(float64(have)-want) > 0.5+1e-6 {
			t.Fatalf("%d users at %v, want %v", have, at, want)
		}
	})
}

func TestPresence(t *testing.T) {
	p, err := NewPopulation([]Stage{
		{Duration: 10 * time.Second, To: 5}, {Duration: 5 * time.Second, From: 5, To: 5},
		{Duration: 5 * time.Second}, {Duration: 10 * time.Second, From: 2, To: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user       int
		after      time.Duration
		begin, end time.Duration
		ok         bool
	}{
		{0, 0, time.Second, 15 * time.Second, true},
		{4, 0, 9 * time.Second, 15 * time.Second, true},
		{4, 15 * time.Second, 0, 0, false},
		{1, 15 * time.Second, 20 * time.Second, Forever, true},
		{5, 0, 0, 0, false},
	} {
		begin, end, ok := p.Presence(c.user, c.after)
		if ok != c.ok || ok && (begin != c.begin || end != c.end) {
			t.Errorf("user %d after %v: %v to %v, %v; want %v to %v, %v", c.user, c.after, begin, end, ok, c.begin, c.end, c.ok)
		}
	}
	if p.Most() != 5 || p.First() != 0 {
		t.Errorf("most %d, first %d", p.Most(), p.First())
	}
	for _, bad := range [][]Stage{nil, {{Duration: time.Second}}, {{Duration: 0, To: 1}}, {{Duration: time.Second, To: 1.5}}, {{Duration: time.Second, From: -1, To: 1}}} {
		if _, err := NewPopulation(bad); err == nil {
			t.Errorf("%v is a population", bad)
		}
	}
}
