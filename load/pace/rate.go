package pace

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseRate reads a rate such as 5000, 5000/s, 300/min or 10/h and returns it in
// arrivals per second. A bare number is per second. The rate must lie between
// MinRate and MaxRate.
func ParseRate(s string) (float64, error) {
	number, unit, slash := strings.Cut(s, "/")
	per := time.Second
	if slash {
		switch unit {
		case "s":
		case "min":
			per = time.Minute
		case "h":
			per = time.Hour
		default:
			return 0, fmt.Errorf("rate %q: unit %q, want s, min or h, as in 300/min", s, unit)
		}
	}
	// ParseFloat also reads inf, nan and hexadecimal, which nobody means.
	if strings.Trim(number, "0123456789.eE+-") != "" {
		return 0, fmt.Errorf("rate %q: %q is not a number, want for example 5000, 5000/s, 300/min or 10/h", s, number)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil && v == 0 {
		return 0, fmt.Errorf("rate %q: %q is not a number, want for example 5000, 5000/s, 300/min or 10/h", s, number)
	}
	v /= per.Seconds()
	if v == 0 || !validRate(v) {
		return 0, fmt.Errorf("rate %q: want more than 0 (at least %v) and at most %v per second", s, MinRate, MaxRate)
	}
	return v, nil
}
