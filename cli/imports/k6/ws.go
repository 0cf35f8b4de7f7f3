package k6

import (
	"cmp"
	"slices"
	"strings"

	"dyno/cli/imports/draft"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// protocol returns the protocol of a request.
func (e *event) protocol() string {
	switch {
	case e.Kind == "pause":
		return ""
	case e.Call != "":
		return plan.GRPC
	case e.Socket != "":
		return plan.WS
	}
	return plan.HTTP
}

// protocol returns the protocol of the experiment: WebSocket if there is any, as requests before it are often log-ins;
// else that of the first request.
func (s *session) protocol() (first string) {
	all := s.Setup
	for i := range s.First {
		all = slices.Concat(all, s.First[i].Events)
	}
	for i := range all {
		p := all[i].protocol()
		if first = cmp.Or(first, p); p == plan.WS {
			return p
		}
	}
	return first
}

// addExchange adds what is done on a connection of WebSocket.
func addExchange(d *draft.Draft, steps *stepsOf, e *event) *scenario.Step {
	name := cmp.Or(e.Name, strings.Trim(e.Group+"-"+e.Socket, "-"))
	if e.Socket == "open" {
		w := d.Load().WebSocket
		e.Name, w.Compress = name, w.Compress || e.Compress
		for _, p := range e.Protocols {
			if !slices.Contains(w.Subprotocols, p) {
				w.Subprotocols = append(w.Subprotocols, p)
			}
		}
		step := addRequest(d, e)
		steps.isLost = step == nil
		return step
	}
	if steps.isLost { // there is no connection on which it could be done
		return nil
	}
	if strings.Contains(e.Body, "{id}") {
		d.Leave(e.Line, "{id}", "in a message it is a text of its own each time", "")
	}
	step := d.AddMessage(e.Line, name, cmp.Or(e.Base64, unquoteNumbers(d, e.Body)))
	switch {
	case e.Socket == "close":
		step.Close = e.Code
	case e.Socket == "ping":
		step.Await = plan.AwaitPong
	case e.Socket == "send" && !e.Awaited:
		step.Await = plan.AwaitNothing
	}
	if e.Base64 != "" {
		step.Encoding = plan.EncodingBase64
	}
	return step
}
