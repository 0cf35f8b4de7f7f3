// Package export writes a judged run for other programs. The formats are JSON, CSV for
// spreadsheets, JUnit's XML for build servers and the Go benchmark format for benchstat. It
// also writes .hgrm for HdrHistogram's plotter, and loads as other load generators do.
package export

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// JSON writes the run in the form of run.json.
func JSON(w io.Writer, run *rundir.Run) error {
	if err := writeJSON(w, run); err != nil {
		return fmt.Errorf("report as json: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// Hgrm writes the percentile spectrum, in ms, of one variant's times under a tag (response,
// service, send_lag …). It merges the trials that the variant's figures use. The variant
// may be empty when the run has only one.
func Hgrm(w io.Writer, f *rundir.Folder, variant, tag string) error {
	variant, err := variantOf(f, variant)
	if err != nil {
		return fmt.Errorf("report as hgrm: %w", err)
	}
	recorded, err := recordedOf(f, variant)
	if err != nil {
		return fmt.Errorf("report as hgrm: %w", err)
	}
	all := recorded[tag]
	if all == nil {
		found := "nothing was recorded"
		if len(recorded) > 0 {
			found = "want one of " + strings.Join(slices.Sorted(maps.Keys(recorded)), ", ")
		}
		return fmt.Errorf("report as hgrm: tag %q of variant %q: %s", tag, variant, found)
	}
	return hist.WriteHgrm(w, all, time.Millisecond)
}
