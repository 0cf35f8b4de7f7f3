package scrape

import (
	"math"
	"slices"
	"strings"
	"testing"

	"dyno/observe"
)

const pageText = `# HELP a_total what it is
# TYPE a_total counter
a_total{x="1",y="two words, and a \"quote\""} 3
# TYPE g gauge
g NaN
# TYPE h_seconds histogram
h_seconds_bucket{le="+Inf"} 4
h_seconds_bucket{le="1"} 1
h_seconds_bucket{le="2"} 3
h_seconds_sum 5.5
h_seconds_count 4
# TYPE s summary
s{quantile="0.5"} 1
s_sum 10
s_count 7
untyped_total 9
untyped 8
`

func TestPrometheus(t *testing.T) {
	r, err := Prometheus([]byte(pageText))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Samples {
		got = append(got, columnName(s)+" "+s.Series()+" "+map[observe.Kind]string{observe.Counter: "counter", observe.Gauge: "gauge"}[s.Kind])
	}
	want := []string{
		`a_x_1_y_two_words_and_a_quote_total a_total{x="1",y="two words, and a \"quote\""} counter`,
		`g g gauge`,
		`h_seconds_bucket_le_inf h_seconds_bucket{le="+Inf"} counter`,
		`h_seconds_bucket_le_1 h_seconds_bucket{le="1"} counter`,
		`h_seconds_bucket_le_2 h_seconds_bucket{le="2"} counter`,
		`h_seconds_count h_seconds_count counter`,
		`h_seconds_sum h_seconds_sum counter`,
		`s_count s_count counter`,
		`s_sum s_sum counter`,
		`untyped untyped gauge`,
		`untyped_total untyped_total counter`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h := r.Histograms["h_seconds"]
	if !slices.Equal(h.Upper, []float64{1, 2, math.Inf(1)}) || !slices.Equal(h.Counts, []float64{1, 3, 4}) || h.Sum != 5.5 {
		t.Errorf("%+v", h)
	}
	for _, bad := range []string{"a", "a 1\nb", "{} 1\n", "a{b=} 1\n", "# TYPE a wrong\n"} {
		if _, err := Prometheus([]byte(bad)); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func TestVarsAndLines(t *testing.T) {
	r, err := Vars([]byte(` {"a":1,"b":{"c":2.5,"d":{"e_total":3}},"f":"4","g":[5],"h":null,"i":true} `))
	if err != nil || len(r.Samples) != 3 || r.Samples[1].Name != "b.c" || r.Samples[2].Kind != observe.Counter {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "[]", "1", `{"a":1}x`, `{"a":`, `{"a":1e999}`} {
		if r, err := Vars([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, r)
		}
	}
	r, err = Lines([]byte("\n# comment\nactive 3\n  requests_total\t1e6\nactive 4\n"))
	if err != nil || len(r.Samples) != 2 || r.Samples[0].Name != "active" || r.Samples[0].Value != 3 || r.Samples[1].Kind != observe.Counter || r.Samples[1].Value != 1e6 {
		t.Errorf("%+v, %v", r, err)
	}
	for bad, want := range map[string]string{"a": "line 1", "a 1\nb 2 3": "line 2", "a x": "a: \"x\" is not a number", "a inf": "not a number"} {
		_, err := Lines([]byte(bad))
		wantError(t, err, want)
	}
}

func TestColumnName(t *testing.T) {
	code := []Label{{"code", "200"}}
	for _, c := range []struct {
		s    Sample
		want string
	}{
		{Sample{Name: "requests", Labels: code}, "requests_code_200"},
		{Sample{Name: "duration_seconds_sum", Labels: code}, "duration_code_200_seconds_sum"},
		{Sample{Name: "cpu_seconds_total", Labels: []Label{{"path", "/a,b"}}}, "cpu_path_a_b_seconds_total"},
		{Sample{Name: "total"}, "total"},
		{Sample{Name: "memstats.HeapAlloc"}, "memstats_heapalloc"},
		{Sample{Name: "\"ü\""}, ""},
	} {
		if got := columnName(c.s); got != c.want {
			t.Errorf("%s: %q, want %q", c.s.Series(), got, c.want)
		}
	}
	// Two series whose names become the same are two columns.
	table := newTable([]Sample{{Name: "a.b"}, {Name: "a-b"}, {Name: "a_b"}})
	row := make([]float64, 3)
	table.fill(row, []Sample{{Name: "a_b", Value: 3}, {Name: "a.b", Value: 1}, {Name: "c", Value: 9}})
	if names := []string{table.columns[0].Name, table.columns[1].Name, table.columns[2].Name}; !slices.Equal(names, []string{"a_b", "a_b_2", "a_b_3"}) || row[0] != 1 || !math.IsNaN(row[1]) || row[2] != 3 {
		t.Errorf("%v: %v", names, row)
	}
}

func TestSelector(t *testing.T) {
	sample := Sample{Name: "http_requests_total", Family: "http_requests_total", Labels: []Label{{"code", "200"}, {"method", "GET"}}}
	sum := Sample{Name: "took_seconds_sum", Family: "took_seconds"}
	for _, c := range []struct {
		text string
		s    Sample
		want bool
	}{
		{"http_requests_total", sample, true},
		{"http_requests", sample, false},
		{"http_.*", sample, true},
		{"http_req{1}uests_total", sample, true},
		{"http_req{1}uests_total{code=\"200\"}", sample, true},
		{`http_requests_total{code="200"}`, sample, true},
		{`http_requests_total{ code = "200" , method=~"GET|HEAD", }`, sample, true},
		{`http_requests_total{code="20"}`, sample, false},
		{`http_requests_total{code=~"2.*"}`, sample, true},
		{`http_requests_total{code!~"2.*"}`, sample, false},
		{`http_requests_total{other=""}`, sample, true},
		{`http_requests_total{other!=""}`, sample, false},
		{`http_requests_total{code="2.0"}`, sample, false},
		{"http_requests_total{}", sample, true},
		{"took_seconds", sum, true},
		{"took_seconds_sum", sum, true},
		{"took_seconds_count", sum, false},
	} {
		s, err := parseSelector(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if got := s.matches(c.s); got != c.want {
			t.Errorf("%s: %v for %s", c.text, got, c.s.Series())
		}
	}
	for _, bad := range []string{"", "(", "a)|(b", `{code="200"}`} {
		if _, err := parseSelector(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

// The quantile of a histogram lies in the bucket that holds it.
func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	h := Histogram{Upper: []float64{1, 2, 4, inf}, Counts: []float64{0, 10, 30, 40}}
	for q, want := range map[float64]float64{0: 1, 0.125: 1.5, 0.25: 2, 0.5: 3, 0.75: 4, 0.99: 4, 1: 4} {
		if got := h.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if got := (Histogram{Upper: []float64{-1, 1, inf}, Counts: []float64{4, 8, 8}}).Quantile(0.25); got != -1 {
		t.Errorf("below zero: %v", got)
	}
	for _, bad := range []Histogram{
		{}, {Upper: []float64{inf}, Counts: []float64{3}}, {Upper: []float64{1, inf}, Counts: []float64{0, 0}},
		{Upper: []float64{1, 2}, Counts: []float64{1, 2}}, {Upper: []float64{1, inf}, Counts: []float64{2, 1}},
		{Upper: []float64{2, 1, inf}, Counts: []float64{1, 2, 3}},
	} {
		if got := bad.Quantile(0.5); !math.IsNaN(got) {
			t.Errorf("%+v: %v", bad, got)
		}
	}
	for _, q := range []float64{-0.1, 1.1, math.NaN()} {
		if got := h.Quantile(q); !math.IsNaN(got) {
			t.Errorf("quantile %v: %v", q, got)
		}
	}
}

func TestSince(t *testing.T) {
	inf := math.Inf(1)
	early := Histogram{Upper: []float64{1, inf}, Counts: []float64{1, 2}, Sum: 3}
	late := Histogram{Upper: []float64{1, inf}, Counts: []float64{1, 5}, Sum: 10}
	if d, ok := late.Since(early); !ok || !slices.Equal(d.Counts, []float64{0, 3}) || d.Sum != 7 {
		t.Errorf("%+v, %v", d, ok)
	}
	for _, c := range []struct{ h, earlier Histogram }{
		{early, late}, {late, Histogram{}}, {Histogram{}, Histogram{}},
		{late, Histogram{Upper: []float64{2, inf}, Counts: []float64{1, 2}}},
		{late, Histogram{Upper: []float64{1, inf}, Counts: []float64{1}}},
	} {
		if d, ok := c.h.Since(c.earlier); ok {
			t.Errorf("%+v since %+v: %+v", c.h, c.earlier, d)
		}
	}
}

// The columns of any page have unique names that fit into a table.
func FuzzFormats(f *testing.F) {
	for _, s := range []string{pageText, `{"a":{"b":1}}`, "a 1\nb_total 2\n", "a{b=\"c\"} 1\na{b=\"c\"} 2\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, decode := range []func([]byte) (Reading, error){Prometheus, Vars, Lines} {
			r, err := decode(text)
			if err != nil {
				continue
			}
			table := newTable(r.Samples)
			seen := make(map[string]bool)
			for _, c := range table.columns {
				if seen[c.Name] || strings.ContainsAny(c.Name, ",\"\n{} ") {
					t.Errorf("column %q", c.Name)
				}
				seen[c.Name] = true
			}
			table.fill(make([]float64, len(table.columns)), r.Samples)
			for _, h := range r.Histograms {
				if !h.valid() {
					t.Errorf("%+v", h)
				}
				_ = h.Quantile(0.99)
			}
		}
	})
}

// A histogram's buckets are for who names them: an expression for all of a program's
// metrics does not mean hundreds of them.
func TestBucketsAreNamed(t *testing.T) {
	bucket := Sample{Name: "h_seconds_bucket", Family: "h_seconds_bucket", Labels: []Label{{"le", "1"}}}
	for text, want := range map[string]bool{
		"h_seconds_bucket": true, `h_seconds_bucket{le="1"}`: true, `h_seconds_bucket{le="2"}`: false, "h_seconds": false, "h_.*": false, ".*": false,
	} {
		s, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.matches(bucket); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
