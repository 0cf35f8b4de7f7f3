package figure

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Seconds(0), "0 s"}, {Seconds(1e-9), "1.00 ns"}, {Seconds(0.5e-9), "0.500 ns"}, {Seconds(12.34e-6), "12.3 µs"},
		{Seconds(999.4e-6), "999 µs"}, {Seconds(999.6e-6), "1.00 ms"}, {Seconds(0.123456), "123 ms"}, {Seconds(1), "1.00 s"},
		{Seconds(3600), "3600 s"}, {Seconds(-0.002), "-2.00 ms"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(41234), "41.2k"}, {Count(999_600), "1.00M"}, {Count(0.25), "0.250"},
		{Sizes().Write(1023), "1020 B"}, {Sizes().Write(1024), "1.00 KiB"}, {Sizes().Write(10 << 20), "10.0 MiB"}, {Sizes().Write(3 << 30), "3.00 GiB"}, {Sizes().Write(12), "12.0 B"},
		{Percent(0.001234), "0.123%"}, {Percent(1), "100%"}, {Percent(0), "0%"},
		{Whole(0), "0"}, {Whole(999), "999"}, {Whole(1000), "1,000"}, {Whole(-1234567), "-1,234,567"},
		{CommandLine([]string{"dyno", "run", "it's here.yaml", ""}), `dyno run 'it'\''s here.yaml' ''`},
		{Printable(" a\n\t b "), "a b"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// The unit of a duration needs no exponent, and the number has at most four characters. It
// is within about half a percent of the value.
func TestDurationsKeepTheirValue(t *testing.T) {
	units := map[string]float64{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Exp(rapid.Float64Range(math.Log(1e-9), math.Log(1e3)).Draw(t, "log"))
		number, unit, _ := strings.Cut(Seconds(v), " ")
		shown, err := strconv.ParseFloat(number, 64)
		if err != nil || units[unit] == 0 || len(strings.Trim(number, "0123456789.")) > 0 || len(number) > 4 {
			t.Fatalf("%v is written %q", v, Seconds(v))
		}
		if math.Abs(shown*units[unit]-v) > 0.0051*v {
			t.Errorf("%v is written %q", v, Seconds(v))
		}
	})
}
