package units

import (
	"errors"
	"strconv"
	"testing"
)

func TestMisread(t *testing.T) {
	own := errors.New("want a colour, such as red")
	for _, c := range []struct {
		kind, text string
		cause      error
		want       string
	}{
		{"int", "10k", strconv.ErrSyntax, `"10k" is not a whole number; such as 100`},
		{"int64", "9999999999999999999", &strconv.NumError{Err: strconv.ErrRange}, `"9999999999999999999" is too large`},
		{"int", "-9999999999999999999", &strconv.NumError{Err: strconv.ErrRange}, `"-9999999999999999999" is too small`},
		{"uint", "-5", strconv.ErrSyntax, `"-5" is not a whole number from 0 on; such as 100`},
		{"float64", "x", strconv.ErrSyntax, `"x" is not a number; such as 0.5`},
		{"bool", "maybe", strconv.ErrSyntax, `"maybe" is not true or false; leave the value out for true`},
		{"duration", "5", errors.New("time: missing unit"), `"5" is not a duration; such as 5s or 250ms`},
		{"stringToString", "x", errors.New("x must be formatted as key=value"), `"x" is not NAME=VALUE; several are separated by commas`},
		{"colour", "loud", own, own.Error()},
	} {
		if got := Misread(c.kind, c.text, c.cause).Error(); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.kind, c.text, got, c.want)
		}
	}
}
