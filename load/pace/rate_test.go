package pace

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseRate(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want float64
	}{
		{"5000", 5000}, {"5000/s", 5000}, {"300/min", 5}, {"10/h", 10. / 3600}, {"0.5", 0.5}, {"1e4/s", 1e4}, {"1000000000", 1e9},
	} {
		if got, err := ParseRate(tt.in); err != nil || got != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"", `"" is not a rate; such as 5000/s, 300/min or 10/h; a bare number is per second`},
		{"/s", `"/s" is not a rate`},
		{"fast", `"fast" is not a rate`},
		{"-5", `"-5" is not a rate`},
		{"5/m", `"5/m" is not a rate`},
		{"1e999", `"1e999" is too large`},
		{"0", "want more than 0"},
		{"1e10", "at most 1e+09 per second"},
		{"1e-12", "at least 1e-09"},
	} {
		if got, err := ParseRate(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, error %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestProcessNames(t *testing.T) {
	for p := range processes {
		if got, err := ParseProcess(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParseProcess("random"); err == nil || err.Error() != `arrivals "random": want constant or poisson` {
		t.Errorf("error %v", err)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"5000", "5000/s", "300/min", "10/h", "1e4", "", "/", "-1", "nan", "1e-400", "5/µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rate, err := ParseRate(s)
		if err != nil {
			if rate != 0 || len(s) < 60 && !strings.Contains(err.Error(), strconv.Quote(s)) {
				t.Errorf("%q: %v, error %v", s, rate, err)
			}
			return
		}
		if Validate(Steady(rate, 0), Constant) != nil {
			t.Errorf("%q: %v is no valid rate", s, rate)
		}
		if again, err := ParseRate(strconv.FormatFloat(rate, 'g', -1, 64) + "/s"); err != nil || again != rate {
			t.Errorf("%q: %v read again is %v, %v", s, rate, again, err)
		}
	})
}
