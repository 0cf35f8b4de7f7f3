package conditions

import "dyno/internal/units"

// A Size is a number of bytes. In text it may carry a unit: "1500", "64KiB",
// "1.5MB".
type Size int64

// A Rate is a number of bytes per second. In text it may be in bytes or in
// bits: "1MiB/s", "100Mbit/s".
type Rate int64

// ParseSize reads a size as units.ParseSize does.
func ParseSize(s string) (Size, error) {
	n, err := units.ParseSize(s)
	return Size(n), err
}

// ParseBandwidth reads a rate as units.ParseBandwidth does.
func ParseBandwidth(s string) (Rate, error) {
	n, err := units.ParseBandwidth(s)
	return Rate(n), err
}

func (s Size) String() string { return units.FormatSize(int64(s)) }
func (r Rate) String() string { return units.FormatSize(int64(r)) + "/s" }

// MarshalText and UnmarshalText let flags, YAML and JSON use sizes and rates with units.
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
