package calls

import "strings"

// catalog finds descriptions of services for reflection.
type catalog struct {
	services []string
	files    map[string]string // by name
	symbols  map[string]string // file by the name of what it defines
}

// newCatalog reads the descriptors as far as it needs.
func newCatalog() *catalog {
	c := &catalog{files: map[string]string{}, symbols: map[string]string{}}
	for _, d := range descriptors {
		c.files[d.name] = d.raw
		pkg := ""
		for f := range fields([]byte(d.raw)) {
			if f.number == 2 {
				pkg = string(f.bytes)
			}
		}
		for f := range fields([]byte(d.raw)) {
			switch f.number {
			case 4, 5: // messages and enumerations
				c.define(d.raw, pkg, f.bytes, f.number == 4)
			case 6: // services
				service := pkg + "." + nameOf(f.bytes)
				c.services = append(c.services, service)
				c.symbols[service] = d.raw
				for m := range fields(f.bytes) {
					if m.number == 2 {
						c.symbols[service+"."+nameOf(m.bytes)] = d.raw
					}
				}
			}
		}
	}
	return c
}

// define enters a message with what is in it, or an enumeration.
func (c *catalog) define(raw, scope string, b []byte, message bool) {
	name := scope + "." + nameOf(b)
	c.symbols[name] = raw
	if !message {
		return
	}
	for f := range fields(b) {
		switch f.number {
		case 2: // a field
			c.symbols[name+"."+nameOf(f.bytes)] = raw
		case 3, 4: // a message, an enumeration
			c.define(raw, name, f.bytes, f.number == 3)
		}
	}
}

// nameOf returns a description's first field.
func nameOf(b []byte) string {
	for f := range fields(b) {
		if f.number == 1 {
			return string(f.bytes)
		}
	}
	return ""
}

// fields iterates over the fields of a message up to what cannot be one.
func fields(b []byte) func(func(field) bool) {
	return func(yield func(field) bool) {
		for len(b) > 0 {
			f, rest, ok := next(b)
			if !ok || !yield(f) {
				return
			}
			b = rest
		}
	}
}

// Fields of ServerReflectionRequest and ServerReflectionResponse.
const (
	askHost       = 1
	askFile       = 3
	askSymbol     = 4
	askExtension  = 5
	askExtensions = 6
	askServices   = 7

	sayHost     = 1
	sayRequest  = 2
	sayFiles    = 4
	sayServices = 6
	sayError    = 7
)

// answer appends the response to a request; ok is false when it cannot be decoded.
func (c *catalog) answer(to, request []byte) (b []byte, ok bool) {
	var asked field
	var host []byte
	for rest := request; len(rest) > 0; {
		var f field
		if f, rest, ok = next(rest); !ok {
			return to, false
		}
		if f.wire != wireBytes {
			continue
		}
		switch f.number {
		case askHost:
			host = f.bytes
		case askFile, askSymbol, askExtension, askExtensions, askServices:
			asked = f
		}
	}
	b = appendBytes(to, sayHost, host)
	b = appendMessage(b, sayRequest, request)
	file := func(raw string) []byte { return appendMessage(b, sayFiles, appendMessage(nil, 1, raw)) }
	switch asked.number {
	case askFile:
		if raw, ok := c.files[string(asked.bytes)]; ok {
			return file(raw), true
		}
	case askSymbol:
		if raw, ok := c.symbols[strings.TrimPrefix(string(asked.bytes), ".")]; ok {
			return file(raw), true
		}
	case askServices:
		var list []byte
		for _, s := range c.services {
			list = appendMessage(list, 1, appendMessage(nil, 1, s))
		}
		return appendMessage(b, sayServices, list), true
	}
	fault := appendVarint(nil, 1, notFound)
	fault = appendBytes(fault, 2, "not found: "+string(asked.bytes))
	return appendMessage(b, sayError, fault), true
}
