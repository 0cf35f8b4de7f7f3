package generator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/load/scenario"
)

// A step of HTTP may have a time limit of its own, shorter than the load's.
func TestDeadlineOfStep(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	for _, version := range []string{plan.HTTP2Never, plan.HTTP2Always} {
		v := httpVariant(func(v *plan.Variant) {
			v.Target.URL, v.Target.Address, v.Load.Timeout, v.Load.HTTP2.Use = server.URL, server.Listener.Addr().String(), time.Hour, version
			v.Load.Scenario = &scenario.Spec{Setup: []scenario.Step{{Name: "fast", Path: "/fast"}, {Name: "slow", Path: "/slow", Deadline: 20 * time.Millisecond}}}
		})
		const hangGuard = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
		defer cancel()
		_, err := Once(ctx, v, 1, scenario.OfSetup, nil)
		if err == nil || !strings.Contains(err.Error(), "load.scenario.setup[1]: GET /slow: no complete response in time") {
			t.Errorf("HTTP/2 %s: %v", version, err)
		}
	}
}
