package units

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Misread returns an error that explains why a text is no value of a flag's kind, by package pflag's
// names. The cause is the reader's error; it remains where it is in words already.
func Misread(kind, text string, cause error) error {
	whole := strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint")
	switch {
	case errors.Is(cause, strconv.ErrRange) && strings.HasPrefix(text, "-"):
		return fmt.Errorf("%q is too small", clip(text))
	case errors.Is(cause, strconv.ErrRange):
		return fmt.Errorf("%q is too large", clip(text))
	case whole && strings.HasPrefix(kind, "uint"):
		return notA("a whole number from 0 on", text, "such as 100")
	case whole:
		return notA("a whole number", text, "such as 100")
	case strings.HasPrefix(kind, "float"):
		return notA("a number", text, "such as 0.5")
	case kind == "bool":
		return notA("true or false", text, "leave the value out for true")
	case kind == "duration":
		return notA("a duration", text, "such as 5s or 250ms")
	case kind == "stringToString":
		return notA("NAME=VALUE", text, "several are separated by commas")
	}
	return cause
}
