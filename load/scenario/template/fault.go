package template

// Bounds of a text.
const (
	MaxText      = 1 << 20 // bytes of a template
	MaxCondition = 4096    // bytes of a condition
	MaxArguments = 1000    // of a function
)

// A Fault is one thing wrong with a text.
type Fault struct {
	Offset  int // in bytes from 0; -1: of the text as a whole
	Problem string
	Hint    string // what would be right
}
