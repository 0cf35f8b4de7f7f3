package judged

import (
	"dyno/report/figure"
	"dyno/results/rundir"
)

// Allowed says how many streams the target allows on a connection, against those that were asked for; empty where it
// allows as many.
func Allowed(l *rundir.Loaded) string {
	asked := max(1, l.Streams)
	if l.Allowed == 0 || l.Allowed >= asked {
		return ""
	}
	return figure.Whole(l.Allowed) + " of " + figure.Plural(int(asked), "stream") + " on each allowed by the server"
}

// Unlike tells whether several addresses of the target were loaded unlike each other, or some not at all.
func Unlike(l *rundir.Loaded) bool {
	if len(l.Addresses) < 2 {
		return false
	}
	least, most := l.Addresses[0], l.Addresses[0]
	for _, a := range l.Addresses {
		if a.Unreachable != "" || a.Opened == 0 || a.Failed+a.Bad > 0 {
			return true
		}
		if a.Requests < least.Requests {
			least = a
		}
		if a.Requests > most.Requests {
			most = a
		}
	}
	return float64(most.Requests) > alike*float64(least.Requests)
}

// alike is how many times as many requests one address may have as another.
const alike = 1.2

// OnAddress says what an address was loaded with.
func OnAddress(a *rundir.Address) string {
	text := figure.Printable(a.Address)
	switch {
	case a.Unreachable != "" && a.Opened == 0:
		return text + " not loaded: " + figure.Printable(a.Unreachable)
	case a.Opened+a.Failed+a.Requests == 0:
		return text + " not loaded"
	}
	text += " " + figure.Plural(int(a.Opened), "connection")
	if a.Requests > 0 {
		text += ", " + figure.Plural(int(a.Requests), "request")
	}
	if a.Bad > 0 {
		text += ", " + figure.Whole(a.Bad) + " failed"
	}
	if a.Failed > 0 {
		text += ", " + figure.Whole(a.Failed) + " not opened"
	}
	return text
}
