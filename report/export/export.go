// Package export writes a judged run for other programs: as JSON, as CSV for spreadsheets,
// as JUnit's XML for build servers, in the Go benchmark format for benchstat, and as .hgrm
// for HdrHistogram's plotter.
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
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(run); err != nil {
		return fmt.Errorf("report as json: %w", err)
	}
	return nil
}

// Hgrm writes the percentile spectrum, in ms, of one variant's times under a tag
// (response, service, send_lag …), merged over the trials that its figures use. The variant
// may be empty when the run has only one.
func Hgrm(w io.Writer, f *rundir.Folder, variant, tag string) error {
	var names []string
	for _, v := range f.Run.Plan.Variants {
		names = append(names, v.Name)
	}
	if variant == "" && len(names) == 1 {
		variant = names[0]
	}
	if !slices.Contains(names, variant) {
		return fmt.Errorf("report as hgrm: variant %q: want one of %s", variant, strings.Join(names, ", "))
	}
	all, tags := hist.New(), map[string]bool{}
	for _, t := range f.Measured() {
		if t.Variant != variant {
			continue
		}
		_, intervals, err := t.Intervals()
		if err != nil && !t.Unrecorded(err) {
			return fmt.Errorf("report as hgrm: %w", err)
		}
		for _, i := range intervals {
			tags[i.Tag] = true
			if i.Tag == tag {
				all.Merge(i.Hist)
			}
		}
	}
	if !tags[tag] {
		found := "nothing was recorded"
		if len(tags) > 0 {
			found = "want one of " + strings.Join(slices.Sorted(maps.Keys(tags)), ", ")
		}
		return fmt.Errorf("report as hgrm: tag %q of variant %q: %s", tag, variant, found)
	}
	return hist.WriteHgrm(w, all, time.Millisecond)
}
