package calibrate

import (
	"math"
	"testing"
)

// What hey, oha, k6 and vegeta print.
const (
	heyText = `
Summary:
  Total:	10.0051 secs
  Average:	0.0067 secs

Response time histogram:
  0.000 [1]	|
  0.011 [17941]	|■■■■■■■

Latency distribution:
  10% in 0.0001 secs
  50% in 0.0002 secs
  95% in 0.1042 secs
  99% in 0.1069 secs

Details (average, fastest, slowest):
  DNS+dialup:	0.0000 secs, 0.0001 secs, 0.1081 secs
`
	ohaText = `
Summary:
  Success rate:	100.00%
  Total:	10.0012 secs

Response time distribution:
  10.00% in 0.0837 ms
  50.00% in 0.0968 ms
  95.00% in 53.1000 ms
  99.00% in 0.0931 secs
  99.90% in 0.1034 secs
  99.99% in 0.1050 secs
`
	k6Text = `
     data_received..............: 2.6 MB 256 kB/s
     http_req_blocked...........: p(50)=1.35µs  p(95)=2.9µs   p(99)=4.6µs   p(99.9)=200µs
     http_req_duration..........: p(50)=85.21µs p(95)=53.98ms p(99)=93.11ms p(99.9)=1.03s
       { expected_response:true }...: p(50)=1h p(95)=1h p(99)=1h p(99.9)=1h
     http_reqs..................: 20001  1999.9/s
`
	vegetaJSON = `{"latencies":{"total":1,"mean":5012345,"50th":91000,"90th":1000000,"95th":52100000,"99th":91200000,"max":100900000,"min":40000},"requests":20000}`
)

func TestParsers(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		name  string
		parse func([]byte) (Percentiles, error)
		text  []byte
		want  [4]float64
	}{
		{"wrk", parseWrk, fixture(t, "wrk.txt"), [4]float64{0.000885, 0.058463, 0.092831, 0.108936}},
		{"ab", parseAB, fixture(t, "ab.csv"), [4]float64{0.008409, 0.040275, 0.132486, none}},
		{"h2load", parseH2load, fixture(t, "h2load.log"), [4]float64{0.002351, 0.007303, 0.007357, 0.007370}},
		{"hey", parseDistribution, []byte(heyText), [4]float64{0.0002, 0.1042, 0.1069, none}},
		{"oha", parseDistribution, []byte(ohaText), [4]float64{0.0000968, 0.0531, 0.0931, 0.1034}},
		{"k6", parseK6, []byte(k6Text), [4]float64{0.00008521, 0.05398, 0.09311, 1.03}},
		{"vegeta", parseVegeta, []byte(vegetaJSON), [4]float64{0.000091, 0.0521, 0.0912, none}},
	} {
		p, err := c.parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i, got := range []*float64{p.P50, p.P95, p.P99, p.P999} {
			switch want := c.want[i]; {
			case got == nil:
				if !math.IsNaN(want) {
					t.Errorf("%s: percentile %d is missing", c.name, i)
				}
			case !(math.Abs(*got-want) < 1e-9):
				t.Errorf("%s: percentile %d is %v, want %v", c.name, i, *got, want)
			}
		}
		if p, err := c.parse([]byte("nothing of the kind")); err == nil {
			t.Errorf("%s: reads %+v where there is nothing", c.name, p)
		}
	}
}

func TestH2loadCountsGoodResponses(t *testing.T) {
	p, err := parseH2load([]byte("1\t200\t10\n2\t503\t9000\n3\t-1\t8000\n4\t200\t30\n\n"))
	if err != nil || *p.P999 != 30e-6 || *p.P50 != 10e-6 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := parseH2load([]byte("1\t200\tlate\n")); err == nil {
		t.Error("a broken line went unnoticed")
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range []string{heyText, ohaText, k6Text, vegetaJSON} {
		f.Add([]byte(s))
	}
	for _, name := range []string{"wrk.txt", "ab.csv", "h2load.log"} {
		f.Add(fixture(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) (Percentiles, error){parseWrk, parseAB, parseH2load, parseDistribution, parseK6, parseVegeta} {
			p, err := parse(text)
			if err != nil {
				continue
			}
			if p == (Percentiles{}) {
				t.Error("no error and no percentile")
			}
			for _, v := range []*float64{p.P50, p.P95, p.P99, p.P999} {
				if v != nil && !(*v >= 0) {
					t.Errorf("percentile %v", *v)
				}
			}
		}
		_ = versionIn(string(text))
	})
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012": "4.1.0",
		"This is ApacheBench, Version 2.3 <$Revision$>":    "2.3",
		"h2load nghttp2/1.52.0":                            "1.52.0",
		"k6 v0.49.0 (commit/xyz, go1.21.6, linux/amd64)":   "0.49.0",
		"no number": "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Every tool has what is needed to run it, and loads nothing but what it is told.
func TestTools(t *testing.T) {
	names := map[string]bool{}
	for _, tool := range tools() {
		if names[tool.name] || tool.parse == nil || tool.loop == "" {
			t.Errorf("%s: twice, or incomplete", tool.name)
		}
		names[tool.name] = true
		commands := tool.commands(job{url: "http://127.0.0.1:1/", length: 5e9})
		if len(commands) == 0 {
			t.Errorf("%s: no commands", tool.name)
		}
		for _, c := range commands {
			if c[0] != tool.name {
				t.Errorf("%s runs %s", tool.name, c[0])
			}
		}
	}
}

func TestPercentileReadings(t *testing.T) {
	readings := Percentiles{P50: pointer(0.0002), P95: pointer(0.0505), P999: pointer(0.110)}.readings("x")
	if len(readings) != 3 {
		t.Fatalf("%d readings, want 3", len(readings))
	}
	for i, want := range []Outcome{Met, Met, Missed} {
		if got := readings[i].Outcome(); got != want {
			t.Errorf("%s: %s, want %s", readings[i].Quantity, got, want)
		}
	}
}
