package conditions

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Size is a number of bytes. In text it may carry a unit: "1500", "64KiB",
// "1.5MB".
type Size int64

// A Rate is a number of bytes per second. In text it may be in bytes or in
// bits: "1MiB/s", "100Mbit/s".
type Rate int64

// units are the names after the number, in lower case, and their bytes.
var units = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// bitUnits are those of rates, and their bytes.
var bitUnits = map[string]float64{
	"bit": 1. / 8, "kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8,
}

// ParseSize reads a number of bytes with an optional unit: B, kB, MB, GB, TB
// (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024), in any case. A fraction
// is cut off below one byte.
func ParseSize(s string) (Size, error) {
	n, err := parse(s, units)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w: want a number and B, kB, KiB, MB, MiB, GB or GiB, such as 64KiB", s, err)
	}
	return Size(n), nil
}

// ParseBandwidth reads bytes per second: a size with "/s" behind it, or a
// number of bits with kbit/s, Mbit/s or Gbit/s. The "/s" may be left out.
func ParseBandwidth(s string) (Rate, error) {
	amount := strings.TrimSpace(s)
	amount = strings.TrimSpace(strings.TrimSuffix(amount, "/s"))
	n, err := parse(amount, units)
	if errors.Is(err, errUnit) {
		n, err = parse(amount, bitUnits)
	}
	if err != nil {
		return 0, fmt.Errorf("bandwidth %q: %w: want such as 1MiB/s or 100Mbit/s", s, err)
	}
	return Rate(n), nil
}

var (
	errNumber = errors.New("no decimal number of zero or more")
	errUnit   = errors.New("unknown unit")
	errRange  = errors.New("too large")
)

func parse(s string, units map[string]float64) (int64, error) {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	number, unit := s[:end], strings.ToLower(strings.TrimSpace(s[end:]))
	if number == "" {
		return 0, errNumber
	}
	factor, ok := units[unit]
	if !ok {
		return 0, errUnit
	}
	// Whole bytes do not pass through a float, which holds only 53 bits of them.
	if factor == 1 && !strings.Contains(number, ".") {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, errRange
		}
		return n, nil
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errNumber
	}
	if v *= factor; v >= math.MaxInt64 {
		return 0, errRange
	}
	return int64(v), nil
}

// format writes n with the largest unit of 1024 that divides it, so that
// parsing gives n again.
func format(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		// Beyond 2^53 units a float could not hold them; there are never so many.
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func (s Size) String() string { return format(int64(s)) }
func (r Rate) String() string { return format(int64(r)) + "/s" }

// MarshalText and UnmarshalText let flags, YAML and JSON hold sizes and rates as
// people write them.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// MarshalText returns the rate as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseBandwidth.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseBandwidth(string(text))
	return err
}
