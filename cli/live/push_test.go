package live

import (
	"fmt"
	"strings"
	"testing"
)

func TestPushFlags(t *testing.T) {
	environment := map[string]string{"TOKEN": "s3cret", "ORG": "team", "BAD": "a\nb", "EMPTY": ""}
	lookup := func(name string) (string, bool) {
		v, ok := environment[name]
		return v, ok
	}
	const prom, otlp = "prometheus=http://127.0.0.1:9090", "otlp=http://127.0.0.1:4318"
	for _, c := range []struct {
		receivers, headers []string
		want               string // headers of each receiver
		fault              string
	}{
		{nil, nil, "", ""},
		{[]string{prom}, []string{"Authorization: Bearer $TOKEN"}, "map[Authorization:[Bearer s3cret]]", ""},
		{[]string{prom, otlp}, []string{"otlp=X-Org: ${ORG}"}, "map[] map[X-Org:[team]]", ""},
		{[]string{prom, otlp}, []string{"otlp=X-Org:$ORG", "prometheus=X-Org: $EMPTY"}, "map[X-Org:[]] map[X-Org:[team]]", ""},
		{[]string{prom, otlp}, []string{"X-Org: $ORG"}, "", "which receiver is it for? Want 'PROTOCOL=X-Org: $VARIABLE'"},
		{[]string{prom}, []string{"Authorization: Bearer abc"}, "", "the command line is kept in the run folder"},
		{[]string{prom}, []string{"Authorization: Bearer $MISSING"}, "", "Authorization: the environment has no MISSING"},
		{[]string{prom}, []string{"X: $BAD"}, "", "control character"},
		{[]string{prom}, []string{"no colon $TOKEN"}, "", "want 'Name: $VARIABLE'"},
		{[]string{prom}, []string{"a b: $TOKEN"}, "", "want 'Name: $VARIABLE'"},
		{[]string{prom}, []string{"influx=X: $TOKEN"}, "", "no receiver that it is for"},
		{nil, []string{"X: $TOKEN"}, "", "no receiver that it is for"},
		{[]string{"http://127.0.0.1:9090"}, nil, "", "want PROTOCOL=URL"},
		{[]string{"prometheus"}, nil, "", "want PROTOCOL=URL with one of"},
		{[]string{"statsd=http://h/"}, nil, "", `protocol: "statsd": want one of`},
		{[]string{"influx=http://h/"}, nil, "", "the path is missing"},
	} {
		p := PushFlags{receivers: c.receivers, headers: c.headers}
		configs, err := p.Configs(lookup)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%q %q: %v, want %q", c.receivers, c.headers, err, c.fault)
			} else if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q: a secret in %v", c.headers, err)
			}
			continue
		}
		var got []string
		for _, x := range configs {
			got = append(got, fmt.Sprint(map[string][]string(x.Header)))
			if err := x.Validate(); err != nil {
				t.Errorf("%q: %v", c.receivers, err)
			}
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q %q: headers %v, %v; want %s", c.receivers, c.headers, got, err, c.want)
		}
	}
	if _, err := (&PushFlags{receivers: []string{prom}}).Configs(lookup); err != nil {
		t.Error(err)
	}
}
