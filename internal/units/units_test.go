package units

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		name      string
		v, want   float64
		dimension Dimension
	}{
		{"ns", 1, 1e-9, Duration}, {"us", 2, 2e-6, Duration}, {"µs", 2, 2e-6, Duration}, {"μs", 2, 2e-6, Duration}, {"ms", 57, 0.057, Duration},
		{"s", 1.5, 1.5, Duration}, {"m", 2, 120, Duration}, {"min", 2, 120, Duration}, {"h", 0.5, 1800, Duration},
		{"B", 7, 7, Size}, {"KB", 1, 1000, Size}, {"KiB", 1, 1024, Size}, {"MB", 1, 1e6, Size}, {"MiB", 1, 1 << 20, Size}, {"GiB", 3, 3 << 30, Size}, {"TB", 1, 1e12, Size}, {"TiB", 1, 1 << 40, Size},
		{"%", 0.1, 0.001, Plain}, {"/s", 3, 3, Rate}, {"/min", 300, 5, Rate}, {"/h", 7200, 2, Rate}, {"%/h", 36, 1e-4, Growth}, {"%/min", 6, 1e-3, Growth}, {"%/s", 1, 0.01, Growth},
	} {
		u, ok := Named(tt.name)
		if got := u.Of(tt.v); !ok || got != tt.want || u.Dimension != tt.dimension {
			t.Errorf("%v%s: %v, %v, %v", tt.v, tt.name, got, u.Dimension, ok)
		}
	}
	for _, name := range []string{"", "MS", "kb", "sec", "/"} {
		if u, ok := Named(name); ok {
			t.Errorf("%q: %+v", name, u)
		}
	}
	names := Names()
	if len(names) != len(all())-1 || slices.Contains(names, greekMicro) {
		t.Errorf("names %q", names)
	}
}

// A number with a unit gives the same value as the number read in the base unit.
func TestUnitsRoundAsDecimalsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1_000_000).Draw(t, "n")
		ms, _ := Named("ms")
		want, err := ParseDuration(FormatDuration(time.Duration(n) * time.Millisecond))
		if got := ms.Of(float64(n)); err != nil || got != float64(n)/1e3 || time.Duration(math.Round(got*1e9)) != want {
			t.Fatalf("%dms: %v, %v, %v", n, got, want, err)
		}
	})
}

func TestDimensions(t *testing.T) {
	dimensions := []Dimension{Plain, Duration, Size, Rate, Growth}
	// Rows: left; columns: right. "." means that the result is no figure.
	product := []string{"PDSRG", "D..PP", "S....", "RP...", "GP..."}
	quotient := []string{"PR.DD", "DP...", "S.P..", "R..PP", "G..PP"}
	letter := func(d Dimension, ok bool) byte {
		if !ok {
			return '.'
		}
		return "PDSRG"[d]
	}
	for i, d := range dimensions {
		for k, e := range dimensions {
			if got := letter(d.Times(e)); got != product[i][k] {
				t.Errorf("%v times %v: %c, want %c", d, e, got, product[i][k])
			}
			if got := letter(d.Over(e)); got != quotient[i][k] {
				t.Errorf("%v over %v: %c, want %c", d, e, got, quotient[i][k])
			}
		}
	}
	if Size.String() != "a size" || Dimension(9).String() != "Dimension(9)" {
		t.Errorf("%v, %v", Size, Dimension(9))
	}
}

func TestParse(t *testing.T) {
	duration := func(s string) (float64, error) { d, err := ParseDuration(s); return float64(d), err }
	size := func(s string) (float64, error) { n, err := ParseSize(s); return float64(n), err }
	bandwidth := func(s string) (float64, error) { n, err := ParseBandwidth(s); return float64(n), err }
	for _, tt := range []struct {
		parse func(string) (float64, error)
		text  string
		want  float64
	}{
		{duration, "5", 5e9}, {duration, "0.25", 25e7}, {duration, "1m30s", 90e9}, {duration, "1.5µs", 1500}, {duration, "2μs", 2000}, {duration, "0", 0}, {duration, "3h", 3 * 3600e9},
		{ParseRate, "5000", 5000}, {ParseRate, "5000/s", 5000}, {ParseRate, "300/min", 5}, {ParseRate, "36/h", 0.01}, {ParseRate, "1e4/s", 1e4}, {ParseRate, "0", 0}, {ParseRate, "1e-3", 1e-3},
		{ParseShare, "2%", 0.02}, {ParseShare, "0.02", 0.02}, {ParseShare, "150%", 1.5}, {ParseShare, "0", 0},
		{size, "0", 0}, {size, "512", 512}, {size, "512B", 512}, {size, "512 b", 512}, {size, "1KB", 1000}, {size, "1kb", 1000}, {size, "64 kib", 64 << 10}, {size, "1.5MB", 1.5e6},
		{size, ".5KiB", 512}, {size, "1.3B", 1}, {size, "2GiB", 2 << 30}, {size, "1TB", 1e12}, {size, "9223372036854775807", math.MaxInt64}, {size, "7.", 7},
		{bandwidth, "1MiB/s", 1 << 20}, {bandwidth, "1MiB", 1 << 20}, {bandwidth, "100Mbit/s", 12.5e6}, {bandwidth, "8kbit", 1000}, {bandwidth, "1gbit/s", 125e6}, {bandwidth, "16 bit /s", 2}, {bandwidth, "5 kB /s", 5000}, {bandwidth, "500/s", 500},
	} {
		if got, err := tt.parse(tt.text); err != nil || got != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		parse func(string) (float64, error)
		texts []string
		want  string
	}{
		{duration, []string{"", "x", "-1", "+1s", "1 s", "1e3", "inf", "0x10", "5d", ".5s", "5ss"}, "is not a duration; such as 5s or 250ms; a bare number is seconds"},
		{duration, []string{"99999999999h", "10000000000"}, "is too large; want at most 2562047h47m16.854775807s"},
		{ParseRate, []string{"", "-5", "5/d", "/s", "5/", "5 /s", "nan", "0x10", "1_000", "5/s/s", "5k"}, "is not a rate; such as 5000/s, 300/min or 10/h; a bare number is per second"},
		{ParseRate, []string{"1e999"}, "is too large"},
		{ParseShare, []string{"", "-1", "x%", "2%%", "% 2"}, "is not a share; such as 2% or 0.02"},
		{size, []string{"", "KiB", "-1", "1e6", "1XB", "1 K", "1iB", "1..5KiB", ".", "1.5.5", "٣KiB", "1bit"}, "is not a size; such as 512, 512B"},
		{size, []string{"9223372036854775808", "9999999999TiB", strings.Repeat("9", 400) + "KB"}, "is too large; want at most 9223372036854775807B"},
		{bandwidth, []string{"", "/s", "1MiB/m", "1Mib/s/s", "1TBit"}, "is not a bandwidth; such as 1MiB/s or 100Mbit/s"},
		{bandwidth, []string{"9999999999GiB/s"}, "is too large; want at most 9223372036854775807B/s"},
	} {
		for _, text := range tt.texts {
			got, err := tt.parse(text)
			if err == nil || got != 0 || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `"`) {
				t.Errorf("%q: %v, %v; want %q", text, got, err, tt.want)
			}
		}
	}
}

// Parse functions read what Format functions write back unchanged.
func TestFormatsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read %v, %v", d, FormatDuration(d), got, err)
		}
		n := rapid.Int64Min(0).Draw(t, "n") >> rapid.IntRange(0, 62).Draw(t, "bits") << rapid.IntRange(0, 40).Draw(t, "zeros") & math.MaxInt64
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %q and read %v, %v", n, FormatSize(n), got, err)
		}
		r := rapid.Float64Range(0, 1e12).Draw(t, "r")
		if got, err := ParseRate(FormatRate(r)); err != nil || got != r {
			t.Fatalf("%v is written %q and read %v, %v", r, FormatRate(r), got, err)
		}
		list := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(0, MaxCPU), 1, 20).Draw(t, "list"))))
		if got, err := ParseCPUs(FormatCPUs(list)); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v is written %q and read %v, %v", list, FormatCPUs(list), got, err)
		}
	})
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{FormatDuration(0), "0s"}, {FormatDuration(5 * time.Second), "5s"}, {FormatDuration(100 * time.Millisecond), "100ms"}, {FormatDuration(90 * time.Second), "1m30s"},
		{FormatDuration(30 * time.Minute), "30m"}, {FormatDuration(2 * time.Hour), "2h"}, {FormatDuration(time.Hour + 10*time.Second), "1h0m10s"}, {FormatDuration(61 * time.Minute), "1h1m"},
		{FormatSeconds(5), "5s"}, {FormatSeconds(0.1), "100ms"}, {FormatSeconds(90), "1m30s"}, {FormatSeconds(3660), "1h1m"},
		{FormatSize(0), "0B"}, {FormatSize(512), "512B"}, {FormatSize(1536), "1536B"}, {FormatSize(64 << 10), "64KiB"}, {FormatSize(3 << 40), "3TiB"}, {FormatSize(4096 << 40), "4096TiB"}, {FormatSize(-1024), "-1KiB"},
		{FormatRate(5000), "5000/s"}, {FormatRate(0.5), "0.5/s"},
		{FormatCPUs(nil), ""}, {FormatCPUs([]int{3}), "3"}, {FormatCPUs([]int{0, 1, 2, 4, 6, 7}), "0-2,4,6-7"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "5,0-1": {0, 1, 5}, "1023": {1023}} {
		if got, err := ParseCPUs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a CPU list; such as 0 or 0-3,5", "a": "is not", "1-": "is not", "1,,2": "is not", " 1": "is not", "-1": "is not",
		"3-1": "the range 3-1 runs backwards", "0,0": "CPU 0 is listed twice", "0-2,1": "CPU 1 is listed twice",
		"1024": "CPU 1024 is beyond 1023, the highest there can be", "0-99999999999999999999": "is beyond 1023",
	} {
		if got, err := ParseCPUs(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
	if got, err := ParseList("0-1,4000", 4095); err != nil || !slices.Equal(got, []int{0, 1, 4000}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScales(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Times().Write(0), "0 s"}, {Times().Write(1e-9), "1.00 ns"}, {Times().Write(0.5e-9), "0.500 ns"}, {Times().Write(12.34e-6), "12.3 µs"}, {Times().Write(999.6e-6), "1.00 ms"}, {Times().Write(3600), "3600 s"}, {Times().Write(-0.002), "-2.00 ms"},
		{Sizes().Write(1023), "1020 B"}, {Sizes().Write(1024), "1.00 KiB"}, {Sizes().Write(3 << 30), "3.00 GiB"},
		{Counts().Write(0), "0"}, {Counts().Write(41234), "41.2k"}, {Counts().Write(999_600), "1.00M"},
		{Rates().Write(0), "0/s"}, {Rates().Write(1.5), "1.50/s"}, {Shares().Write(0.001234), "0.123%"}, {Shares().Write(0), "0%"}, {Numbers().Write(12345), "12300"},
		{Times().Base(), "s"}, {Sizes().Base(), "B"}, {Rates().Base(), "1/s"}, {Shares().Base(), "1"}, {Counts().Base(), "1"}, {Rates().Suffix(), "/s"}, {Times().Suffix(), ""},
		{Figure(1.355), "1.35"}, {Figure(12345), "12300"}, {Figure(1e-7), "1e-07"}, {Figure(1e9), "1e+09"}, {Figure(math.Inf(1)), "+Inf"}, {Figure(9.999), "10.0"}, {Figure(0), "0"},
		{Duration.Write(0), "0s"}, {Duration.Write(200e-9), "200ns"}, {Duration.Write(-1.5e-6), "-1.5µs"}, {Duration.Write(0.08533), "85.33ms"}, {Size.Write(0), "0B"}, {Size.Write(1536), "1.5KiB"},
		{Rate.Write(1000), "1000/s"}, {Growth.Write(0.1 / 3600), "10%/h"}, {Plain.Write(1.36), "1.36"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// FuzzParse: nothing panics. Accepted texts match their pattern, and matching texts are accepted unless
// too large.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "5s", "1m30s", "5000/s", "1e4", "2%", "64KiB", "1.5 mb", "100Mbit/s", "0-3,8", "9223372036854775808", "1e999", ".", "5 kB /s", "µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range []struct {
			pattern string
			parse   func() error
		}{
			{DurationPattern, func() error { _, err := ParseDuration(s); return err }},
			{RatePattern, func() error { _, err := ParseRate(s); return err }},
			{SharePattern, func() error { _, err := ParseShare(s); return err }},
			{SizePattern, func() error {
				n, err := ParseSize(s)
				if n < 0 {
					t.Errorf("%q: %d bytes", s, n)
				}
				return err
			}},
			{BandwidthPattern, func() error { _, err := ParseBandwidth(s); return err }},
			{CPUsPattern, func() error { _, err := ParseCPUs(s); return err }},
		} {
			err := p.parse()
			form := regexp.MustCompile(p.pattern).MatchString(s)
			switch {
			case err == nil && !form:
				t.Errorf("%q is read, and does not match %s", s, p.pattern)
			case err != nil && form && strings.Contains(err.Error(), " is not a"):
				t.Errorf("%q matches %s, and is refused: %v", s, p.pattern, err)
			}
		}
	})
}

// Figures within sentences.
func TestShortFigures(t *testing.T) {
	for got, want := range map[string]string{
		Percent(0.12345): "12.3 %", Percent(0): "0 %", Percent(1): "100 %",
		FourDigits(1234.56): "1235", FourDigits(0.00123456): "0.001235",
		FourDigits(2e6): "2,000,000", FourDigits(348612): "348,600",
		ShortTime(0.0123456): "12.3 ms", ShortTime(1e-6): "1 µs", ShortTime(90): "90 s", ShortTime(0.05): "50 ms", ShortTime(0): "0 s",
		Digits(1234567): "1234567",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
