package message

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"dyno/load/rpc/diag"
)

// Check tells whether a response has the method's message in it, without making anything
// of it: it does not allocate unless it finds a fault. A fault names the field and the
// byte. Fields of unknown numbers are not looked at. A field of another type than the
// schema says is a fault; decoders would take it for an unknown one, and lose its value.
func (c *Codec) Check(response []byte) error {
	k := checker{all: response}
	if k.message(c.shape(), response, protowire.DefaultRecursionLimit) {
		return nil
	}
	if k.missing {
		// Parts of a message may come one after another: whether all is there shows when
		// they are put together.
		_, err := c.unmarshal(response)
		return err
	}
	return &diag.Fault{Path: string(k.field), Problem: fmt.Sprintf("byte %d of the response: %s", len(response)-k.left, k.problem)}
}

// A checker goes through a response. When it returns false, it knows why.
type checker struct {
	all     []byte
	left    int // bytes from the fault to the end
	field   protoreflect.FullName
	problem string
	missing bool
}

// fail notes a fault where the rest of the response begins.
func (c *checker) fail(rest []byte, f *fieldShape, problem string) bool {
	// All parts share one array, so their capacity says where they begin.
	c.left = len(c.all) - (cap(c.all) - cap(rest))
	c.problem = problem
	if f != nil {
		c.field = f.full
	}
	return false
}

func (c *checker) message(s *shape, b []byte, depth int) bool {
	if depth == 0 {
		return c.fail(b, nil, "messages are within each other too deep")
	}
	required := s.required
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 || number > protowire.MaxValidNumber {
			return c.fail(b, nil, "no field begins here")
		}
		f := s.field(number)
		value := b[n:]
		switch {
		case f == nil:
			if n = protowire.ConsumeFieldValue(number, wire, value); n < 0 {
				return c.fail(b, nil, "an unknown field is cut off or not valid")
			}
		case wire == f.wire:
			if n = c.value(f, number, value, depth); n < 0 {
				return false
			}
			required &^= f.bit
		case f.packable && wire == protowire.BytesType:
			if n = c.packed(f, value); n < 0 {
				return false
			}
		default:
			return c.fail(b, f, "the field is of another type than the schema says")
		}
		b = value[n:]
	}
	if required != 0 || s.partial {
		c.missing = true
		return false
	}
	return true
}

// value checks one value. It returns its length, or a negative number.
func (c *checker) value(f *fieldShape, number protowire.Number, b []byte, depth int) (n int) {
	var v []byte
	switch f.wire {
	case protowire.VarintType:
		_, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		_, n = protowire.ConsumeFixed32(b)
	case protowire.Fixed64Type:
		_, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		v, n = protowire.ConsumeBytes(b)
	default:
		v, n = protowire.ConsumeGroup(number, b)
	}
	switch {
	case n < 0:
		c.fail(b, f, "the field is cut off or not valid")
	case f.inner != nil:
		if !c.message(f.inner, v, depth-1) {
			return -1
		}
	case f.text && !utf8.Valid(v):
		c.fail(b, f, "the text is not UTF-8")
		return -1
	}
	return n
}

// packed checks values one after another. It returns the length of all, or a negative
// number.
func (c *checker) packed(f *fieldShape, b []byte) (n int) {
	v, n := protowire.ConsumeBytes(b)
	if n < 0 {
		c.fail(b, f, "the field is cut off or not valid")
		return n
	}
	for len(v) > 0 {
		var size int
		switch f.wire {
		case protowire.VarintType:
			_, size = protowire.ConsumeVarint(v)
		case protowire.Fixed32Type:
			_, size = protowire.ConsumeFixed32(v)
		default:
			_, size = protowire.ConsumeFixed64(v)
		}
		if size < 0 {
			c.fail(v, f, "a value is cut off or not valid")
			return -1
		}
		v = v[size:]
	}
	return n
}
