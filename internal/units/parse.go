package units

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The forms that the Parse functions take, as regular expressions (ECMA-262 and RE2), for
// schemas. A text that does not match is refused. A text that matches may still be too
// large.
const (
	number = `[0-9]+(\.[0-9]+)?`

	DurationPattern  = `^(` + number + `|(` + number + `(ns|us|µs|μs|ms|s|m|h))+)$`
	RatePattern      = `^` + number + `([eE][+-]?[0-9]+)?(/(s|min|h))?$`
	SharePattern     = `^` + number + `%?$`
	SizePattern      = `^([0-9]+\.?[0-9]*|\.[0-9]+) *([KMGTkmgt]?[Bb]|[KMGTkmgt][Ii][Bb])?$`
	BandwidthPattern = `^([0-9]+\.?[0-9]*|\.[0-9]+) *([KMGTkmgt]?[Bb]|[KMGTkmgt][Ii][Bb]|[KMGkmg]?[Bb][Ii][Tt])?( *\/s)?$`
	CPUsPattern      = `^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`
)

// matcher returns a function that matches a pattern. The pattern is compiled when it is
// first needed.
func matcher(pattern string) func(string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	return func(s string) bool { return compiled().MatchString(s) }
}

var (
	isDuration  = matcher(DurationPattern)
	isRate      = matcher(RatePattern)
	isShare     = matcher(SharePattern)
	isSize      = matcher(SizePattern)
	isBandwidth = matcher(BandwidthPattern)
	isCPUs      = matcher(CPUsPattern)
)

// Examples of texts that the Parse functions read, for messages.
const (
	DurationExample  = "such as 5s or 250ms; a bare number is seconds"
	RateExample      = "such as 5000/s, 300/min or 10/h; a bare number is per second"
	ShareExample     = "such as 2% or 0.02"
	SizeExample      = "such as 512, 512B, 1.5KB, 1KiB or 1MiB"
	BandwidthExample = "such as 1MiB/s or 100Mbit/s"
	CPUsExample      = "such as 0 or 0-3,5"
)

// maxDuration is the longest time that a time.Duration holds, 292 years.
const maxDuration = time.Duration(math.MaxInt64)

// notA returns an error saying that a text is not of a kind, or is too large for it.
func notA(kind, s, example string) error {
	return fmt.Errorf("%q is not %s; %s", clip(s), kind, example)
}

func tooLarge(s, most string) error {
	return fmt.Errorf("%q is too large; want at most %s", clip(s), most)
}

// clip shortens text for a message.
func clip(s string) string {
	const longest = 60
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}

// ParseDuration reads a time: one of Go's durations without a sign, such as 1m30s or
// 250ms, or a number of seconds.
func ParseDuration(s string) (time.Duration, error) {
	if !isDuration(s) {
		return 0, notA("a duration", s, DurationExample)
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		ns := math.Round(seconds * 1e9)
		if ns >= math.MaxInt64 {
			return 0, tooLarge(s, FormatDuration(maxDuration))
		}
		return time.Duration(ns), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil { // the pattern has already matched
		return 0, tooLarge(s, FormatDuration(maxDuration))
	}
	return d, nil
}

// FormatDuration writes a time exactly, in a form that ParseDuration reads: Go's form
// without parts that are zero, such as 30m for 30m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if before, found := strings.CutSuffix(text, zero); found && strings.TrimRight(before, "hm") != before {
			text = before
		}
	}
	return text
}

// FormatSeconds is FormatDuration for a number of seconds, to the nanosecond.
func FormatSeconds(seconds float64) string {
	return FormatDuration(time.Duration(math.Round(seconds * 1e9)))
}

// ParseRate reads a rate, such as 5000/s, 300/min or 10/h, and returns it per second. A bare
// number is per second.
func ParseRate(s string) (perSecond float64, err error) {
	if !isRate(s) {
		return 0, notA("a rate", s, RateExample)
	}
	figure, unit, found := strings.Cut(s, "/")
	if !found {
		unit = "s"
	}
	per, _ := Named("/" + unit)
	v, err := strconv.ParseFloat(figure, 64)
	if err != nil || math.IsInf(per.Of(v), 0) { // the pattern has already matched
		return 0, tooLarge(s, "1.8e308/s")
	}
	return per.Of(v), nil
}

// FormatRate writes a rate per second exactly, in a form that ParseRate reads.
func FormatRate(perSecond float64) string { return strconv.FormatFloat(perSecond, 'g', -1, 64) + "/s" }

// ParseShare reads a share: a percentage such as 2%, or a number such as 0.02. The whole
// is 1.
func ParseShare(s string) (float64, error) {
	if !isShare(s) {
		return 0, notA("a share", s, ShareExample)
	}
	figure, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(figure, 64)
	if err != nil { // the pattern has already matched
		return 0, tooLarge(s, "1.8e308")
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// ParseSize reads a number of bytes: a decimal number, followed by nothing or by a unit. Units are B;
// KB, MB, GB, TB (powers of 1000); KiB, MiB, GiB, TiB (powers of 1024). It ignores case, and drops
// fractions of a byte.
func ParseSize(s string) (int64, error) {
	if !isSize(s) {
		return 0, notA("a size", s, SizeExample)
	}
	n, ok := bytesOf(s)
	if !ok {
		return 0, tooLarge(s, FormatSize(math.MaxInt64))
	}
	return n, nil
}

// ParseBandwidth reads a number of bytes per second: a size, or a number followed by bit,
// kbit, Mbit or Gbit (powers of 1000). It may be followed by /s.
func ParseBandwidth(s string) (bytesPerSecond int64, err error) {
	if !isBandwidth(s) {
		return 0, notA("a bandwidth", s, BandwidthExample)
	}
	n, ok := bytesOf(strings.TrimSuffix(s, "/s"))
	if !ok {
		return 0, tooLarge(s, FormatSize(math.MaxInt64)+"/s")
	}
	return n, nil
}

// bytesOf reads a number with a unit of bytes or bits. The caller has checked the form.
// It returns false if 64 bits cannot hold the number.
func bytesOf(s string) (int64, bool) {
	end := strings.LastIndexAny(s, "0123456789.") + 1
	figure, factor := s[:end], bytesPer(strings.Trim(s[end:], " "))
	// A whole number of bytes does not pass through a float, which holds only 53 bits of
	// it.
	if factor == 1 && !strings.Contains(figure, ".") {
		n, err := strconv.ParseInt(figure, 10, 64)
		return n, err == nil
	}
	v, err := strconv.ParseFloat(figure, 64)
	if v *= factor; err != nil || v >= math.MaxInt64 {
		return 0, false
	}
	return int64(v), true
}

// bytesPer returns how many bytes a unit of bytes or bits has. It ignores case.
func bytesPer(unit string) float64 {
	switch strings.ToLower(unit) {
	case "bit":
		return 1. / 8
	case "kbit":
		return 1e3 / 8
	case "mbit":
		return 1e6 / 8
	case "gbit":
		return 1e9 / 8
	}
	for _, u := range all() {
		if u.Dimension == Size && strings.EqualFold(u.Name, unit) {
			return u.times
		}
	}
	return 1
}

// FormatSize writes a number of bytes exactly, in a form that ParseSize reads: with the
// largest power of 1024 that divides it.
func FormatSize(n int64) string {
	unit := "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.FormatInt(n, 10) + unit
}
