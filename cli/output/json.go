package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dyno/internal/exit"
)

// Write writes a value as JSON to a file or, as -, to standard output, if that is requested. It
// writes it as text unless the JSON goes to standard output.
func Write(stdout io.Writer, asJSON string, value any, text func(io.Writer) error) error {
	switch asJSON {
	case "":
		return text(stdout)
	case "-":
		return JSON(stdout, value)
	}
	if err := CheckJSON(stdout, asJSON); err != nil {
		return err
	}
	return errors.Join(Replace(asJSON, func(w io.Writer) error { return JSON(w, value) }), text(stdout))
}

// JSON writes JSON for people and programs.
func JSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// CheckJSON returns the error of a --json that could not be written: a file, or - for standard
// output.
func CheckJSON(stdout io.Writer, asJSON string) error {
	var err error
	switch asJSON {
	case "":
	case "-":
		err = checkOutput(stdout)
	default:
		err = replaceable(asJSON)
	}
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--json: %w", err), "")
	}
	return nil
}
