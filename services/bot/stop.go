package bot

import (
	"errors"
	"net/http"
	"sync"
)

// errStopped is why an answer is given up that its user has stopped.
var errStopped = errors.New("the user has stopped it")

// A turnName is how a user names a turn that is under way: by the ID of its answer, or of the message.
type turnName struct{ key, user, id string }

// underWay are the turns that can be stopped. All methods may be called from any goroutine.
type underWay struct{ works sync.Map } // of *work by turnName

// add has a turn be found by a name. The last of several counts.
func (u *underWay) add(name turnName, w *work) { u.works.Store(name, w) }

func (u *underWay) remove(name turnName, w *work) { u.works.CompareAndDelete(name, w) }

// stop stops a turn; false if none of this name is under way.
func (u *underWay) stop(name turnName) bool {
	w, ok := u.works.Load(name)
	return ok && w.(*work).halt()
}

// refusedStopped answers a turn that was stopped before there was anything of its answer.
func refusedStopped() *refusal {
	return &refusal{status: statusGone, code: "stopped", text: errStopped.Error()}
}

// refusal is r, unless that comes of the work's having been stopped.
func (w *work) refusal(r *refusal) *refusal {
	if w.stopped() {
		return refusedStopped()
	}
	return r
}

// stopTurn serves DELETE /v1/bot/chat/{answer}: it ends an answer that is under way here. Whoever reads its stream is
// told "done", and what was said until then is kept.
func (g *Gateway) stopTurn(_ http.ResponseWriter, r *http.Request) *refusal {
	who, refused := g.identify(r)
	if refused != nil {
		return refused
	}
	q, refused := queried(r, "user_id")
	if refused != nil {
		return refused
	}
	user, refused := who.asUser(q.Get("user_id"))
	if refused != nil {
		return refused
	}
	// Another's is as one that is not there: nobody learns of it by guessing.
	if !g.underWay.stop(turnName{who.key.id, user, r.PathValue("answer")}) {
		return refuse(http.StatusNotFound, "not_under_way", "no turn of this name is under way here")
	}
	return noContent
}
