// Package grafana_test holds the dashboards to Grafana's own description of them.
package grafana_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Grafana knows all fields of the dashboards, their panels and their queries. It says nothing about a field that it
// does not know, such as one with a letter too many: it is as if the field were not there.
func TestFields(t *testing.T) {
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard.Dashboard                                                //nolint:staticcheck // the older form, which every Grafana reads
		if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" { // it returns an empty list for none
			t.Errorf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			if p.Panel != nil && p.Panel.Type != "table" && p.Panel.Type != "timeseries" {
				t.Errorf("%s: the fields of panels of type %s are not checked", file, p.Panel.Type)
			}
		}
	}
}
