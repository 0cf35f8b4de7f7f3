package answer

import "sync"

// A Name identifies a user's running answer: by its ID, or by that of the message.
type Name struct{ Key, User, ID string }

// A Registry has the answers that can be stopped. All methods may be called from any goroutine.
type Registry struct{ answers sync.Map } // of *Context by Name

// Add registers an answer. Of several with one name, the last counts.
func (r *Registry) Add(name Name, c *Context) { r.answers.Store(name, c) }

// Remove removes an answer.
func (r *Registry) Remove(name Name, c *Context) { r.answers.CompareAndDelete(name, c) }

// Stop stops an answer; false if none of this name is running.
func (r *Registry) Stop(name Name) bool {
	c, ok := r.answers.Load(name)
	return ok && c.(*Context).Stop()
}

// Len returns the number of registered names.
func (r *Registry) Len() (n int) {
	r.answers.Range(func(any, any) bool { n++; return true })
	return n
}
