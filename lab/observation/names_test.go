package observation

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/lab/pods"
	"dyno/observe/scrape"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// A plan cannot give an endpoint or a command the name of one of dyno's observers.
func TestNamesOfObserversAreTaken(t *testing.T) {
	observers := map[string]bool{"target_wakeup": true, "target_cpus": true, TargetMachine: true, TargetAgent: true, "generator_cpus": true, "service_a": true, "neighbour0": true}
	for _, c := range rundir.Columns() {
		if observer, _, _ := strings.Cut(c.Name, "_"); !strings.Contains(observer, "*") && observer != "service" {
			observers[observer] = true
		}
	}
	if len(observers) < 15 {
		t.Errorf("only %v", observers)
	}
	for name := range observers {
		_, err := planfile.Parse("names.yaml", []byte(`{name: names, target: {protocol: http, address: "127.0.0.1:1"}, load: {closed: {connections: 1}}, `+
			`design: {rounds: 1}, observe: {commands: {`+name+`: {run: [date]}}}}`), planfile.Options{})
		if err == nil || !strings.Contains(err.Error(), "observe.commands."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The largest recording that a plan can ask for can be read back.
func TestLargestRecording(t *testing.T) {
	most := func(of reflect.Type, field, tag string) int {
		f, found := of.FieldByName(field)
		_, text, ranged := strings.Cut(f.Tag.Get(tag), "..")
		if !ranged {
			text = f.Tag.Get(tag)
		}
		n, err := strconv.Atoi(text)
		if !found || err != nil {
			t.Fatalf("%s of %v: %s is %q", field, of, tag, f.Tag.Get(tag))
		}
		return n
	}
	const (
		trees     = 13 // columns of a process and all below it
		ofWorkers = 3
		ofGroups  = 10
		calls     = 600 // the kernel has fewer
	)
	observed, variant := reflect.TypeFor[plan.Observe](), reflect.TypeFor[plan.Variant]()
	named := most(observed, "Endpoints", "most") + most(observed, "Commands", "most")
	processes := 1 + most(variant, "Services", "most")
	columns := named*(scrape.DefaultMaxColumns+1) + 2*processes*trees + // both sides of a duet
		most(reflect.TypeFor[plan.Load](), "Workers", "range")*ofWorkers + pods.Most*ofGroups + len(rundir.Columns()) + calls
	if columns > series.MaxColumns || series.MaxColumns*mostRows > series.MaxCells {
		t.Errorf("%d columns and %d rows; at most %d columns and %d values can be read", columns, mostRows, series.MaxColumns, series.MaxCells)
	}
}
