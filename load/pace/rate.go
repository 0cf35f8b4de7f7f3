package pace

import (
	"fmt"

	"dyno/internal/units"
)

// ParseRate reads a rate such as 5000, 5000/s, 300/min or 10/h and returns it in
// arrivals per second. A bare number is per second. The rate must lie between
// MinRate and MaxRate.
func ParseRate(s string) (float64, error) {
	v, err := units.ParseRate(s)
	if err != nil {
		return 0, err
	}
	if v == 0 || !validRate(v) {
		return 0, fmt.Errorf("rate %q: want more than 0 (at least %v) and at most %v per second", s, MinRate, MaxRate)
	}
	return v, nil
}
